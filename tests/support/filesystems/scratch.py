"""Real ext4 filesystems for tests: loop devices in a private mount namespace.

The namespace is private to the test process, so that no mount outlives it and the host sees none;
`mount -o loop` makes the loop devices, which are freed when they are unmounted.
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
OPEN_FILES_GLOB = "/proc/[0-9]*/fd"
BUSY_SECONDS = 60
"""How long other tests may have a device open: on a busy machine, one may pause meanwhile."""
BUSY_RETRIES = 20
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
    """Return a label that no other filesystem on this machine has.

    Tests run in parallel, and an aborted run leaves its loop devices behind: with a fixed label,
    mount(8) could choose the wrong device. `start` can have at most 8 characters.
    """
    return start + secrets.token_hex(4)


def may_resize() -> bool:
    """Return whether root may resize a mounted filesystem here; in some containers it may not."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (line for line in status.split("\n") if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> CAP_SYS_RESOURCE & 1)


def run_shell(command: str) -> None:
    """Run a printed command in a shell; it must succeed."""
    done = run_in_shell(command)
    assert done.returncode == 0, (command, done.stdout, done.stderr)


def run_in_shell(command: str) -> subprocess.CompletedProcess[bytes]:
    """Run a printed command in a POSIX shell, and return the completed process.

    Another test may have the device open just when the command checks whether any process does.
    The command then fails without output, and is run again.
    """
    end = time.monotonic() + BUSY_SECONDS
    while True:
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, check=False, timeout=PATIENCE_SECONDS
        )
        is_silent = done.returncode and not done.stdout and not done.stderr
        if not is_silent or OPEN_FILES_GLOB not in command or time.monotonic() > end:
            return done
        time.sleep(0.2)


@dataclass(frozen=True, slots=True)
class Scratch:
    """An image with a filesystem, and its mount point."""

    image: Path
    mount_point: Path

    def make(self, *options: str, size: str = "64M", fstype: str = "ext4") -> Scratch:
        """Make the filesystem by mke2fs with these options."""
        run("truncate", "-s", size, self.image)
        run("mke2fs", "-q", "-F", "-t", fstype, *options, self.image)
        return self

    def tune(self, *options: str) -> Scratch:
        """Change the unmounted filesystem with tune2fs."""
        run("tune2fs", *options, self.image)
        return self

    def mount(self, options: str = "", fstype: str = "ext4") -> Scratch:
        """Mount it by a loop device that is freed when it is unmounted."""
        self.mount_point.mkdir(parents=True, exist_ok=True)
        words = ",".join(word for word in ("loop", options) if word)
        run("mount", "-t", fstype, "-o", words, self.image, self.mount_point)
        return self

    def unmount(self) -> None:
        """Unmount it everywhere in this namespace."""
        while os.path.ismount(self.mount_point):
            run("umount", self.mount_point)

    def fsck(self) -> None:
        """Check the unmounted filesystem; fail if e2fsck finds any error."""
        run("e2fsck", "-fn", self.image)

    @property
    def device(self) -> str:
        """The path of the loop device in the mount table."""
        return run("findmnt", "-n", "-o", "SOURCE", "--mountpoint", self.mount_point).strip()

    @property
    def mount_table_options(self) -> str:
        """The options in /proc/mounts, for tests that show what it hides."""
        return run("findmnt", "-n", "-o", "OPTIONS", "--mountpoint", self.mount_point).strip()

    def host(self) -> Host:
        """Assemble the host with this filesystem only."""
        return scanned_host(self.mount_point)

    def filesystem(self) -> Filesystem:
        """Assemble the host, and return this filesystem."""
        return self.host().filesystems[0]

    def judge(self, code: str) -> Verdict:
        """Return the verdict of one rule on this filesystem."""
        return judge_host(self.host(), code)


def scanned_host(*paths: Path | str) -> Host:
    """Assemble the host with the filesystems that contain some paths, as `scan PATH` does."""
    source = LiveSource()
    resolver = TargetResolver(source, take_inventory(source))
    numbers: set[DeviceNumber] = set()
    for path in paths:
        found = resolver.resolve(os.fspath(path))
        assert isinstance(found, Superblocks), found
        numbers.update(found.device_numbers)
    return assembled_host(numbers)


def assembled_host(only: Collection[DeviceNumber] | None = None) -> Host:
    """Assemble the host, with some of its filesystems or all of them.

    Other tests make devices meanwhile: one that appears after lsblk has run makes the list of
    devices unknown, and the host is assembled again.
    """
    for _ in range(BUSY_RETRIES):
        host = assemble_host(LiveSource(), TAKEN_AT, only=only)
        if isinstance(host.devices, Known) or "does not list" not in host.devices.detail:
            break
    return host


def judge_host(host: Host, code: str) -> Verdict:
    """Return the verdict of one rule on the first filesystem of a host."""
    rule = next(rule for rule in all_rules() if rule.code == code)
    return judge(rule, host.filesystems[0], host)


def apply_remedy(remedy: Remedy, phases: Sequence[Phase] = tuple(Phase)[:3]) -> None:
    """Run a remedy's commands in the order in which they are printed."""
    assert remedy.steps, f"{remedy.summary} has no commands"
    for step in remedy.lines:
        if step.phase in phases:
            run_shell(step.command)


def roll_back(remedy: Remedy) -> None:
    """Run a remedy's rollback."""
    apply_remedy(remedy, (Phase.ROLLBACK,))
