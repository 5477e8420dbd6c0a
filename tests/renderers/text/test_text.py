from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.evidence import Unknown, Why
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.renderers.text import render_blocks
from ext4audit.renderers.text.blocks import Columns, Prose, Span
from ext4audit.report import Report
from ext4audit.rule import Rule, RuleOutput, rule
from support.builders import filesystem, host, known, mount, options
from support.examples import examples
from support.formats.sample_reports import (
    HOSTILE_NAMES,
    QUOTED,
    as_text,
    barriers,
    boot,
    critical_report,
    hostile_report,
    incomplete_report,
    inodes,
    md127,
    old_kernel,
    renames,
    report,
    root,
)

SGR = re.compile(r"\x1b\[[0-9;]*m")


CRITICAL_TEXT = r"""
db1: Debian GNU/Linux 12, Linux 6.1.0-18-amd64

CRITICAL  DUR001 barrier-disabled · /mnt/a\x1b[b, /srv (/dev/md127)
  Write barriers are off above disks with a volatile write cache: a power cut can corrupt the filesystem.
    option in force  nobarrier     /proc/fs/ext4/md127/options
    mount point      /mnt/a\x1b[b  /proc/self/mountinfo
  Remedy (online): Enable barriers again.
  Now:
    mount -o remount,barrier "$(printf '/mnt/a\033\133b')"
  For good:
    tune2fs -o ^nobarrier /dev/md127
  1 other remedy: -v, or ext4audit explain DUR001

MEDIUM  LAY001 striped-metadata-hotspot (likely) · /mnt/a\x1b[b, /srv (/dev/md127)
  All bitmaps lie on 1 of 2 disks.
    skew  2.00  dumpe2fs /dev/md127
  Remedy (destroys and recreates the filesystem): Make the filesystem anew.
  For good:
    mkfs.ext4 -g 32744 /dev/md127

As a script: ext4audit fix /srv

3 filesystems: 1 critical, 1 medium; 5 checks passed; complete.
"""[1:]  # noqa: E501 - the lines of the output


CRITICAL_VERBOSE_ASCII_TEXT = r"""
db1: Debian GNU/Linux 12, Linux 6.1.0-18-amd64

X /dev/md127 on /mnt/a\x1b[b, /srv: ext4, raid0 of 2 disks, 512 KiB chunk

  X CRITICAL  DUR001 barrier-disabled
    Write barriers are off above disks with a volatile write cache: a power cut can corrupt the filesystem.

      option in force  nobarrier     (/proc/fs/ext4/md127/options)
      mount point      /mnt/a\x1b[b  (/proc/self/mountinfo)

    Remedy (online): Enable barriers again.
      now:
        mount -o remount,barrier "$(printf '/mnt/a\033\133b')"
      for good:
        tune2fs -o ^nobarrier /dev/md127
      check:
        grep -x barrier /proc/fs/ext4/md127/options
      undo:
        tune2fs -o nobarrier /dev/md127 &&
        mount -o remount,nobarrier "$(printf '/mnt/a\033\133b')"
      Trade-off: Each fsync() waits for a cache flush.

    Or (needs an unmount): Use drives with power-loss protection.

  * MEDIUM  LAY001 striped-metadata-hotspot (likely)
    All bitmaps lie on 1 of 2 disks.

      skew  2.00  (dumpe2fs /dev/md127)

    Remedy (destroys and recreates the filesystem): Make the filesystem anew.
      for good:
        mkfs.ext4 -g 32744 /dev/md127

  + passed PRF002 auto-da-alloc-stall

+ /dev/mapper/vg0-root on /: ext4, lvm (dm-linear) on nvme0n1p2

  + passed DUR001 barrier-disabled
      barrier  barrier  (/proc/fs/ext4/sda/options)
  + passed PRF002 auto-da-alloc-stall
  - does not apply: LAY001 striped-metadata-hotspot, no stripe lies below

+ /dev/nvme0n1p1 on /boot: ext4, partition of nvme0n1, read-only

  + passed DUR001 barrier-disabled
      barrier  barrier  (/proc/fs/ext4/sda/options)
  + passed PRF002 auto-da-alloc-stall
  - does not apply: LAY001 striped-metadata-hotspot, no stripe lies below

As a script: ext4audit fix /srv
3 filesystems: 1 critical, 1 medium; 5 checks passed; complete.
"""[1:]  # noqa: E501 - the lines of the output


