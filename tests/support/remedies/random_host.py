"""Random hosts for remedies: two filesystems, an fstab, and active options, drawn from a seed.

Runs as a program in a private mount namespace with its own /etc: `python -m
support.remedies.random_host HOW FIRST COUNT FOLDER` draws the cases FIRST to FIRST+COUNT-1 and
prints one JSON line per case: its seed, the rule, and the laws that it broke. With HOW "commands",
one remedy runs as it is printed; with "script", all run in the script of `ext4audit fix`.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ext4audit.engine import audit
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Disruption, Phase, Remedy, Severity
from ext4audit.fixing import ChosenRemedy, choose_remedies
from ext4audit.fixing.script import AuditedHost, build_script
from ext4audit.report import Report, ReportSource
from ext4audit.rules import default_rules
from support.filesystems.scratch import assembled_host, run_in_shell, unique_label
from support.remedies.fixing import FixScenario

TAKEN_AT = "2026-01-02T03:04:05Z"
FSTAB = Path("/etc/fstab")

BITS = ("nobarrier", "nodelalloc", "discard", "journal_data_writeback", "journal_data", "^acl")
STRINGS = ("nobarrier", "noauto_da_alloc", "commit=600", "nodelalloc", "nobarrier,nodelalloc")
LIVE = (
    ("nobarrier",),
    ("nodelalloc",),
    ("data=writeback",),
    ("data=journal",),
    ("commit=600",),
    ("noauto_da_alloc",),
    ("errors=continue",),
    ("discard",),
    ("journal_async_commit",),
    ("stripe=17",),
    ("resuid=1000",),
    ("noinit_itable",),
    ("max_batch_time=0",),
    ("norecovery", "ro"),
)
FLAGS = (
    *("nosuid", "nodev", "noexec", "noatime", "strictatime", "nodiratime"),
    *("lazytime", "sync", "dirsync", "ro"),
)
IN_FSTAB = (
    *("defaults", "noatime", "nosuid,nodev", "ro", "noexec,commit=77", "nobarrier", "nodelalloc"),
    *("data=writeback", "errors=remount-ro", "nofail", "x-systemd.device-timeout=5", "discard"),
    *("strictatime", "sync", "noauto_da_alloc", "user", "barrier=0,commit=900", "usrquota"),
)
KEPT = ("_netdev", "x-a", 'x-b="1,2"', "user", "user=nobody", "uhelper=none")
"""Options that only mount(8) records; the kernel does not see them."""
SETTING = 0o100644
"""The mode of the files in sysfs that are readable and writable."""
IN_SYSFS = {"mb_group_prealloc": 4096, "mb_stream_req": 17, "reserved_clusters": 0, "mb_stats": 1}
KINDS = (
    *("none", "own", "own by UUID", "own by LABEL", "other device", "stale UUID"),
    *("own after other", "duplicate", "bind", "relative spelling"),
)
SPELLINGS: tuple[Callable[[str], str], ...] = (
    *(str, str, str),
    lambda line: re.sub(" ", "\t \t", line),
    lambda line: f" \t{line}",
    lambda line: f"{line}  \t",
    lambda line: f"{line}\r",
    lambda line: line.rpartition(" ")[0],
    lambda line: " ".join(line.split(" ")[:4]),
    lambda line: f"{line} # a comment",
    lambda line: line.replace("/mnt/", "/m\\156t/", 1),
    lambda line: re.sub("^(UUID|LABEL)=([^ ]+)", r'\1="\2"', line),
)
"""Spellings of an fstab line that are all equivalent for mount(8)."""
MOUNT_POINTS = ("m", "with blank", "noatime", "nobarrier,x", "täst", "link")

FIELDS: Mapping[str, tuple[int, int]] = {
    "reserved_blocks": (0x08, 4),
    "errors": (0x3C, 2),
    "max_mount_count": (0x36, 2),
    "check_interval": (0x44, 4),
    "reserved_owner": (0x50, 4),
    "features": (0x5C, 12),
    "uuid": (0x68, 16),
    "label": (0x78, 16),
    "journal": (0xD0, 0x18),
    "default_mount_options": (0x100, 4),
    "journal_blocks": (0x10C, 0x44),
    "stride": (0x164, 2),
    "stripe_width": (0x170, 4),
    "mount_options": (0x200, 64),
}
"""Fields that a remedy may change (struct ext4_super_block), as offset and length in bytes."""
VOLATILE = (
    *((0x0C, 8), (0x2C, 10), (0x3A, 2), (0x40, 4), (0x88, 64), (0x178, 8)),
    *((0x248, 8), (0x274, 0x14), (0x3FC, 4)),
)
"""Offset and length of fields that change by themselves: free counts, times, state, checksum, …"""

INCOMPATIBLE, NEEDS_RECOVERY = 0x60, 0x04
"""Offset and bit of needs_recovery, which is set while the filesystem is mounted writable."""

MAY_CHANGE: Mapping[str, frozenset[str]] = {
    "CAP002": frozenset({"reserved_blocks"}),
    "CMP003": frozenset({"fstab"}),
    "CMP004": frozenset({"fstab"}),
    "DRF001": frozenset({"options", "flags", "fstab"}),
    "DRF002": frozenset({"options", "flags", "fstab"}),
    "DUR001": frozenset({"barrier", "fstab", "default_mount_options", "mount_options"}),
    "DUR002": frozenset({"options", "fstab", "default_mount_options", "mount_options"}),
    "DUR003": frozenset(
        {
            "data",
            "delalloc",
            "journal_async_commit",
            "fstab",
            "default_mount_options",
            "mount_options",
        }
    ),
    "DUR004": frozenset({"journal_async_commit", "journal_checksum", "fstab"}),
    "DUR005": frozenset({"options", "features", "journal", "journal_blocks"}),
    "DUR006": frozenset({"errors", "fstab", "mount_options"}),
    "DUR007": frozenset({"commit", "fstab", "mount_options"}),
    "DUR008": frozenset({"auto_da_alloc", "fstab", "mount_options"}),
    "DUR009": frozenset({"norecovery", "noload", "fstab"}),
    "HLT004": frozenset({"features"}),
    "HLT006": frozenset({"fstab", "max_mount_count", "check_interval"}),
    "KRN002": frozenset({"stripe", "stride", "stripe_width", "fstab"}),
    "LAY002": frozenset({"stripe", "stride", "stripe_width", "fstab"}),
    "LAY003": frozenset({"stripe", "stride", "stripe_width", "fstab"}),
    "PRF001": frozenset({"delalloc", "dioread", "fstab", "default_mount_options", "mount_options"}),
    "PRF002": frozenset({"auto_da_alloc", "fstab"}),
    "PRF003": frozenset({"delalloc", "fstab", "default_mount_options", "mount_options"}),
    "PRF004": frozenset({"discard", "fstab", "default_mount_options", "mount_options"}),
    "PRF006": frozenset({"init_itable"}),
    "PRF007": frozenset({"data", "delalloc", "fstab", "default_mount_options", "mount_options"}),
    "PRF008": frozenset({"flags", "fstab"}),
    "PRF009": frozenset({"features", "journal", "journal_blocks"}),
    "PRF012": frozenset({"flags", "fstab"}),
    "SEC002": frozenset({"flags"}),
    "SEC003": frozenset({"resuid", "resgid", "reserved_owner", "fstab"}),
}
"""What the remedies of each rule may change: fields of the superblock, "fstab", "flags" of
mount(8), "options" for any option of ext4, or one option by its positive name."""
NOTHING: frozenset[str] = frozenset()
MACHINE_WIDE = ("sysctl ", "/sys/block/")
"""Marks steps that do not run because they change settings shared by all tests on this machine."""


def run(*argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command; raises RuntimeError if it fails and `check` is set."""
    done = subprocess.run(
        argv, capture_output=True, check=False, encoding="utf-8", errors="surrogateescape"
    )
    if check and done.returncode:
        raise RuntimeError(f"{argv}: {done.stdout}{done.stderr}")
    return done


