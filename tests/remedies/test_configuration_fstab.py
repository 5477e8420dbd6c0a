from __future__ import annotations

import re
from pathlib import Path

import pytest

from ext4audit.facts.mount import FstabLine
from ext4audit.finding import LineEdit, Phase, Step
from ext4audit.remedies import Unquotable
from ext4audit.remedies.configuration import (
    device_steps,
    edit_options,
    edit_spec,
    edit_type,
    merged,
    option_steps,
)
from support.builders import fstab_entry
from support.remedies.fstab_file import (
    SEDS,
    TEXT_AROUND,
    check_edit_and_undo,
    parsed_line,
    run,
    succeeds,
    write_fstab,
)

OPTION_EDITS = [
    ("UUID=5678 /data ext4 nobarrier,noatime 0 2", "nobarrier", "", "{0} noatime 0 2"),
    ("UUID=5678 /data ext4 x,nobarrier,noatime 0 2", "nobarrier", "", "{0} x,noatime 0 2"),
    ("UUID=5678 /data ext4 noatime,nobarrier 0 2", "nobarrier", "", "{0} noatime 0 2"),
    ("UUID=5678 /data ext4 nobarrier 0 2", "nobarrier", "", "{0} defaults 0 2"),
    ("UUID=5678 /data ext4 defaults 0 2", "", "noatime", "{0} defaults,noatime 0 2"),
    ("UUID=5678 /data ext4 barrier=0,x 0 2", "nobarrier", "", "{0} x 0 2"),
    ("UUID=5678 /data ext4 nobarrier,barrier=0 0 2", "nobarrier", "barrier", "{0} barrier 0 2"),
    ("UUID=5678 /data ext4 barrier,nobarrier 0 2", "nobarrier", "", "{0} barrier 0 2"),
    ("UUID=5678 /data ext4 nobarrier,barrier 0 2", "barrier", "", "{0} nobarrier 0 2"),
    ("UUID=5678 /data ext4 x-noatime,noatime 0 2", "noatime", "", "{0} x-noatime 0 2"),
    ("UUID=5678 /data ext4 noatime,noatime-x 0 2", "noatime", "", "{0} noatime-x 0 2"),
    ("UUID=5678 /data ext4 a,noatime-x,noatime 0 2", "noatime", "", "{0} a,noatime-x 0 2"),
    ("UUID=5678 /data ext4 x=orderedx,data=ordered 0 2", "data=ordered", "", "{0} x=orderedx 0 2"),
    (
        "UUID=5678 /data ext4 q,data=orderedx,data=ordered 0 2",
        "data=ordered",
        "",
        "{0} q,data=orderedx 0 2",
    ),
    ("UUID=5678 /data ext4 commit=50,commit=5 0 2", "commit=5", "", "{0} commit=50 0 2"),
    ("UUID=5678 /data ext4 a,a,b 0 2", "b", "a", "{0} a,a 0 2"),
    ("UUID=5678 /data ext4 noatime,,nobarrier, 0 2", "nobarrier", "", "{0} noatime 0 2"),
    ("UUID=5678 /data ext4 , 0 2", "nobarrier", "barrier", "{0} barrier 0 2"),
    ("LABEL=discard /discard ext4 discard,x 0 2", "discard", "", "{0} x 0 2"),
    ("LABEL=discard /a,discard ext4 a,discard 0 2", "discard", "", "{0} a 0 2"),
    ("LABEL=sync /mnt/sync/sync ext4 sync", "sync", "", "{0} defaults"),
    ("/dev/sync /sync sync sync", "sync", "", "/dev/sync /sync sync defaults"),
    ("/dev/defaults /defaults ext4 defaults", "", "sync", "{0} defaults,sync"),
    ("/dev/0 /0 ext4 defaults 0 0", "", "sync", "{0} defaults,sync 0 0"),
    (
        "UUID=5678\t/data \t ext4\t\tnoatime,discard\t0   2 ",
        "discard",
        "",
        "{0}\t\tnoatime\t0   2 ",
    ),
    ("\t UUID=5678 /data ext4 \tdefaults\t", "", "discard", "{0} \tdefaults,discard\t"),
    ("UUID=5678 /data ext4 discard 0 2 # discard", "discard", "", "{0} defaults 0 2 # discard"),
    ("UUID=5678 /data ext4 discard\r", "discard", "", "{0} defaults\r"),
    ("UUID=5678 /data ext4 x,discard\r", "discard", "", "{0} x\r"),
    ("UUID=5678 /data ext4 defaults\r", "", "discard", "{0} defaults,discard\r"),
    ("UUID=5678 /data ext4 discard 0 2\r", "discard", "sync", "{0} sync 0 2\r"),
    ("UUID=5678 /data ext4 discard 1", "discard", "sync", "{0} sync 1"),
    (
        'UUID=5678 /d ext4 context="u:r:t:s0:c1,c2",discard 0 2',
        "discard",
        "",
        '{0} context="u:r:t:s0:c1,c2" 0 2',
    ),
    (
        'UUID=5678 /d ext4 discard,context="u:r:t:s0:c1,discard",x 0 2',
        "discard",
        "sync",
        '{0} context="u:r:t:s0:c1,discard",x,sync 0 2',
    ),
    (
        r"UUID=5678 /d ext4 x-a=\040*.[#]&\134,x'y`id`$(id),noload",
        "norecovery",
        "",
        r"{0} x-a=\040*.[#]&\134,x'y`id`$(id)",
    ),
    (
        "U /d ext4 x-b=\udcff+?(){}|^$,discard 0 0",
        "discard",
        "sync",
        "{0} x-b=\udcff+?(){}|^$,sync 0 0",
    ),
    ("U /d ext4 discard,x-b=\udcff 0 0", "discard", "x-\udcfe&", "{0} x-b=\udcff,x-\udcfe& 0 0"),
    (r"LABEL=a\040&/b /a&\134b\011c/[d].* ext4 sync,x/y 0 2", "sync", "a&/b", "{0} x/y,a&/b 0 2"),
    (r"LABEL=a\040b /my\040data ext4 a\040b,sync 0 2", "sync", r"c\040d", r"{0} a\040b,c\040d 0 2"),
    ("/dev/ä /ü\u2028 ext4 sync,ö 0 2", "sync", "", "{0} ö 0 2"),
    ("UUID=5678 /a\x1b[31m\x0b ext4 sync,\x07 0 2", "sync", "", "{0} \x07 0 2"),
]
"""A line, options to drop and to add, and the line after; {0} are its first three fields."""


