from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Phase
from ext4audit.parsers.superblock import parse_raw_superblock
from ext4audit.remedies.default_options import clear_defaults
from support.builders import disk, filesystem, known, superblock, unknown
from support.images.mke2fs import needs_e2fsprogs
from support.scratch import run

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
    steps = clear_defaults(fs, WANTED)
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
