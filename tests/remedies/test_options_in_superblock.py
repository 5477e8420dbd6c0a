from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import Provenance
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Phase
from ext4audit.parsers.superblock import parse_raw_superblock
from ext4audit.remedies import Command
from ext4audit.remedies.options import (
    SuperblockChange,
    clear_defaults,
    offline_string,
    store_default,
    string_steps,
    superblock_change,
    superblock_steps,
    verify_command,
)
from support.builders import disk, filesystem, known, mount, options, superblock, unknown
from support.filesystems.scratch import run
from support.images.mke2fs import needs_e2fsprogs
from support.remedies.steps_as_text import commands, printed_steps, step_and_undo_lines

WANTED = {"barrier": "barrier", "delalloc": "delalloc", "discard": "nodiscard"}


def image(path: str, *, kind: str = "image", string: str = "") -> Filesystem:
    """Build an image with nobarrier in its bits."""
    held = superblock(default_mount_options=("nobarrier",), mount_option_string=string)
    stack: BlockDevice = replace(disk(), kind=kind, path=path)
    return filesystem(
        alive=False,
        mounts=(),
        device=path,
        superblock=known(held),
        options=unknown("options"),
        stack=known(stack),
    )


@pytest.mark.parametrize(
    "fs",
    [
        image("fs.img", kind="e2image"),
        image("what?.img"),
        image("new\nline\n"),
    ],
    ids=["a copy", "a question mark", "no shell word"],
)
def test_no_command_is_printed_that_cannot_work(fs: Filesystem) -> None:
    """e2fsprogs take what follows a question mark for options of theirs."""
    assert clear_defaults(fs, WANTED) == ()


def test_nothing_to_change_is_no_command() -> None:
    """Other options of the superblock stay."""
    assert clear_defaults(image("fs.img"), {"delalloc": "delalloc"}) == ()


TUNED = superblock(
    default_mount_options=("user_xattr", "nodelalloc", "journal_data_writeback"),
    mount_option_string="commit=30,nobarrier",
)
FREE = "test ! -e /sys/fs/ext4/sda"
STRING = "set_super_value mount_opts commit=30,nobarrier"
OFFLINE = (
    f"umount /data && {{ {FREE} && debugfs -w -R '{STRING}' /dev/sda; mount /data; }} && "
    r"tune2fs -l /dev/sda | grep -qxE 'Mount options: +commit=30,nobarrier'"
)
"""It ends mounted, and fails, where another mount namespace holds the filesystem."""


AGAIN = Command("mount /data", ("mount",))


def changing(
    fs: Filesystem, wanted: dict[str, str]
) -> tuple[SuperblockChange, list[str], list[str]]:
    """Return a change of a mounted filesystem, the commands that make it, and those back."""
    change = superblock_change(fs, wanted)
    steps = (*superblock_steps(fs, change), *string_steps(fs, change, mount(), AGAIN))
    return change, commands(steps, Phase.PERSISTENT), commands(steps, Phase.ROLLBACK)


@pytest.mark.parametrize(
    ("wanted", "held", "there", "back"),
    [
        pytest.param(
            {"delalloc": "delalloc"},
            ("nodelalloc",),
            ["tune2fs -o ^nodelalloc /dev/sda"],
            ["tune2fs -o nodelalloc /dev/sda"],
            id="a bit",
        ),
        pytest.param(
            {"barrier": "barrier", "data": "data=ordered"},
            ("data=writeback", "nobarrier"),
            [
                "tune2fs -o ^journal_data_writeback /dev/sda",
                "tune2fs -E mount_opts=commit=30 /dev/sda",
            ],
            [
                OFFLINE,
                "tune2fs -o journal_data_writeback /dev/sda",
            ],
            id="a bit and the string",
        ),
        pytest.param(
            {"commit": "commit=5"},
            ("commit=30",),
            ["tune2fs -E mount_opts=nobarrier /dev/sda"],
            [OFFLINE],
            id="the string",
        ),
        pytest.param({"barrier": "nobarrier"}, (), [], [], id="as it is"),
    ],
)
def test_a_mounted_superblock_is_changed_by_commands(
    wanted: dict[str, str], held: tuple[str, ...], there: list[str], back: list[str]
) -> None:
    """debugfs, which a list needs, never writes to a live superblock."""
    change, do, undo = changing(filesystem(superblock=known(TUNED)), wanted)
    assert (change.held, do, undo) == (held, there, back)


