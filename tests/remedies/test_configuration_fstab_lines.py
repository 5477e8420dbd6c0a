"""Edits of random lines of fstab, by real sed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.options import recognize
from ext4audit.finding import LineEdit
from ext4audit.remedies.configuration import edit_options
from support.examples import examples
from support.remedies.fstab_file import SEDS, check_edit_and_undo, parsed_line, write_fstab

BLANKS = st.sampled_from([" ", "\t", "  ", " \t "])
POOL = (
    "noatime nobarrier barrier barrier=0 barrier=1 data=ordered data=orderedx commit=5 commit=50 "
    "discard nodiscard x-discard discard-x defaults rw a aa a,, sync 0 2 ext4 /m & \\ \\040 \\\\1 "
    'context="s0:c1,c2" x-a=.*[a]^$ x=/& ä \udcff ~ \' `id` $(id) ; \x1b'
).split(" ")
PLAIN = [word for word in POOL if "," not in word and "\\" not in word]
"""Options that the file spells as they are."""
OPTIONS = st.lists(st.sampled_from(POOL), min_size=1, max_size=6)
NAMES = st.sampled_from(
    [
        "/dev/sda",
        "LABEL=discard",
        "UUID=1,2",
        "/m",
        "/noatime",
        r"/my\040m",
        "/&/.*",
        "/\udcfe",
        "0",
    ]
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Draw a line of fstab with blanks, names and options of many kinds."""
    fields = [draw(NAMES), draw(NAMES), "ext4", ",".join(draw(OPTIONS))]
    fields += draw(st.sampled_from([[], ["0"], ["0", "2"], ["0", "0", "# discard"]]))
    joined = "".join(field + draw(BLANKS) for field in fields[:-1]) + fields[-1]
    return draw(st.sampled_from(["", " ", "\t"])) + joined + draw(st.sampled_from(["", " ", "\r"]))


@examples(150)
@given(
    written=lines(),
    drop=st.lists(st.sampled_from(PLAIN), max_size=3),
    add=st.lists(st.sampled_from(PLAIN), max_size=2),
    sed=st.sampled_from(SEDS),
)
def test_whatever_the_line_the_commands_make_one_of_the_other(
    tmp_path_factory: pytest.TempPathFactory,
    written: str,
    drop: list[str],
    add: list[str],
    sed: str,
) -> None:
    """The command makes `after` of `before`, the undo `before` of `after`; nothing else changes."""
    line = parsed_line(written)
    edit = edit_options(line, drop, add)
    if edit is None:
        return
    folder = tmp_path_factory.mktemp("etc")
    write_fstab(folder, written)
    assert isinstance(edit.change, LineEdit)
    assert edit.change[:3] == ("/etc/fstab", 3, written)
    check_edit_and_undo(edit, edit.change.after, folder, sed)
    changed = parsed_line(edit.change.after)
    others = line._replace(
        options=changed.options, raw_options=changed.raw_options, text=changed.text
    )
    assert changed == others
    gone = {meaning(token) for token in drop}
    kept = [option for option in line.options if meaning(option) not in gone]
    expected = {meaning(option) for option in (*kept, *add)} or {meaning("defaults")}
    assert {meaning(option) for option in changed.options} == expected


def meaning(token: str) -> str:
    """Return the one spelling of an option that has several."""
    known = recognize(token)
    return known[1] if known else token