CRITICAL_NARROW_TEXT = r"""
db1: Debian GNU/Linux 12, Linux 6.1.0-18-amd64

CRITICAL  DUR001 barrier-disabled · /data, /srv (/dev/md127)
  Write barriers are off above disks with a volatile write
  cache: a power cut can corrupt the filesystem.
    option in force  nobarrier  /proc/fs/ext4/md127/options
    mount point      /data      /proc/self/mountinfo
  Remedy (online): Enable barriers again.
  Now:
    mount -o remount,barrier "$(printf '/mnt/a\033\133b')"
  For good:
    tune2fs -o ^nobarrier /dev/md127
  1 other remedy: -v, or ext4audit explain DUR001
  As a script: ext4audit fix /data

2 filesystems: 1 critical; 1 check passed; complete.
"""[1:]


INCOMPLETE_TEXT = """\
db1: Debian GNU/Linux 12, Linux 6.1.0-18-amd64
Not determined:
  ? the mount table of PID 1 (timed out: after 10 s): part of the host was not audited
  ? run as root: 2 checks, 2 filesystems
  ? HLT009 rule-with-a-bug stopped with an error on /dev/sda, /dev/sdb: KeyError: 'sd' (a bug in ext4audit)
2 filesystems: no findings; 0 checks passed, 2 stopped with an error; incomplete.
"""  # noqa: E501 - the lines of the output


NOTES_TEXT = """\
db1: Debian GNU/Linux 12, Linux 6.1.0-18-amd64
LOW   KRN003 fast-commit-corruption  the host  This kernel can lose files.
INFO  PRF002 auto-da-alloc-stall     /boot     Replacing a file waits for its data. (possible)
2 filesystems: 1 low, 1 info; 3 checks passed; complete.
"""


def narrow_report() -> Report:
    """Audit one clean filesystem and one with a critical finding."""
    return report(host(md127("/data"), boot()), barriers)


def notes_report() -> Report:
    """Audit a filesystem with a note, a clean one, and a host with a finding about itself."""
    return report(host(boot("renames"), root()), renames, barriers, old_kernel)


@pytest.mark.parametrize(
    ("of", "verbosity", "width", "ascii_only", "expected"),
    [
        pytest.param(critical_report(), 0, None, False, CRITICAL_TEXT, id="night"),
        pytest.param(
            critical_report(), 1, None, True, CRITICAL_VERBOSE_ASCII_TEXT, id="verbose, ASCII"
        ),
        pytest.param(
            narrow_report(), 0, 60, False, CRITICAL_NARROW_TEXT, id="terminal of 60 columns"
        ),
        pytest.param(incomplete_report(), 0, None, False, INCOMPLETE_TEXT, id="not determined"),
        pytest.param(notes_report(), 0, None, False, NOTES_TEXT, id="only notes"),
    ],
)
def test_complete_output(
    of: Report, verbosity: int, width: int | None, ascii_only: bool, expected: str
) -> None:
    """The text of a small report is exactly this."""
    assert as_text(of, verbosity=verbosity, width=width, ascii_only=ascii_only) == expected


def test_quiet_has_only_the_summary() -> None:
    """With -q only the last line remains."""
    assert as_text(critical_report(), verbosity=-1) == f"db1: {CRITICAL_TEXT.splitlines()[-1]}\n"


def test_host_without_ext4() -> None:
    """Without ext4 the audit is complete, and a sentence says so."""
    assert as_text(report(host(), inodes)).split("\n", 1)[1] == (
        "There is no ext4 filesystem on host db1: nothing to audit.\n"
        "0 filesystems: no findings; 0 checks passed; complete.\n"
    )


def test_host_with_a_gap_is_not_called_free_of_ext4() -> None:
    """If the host has a gap, seeing no filesystem does not mean that there is none."""
    gap = Unknown("the mount table", Why.FAILED, "Input/output error", "look at the disk")
    shown = as_text(report(host(gaps=(gap,)), inodes))
    assert shown.split("\n", 1)[1] == (
        "No ext4 filesystem could be seen on host db1.\n"
        "Not determined: part of the host was not audited; look at the disk.\n"
        "0 filesystems: no findings; 0 checks passed; incomplete.\n"
    )