@pytest.mark.parametrize("sed", SEDS)
@pytest.mark.parametrize("edited", OPTION_EDITS, ids=ascii)
def test_the_edit_changes_only_the_options_and_the_undo_restores_the_file(
    edited: tuple[str, str, str, str], tmp_path: Path, sed: str
) -> None:
    """The commands, run by a shell on a real file, change one field of one line and back.

    An edit that has run, and an undo of an edit that has not, change nothing.
    """
    written, drop, add, after = edited
    write_fstab(tmp_path, written)
    edit = edit_options(parsed_line(written), drop.split(), add.split())
    head = re.match(r"[ \t]*[^ \t]+[ \t]+[^ \t]+[ \t]+[^ \t]+", written)
    assert head is not None
    check_edit_and_undo(edit, after.replace("{0}", head[0]), tmp_path, sed)


SPEC_EDITS = [
    ("/dev/sda1 /data ext4 defaults 0 2", "UUID=12-34", "UUID=12-34 /data ext4 defaults 0 2"),
    ("  /dev/sda1\t/data/  ext4", "UUID=12-34", "  UUID=12-34\t/data/  ext4"),
    (
        r"/dev/sda1 /my\040data ext4 noatime,x-a=/dev/sda1 0 2",
        "LABEL=my.disk",
        r"LABEL=my.disk /my\040data ext4 noatime,x-a=/dev/sda1 0 2",
    ),
    ("/dev/sda1 /\udcff.* ext4 x 0 2", "UUID=1", "UUID=1 /\udcff.* ext4 x 0 2"),
    ("sda1 /data ext4 x 0 2", "/dev/sda1", "/dev/sda1 /data ext4 x 0 2"),
    ("/dev/sda1 /dev/sda1 ext4 /dev/sda1", "/dev/sda", "/dev/sda /dev/sda1 ext4 /dev/sda1"),
    ("a a a a", "b", "b a a a"),
]


