"""Real ext4 filesystems for tests: loop devices in a mount namespace of the tests' own.

The namespace is private to the test process, so that no mount outlives it and none is seen by
the host; loop devices are made by `mount -o loop`, which frees them with the mount.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ext4audit.assemble.devices.target import Superblocks, TargetResolver
from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.inventory import take_inventory
from ext4audit.engine import judge
from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Phase, Remedy
from ext4audit.report import Verdict
from ext4audit.rules import all_rules
from ext4audit.sources.live import LiveSource
from support.timing import PATIENCE_SECONDS

CAP_SYS_RESOURCE = 24
ASKS_WHETHER_OPEN = "/proc/[0-9]*/fd"
LOOKED_AT_SECONDS = 60
"""How long other tests may look at a device: a busy machine may stop one while it does."""
LOOKS_AT_ALL = 20
TAKEN_AT = "2026-01-02T03:04:05Z"


def run(*argv: str | Path) -> str:
    """Run a command that must succeed, and return what it printed."""
    done = subprocess.run(
        [os.fspath(arg) for arg in argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


def unique_label(start: str = "") -> str:
    """Return a label that no other filesystem of this machine has.

    Tests run beside each other, and a run that was stopped leaves its loop devices: mount(8)
    would take either for `LABEL=data`. At most 8 characters of `start` fit.
    """
    return start + secrets.token_hex(4)


def may_resize() -> bool:
    """Whether this root may resize a mounted filesystem: some containers' root may not."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (line for line in status.split("\n") if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> CAP_SYS_RESOURCE & 1)


def run_shell(command: str) -> None:
    """Run one printed command, which must succeed, as a person would."""
    done = done_by_shell(command)
    assert done.returncode == 0, (command, done.stdout, done.stderr)


def done_by_shell(command: str) -> subprocess.CompletedProcess[bytes]:
    """Run one printed command by a POSIX shell, and return how it ended.

    Another test may look at the device just as the command asks whether a process has it open.
    The command then prints nothing, and is run again.
    """
    end = time.monotonic() + LOOKED_AT_SECONDS
    while True:
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, check=False, timeout=PATIENCE_SECONDS
        )
        is_silent = done.returncode and not done.stdout and not done.stderr
        if not is_silent or ASKS_WHETHER_OPEN not in command or time.monotonic() > end:
            return done
        time.sleep(0.2)


@dataclass(frozen=True, slots=True)
class Scratch:
    """One image, its mount point, and how to mount it again."""

    image: Path
    mount_point: Path

    def make(self, *options: str, size: str = "64M", fstype: str = "ext4") -> Scratch:
        """Make the filesystem: mke2fs with these options."""
        run("truncate", "-s", size, self.image)
        run("mke2fs", "-q", "-F", "-t", fstype, *options, self.image)
        return self

    def tune(self, *options: str) -> Scratch:
        """Change the unmounted filesystem by tune2fs."""
        run("tune2fs", *options, self.image)
        return self

    def mount(self, options: str = "", fstype: str = "ext4") -> Scratch:
        """Mount it by a loop device that goes with the mount."""
        self.mount_point.mkdir(parents=True, exist_ok=True)
        words = ",".join(word for word in ("loop", options) if word)
        run("mount", "-t", fstype, "-o", words, self.image, self.mount_point)
        return self

    def unmount(self) -> None:
        """Unmount it wherever it is mounted in this namespace."""
        while os.path.ismount(self.mount_point):
            run("umount", self.mount_point)

    def fsck(self) -> None:
        """Check the unmounted filesystem; any complaint is a failure."""
        run("e2fsck", "-fn", self.image)

    @property
    def device(self) -> str:
        """The loop device, as the mount table names it."""
        return run("findmnt", "-n", "-o", "SOURCE", "--mountpoint", self.mount_point).strip()

    @property
    def mount_table_options(self) -> str:
        """What /proc/mounts says, for the tests that show what it hides."""
        return run("findmnt", "-n", "-o", "OPTIONS", "--mountpoint", self.mount_point).strip()

    def host(self) -> Host:
        """Assemble the host with this filesystem only."""
        return scan(self.mount_point)

    def filesystem(self) -> Filesystem:
        """Assemble this filesystem."""
        return self.host().filesystems[0]

    def judge(self, code: str) -> Verdict:
        """Return one rule's verdict on it."""
        return judge_host(self.host(), code)


def scan(*paths: Path | str) -> Host:
    """Assemble the host with the superblocks that hold some paths, as `scan PATH` does."""
    source = LiveSource()
    resolver = TargetResolver(source, take_inventory(source))
    numbers: set[DeviceNumber] = set()
    for path in paths:
        found = resolver.resolve(os.fspath(path))
        assert isinstance(found, Superblocks), found
        numbers.update(found.device_numbers)
    return assembled(numbers)


def assembled(only: Collection[DeviceNumber] | None = None) -> Host:
    """Assemble the host, with some of its superblocks or with all of them.

    Other tests make devices meanwhile: one that is there after lsblk has run makes what lsblk
    lists unknown, and the host is looked at again.
    """
    for _ in range(LOOKS_AT_ALL):
        host = assemble_host(LiveSource(), TAKEN_AT, only=only)
        if isinstance(host.devices, Known) or "does not list" not in host.devices.detail:
            break
    return host


def judge_host(host: Host, code: str) -> Verdict:
    """Return one rule's verdict on the only filesystem of a host."""
    rule = next(rule for rule in all_rules() if rule.code == code)
    return judge(rule, host.filesystems[0], host)


def apply(remedy: Remedy, phases: Sequence[Phase] = tuple(Phase)[:3]) -> None:
    """Run a remedy's commands in the order in which they are printed."""
    assert remedy.steps, f"{remedy.summary} has no commands"
    for step in remedy.lines:
        if step.phase in phases:
            run_shell(step.command)


def roll_back(remedy: Remedy) -> None:
    """Run a remedy's rollback."""
    apply(remedy, (Phase.ROLLBACK,))