THREE = "commit=30,nobarrier,stripe=64"


def test_a_list_is_written_between_an_unmount_and_a_mount() -> None:
    """And taken back so, too."""
    fs = filesystem(superblock=known(superblock(mount_option_string=THREE)))
    _, do, undo = changing(fs, {"barrier": "barrier"})
    there, back = (
        f"{FREE} && debugfs -w -R 'set_super_value mount_opts {string}' /dev/sda"
        for string in ("commit=30,stripe=64", THREE)
    )
    assert do == ["umount /data", there, "mount /data"]
    assert undo == ["umount /data", back, "mount /data"]


def test_an_unmounted_superblock_is_written_where_nothing_holds_it() -> None:
    """Whichever program writes it; nothing is written where nothing changes."""
    fs = filesystem(superblock=known(TUNED))
    (step,) = offline_string(fs, superblock_change(fs, {"barrier": "barrier"}))
    assert step.command == f"{FREE} && tune2fs -E mount_opts=commit=30 /dev/sda"
    assert step.undo == f"{FREE} && debugfs -w -R '{STRING}' /dev/sda"
    assert offline_string(fs, superblock_change(fs, {"delalloc": "delalloc"})) == ()


@pytest.mark.parametrize(
    ("token", "setter", "wanted", "bits", "there", "back"),
    [
        pytest.param(
            "nobarrier",
            Provenance.SUPERBLOCK,
            {"barrier": "barrier"},
            ("nobarrier",),
            [
                "tune2fs -o ^nobarrier /dev/sda",
                (
                    "if tune2fs -l /dev/sda | grep -qxE 'Mount options: +(nobarrier|barrier=0)'; "
                    "then tune2fs -E mount_opts= /dev/sda; fi"
                ),
            ],
            ["tune2fs -o nobarrier /dev/sda"],
            id="a bit or the string",
        ),
        pytest.param(
            "commit=30",
            Provenance.SUPERBLOCK_STRING,
            {"commit": "commit=5"},
            (),
            [
                (
                    "if tune2fs -l /dev/sda | grep -qxE 'Mount options: +(commit=30)'; "
                    "then tune2fs -E mount_opts= /dev/sda; fi"
                ),
            ],
            [
                (
                    "tune2fs -l /dev/sda | grep -q '^Mount options:' || "
                    "tune2fs -E mount_opts=commit=30 /dev/sda"
                )
            ],
            id="the string",
        ),
        pytest.param(
            "nobarrier",
            Provenance.SUPERBLOCK_BITS,
            {"barrier": "barrier"},
            ("nobarrier",),
            ["tune2fs -o ^nobarrier /dev/sda"],
            ["tune2fs -o nobarrier /dev/sda"],
            id="a bit",
        ),
        pytest.param(
            "nobarrier", Provenance.MOUNT, {"barrier": "barrier"}, (), [], [], id="the mount"
        ),
        pytest.param(
            "nobarrier", Provenance.SUPERBLOCK, {"barrier": "nobarrier"}, (), [], [], id="as it is"
        ),
    ],
)
def test_a_superblock_that_was_not_read_is_changed_by_what_is_in_force(
    token: str,
    setter: Provenance,
    wanted: dict[str, str],
    *,
    bits: tuple[str, ...],
    there: list[str],
    back: list[str],
) -> None:
    """The string is cleared only where it holds nothing else."""
    seen = known(options(token, set_by=setter))
    fs = filesystem(superblock=unknown("superblock"), options=seen)
    change, do, undo = changing(fs, wanted)
    assert (change.bits, do, undo) == (bits, there, back)


def test_the_check_knows_every_spelling() -> None:
    """The bit's name, the aliases, and the token."""
    fs = filesystem(superblock=known(TUNED))
    change = superblock_change(fs, {"barrier": "barrier", "data": "data=ordered"})
    assert verify_command(fs, change).text == (
        "tune2fs -l /dev/sda | grep -q UUID: && "
        "! tune2fs -l /dev/sda | grep -iE '^(default )?mount options:' | "
        "grep -qwE 'data=writeback|journal_data_writeback|nobarrier|barrier=0'"
    )