@dataclass
class Disk:
    """A loop device with its image."""

    image: Path
    device: str = ""
    label: str = field(default_factory=unique_label)

    def make(self, features: str) -> None:
        """Create the image with a filesystem, and attach it."""
        with self.image.open("wb") as file:
            file.truncate(48 << 20)
        run("mke2fs", "-q", "-F", "-t", "ext4", "-L", self.label, "-O", features, str(self.image))
        aged = f"ssv lastcheck @{int(time.time()) - 3600}"  # so that a mount is after the check
        run("debugfs", "-w", "-R", aged, str(self.image))
        self.device = run("losetup", "-f", "--show", str(self.image)).stdout.strip()

    @property
    def name(self) -> str:
        """The kernel's name of the device."""
        return self.device.removeprefix("/dev/")

    @property
    def number(self) -> DeviceNumber:
        """The device number."""
        found = Path(self.device).stat().st_rdev
        return DeviceNumber(os.major(found), os.minor(found))

    def uuid(self) -> str:
        """Return the UUID in the superblock."""
        return run("blkid", "-p", "-o", "value", "-s", "UUID", self.device).stdout.strip()

    def superblock(self) -> bytes:
        """Return the superblock on the device, with the fields that change by themselves zeroed."""
        run("blockdev", "--flushbufs", self.device, check=False)
        with Path(self.device).open("rb") as file:
            found = bytearray(os.pread(file.fileno(), 1024, 1024))
        for offset, length in VOLATILE:
            found[offset : offset + length] = bytes(length)
        found[INCOMPATIBLE] &= ~NEEDS_RECOVERY
        return bytes(found)


