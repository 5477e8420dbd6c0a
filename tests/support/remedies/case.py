"""The remedy harness: a scratch filesystem fails a rule; the printed commands fix it and undo that.

The test module of a rule has `REMEDY_CASES`, or `REMEDIES_NOT_RUN` with the reason why no remedy
of the rule can run here, or both. tests/kernel/remedies/test_remedies.py runs the cases of all
rules. sh runs the commands as they are printed, on a loop device in a mount namespace with its own
/etc.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from ext4audit.engine import judge
from ext4audit.evidence import Known, need
from ext4audit.facts.host import Host
from ext4audit.finding import Check, Phase, Remedy, Step
from ext4audit.parsers import parse_kernel
from ext4audit.report import Outcome, Verdict
from ext4audit.rule import Rule, Scope
from ext4audit.rules import all_rules
from support.filesystems.scratch import assembled_host, roll_back, run, run_shell, scanned_host
from support.timing import PATIENCE_SECONDS

KEPT_BY_MOUNT = '_netdev,x-ext4audit.test="a,b",user=nobody'
CHANGED_IN_SYSFS = {"mb_stream_req": 23, "reserved_clusters": 7, "err_ratelimit_burst": 11}
TUNABLE = ("default_mount_options", "mount_option_string", "features", "errors", "inode_bytes")
MORE_TUNABLE = ("stride_blocks", "stripe_width_blocks", "reserved_blocks", "journal_bytes", "uuid")


AlterHost = Callable[[Host], Host]


@dataclass(frozen=True)
class LoopMount:
    """One loop device, its mount point, and the fstab of the namespace."""

    image: Path
    device: str
    mount_point: Path
    fstab: Path

    def mount(self, options: str = "", fstype: str = "ext4") -> None:
        """Mount with these options and options of util-linux, and change settings in sysfs."""
        words = ("-o", ",".join(filter(None, (options, KEPT_BY_MOUNT))))
        run(
            "mount", "--options-source=disable", "-t", fstype, *words, self.device, self.mount_point
        )
        for name, value in CHANGED_IN_SYSFS.items():
            (self.sysfs / name).write_text(f"{value}\n")

    @property
    def sysfs(self) -> Path:
        """The directory of the mounted filesystem in sysfs."""
        return Path("/sys/fs/ext4", self.device.removeprefix("/dev/"))

    def settings(self) -> dict[str, str]:
        """Return the writable settings of the filesystem in sysfs; none if it is not mounted."""
        files = self.sysfs.glob("*")
        return {
            each.name: each.read_text() for each in files if each.stat().st_mode & 0o777 == 0o644
        }

    def unmount(self) -> None:
        """Unmount it as many times as it is mounted."""
        while os.path.ismount(self.mount_point):
            run("umount", self.mount_point)

    def write_fstab(self, options: str, *, spec: str | None = None, fstype: str = "ext4") -> None:
        """Write an fstab with one entry, which names the device unless `spec` is given."""
        self.fstab.write_text(f"{spec or self.device} {self.mount_point} {fstype} {options} 0 2\n")

    def host(self, *, whole: bool = False) -> Host:
        """Assemble the host, with this filesystem only unless `whole` is set."""
        if whole:
            return assembled_host()
        return scanned_host(self.mount_point if os.path.ismount(self.mount_point) else self.device)

    def names(self) -> list[str]:
        """Return all file names on the filesystem; none if it is not mounted.

        Raises an error if a directory cannot be read.
        """
        if not os.path.ismount(self.mount_point):
            return []

        def fail(error: OSError) -> None:
            raise error

        walk = os.walk(self.mount_point, onerror=fail)
        return sorted(f"{folder}/{name}" for folder, _, files in walk for name in ("", *files))

    def judge(self, rule: Rule, *, whole: bool = False, alter: AlterHost | None = None) -> Verdict:
        """Return the verdict of a rule on this filesystem, or on the host."""
        host = self.host(whole=whole)
        host = alter(host) if alter else host
        return judge(rule, host.filesystems[0] if rule.scope is Scope.FILESYSTEM else None, host)

    def state(self) -> dict[str, object]:
        """Return what a rollback must restore: active options, superblock, fstab, settings."""
        (fs, *_) = self.host().filesystems
        superblock = need(fs.superblock)
        stored = {name: getattr(superblock, name) for name in (*TUNABLE, *MORE_TUNABLE)}
        path = Path(f"/proc/fs/ext4/{fs.name}/options")
        return {
            **stored,
            # mke2fs does not set these two features; a mount does.
            "features": superblock.features - {"needs_recovery", "orphan_present"},
            "in force": path.read_text() if path.exists() else None,
            "mount": sorted(mount.mount_options for mount in fs.mounts),
            "kept by mount(8)": sorted(mount.user_options or () for mount in fs.mounts),
            "fstab": self.fstab.read_text(),
            "settings": self.settings(),
        }


Prepare = Callable[[LoopMount], None]


def on_kernel(release: str) -> AlterHost:
    """Return a function that gives a host another kernel, such as one that has a certain bug."""
    kernel = parse_kernel(f"{release}\n\n\n\n")
    return lambda host: host._replace(kernel=Known(kernel, "test"))


@dataclass(frozen=True)
class RemedyCase:
    """One remedy and the filesystem that needs it.

    `remedy` is a part of its summary. `mke2fs`, `tune` (tune2fs, unmounted) and `mount` are the
    options that make the filesystem, `fstab` the options of its entry (None: no entry); `prepare`
    does the rest. `mounted` False leaves it unmounted. `cured` are the outcomes that count as
    fixed. `restores` False is for a remedy without a way to undo it, which must print no rollback.
    `whole` judges the whole host instead of this filesystem. `alter` changes the assembled host
    before it is judged. `at` is the mount point, for rules that judge a certain one only.
    """

    name: str
    remedy: str
    mke2fs: tuple[str, ...] = ()
    size: str = "64M"
    mkfs_type: str = "ext4"
    mount_type: str = "ext4"
    mount: str = ""
    mounted: bool = True
    tune: tuple[str, ...] = ()
    fstab: str | None = None
    prepare: Prepare | None = None
    cured: tuple[Outcome, ...] = (Outcome.PASS,)
    restores: bool = True
    whole: bool = False
    alter: AlterHost | None = None
    at: str | None = None

    def set_up(self, loop_mount: LoopMount) -> None:
        """Make the filesystem that fails the rule."""
        run("mke2fs", "-q", "-F", "-t", self.mkfs_type, *self.mke2fs, loop_mount.device)
        if self.tune:
            run("tune2fs", *self.tune, loop_mount.device)
        # As in real use, it is mounted after its last check: tune2fs then asks for another check.
        run("debugfs", "-w", "-R", f"ssv lastcheck @{int(time.time()) - 3600}", loop_mount.device)
        loop_mount.fstab.write_text("")
        if self.fstab is not None:
            loop_mount.write_fstab(self.fstab, fstype=self.mount_type)
        if self.mounted:
            loop_mount.mount(self.mount, self.mount_type)
        if self.prepare:
            self.prepare(loop_mount)

    def run(self, rule: Rule, loop_mount: LoopMount) -> None:
        """Check that the rule fails, passes after the remedy, and fails after the rollback.

        All files remain readable after the remedy, and e2fsck finds no error at the end.
        A rollback before the remedy, a second rollback, and a second run of the commands change
        nothing.
        """
        self.set_up(loop_mount)
        before, names = loop_mount.state(), set(loop_mount.names())
        cure = self.find(self.judge(rule, loop_mount))
        self._try_undo(cure)
        assert loop_mount.state() == before
        run_steps(cure, loop_mount)
        assert names <= set(loop_mount.names())
        self.repeat(cure, loop_mount)
        cured = self.judge(rule, loop_mount)
        assert cured.outcome in self.cured, (cured.outcome, cured.findings, cured.note)
        self.use(loop_mount)
        if self.restores:
            roll_back(cure)
            assert self.judge(rule, loop_mount).outcome is Outcome.FAIL
            assert loop_mount.state() == before
            self._try_undo(cure)
            assert loop_mount.state() == before
        else:
            assert not any(step.phase is Phase.ROLLBACK for step in cure.lines)
        loop_mount.unmount()
        run("e2fsck", "-fn", loop_mount.device)

    def repeat(self, cure: Remedy, loop_mount: LoopMount) -> None:
        """Run the steps again up to the first that fails, like a chain of commands; no change."""
        before = loop_mount.state()
        all(succeeds(waiting_after_e2fsck(step)) for step in cure.steps)
        assert loop_mount.state() == before

    def use(self, loop_mount: LoopMount) -> None:
        """Use the filesystem between the remedy and its rollback; does nothing by default."""

    @staticmethod
    def _try_undo(cure: Remedy) -> None:
        """Run the rollback when there is nothing to undo: some of its commands may fail."""
        for step in cure.lines:
            if step.phase is Phase.ROLLBACK:
                succeeds(waiting_after_e2fsck(step))

    def judge(self, rule: Rule, loop_mount: LoopMount) -> Verdict:
        """Return the verdict of the rule on the filesystem or host of this case."""
        return loop_mount.judge(rule, whole=self.whole, alter=self.alter)

    def find(self, verdict: Verdict) -> Remedy:
        """Return the remedy of the verdict's findings that this case is about."""
        assert verdict.outcome is Outcome.FAIL, (verdict.outcome, verdict.note, verdict.unknowns)
        offered = [remedy for finding in verdict.findings for remedy in finding.remedies]
        named = [remedy for remedy in offered if self.remedy in remedy.summary and remedy.steps]
        assert named, [remedy.summary for remedy in offered]
        return named[0]