@pytest.mark.parametrize("width", [None, 24, 80])
@pytest.mark.parametrize("color", [False, True])
def test_verbose_commands_have_their_own_lines(width: int | None, color: bool) -> None:
    """A command line is byte-identical and equally indented at any width."""
    shown = as_text(critical_report(), verbosity=1, width=width, color=color)
    lines = SGR.sub("", shown).split("\n")
    for command in (
        f'mount -o remount,barrier "{QUOTED}"',
        "tune2fs -o ^nobarrier /dev/md127",
        "grep -x barrier /proc/fs/ext4/md127/options",
        "tune2fs -o nobarrier /dev/md127 &&",
        f'mount -o remount,nobarrier "{QUOTED}"',
    ):
        assert " " * 8 + command in lines


@pytest.mark.parametrize("width", [None, 24, 80])
@pytest.mark.parametrize("color", [False, True])
def test_default_commands_have_their_own_lines(width: int | None, color: bool) -> None:
    """Each command that changes something has its own line; checks and rollback need -v."""
    shown = SGR.sub("", as_text(critical_report(), width=width, color=color))
    assert f'    mount -o remount,barrier "{QUOTED}"' in shown.split("\n")
    assert "    tune2fs -o ^nobarrier /dev/md127" in shown.split("\n")
    assert "    mkfs.ext4 -g 32744 /dev/md127" in shown.split("\n")
    assert "As a script: ext4audit fix /srv" in shown.split("\n")
    assert "grep" not in shown
    assert "nobarrier /dev" not in shown.replace("^nobarrier", "")


def unsafe(shown: str) -> set[str]:
    """Return the characters that must not reach a terminal."""
    return {char for char in shown.replace("\n", "") if not char.isprintable()}


def line_starts(shown: str) -> Sequence[str]:
    """Return the first two characters of each line without indentation, as a log trims it."""
    return [line.lstrip()[:2] for line in shown.split("\n")]


@pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES)
@pytest.mark.parametrize("verbosity", [-1, 0, 1])
def test_hostile_names_are_escaped(name: str, verbosity: int) -> None:
    """For any name, no control character is printed, and no line starts a command."""
    shown = as_text(hostile_report(name), verbosity=verbosity)
    assert unsafe(shown) == set()
    assert "::" not in line_starts(shown)
    assert (
        unsafe(as_text(hostile_report(name), verbosity=verbosity, width=40, ascii_only=True))
        == set()
    )


@pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES)
def test_names_do_not_change_the_number_of_lines(name: str) -> None:
    """The number of lines of a report does not depend on its names."""
    harmless = as_text(hostile_report("/data"))
    assert as_text(hostile_report(name)).count("\n") == harmless.count("\n")


@given(st.text(st.characters(exclude_categories=())))
@examples(25)
def test_any_text_becomes_printable(name: str) -> None:
    """Any text, coloured and wrapped or not, becomes printable characters only."""
    of = hostile_report(name)
    assert unsafe(as_text(of)) == set()
    assert unsafe(SGR.sub("", as_text(of, color=True, width=50, verbosity=1))) == set()


@given(st.lists(st.sampled_from(["a", "/dev/sda", "w" * 30, "w" * 40, "w" * 41, "w" * 60])))
@examples(50)
def test_lines_take_all_words_that_fit(words: list[str]) -> None:
    """A line takes all words that fit; a word longer than a line has a line to itself."""
    block = Prose((Span(" ".join(words)),))
    lines = render_blocks(iter([block]), color=False, width=40, ascii_only=False).splitlines()
    assert [word for line in lines for word in line.split()] == words
    assert all(len(line) <= 40 or " " not in line for line in lines)
    following = [line.split()[0] for line in lines[1:]]
    assert all(len(f"{line} {word}") > 40 for line, word in zip(lines, following, strict=False))


def test_markup_and_emoji_codes_are_plain_text() -> None:
    """Text that rich would interpret as markup or an emoji is shown literally."""
    shown = as_text(hostile_report("/mnt/[/red][bold]:smile:"), color=True)
    assert "/mnt/[/red][bold]:smile:" in shown