@dataclass(frozen=True)
class State:
    """Everything that a remedy could change."""

    options: frozenset[str]
    mounts: tuple[tuple[str, ...], ...]
    fstab: tuple[str, ...]
    superblock: bytes
    kept: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]
    bystander: tuple[frozenset[str], tuple[tuple[str, ...], ...], bytes]


@dataclass
class Case:
    """One host, drawn from its seed."""

    seed: int
    folder: Path
    broken: list[str] = field(default_factory=list)
    rule: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)  # noqa: S311 - no secrets
        self.disk = Disk(self.folder / "a.img")
        self.other = Disk(self.folder / "b.img")
        self.mount_point = self.folder / "mnt" / self.draw.choice(MOUNT_POINTS)
        self.by_hand = True

    # -- the host ---------------------------------------------------------------------------

    def build(self) -> bool:
        """Build the host; return False if the kernel refuses its combination of options."""
        draw = self.draw
        self.disk.make(draw.choice(("none,has_journal,extent,dir_index", "has_journal")))
        self.other.make("has_journal")
        self._tune()
        real = self.mount_point
        if self.mount_point.name == "link":
            real = self.folder / "mnt" / "real"
        real.mkdir(parents=True)
        if real != self.mount_point:
            self.mount_point.symlink_to(real)
        (self.folder / "bystander").mkdir()
        run("mount", "-t", "ext4", self.other.device, str(self.folder / "bystander"))
        self.details["fstab"] = self._write_fstab()
        self.settings = dict(draw.sample(sorted(IN_SYSFS.items()), draw.choice((0, 0, 1, 2))))
        return self._mount() and self._set()

    def _set(self) -> bool:
        """Change settings in sysfs, which each mount resets; return True."""
        for name, value in self.settings.items():
            Path(f"/sys/fs/ext4/{self.disk.name}/{name}").write_text(f"{value}\n")
        return True

    def _tune(self) -> None:
        draw, device = self.draw, self.disk.device
        bits = draw.sample(BITS, draw.choice((0, 0, 1, 1, 2)))
        if bits:
            run("tune2fs", "-o", ",".join(bits), device)
        string = draw.choice((*STRINGS, "", "", "", ""))
        if string:
            request = f"set_super_value mount_opts {string}"
            run("debugfs", "-w", "-R", request, device)
        run("tune2fs", "-e", draw.choice(("continue", "remount-ro")), device)
        if draw.random() < 0.2:
            run("tune2fs", "-u", "1000", device)
        if draw.random() < 0.2:
            run("tune2fs", "-E", "stride=16,stripe_width=48", device)
        self.details["superblock"] = (bits, string)

    def _write_fstab(self) -> str:
        draw = self.draw
        kind = draw.choice(KINDS)
        options = ",".join(draw.sample(IN_FSTAB, draw.choice((1, 1, 2, 3))))
        where = str(self.mount_point).replace(" ", "\\040")
        own = f"{self.disk.device} {where} ext4 {options} 0 2"
        other = f"{self.other.device}\t{where}\text4\tro,noexec,commit=77,nobarrier 0 0"
        stale = f"UUID=11111111-2222-3333-4444-555555555555 {where} ext4 ro,noexec,nobarrier 0 0"
        lines = {
            "none": [],
            "own": [own],
            "own by UUID": [own.replace(self.disk.device, f"UUID={self.disk.uuid()}")],
            "own by LABEL": [own.replace(self.disk.device, f"LABEL={self.disk.label}", 1)],
            "other device": [other],
            "stale UUID": [stale],
            "own after other": [other, own],
            "duplicate": [own, own.replace(" 0 2", ",noauto 0 0")],
            "bind": [own, f"{where} /mnt none bind,ro 0 0"],
            "relative spelling": [own.replace(where, f"/{where}/", 1)],
        }[kind]
        spell = draw.choice(SPELLINGS)
        around = ("# comment", "proc /proc proc defaults 0 0"), ("", "# e")
        text = "".join(f"{line}\n" for line in (*around[0], *map(spell, lines), *around[1]))
        text = text if draw.random() < 0.8 else text.rstrip("\n# e")
        FSTAB.write_text(text)
        self.kind = kind
        return text

    def _mount(self) -> bool:
        draw = self.draw
        if self.kind.startswith(("own", "relative")) and self.kind != "own after other":
            self.by_hand = draw.random() < 0.4
        if not self.by_hand:
            return not run("mount", str(self.mount_point), check=False).returncode
        words = draw.sample(FLAGS, draw.choice((0, 1, 2, 3)))
        words += [w for some in draw.sample(LIVE, draw.choice((0, 1, 2, 3))) for w in some]
        words += draw.sample(KEPT, draw.choice((0, 0, 1, 2)))
        self.details["mount -o"] = words
        options = ",".join(words) or "rw"
        done = run(
            "mount",
            "-t",
            "ext4",
            "-o",
            options,
            self.disk.device,
            str(self.mount_point),
            check=False,
        )
        return not done.returncode

    def clear(self) -> None:
        """Unmount the filesystems and free the loop devices."""
        for disk in (self.disk, self.other):
            if disk.device:
                while not run("umount", disk.device, check=False).returncode:
                    pass
                run("losetup", "-d", disk.device, check=False)

    # -- its state --------------------------------------------------------------------------

    def state(self) -> State:
        """Return everything that a remedy could change."""
        return State(
            options(self.disk),
            mounts(self.disk),
            tuple(FSTAB.read_text().split("\n")),
            self.disk.superblock(),
            kept_by_mount(self.disk),
            settings(self.disk),
            (options(self.other), mounts(self.other), self.other.superblock()),
        )

    def report(self) -> Report:
        """Return the report of the filesystem with the default rules."""
        host = assembled_host({self.disk.number})
        return audit(ReportSource("live", host.name), host, default_rules(), ())

    def remedies(self) -> Iterator[tuple[str, str, Remedy, str]]:
        """Yield the rule, fact, remedy and message for each remedy of each finding."""
        for verdict in self.report().verdicts:
            for finding in verdict.findings:
                for remedy in finding.remedies:
                    yield verdict.rule.code, finding.fact, remedy, finding.message

    # -- the laws ---------------------------------------------------------------------------

    def check(self) -> None:
        """Run one remedy and check the laws."""
        found = [
            each
            for each in self.remedies()
            if each[2].steps and not each[2].destructive and not is_machine_wide(each[2])
        ]
        if not found:
            return
        self.rule, fact, remedy, _ = self.draw.choice(found)
        self.details |= {"kind": self.kind, "by hand": self.by_hand, "summary": remedy.summary}
        self.details["commands"] = [f"{s.phase.value}: {s.command}" for s in remedy.lines]
        before, count = self.state(), found_by(self.remedies(), self.rule, fact)
        if not self._run(remedy, Phase.IMMEDIATE, Phase.PERSISTENT):
            return
        self._run(remedy, Phase.VERIFY)
        after = self.state()
        self._check_only_named_changes(before, after, MAY_CHANGE.get(self.rule, NOTHING))
        self._check_cured(fact, count, "now")
        if not self.by_hand and Phase.PERSISTENT in {step.phase for step in remedy.steps}:
            run("umount", str(self.mount_point))
            run("mount", str(self.mount_point))
            self._set()
            self._check_cured(fact, count, "after a new mount")
            before = replace(before, kept=kept_by_mount(self.disk), settings=settings(self.disk))
        if any(step.phase is Phase.ROLLBACK for step in remedy.lines):
            self._run(remedy, Phase.ROLLBACK)
            self._check_rollback(before, self.state())

    def check_script(self) -> None:
        """Apply all remedies of the host by script, once with a fault, and check the laws."""
        report = self.report()
        chosen, _ = choose_remedies(report, Severity.INFO, Disruption.UNMOUNT, {})
        mine = [each for each in chosen if not is_machine_wide(each.remedy)]
        script = build_script(AuditedHost(report.host.name, None, TAKEN_AT, "0"), mine, ())
        if not script.chosen:
            return
        scene = FixScenario(self.folder, self.disk.device, self.mount_point, FSTAB)
        scene.script.write_text(script.text)
        codes = [each.rule.code for each in script.chosen]
        self.rule = "+".join(codes)
        mode, at = self.draw.choice(("fail", "kill", "late")), self.draw.randrange(1, 30)
        self.details |= {"kind": self.kind, "by hand": self.by_hand, "fault": f"{mode} at {at}"}
        self.details["remedies"] = [each.remedy.summary for each in script.chosen]
        before = self.state()
        self._ran(scene, "")
        self._check_rollback(before, self.state())
        scene.run_script("--apply", path=scene.inject(at, mode))
        self._ran(scene, "--undo")
        self._check_rollback(before, self.state())
        if self.broken or not self._ran(scene, "--apply"):
            return
        after = self.state()
        allowed = frozenset().union(*(MAY_CHANGE.get(code, NOTHING) for code in codes))
        self._check_only_named_changes(before, after, allowed)
        for each in script.chosen:
            self._is_applied(each)
        self._ran(scene, "--verify")
        self._ran(scene, "--apply")
        self._check_rollback(after, self.state())
        self._ran(scene, "--undo")
        self._check_rollback(before, self.state())

    def _ran(self, scene: FixScenario, option: str) -> bool:
        done = scene.run_script(*([option] if option else []))
        if done.returncode:
            self.broken.append(f"{option or 'the dry run'} failed: {done.stderr.strip()[-400:]}")
        return done.returncode == 0

    def _is_applied(self, each: ChosenRemedy) -> None:
        left = [rule for rule, _, remedy, _ in self.remedies() if remedy == each.remedy]
        if left:
            self.broken.append(f"still offered: {each.rule.code}: {each.remedy.summary}")

    def _run(self, remedy: Remedy, *phases: Phase) -> bool:
        for step in remedy.lines:
            if step.phase in phases:
                done = run_in_shell(step.command)
                if done.returncode:
                    why = done.stderr.decode(errors="replace").strip()
                    self.broken.append(f"{step.phase.value} failed: {step.command}: {why}")
                    return False
        return True

    def _check_only_named_changes(
        self, before: State, after: State, allowed: frozenset[str]
    ) -> None:
        changed = set(changes(before, after))
        if "options" in allowed:
            changed = {each for each in changed if not each.startswith("option ")}
        extra = {each for each in changed if each.removeprefix("option ") not in allowed}
        if extra:
            self.broken.append(f"changed also: {', '.join(sorted(extra))}")

    def _check_cured(self, fact: str, count: int, when: str) -> None:
        if found_by(self.remedies(), self.rule, fact) >= count:
            self.broken.append(f"still found {when}")

    def _check_rollback(self, before: State, after: State) -> None:
        left = list(changes(before, after))
        if left:
            self.broken.append(f"the rollback leaves: {', '.join(sorted(left))}")


