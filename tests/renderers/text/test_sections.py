from __future__ import annotations

import re

import pytest

from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Confidence, Disruption, Finding, Phase, Remedy, Severity, Step
from ext4audit.rule import Rule, RuleOutput, rule
from support.builders import UNREAD, filesystem, host, known, mount
from support.formats.sample_reports import (
    as_text,
    barriers,
    boot,
    edits,
    inodes,
    md127,
    old_kernel,
    renames,
    report,
    root,
)


def test_verbose_shows_info_findings_completely() -> None:
    """With -v a note has its evidence and its remedies."""
    shown = as_text(report(host(boot("renames")), renames), verbosity=1)
    assert shown.split("\n", 2)[2].startswith("""\
✓ /dev/nvme0n1p1 on /boot: ext4, partition of nvme0n1, read-only

  · INFO  PRF002 auto-da-alloc-stall (possible)
    Replacing a file waits for its data.

      option in force  auto_da_alloc  (/proc/fs/ext4/sda/options)

    Remedy (needs a remount): Ask for noauto_da_alloc.
""")


def test_steps_keep_their_order() -> None:
    """If a file must be corrected before the remount, "for good" precedes "now"."""
    steps = (
        Step(Phase.PERSISTENT, "first"),
        Step(Phase.IMMEDIATE, "second"),
        Step(Phase.PERSISTENT, "third"),
    )
    judged = report(host(root()), finding_rule(Remedy("Do.", Disruption.REMOUNT, steps)))
    assert [line.strip() for line in as_text(judged, verbosity=1).split("\n")][7:14] == [
        "Remedy (needs a remount): Do.",
        "for good:",
        "first",
        "now:",
        "second",
        "for good:",
        "third",
    ]


def test_verbose_counts_the_mount_points_beyond_the_first() -> None:
    """A filesystem of containers has thousands of bind mounts."""
    mounts = tuple(mount(f"/b/{n}", mount_id=n) for n in range(100, 5000))
    shown = as_text(report(host(filesystem(mounts=mounts)), renames), verbosity=1)
    assert "/b/106, /b/107 and 4892 more: ext4" in shown
    assert "/b/108" not in shown


EDIT_TEXT = """\
    Remedy (needs a remount): Take nodelalloc away.
      now:
        type e2fsck &&
        umount /data &&
        { e2fsck -p /dev/sda || test $? -eq 1; } &&
        mount /data
      for good:
        --- /etc/fstab, line 7
        - /dev/sda        /data   ext4    defaults,nodelalloc 0 2
        + /dev/sda        /data   ext4    defaults 0 2
        +++ /etc/new, new file
        + a = 1
        +
        + b = 2
        sed -i '7s/,nodelalloc//' /etc/fstab &&
        printf 'a = 1\\n\\nb = 2\\n' > /etc/new
      check:
        ! grep nodelalloc /etc/fstab &&
        test -e /etc/new
      undo:
        umount /data &&
        { mount /data || mount -a; }
"""


@pytest.mark.parametrize("width", [None, 24])
def test_commands_follow_their_diff(width: int | None) -> None:
    """Commands and diffs do not wrap, and no diff line separates two commands to copy."""
    shown = as_text(report(host(root()), edits), verbosity=1, width=width)
    lines = [line.rstrip() for line in shown.split("\n")]
    assert "\n".join(EDIT_TEXT.split("\n")[1:]) in "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "style"),
    [
        ("--- /etc/fstab, line 7", "2"),
        ("- /dev/sda        /data   ext4    defaults,nodelalloc 0 2", "31"),
        ("+ /dev/sda        /data   ext4    defaults 0 2", "32"),
        ("+ b = 2", "32"),
    ],
)
def test_colours_of_diff_lines(text: str, style: str) -> None:
    """Removed lines are red, added lines green, and the file name is dim."""
    shown = as_text(report(host(root()), edits), verbosity=1, color=True).split("\n")
    assert f"        \x1b[{style}m{text}\x1b[0m" in shown


def finding_rule(*remedies: Remedy, code: str = "DUR005", severity: str = "high") -> Rule:
    """Return a rule that finds something on every filesystem but /boot."""

    @rule(code, "always", severity=Severity.HIGH, since="0.1")
    def find(fs: Filesystem, _host: Host) -> RuleOutput:
        """Find."""
        if fs.device != "/dev/nvme0n1p1":
            yield Finding("Odd.", Severity(severity), Confidence.CONFIRMED, (), remedies)

    return find


def headings(shown: str) -> list[str]:
    """Return the lines that name subjects and findings."""
    lines = shown.split("\n")
    return [line for line in lines if re.match(r"(  )?[✖▲◆◇·] |[✓?] ", line)]


def test_worst_subject_is_first() -> None:
    """Subjects are sorted by worst finding, then in the host's order; findings also by code."""
    rules = (
        finding_rule(code="DUR007", severity="low"),
        finding_rule(code="DUR006", severity="high"),
        finding_rule(code="DUR005", severity="high"),
        old_kernel,
        barriers,
    )
    judged = report(host(boot(), root(), md127("/data"), filesystem()), *rules)
    shown = as_text(judged, verbosity=1)
    assert [line.partition(":")[0] for line in headings(shown)] == [
        "✖ /dev/md127 on /data, /srv",
        "  ✖ CRITICAL  DUR001 barrier-disabled",
        "  ▲ HIGH  DUR005 always",
        "  ▲ HIGH  DUR006 always",
        "  ◇ LOW  DUR007 always",
        "▲ /dev/mapper/vg0-root on /",
        "  ▲ HIGH  DUR005 always",
        "  ▲ HIGH  DUR006 always",
        "  ◇ LOW  DUR007 always",
        "▲ /dev/sda on /data",
        "  ▲ HIGH  DUR005 always",
        "  ▲ HIGH  DUR006 always",
        "  ◇ LOW  DUR007 always",
        "◇ host db1",
        "  ◇ LOW  KRN003 fast-commit-corruption",
        "✓ /dev/nvme0n1p1 on /boot",
    ]


@pytest.mark.parametrize(
    ("fs", "line"),
    [
        (filesystem(), "✓ /dev/sda on /data: ext4, disk"),
        (filesystem(fstype=known("ext3")), "✓ /dev/sda on /data: ext3, disk"),
        (filesystem(fstype=UNREAD), "✓ /dev/sda on /data: type not known, disk"),
        (
            filesystem(read_only=known(value=True)),
            "✓ /dev/sda on /data: ext4, disk, read-only",
        ),
        (
            filesystem(alive=False, mounts=()),
            "✓ /dev/sda: ext4, disk, not mounted",
        ),
        (
            filesystem(mounts=()),
            "✓ /dev/sda: ext4, disk, not mounted here (mounted in another mount namespace)",
        ),
        (
            filesystem(mounts=tuple(mount(f"/m{n}", mount_id=n) for n in range(5))),
            "✓ /dev/sda on /m0, /m1, /m2, /m3, /m4: ext4, disk",
        ),
    ],
)
def test_line_of_a_filesystem(fs: Filesystem, line: str) -> None:
    """One line names device, mount points, type, stack, and mount state."""
    assert as_text(report(host(fs)), verbosity=1).split("\n")[2] == line


def test_section_counts_undetermined_rules() -> None:
    """The first line of a filesystem with a finding also counts the undetermined rules."""
    judged = report(host(filesystem(superblock=UNREAD)), finding_rule(), inodes)
    line = "▲ /dev/sda on /data: ext4, disk; 1 rule not determined"
    assert as_text(judged, verbosity=1).split("\n")[2] == line
