"""Runs a remedy as printed, and judges before, after, after the next mount and rolled back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ext4audit.engine import judge
from ext4audit.facts.host import Host
from ext4audit.finding import Phase, Remedy
from ext4audit.report import Verdict
from ext4audit.rule import Scope
from ext4audit.rules import all_rules
from lab.support.devices import disk, run
from lab.support.scenario import JsonObject
from support.filesystems.scratch import apply_remedy, roll_back, scanned_host

FSTAB = Path("/etc/fstab")
WHERE = Path("/mnt/cure")
DEBUGFS = "debugfs -w -R 'set_super_value mount_opts {}' {}"
LEFT = ("*.ext4audit", "udev/rules.d/*ext4audit*", "sysctl.d/*ext4audit*")
FORWARD = (Phase.IMMEDIATE, Phase.PERSISTENT)


@contextlib.contextmanager
def fstab_entry(device: str, where: Path, options: str) -> Iterator[None]:
    """Add an entry to the guest's fstab, and restore the file; `/etc` is on the guest's overlay."""
    before = FSTAB.read_bytes()
    write_fstab(device, where, options)
    try:
        yield
    finally:
        FSTAB.write_bytes(before)
        for left in (each for pattern in LEFT for each in FSTAB.parent.glob(pattern)):
            left.unlink()


def write_fstab(device: str, where: Path, options: str) -> None:
    """Write an fstab that consists of a comment and this entry."""
    FSTAB.write_text(f"# the lab\n{device} {where} ext4 {options} 0 2\n")


@dataclass(frozen=True, slots=True)
class RemedyTrial:
    """One filesystem and the rule that judges it; `see` changes the host before it is judged."""

    device: str
    code: str
    where: Path = WHERE
    see: Callable[[Host], Host] = field(default=lambda host: host)

    def judge(self) -> Verdict:
        """Assemble the host again, and judge it."""
        host = self.see(scanned_host(self.device))
        rule = next(rule for rule in all_rules() if rule.code == self.code)
        return judge(rule, None if rule.scope is Scope.HOST else host.filesystems[0], host)

    def mount_again(self) -> None:
        """Unmount, and mount with the options of fstab."""
        run("umount", self.where)
        run("mount", self.where)

    def fsck(self) -> str:
        """Unmount permanently and check; any complaint is an error of the scenario."""
        run("umount", self.where)
        return run("e2fsck", "-fn", self.device)

    def cure(
        self,
        summary: str,
        *,
        again: Callable[[], None] | None = None,
        mount_after_rollback: bool = False,
    ) -> JsonObject:
        """Run the remedy whose summary contains `summary`, and its rollback; return each verdict.

        `again` simulates the next boot; by default it mounts with the options of fstab.
        `mount_after_rollback` is for superblock settings that only take effect at the next
        mount.
        """
        again = again or self.mount_again
        before, fstab = self.judge(), FSTAB.read_text()
        remedy = _remedy(before, summary)
        apply_remedy(remedy, FORWARD)
        after = self.judge()
        apply_remedy(remedy, (Phase.VERIFY,))
        again()
        persisted = self.judge()
        apply_remedy(remedy, (Phase.VERIFY,))
        roll_back(remedy)
        if mount_after_rollback:
            self.mount_again()
        return {
            "before": verdict_text(before),
            "after": verdict_text(after),
            "persisted": verdict_text(persisted),
            "rolled_back": verdict_text(self.judge()),
            "fstab_restored": FSTAB.read_text() == fstab,
            "disruption": remedy.disruption.value,
            "commands": [f"{step.phase.value}: {step.command}" for step in remedy.lines],
        }


def verdict_text(verdict: Verdict) -> str:
    """Return a verdict as text: "pass", or "fail" with the severities of its findings."""
    severities = sorted(finding.severity.value for finding in verdict.findings)
    return " ".join([verdict.outcome.value, *severities])


def remedies(verdict: Verdict) -> list[Remedy]:
    """Return all remedies of a verdict."""
    return [remedy for finding in verdict.findings for remedy in finding.remedies]


def _remedy(verdict: Verdict, summary: str) -> Remedy:
    (found,) = [remedy for remedy in remedies(verdict) if summary in remedy.summary]
    return found


@contextlib.contextmanager
def prepared(
    code: str,
    options: str,
    device: str = "",
    *,
    tune: list[str] | None = None,
    string: str = "",
) -> Iterator[RemedyTrial]:
    """Make a small filesystem with an entry in fstab, and mount it with that entry."""
    device = device or disk("wide")
    run("mkfs.ext4", "-q", "-F", "-b", "4096", device, "150M")
    if tune:
        run("tune2fs", *tune, device)
    if string:
        run("sh", "-c", DEBUGFS.format(string, device))
    WHERE.mkdir(exist_ok=True)
    with fstab_entry(device, WHERE, options):
        run("mount", WHERE)
        try:
            yield RemedyTrial(device, code)
        finally:
            if WHERE.is_mount():
                run("umount", WHERE)