def options(disk: Disk) -> frozenset[str]:
    """Return the active options; none if the filesystem is not mounted."""
    path = Path(f"/proc/fs/ext4/{disk.name}/options")
    return frozenset(path.read_text().split()) if path.exists() else frozenset()


def mounts(disk: Disk) -> tuple[tuple[str, ...], ...]:
    """Return the mount point, root and flags of each mount of a device."""
    number = f"{disk.number.major}:{disk.number.minor}"
    lines = (line.split(" ") for line in Path("/proc/self/mountinfo").read_text().split("\n"))
    found = [line for line in lines if len(line) > 5 and line[2] == number]
    flags = ("sync", "dirsync", "lazytime", "ro", "rw")
    return tuple(
        (line[4], line[3], line[5], ",".join(w for w in line[-1].split(",") if w in flags))
        for line in found
    )


def kept_by_mount(disk: Disk) -> tuple[str, ...]:
    """Return the lines about a device in the table of mount(8)."""
    table = Path("/run/mount/utab")
    lines = table.read_text().split("\n") if table.exists() else []
    return tuple(line for line in lines if f"SRC={disk.device} " in line)


def settings(disk: Disk) -> tuple[tuple[str, str], ...]:
    """Return the writable settings of a mounted filesystem in sysfs."""
    files = sorted(Path(f"/sys/fs/ext4/{disk.name}").glob("*"))
    return tuple((each.name, each.read_text()) for each in files if each.stat().st_mode == SETTING)