def run_steps(cure: Remedy, loop_mount: LoopMount) -> None:
    """Run the steps as printed, and run the `done` check of each before and after it.

    A step that is already done changes nothing. Steps that run e2fsck have no `done` check.
    No check succeeds if the program whose output it reads fails.
    """
    for step in cure.steps:
        assert "--options-source" not in step.command + step.rollback + step.done
        assert not (step.done and isinstance(step.change, Check)), step
        before = loop_mount.state() if step.done and succeeds(step.done) else None
        run_shell(waiting_after_e2fsck(step))
        assert before is None or before == loop_mount.state(), step
        assert not step.done or succeeds(step.done), step
    for step in cure.steps:
        assert not step.done or succeeds(step.done), step
    for check, programs in {(step.done, step.programs.done) for step in cure.steps} | {
        (step.command, step.programs.command) for step in cure.lines if step.phase is Phase.VERIFY
    }:
        assert READING_PROGRAMS.isdisjoint(programs) or not succeeds(check, broken=True), check


WAIT_AFTER_E2FSCK = """\
e2fsck() {
	command e2fsck "$@"
	set -- $? $(date +%s)
	while [ "$(date +%s)" = "$2" ]; do sleep .05; done
	return "$1"
}
"""
"""Makes e2fsck return in a later second: after the next mount, tune2fs asks for another check."""


