"""What is decided about a command is declared by the step, and declared rightly."""

from __future__ import annotations

import pytest

from ext4audit.finding import Disruption, Inspection, Phase, Programs, Remedy, Step
from support.hosts.fixture_hosts import every_fixture_host, report_of
from support.remedies.declared import called, undeclared


@every_fixture_host
def test_the_steps_of_a_captured_host_declare_what_they_do(fixture: str) -> None:
    """tests/rules/conftest.py does the same with each host that the test of a rule judges."""
    remedies = [r for finding in report_of(fixture).findings for r in finding.remedies]
    assert [text for remedy in remedies for text in undeclared(remedy)] == []


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        ("tune2fs -m 0 /dev/a", {"tune2fs"}),
        ("test ! -e /x && { e2fsck -p /dev/a || test $? -eq 1; }", {"e2fsck"}),
        ("! findmnt -n /a | grep -q tune2fs", {"findmnt"}),
        ('test "$(blockdev --getro /dev/a)" = 0', {"blockdev"}),
        ("while dumpe2fs /dev/a | awk '{ tune2fs }'; do sleep 2; done", {"dumpe2fs"}),
        ("if tune2fs -l /dev/a | grep -q a; then debugfs -w /dev/a; fi", {"tune2fs", "debugfs"}),
        ("file=$(mktemp -p /a) && rm $file", {"mktemp"}),
        ('test "$(BLKID_FILE=/dev/null blkid | grep -c a)" = 1', {"blkid"}),
        ("echo tune2fs > /sys/mount", set()),
    ],
)
def test_programs_are_found_where_they_are_called(command: str, programs: set[str]) -> None:
    """Arguments are no calls."""
    assert called(command) == programs


TUNE2FS = Programs(("tune2fs",))


@pytest.mark.parametrize(
    ("step", "what"),
    [
        (Step(Phase.IMMEDIATE, "umount /a"), "declares [], calls ['umount']"),
        (Step(Phase.IMMEDIATE, "true", done="mountpoint /a"), "calls ['mountpoint']"),
        (Step(Phase.IMMEDIATE, "echo", programs=TUNE2FS), "declares ['tune2fs']"),
        (Step(Phase.IMMEDIATE, "tune2fs -m 1 /dev/a", programs=TUNE2FS), "with mmp"),
        (
            Step(Phase.IMMEDIATE, "tune2fs -m 1 /dev/a", programs=TUNE2FS, forced="x"),
            "a field of the superblock",
        ),
        (
            Step(Phase.IMMEDIATE, "tune2fs -O a,^has_journal /dev/a", programs=TUNE2FS),
            "cannot do with bigalloc",
        ),
        (
            Step(Phase.IMMEDIATE, "test ! -e /sys/fs/ext4/a && sync && resize2fs /dev/a"),
            "cannot do with bigalloc",
        ),
        (Step(Phase.IMMEDIATE, "echo", done="touch /a"), "a check that changes"),
        (Step(Phase.VERIFY, "touch /a"), "a check that changes"),
        (Step(Phase.IMMEDIATE, "test -e /a"), "whether it changes anything"),
        (
            Step(Phase.IMMEDIATE, "resize2fs /dev/a", change=Inspection()),
            "whether it changes anything",
        ),
        (
            Step(Phase.IMMEDIATE, "mount -t ext4 /dev/a /a", programs=Programs(("mount",))),
            "a mount command is not declared",
        ),
    ],
)
def test_what_is_not_declared_is_found(step: Step, what: str) -> None:
    """The check would be useless if it found nothing."""
    remedy = Remedy("Do it.", Disruption.ONLINE, (step,))
    assert any(what in text for text in undeclared(remedy))