def is_machine_wide(remedy: Remedy) -> bool:
    """Return whether a remedy changes settings that other tests share, and must not run."""
    return any(word in step.command for step in remedy.steps for word in MACHINE_WIDE)


def found_by(found: Iterator[tuple[str, str, Remedy, str]], rule: str, fact: str) -> int:
    """Count the findings of a rule about one fact, ignoring the numbers of repeated facts."""
    same = fact.partition(" #")[0]
    return sum((code, each.partition(" #")[0]) == (rule, same) for code, each, _, _ in found)


def positive(token: str) -> str:
    """Return the name of the option that a token of the options file sets."""
    name = token.partition("=")[0]
    return "dioread" if "dioread" in name else name.removeprefix("no")


MOUNT_STATES = {"mounts": "flags", "kept": "what mount(8) keeps", "settings": "settings in sysfs"}
"""The parts of the state that a mount determines, and their names in messages."""


def changes(before: State, after: State) -> Iterator[str]:
    """Yield the names of all differences: options, flags, lines of fstab, superblock fields."""
    for token in before.options ^ after.options:
        if token not in {"rw", "ro"}:
            yield f"option {positive(token)}"
    for what, name in MOUNT_STATES.items():
        if getattr(before, what) != getattr(after, what):
            yield name
    if before.fstab != after.fstab:
        yield "fstab" if same_lines(before.fstab, after.fstab) else "other lines of fstab"
    covered = set()
    for name, (offset, length) in FIELDS.items():
        covered |= set(range(offset, offset + length))
        if (
            before.superblock[offset : offset + length]
            != after.superblock[offset : offset + length]
        ):
            yield name
    pairs = zip(before.superblock, after.superblock, strict=True)
    rest = [i for i, (a, b) in enumerate(pairs) if a != b and i not in covered]
    if rest:
        yield f"bytes {rest} of the superblock"
    if before.bystander != after.bystander:
        yield "the other filesystem"


def same_lines(before: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether at most the options and devices of entries differ."""
    if len(before) != len(after):
        return False
    for old, new in zip(before, after, strict=True):
        if old != new:
            first, second = old.split(), new.split()
            if first[1:3] != second[1:3] or first[4:] != second[4:]:
                return False
    return True


def outcome(seed: int, folder: Path, *, by_script: bool = False) -> dict[str, Any]:
    """Run one case; return its seed, rule and broken laws, with details if it broke any."""
    case = Case(seed, folder / str(seed))
    case.folder.mkdir()
    try:
        if case.build():
            (case.check_script if by_script else case.check)()
    except RuntimeError as error:
        case.broken.append(str(error))
    finally:
        case.clear()
        run("rm", "-rf", str(case.folder))
    return {"seed": seed, "rule": case.rule, "broken": case.broken} | (
        case.details if case.broken else {}
    )


def main(how: str, first: int, count: int, folder: Path) -> None:
    """Run the cases, and print a line for each."""
    for seed in range(first, first + count):
        print(json.dumps(outcome(seed, folder, by_script=how == "script")), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
