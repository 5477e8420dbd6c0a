from __future__ import annotations

import re

import pytest

from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Confidence, Disruption, Finding, Phase, Remedy, Severity, Step
from ext4audit.renderers.shared import Page
from ext4audit.renderers.text import render_report
from ext4audit.rule import Rule, RuleOutput, rule
from support.builders import UNREAD, filesystem, host, known, mount
from support.formats.sample_reports import (
    as_text,
    barriers,
    boot,
    buggy,
    edits,
    inodes,
    md127,
    old_kernel,
    renames,
    report,
    root,
)


def test_a_note_beside_a_problem_is_one_line() -> None:
    """In a section with worse findings a note is one line, without evidence and commands."""
    fs = md127("/data")
    labelled = filesystem(uuid=fs.uuid, label="renames", options=fs.options, layout=None)
    shown = as_text(report(host(labelled), barriers, renames))
    line = "  · INFO  PRF002 auto-da-alloc-stall (possible): Replacing a file waits for its data.\n"
    assert line in shown
    assert "noauto_da_alloc" not in shown


def test_verbose_shows_a_note_whole() -> None:
    """With -v a note has its evidence and its remedies."""
    shown = as_text(report(host(boot("renames")), renames), verbosity=1)
    assert shown.startswith("""\
✓ /dev/nvme0n1p1 on /boot: ext4, partition of nvme0n1, read-only

  · INFO  PRF002 auto-da-alloc-stall (possible)
    Replacing a file waits for its data.

      option in force  auto_da_alloc  (/proc/fs/ext4/sda/options)

    Remedy (needs a remount): Ask for noauto_da_alloc.
""")


def test_several_notes_are_named_once_each() -> None:
    """Beyond one note the mention counts them and names their codes."""

    @rule("PRF009", "second-note", severity=Severity.INFO, since="0.1")
    def second(_fs: Filesystem, _host: Host) -> RuleOutput:
        """Inform twice."""
        yield Finding("One.", Severity.INFO, Confidence.CONFIRMED, ())
        yield Finding("Two.", Severity.INFO, Confidence.CONFIRMED, ())

    shown = as_text(report(host(boot("renames")), second, renames))
    assert "; 3 notes: PRF002, PRF009 (-v shows them)\n" in shown


def test_verbose_shows_the_traceback_of_a_rule() -> None:
    """With -v the traceback is there to be reported, each line behind a bar."""
    shown = as_text(report(host(filesystem(name="sd")), buggy), verbosity=1)
    assert "      | Traceback (most recent call last):\n" in shown
    assert "      | KeyError: 'sd'\n" in shown


def test_steps_keep_the_order_in_which_they_must_be_run() -> None:
    """Where the file must be corrected before the remount, "for good" stands before "now"."""
    steps = (
        Step(Phase.PERSISTENT, "first"),
        Step(Phase.IMMEDIATE, "second"),
        Step(Phase.PERSISTENT, "third"),
    )
    shown = as_text(report(host(root()), finding_rule(Remedy("Do.", Disruption.REMOUNT, steps))))
    assert [line.strip() for line in shown.split("\n")][5:12] == [
        "Remedy (needs a remount): Do.",
        "for good:",
        "first",
        "now:",
        "second",
        "for good:",
        "third",
    ]


EDITED = """\
    Remedy (needs a remount): Take nodelalloc away.
      now:
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
def test_commands_are_chains_under_the_diff_that_they_make(width: int | None) -> None:
    """Neither wraps, and no line of the diff stands between two lines to copy."""
    shown = as_text(report(host(root()), edits), width=width)
    lines = [line.rstrip() for line in shown.split("\n")]
    assert "\n".join(EDITED.split("\n")[1:]) in "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "style"),
    [
        ("--- /etc/fstab, line 7", "2"),
        ("- /dev/sda        /data   ext4    defaults,nodelalloc 0 2", "31"),
        ("+ /dev/sda        /data   ext4    defaults 0 2", "32"),
        ("+ b = 2", "32"),
    ],
)
def test_the_lines_of_a_diff_have_its_colours(text: str, style: str) -> None:
    """What is removed is red, what is added green, the file's name dim."""
    shown = as_text(report(host(root()), edits), color=True).split("\n")
    assert f"        \x1b[{style}m{text}\x1b[0m" in shown


def test_the_script_is_named_above_the_summary() -> None:
    """The quiet look has the summary alone; a report without remedies to run has no such line."""
    judged = report(host(root()), edits)
    line = "To review and apply these as one script: ext4audit fix --disruption remount /"
    assert as_text(judged).split("\n")[-4:-2] == ["", line]
    assert "ext4audit fix" not in as_text(judged, verbosity=-1)
    assert "ext4audit fix" not in as_text(report(host(root()), barriers))