@pytest.mark.parametrize("sed", SEDS)
@pytest.mark.parametrize(("written", "spec", "after"), SPEC_EDITS)
def test_the_first_field_is_changed_and_changed_back(
    written: str, spec: str, after: str, tmp_path: Path, sed: str
) -> None:
    """Only the device's name changes, and the undo restores the file byte for byte."""
    write_fstab(tmp_path, written)
    check_edit_and_undo(edit_spec(parsed_line(written), spec), after, tmp_path, sed)


@pytest.mark.parametrize(
    ("written", "after"),
    [
        ("/dev/ext3 /ext3 ext3 ext3 0 2", "/dev/ext3 /ext3 ext4 ext3 0 2"),
        ("/dev/a\t/m\text3\r", "/dev/a\t/m\text4\r"),
        ("/dev/a /m ext3,ext4 rw", "/dev/a /m ext4 rw"),
    ],
)
def test_the_type_is_changed_and_changed_back(written: str, after: str, tmp_path: Path) -> None:
    """The word may stand anywhere else in the line."""
    write_fstab(tmp_path, written)
    check_edit_and_undo(edit_type(parsed_line(written), "ext4"), after, tmp_path)
    assert edit_type(parsed_line(after), "ext4") is None


CHANGED = [
    "UUID=5678 /data ext4 nobarrier,noatime 0 2",
    "UUID=5678 /data ext4 noatime,nobarrier 0 2",
    "UUID=5678 /data ext4 noatime 0 2",
    "UUID=5678 /data2 ext4 nobarrier 0 2",
    "UUID=56789 /data ext4 nobarrier 0 2",
    "# UUID=5678 /data ext4 nobarrier 0 2",
    "",
]


@pytest.mark.parametrize("changed", CHANGED)
def test_where_the_file_was_changed_since_the_audit_the_check_says_so(
    changed: str, tmp_path: Path
) -> None:
    """No other line is touched, and the line is not taken for what the edit wanted."""
    edit = edit_options(parsed_line("UUID=5678 /data ext4 nobarrier 0 2"), ["nobarrier"], [])
    assert edit is not None
    write_fstab(tmp_path, changed)
    edited = run(edit.command, tmp_path).decode("utf-8", "surrogateescape")
    assert (edited.startswith(TEXT_AROUND[0]), edited.endswith(TEXT_AROUND[1])) == (True, True)
    assert not succeeds(edit.done, tmp_path)


@pytest.mark.parametrize(
    ("raw", "drop", "add"),
    [
        ("defaults,noatime", ["nobarrier"], []),
        ("defaults,barrier=1", ["nobarrier"], ["barrier"]),
        ("defaults,,noatime", ["nobarrier"], ["noatime"]),
        (",", ["nobarrier"], []),
        ("noatime,", [], []),
        ("", [], ["barrier"]),
    ],
)
def test_there_is_no_edit_where_nothing_changes(raw: str, drop: list[str], add: list[str]) -> None:
    """No command is printed that would do nothing."""
    line = FstabLine(3, "UUID=5678", "/data", "ext4", tuple(raw.split(",")), raw, 0, 2)
    assert edit_options(line, drop, add) is None