def waiting_after_e2fsck(step: Step) -> str:
    """Return the command of a step, which waits for the next second after each e2fsck."""
    return (
        f"{WAIT_AFTER_E2FSCK}{step.command}" if "e2fsck" in step.programs.command else step.command
    )


READING_PROGRAMS = frozenset("tune2fs dumpe2fs findmnt blkid blockdev findfs sysctl".split())
"""Programs whose output checks read."""


def succeeds(command: str, *, broken: bool = False) -> bool:
    """Run a command in a POSIX shell, and return whether it succeeded.

    With `broken`, the programs in READING_PROGRAMS fail: missing output must not prove anything.
    """
    fail = "".join(f"{name}() {{ return 1; }}; " for name in READING_PROGRAMS) if broken else ""
    argv = ["sh", "-c", f"{fail}{command}"]
    return (
        subprocess.run(argv, capture_output=True, check=False, timeout=PATIENCE_SECONDS).returncode
        == 0
    )


def module_of(rule: Rule) -> ModuleType:
    """Return the test module of a rule."""
    *_, family, name = rule.module.split(".")
    return import_module(f"rules.{family}.test_{name}")


def cases_of(rule: Rule) -> tuple[RemedyCase, ...]:
    """Return the remedy cases of a rule."""
    found: tuple[RemedyCase, ...] = getattr(module_of(rule), "REMEDY_CASES", ())
    return found


def all_cases() -> list[tuple[Rule, RemedyCase]]:
    """Return each case of each rule, with the rule."""
    return [(rule, case) for rule in all_rules() for case in cases_of(rule)]