def finding_rule(*remedies: Remedy, code: str = "DUR005", severity: str = "high") -> Rule:
    """Make a rule that finds something on every filesystem but /boot."""

    @rule(code, "always", severity=Severity.HIGH, since="0.1")
    def find(fs: Filesystem, _host: Host) -> RuleOutput:
        """Find."""
        if fs.device != "/dev/nvme0n1p1":
            yield Finding("Odd.", Severity(severity), Confidence.CONFIRMED, (), remedies)

    return find


def headings(shown: str) -> list[str]:
    """Return the lines that name subjects and findings."""
    return [line for line in shown.split("\n") if re.match(r"(  )?[✖▲◆◇·✓?] ", line)]


def test_the_worst_stands_first() -> None:
    """Subjects go by their worst finding, then as the host has them; findings also by code."""
    rules = (
        finding_rule(code="DUR007", severity="low"),
        finding_rule(code="DUR006", severity="high"),
        finding_rule(code="DUR005", severity="high"),
        old_kernel,
        barriers,
    )
    shown = as_text(report(host(boot(), root(), md127("/data"), filesystem()), *rules))
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
        (filesystem(), "✓ /dev/sda on /data: ext4, disk; no findings"),
        (filesystem(fstype=known("ext3")), "✓ /dev/sda on /data: ext3, disk; no findings"),
        (filesystem(fstype=UNREAD), "✓ /dev/sda on /data: type not known, disk; no findings"),
        (
            filesystem(read_only=known(value=True)),
            "✓ /dev/sda on /data: ext4, disk, read-only; no findings",
        ),
        (
            filesystem(alive=False, mounts=()),
            "✓ /dev/sda: ext4, disk, not mounted; no findings",
        ),
        (
            filesystem(mounts=()),
            (
                "✓ /dev/sda: ext4, disk, not mounted here (another mount namespace holds it); "
                "no findings"
            ),
        ),
        (
            filesystem(mounts=tuple(mount(f"/m{n}", mount_id=n) for n in range(5))),
            "✓ /dev/sda on /m0, /m1, /m2 and 2 more: ext4, disk; no findings",
        ),
    ],
)
def test_the_line_of_a_filesystem(fs: Filesystem, line: str) -> None:
    """One line names device, mount points, type, stack, and how it is mounted."""
    assert as_text(report(host(fs))).split("\n")[0] == line


def test_verbose_names_every_mount_point() -> None:
    """With -v no mount point is left out."""
    fs = filesystem(mounts=tuple(mount(f"/m{n}", mount_id=n) for n in range(5)))
    shown = as_text(report(host(fs), renames), verbosity=1)
    assert shown.startswith("✓ /dev/sda on /m0, /m1, /m2, /m3, /m4: ext4, disk\n")


def test_a_section_says_that_more_is_not_determined() -> None:
    """A filesystem with a finding and with undetermined rules has both in its first line."""
    shown = as_text(report(host(filesystem(superblock=UNREAD)), finding_rule(), inodes))
    assert shown.startswith("▲ /dev/sda on /data: ext4, disk; 1 rule not determined\n")


def test_header_and_summary_count_the_same_verdicts() -> None:
    """A rule with a finding and with missing evidence is undetermined in both lines."""
    fs = filesystem(superblock=UNREAD)
    made = report(host(fs), finding_rule(), inodes)
    partly = made.verdicts[0]._replace(unknowns=(UNREAD,))
    shown = as_text(made._replace(verdicts=(partly, *made.verdicts[1:])))
    assert "2 rules not determined\n" in shown.split("\n", 1)[0] + "\n"
    assert shown.endswith("0 passed, 0 not applicable, 2 undetermined; audit INCOMPLETE\n")


@pytest.mark.parametrize(
    ("threshold", "end"),
    [
        (Severity.MEDIUM, "audit complete for medium and worse"),
        (Severity.CRITICAL, "audit complete for critical"),
        (Severity.LOW, "audit INCOMPLETE"),
        (None, "audit INCOMPLETE"),
    ],
)
def test_the_summary_calls_complete_what_the_exit_code_does(
    threshold: Severity | None, end: str
) -> None:
    """A gap of a mild rule is shown, and is not called a failure that the exit code is not."""
    mild = inodes._replace(severity=Severity.LOW)
    made = report(host(filesystem(superblock=UNREAD)), mild)
    shown = render_report(made, Page("0", "", threshold))
    assert shown.endswith(f"1 undetermined; {end}\n")
    assert "Not determined" in shown


def test_one_gap_of_many_filesystems_is_told_once() -> None:
    """Beyond three subjects the others are counted."""
    every = [filesystem(uuid=f"u{n}", device=f"/dev/sd{n}", superblock=UNREAD) for n in range(5)]
    shown = as_text(report(host(*every), inodes))
    assert "    needed by CAP001 on /dev/sd0, /dev/sd1, /dev/sd2 and 2 more\n" in shown
    assert shown.count("run as root") == 1