def test_ascii_only_is_ascii() -> None:
    """Glyphs have ASCII variants, and names are escaped."""
    shown = as_text(hostile_report("/mnt/Übung"), verbosity=1, ascii_only=True)
    assert shown.isascii()
    assert r"/mnt/\u00dcbung" in shown


def test_colour_does_not_change_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is the same with colour, and the environment influences neither."""
    for name, value in {
        "NO_COLOR": "1",
        "FORCE_COLOR": "1",
        "TERM": "dumb",
        "COLUMNS": "9",
    }.items():
        monkeypatch.setenv(name, value)
    plain, colored = as_text(critical_report()), as_text(critical_report(), color=True)
    assert "\x1b" not in plain
    assert "\x1b[1;31mCRITICAL\x1b[0m" in colored
    assert SGR.sub("", colored) == plain


@pytest.mark.parametrize("width", [None, 40, 80])
def test_lines_have_no_trailing_blanks(width: int | None) -> None:
    """Neither padding nor wrapping leaves trailing blanks."""
    for line in as_text(critical_report(), width=width, verbosity=1).split("\n"):
        assert line == line.rstrip()


def test_prose_is_wrapped_between_words() -> None:
    """On a terminal prose keeps to the width, and a long path is not broken."""
    path = "/srv/" + "x" * 60
    fs = filesystem(mounts=(mount(path),))
    shown = as_text(report(host(fs), rule_with_message("Odd.")), width=40)
    assert shown.split("\n")[3:6] == ["HIGH  DUR005 always ·", path, "(/dev/sda)"]


def rule_with_message(message: str, *citations: Citation) -> Rule:
    """Return a rule that finds this message on every filesystem."""

    @rule("DUR005", "always", severity=Severity.HIGH, since="0.1")
    def find(_fs: Filesystem, _host: Host) -> RuleOutput:
        """Find."""
        yield Finding(message, Severity.HIGH, Confidence.CONFIRMED, citations)

    return find


def test_long_first_word_leaves_no_empty_line() -> None:
    """A first word that is wider than the terminal stays on the first line."""
    path = "/srv/" + "x" * 60
    shown = as_text(report(host(filesystem()), rule_with_message(f"{path} is odd.")), width=24)
    assert f"\n  {path}\n  is odd.\n" in shown


def test_long_value_moves_only_its_origin() -> None:
    """A long value does not push the origins of the other rows to the right."""
    rows = (Citation("short", "1", "here"), Citation("long", "x" * 37, "there"))
    shown = as_text(report(host(filesystem()), rule_with_message("Odd.", *rows)))
    assert f"\n    short  1  here\n    long   {'x' * 37}  there\n" in shown


def test_evidence_is_indented_on_a_narrow_terminal() -> None:
    """A row that is too wide continues below its value, with line breaks between words only."""
    odd = "a value that is a whole sentence"
    fs = filesystem(mounts=(mount(odd),), options=known(options(hidden=["nobarrier"])))
    shown = as_text(report(host(fs), barriers), width=50)
    assert (
        """
    option in force  nobarrier
                     /proc/fs/ext4/md127/options
    mount point      a value that is a whole
                     sentence
                     /proc/self/mountinfo
"""
        in shown
    )


def test_long_label_has_its_own_line() -> None:
    """All values begin in the same column, whatever their labels."""
    label = "busiest member under small-file churn, modelled"
    rows = (("stripe", "raid0", "/sys"), (label, "39%", "computed"), ("media", "yes", "/sys"))
    table = Columns(tuple(tuple(map(Span, row)) for row in rows), indent=2, fixed=1)
    drawn = render_blocks(iter([table]), color=False, width=None, ascii_only=False)
    assert drawn.splitlines() == [
        "  stripe  raid0  /sys",
        f"  {label}",
        "          39%    computed",
        "  media   yes    /sys",
    ]
    narrow = render_blocks(iter([table]), color=False, width=40, ascii_only=False)
    assert max(map(len, narrow.splitlines())) <= 40


def test_wide_characters_take_two_columns() -> None:
    """Columns stay aligned if a text has letters that are two columns wide."""
    fs = md127("/写真")
    shown = as_text(report(host(fs), barriers))
    assert "option in force  nobarrier  /proc" in shown
    assert "mount point      /写真      /proc" in shown