def test_there_is_no_edit_that_no_shell_could_run() -> None:
    """A remedy that needs it has no commands: without it, the next mount would take it back."""
    line = FstabLine(3, "UUID=5678", "/data", "ext4", (), "defaults,x\0y", 0, 2)
    with pytest.raises(Unquotable):
        edit_options(line, [], ["barrier"])
    assert option_steps(line, [], ["barrier"]) == ()


def test_a_line_without_options_has_none_to_edit() -> None:
    """What mount(8) takes for it, `defaults`, does not stand in the file."""
    assert edit_options(parsed_line("/dev/a /m ext4"), [], ["barrier"]) is None


@pytest.mark.parametrize(
    ("name", "spelled"), [("/my data", r"/my\040data"), ("/a\tb\\c\n", r"/a\011b\134c\012")]
)
def test_a_planned_line_is_spelled_as_fstab_would(name: str, spelled: str) -> None:
    """It was never read from a file; blanks are octal."""
    planned = FstabLine(3, "LABEL=a b", name, "ext4", ("nobarrier",), "nobarrier", 0, 2)
    edit = edit_options(planned, ["nobarrier"], [])
    assert edit is not None
    assert edit.change == LineEdit(
        "/etc/fstab",
        3,
        rf"LABEL=a\040b {spelled} ext4 nobarrier 0 2",
        rf"LABEL=a\040b {spelled} ext4 defaults 0 2",
    )


def test_the_text_finds_a_line_without_a_number() -> None:
    """An archive left comments out: an address by number would edit another line."""
    before, after = ("UUID=1 /a ext4 nobarrier 0 2", "UUID=1 /a ext4 defaults 0 2")
    entry = fstab_entry("nobarrier", mount_point="/a", spec="UUID=1")
    edit = edit_options(entry.line._replace(is_numbered=False), ["nobarrier"], [])
    assert edit is not None
    assert edit.change == LineEdit("/etc/fstab", 7, before, after, is_numbered=False)
    assert " 's/^UUID=1 \\/a ext4 nobarrier 0 2$/UUID=1 \\/a ext4 defaults 0 2/' " in edit.command
    assert edit.undo.startswith("sed -i 's/^UUID=1 \\/a ext4 defaults 0 2$/")
    assert edit.done == f"LC_ALL=C grep -qxF -e '{after}' /etc/fstab"


def test_the_commands_are_readable() -> None:
    """A person can read what is going to be run as root."""
    edit = edit_options(fstab_entry("noatime", "barrier=0", spec="UUID=1").line, ["nobarrier"], [])
    assert edit is not None
    assert edit == Step(
        Phase.PERSISTENT,
        r"sed -i.$(date +%Y%m%d-%H%M%S)-7 "
        r"'7s/ \/data ext4 noatime,barrier=0/ \/data ext4 noatime/' /etc/fstab",
        r"sed -i '7s/ \/data ext4 noatime / \/data ext4 noatime,barrier=0 /' /etc/fstab",
        "sed -n 7p /etc/fstab | LC_ALL=C grep -qxF -e 'UUID=1 /data ext4 noatime 0 2'",
        LineEdit(
            "/etc/fstab",
            7,
            "UUID=1 /data ext4 noatime,barrier=0 0 2",
            "UUID=1 /data ext4 noatime 0 2",
        ),
    )


def test_two_edits_of_a_line_are_one(tmp_path: Path) -> None:
    """Edits of other lines, and steps of other kinds, stay where they are."""
    write_fstab(tmp_path, "U /data ext4 sync,discard 0 2")
    first = edit_options(parsed_line("U /data ext4 sync,discard 0 2"), ["sync"], ["noatime"])
    other = edit_options(fstab_entry("sync", line_number=4).line, ["sync"], [])
    second = edit_options(parsed_line("U /data ext4 discard,noatime 0 2"), ["discard"], [])
    assert first is not None
    assert other is not None
    assert second is not None
    remount = Step(Phase.IMMEDIATE, "mount")
    one, *rest = merged((first, remount, other, second))
    assert rest == [remount, other]
    check_edit_and_undo(one, "U /data ext4 noatime 0 2", tmp_path)
    apart = (first, other, second._replace(change=None))
    assert merged(apart) == apart