@pytest.mark.parametrize(
    ("string", "odd"), [("nobarrier", False), ("nobarrier,a b", True), ("nobarrier;id", True)]
)
def test_a_string_with_odd_characters_is_left_alone(string: str, *, odd: bool) -> None:
    """A request of debugfs has a grammar of its own."""
    fs = filesystem(superblock=known(superblock(mount_option_string=string)))
    assert (superblock_change(fs, {"barrier": "barrier"}).string is None) is odd


@pytest.mark.parametrize(
    ("held", "lines"),
    [
        (
            TUNED,
            [
                "persistent: tune2fs -o journal_data_ordered /dev/sda",
                (
                    "verify: tune2fs -l /dev/sda | "
                    "grep -qE '^Default mount options:.* journal_data_ordered( |$)'"
                ),
                "rollback: tune2fs -o journal_data_writeback /dev/sda",
            ],
        ),
        (
            superblock(),
            [
                "persistent: tune2fs -o journal_data_ordered /dev/sda",
                (
                    "verify: tune2fs -l /dev/sda | "
                    "grep -qE '^Default mount options:.* journal_data_ordered( |$)'"
                ),
                "rollback: tune2fs -o ^journal_data_ordered /dev/sda",
            ],
        ),
        (superblock(mount_option_string="commit=30,data=journal"), []),
    ],
)
def test_a_default_is_stored_where_the_string_does_not_overrule_it(
    held: Superblock, lines: list[str]
) -> None:
    """The rollback stores what was there."""
    fs = filesystem(superblock=known(held))
    assert step_and_undo_lines(store_default(fs, "data", "data=ordered")) == lines
    assert store_default(fs._replace(device="/dev/a\n"), "data", "data=ordered") == ()
    assert store_default(filesystem(superblock=unknown("x")), "data", "data=ordered") == ()


@needs_e2fsprogs
@pytest.mark.parametrize("name", ["fs.img", "a b$(id).img", "n\nl\x1b\udcff.img"])
@pytest.mark.parametrize("string", ["", "nodelalloc", "commit=30,nodelalloc,discard"])
@pytest.mark.parametrize("bits", ["nobarrier", "nobarrier,nodelalloc"])
def test_the_commands_clear_a_real_superblock_and_bring_it_back(
    tmp_path: Path, name: str, string: str, bits: str
) -> None:
    """What is not dangerous stays in it; a list of options needs debugfs."""
    path = tmp_path / name
    run("mke2fs", "-q", "-F", "-t", "ext4", path, "16M")
    run("tune2fs", "-o", bits, path)
    if string:
        run("debugfs", "-w", "-R", f"set_super_value mount_opts {string}", path)
    before = held = parse_raw_superblock(path.read_bytes()[1024:2048])
    fs = image(str(path))._replace(superblock=known(held))
    steps = printed_steps(clear_defaults(fs, WANTED))
    for phase in (Phase.PERSISTENT, Phase.VERIFY):
        for step in steps:
            if step.phase is phase:
                run("sh", "-c", step.command)
    held = parse_raw_superblock(path.read_bytes()[1024:2048])
    assert held.default_mount_options == ("user_xattr", "acl")
    assert held.mount_option_string == ("commit=30" if "commit" in string else "")
    for step in steps:
        if step.phase is Phase.ROLLBACK:
            run("sh", "-c", step.command)
    held = parse_raw_superblock(path.read_bytes()[1024:2048])
    assert held.default_mount_options == before.default_mount_options
    assert held.mount_option_string == before.mount_option_string


@needs_e2fsprogs
def test_the_check_fails_while_the_superblock_holds_it(tmp_path: Path) -> None:
    """Otherwise it would prove nothing."""
    path = tmp_path / "fs.img"
    run("mke2fs", "-q", "-F", "-t", "ext4", path, "16M")
    run("tune2fs", "-o", "nobarrier", path)
    (check,) = [s for s in clear_defaults(image(str(path)), WANTED) if s.phase is Phase.VERIFY]
    with pytest.raises(AssertionError):
        run("sh", "-c", check.command)