def test_tabs_do_not_make_a_command_unreadable() -> None:
    r"""They are spelled \t, which GNU and busybox sed know, and not as octal of printf."""
    edit = edit_options(parsed_line("UUID=1\t/data\text4\tdefaults\t0\t2"), [], ["noatime"])
    assert edit is not None
    before, after = r"\t\/data\text4\tdefaults\t", r"\t\/data\text4\tdefaults,noatime\t"
    assert edit.command.endswith(f" '3s/{before}/{after}/' /etc/fstab")


@pytest.mark.parametrize("sed", SEDS)
@pytest.mark.parametrize("other", ["U /srv/data ext4 sync,x 0 2", "U /data2 ext4 sync,x 0 2"])
def test_the_line_of_another_mount_point_is_not_edited(
    tmp_path: Path, sed: str, other: str
) -> None:
    """A line that was inserted since the audit moves all others."""
    before = write_fstab(tmp_path, other).read_bytes()
    edits = (
        edit_options(parsed_line("U /data ext4 sync,x 0 2"), ["sync"], []),
        edit_options(parsed_line("U /data ext4 x,sync 0 2"), ["x"], []),
        edit_spec(parsed_line("U /data ext4 sync,x 0 2"), "UUID=1"),
    )
    for edit in edits:
        assert edit is not None
        assert run(edit.command, tmp_path, sed) == before
        assert run(edit.undo, tmp_path, sed) == before


@pytest.mark.parametrize("sed", SEDS)
def test_a_link_becomes_a_file_and_what_it_named_stays(tmp_path: Path, sed: str) -> None:
    """The docstring says so; what is mounted at the next boot is the edited file."""
    written = "UUID=5678 /data ext4 nobarrier,x 0 2"
    fstab = write_fstab(tmp_path, written)
    before, named = fstab.read_bytes(), tmp_path / "named"
    fstab.rename(named)
    fstab.symlink_to(named)
    edit = edit_options(parsed_line(written), ["nobarrier"], [])
    assert edit is not None
    assert run(edit.command, tmp_path, sed) == before.replace(b"nobarrier,x", b"x", 1)
    assert not fstab.is_symlink()
    assert named.read_bytes() == before
    assert [path.read_bytes() for path in tmp_path.glob("fstab.*")] == [before]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("UUID=1", "UUID=1"),
        ("LABEL=my disk", "UUID=1"),
        ("/dev/sda1", "UUID=$(id)"),
        ("/dev/sda1", ""),
    ],
)
def test_a_first_field_that_fstab_may_spell_otherwise_is_not_edited(spec: str, wanted: str) -> None:
    """Blanks and bytes in octal, and names that no identifier has."""
    assert edit_spec(fstab_entry(spec=spec).line, wanted) is None


def test_the_steps_check_the_line() -> None:
    """The order is edit, verification."""
    steps = option_steps(
        parsed_line("U /data ext4 nobarrier,noatime 0 2"), ["nobarrier"], ["nofail"]
    )
    assert [step.phase for step in steps] == [Phase.PERSISTENT, Phase.VERIFY]
    assert steps[1].command == steps[0].done
    assert steps[1].command.endswith(" -e 'U /data ext4 noatime,nofail 0 2'")
    assert option_steps(parsed_line("U /data ext4 noatime 0 2"), ["nobarrier"], []) == ()


def test_a_new_name_of_a_device_must_resolve_to_it() -> None:
    """The line is checked, and the device."""
    edit, *checks = device_steps(parsed_line("/dev/sda /data ext4 x 0 2"), "UUID=9abc")
    assert [step.command for step in checks] == [
        edit.done,
        'test "$(findfs UUID=9abc)" -ef /dev/sda',
    ]
    assert device_steps(parsed_line("UUID=9abc /data ext4 x 0 2"), "UUID=9abc") == ()
