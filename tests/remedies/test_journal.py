"""A larger journal, and one that comes back inside, as exact commands."""

from __future__ import annotations

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Phase, Step
from ext4audit.remedies.features import enlarge_journal, free_bytes, move_journal_inside
from support.builders import filesystem, known, mount, superblock, unknown, usage
from support.remedies.steps_as_text import printed_steps

MIB = 1 << 20
IDLE = {"alive": False, "mounts": ()}
HELD = "test ! -e /sys/fs/ext4/sda && "
CHECK = f"{HELD}{{ e2fsck -f -p /dev/sda || test $? -eq 1; }}"


def with_free(mib: int, *more: str) -> Filesystem:
    """Return a filesystem that is not mounted, with so much free, and with more features."""
    features = superblock().features | {*more}
    held = superblock(free_blocks=mib * MIB // 4096, features=features)
    return filesystem(superblock=known(held), **IDLE)


def swap(new: int, old: int) -> str:
    """Return the command that replaces a journal, or makes one of the old size."""
    make = f"{{ tune2fs -J size={new} /dev/sda || tune2fs -J size={old} /dev/sda; }}"
    return f"{HELD}tune2fs -O ^has_journal /dev/sda && {make}"


def test_a_journal_is_replaced_where_twice_its_size_is_free() -> None:
    """Where tune2fs fails all the same, the old size is made again."""
    remedy = enlarge_journal(with_free(2048), 8 * MIB, 1024 * MIB)
    lines = printed_steps(remedy.steps)
    do, verify, back = lines[:2], lines[2], lines[3:]
    assert do == (Step(Phase.IMMEDIATE, CHECK), Step(Phase.IMMEDIATE, swap(1024, 8)))
    assert verify.phase is Phase.VERIFY
    assert "exit !(n >= 1024)" in verify.command
    assert back == (Step(Phase.ROLLBACK, swap(8, 1024)),)
    assert remedy.summary == ("Replace the journal with one of the usual size, 1024 MiB.")
    assert remedy.trade_off is not None
    assert remedy.trade_off.startswith("The journal takes 1016 MiB more")


def test_a_journal_that_does_not_fit_is_not_tried() -> None:
    """One block less than twice its size is too little, and the summary names what is needed."""
    for fs in (with_free(2047), filesystem(superblock=known(superblock()), **IDLE)):
        remedy = enlarge_journal(fs, 8 * MIB, 1024 * MIB)
        assert remedy.steps == ()
        assert "as soon as 2048 MiB are free" in remedy.summary


def test_room_alone_does_not_unmount_the_root() -> None:
    """The summary then names the place."""
    root = filesystem(mounts=(mount("/"),))
    remedy = enlarge_journal(root, 8 * MIB, 1024 * MIB)
    assert remedy.steps == ()
    assert "from a rescue system" in remedy.summary


def test_with_fast_commits_there_is_no_rollback() -> None:
    """The size that dumpe2fs shows holds their area, so that the old size is not known."""
    remedy = enlarge_journal(with_free(4096, "fast_commit"), 8 * MIB, 1024 * MIB)
    assert remedy.steps
    assert remedy.lines == remedy.steps


def test_a_journal_below_a_mebibyte_counts_as_one() -> None:
    """tune2fs takes whole MiB."""
    remedy = enlarge_journal(with_free(64), 1, 16 * MIB)
    assert remedy.steps[1].command == swap(16, 1)


def test_room_is_that_of_the_mounted_filesystem() -> None:
    """The counters of a superblock are old while it is mounted."""
    held = known(superblock(free_blocks=7))
    mounted = filesystem(superblock=held, usage=known(usage(free_blocks=9)))
    assert free_bytes(mounted) == 9 * 4096
    assert free_bytes(filesystem(superblock=held, alive=False)) == 7 * 4096


@pytest.mark.parametrize(
    "fs",
    [
        filesystem(usage=unknown("usage")),
        filesystem(superblock=unknown("superblock"), alive=False),
        filesystem(superblock=known(superblock(free_blocks=None)), alive=False),
        filesystem(superblock=known(superblock(free_blocks=7, block_bytes=None)), alive=False),
    ],
    ids=["usage", "superblock", "free blocks", "block size"],
)
def test_room_that_was_not_read_is_not_known(fs: Filesystem) -> None:
    """And it is not zero."""
    assert free_bytes(fs) is None


@pytest.mark.parametrize("uuid", [None, "1ce5f3e4-1d4c-4d0a-9f3c-3d8a3c0f8b11"])
def test_an_external_journal_comes_back_inside(uuid: str | None) -> None:
    """The rollback needs the UUID of the device that had it; so does a lack of space inside."""
    fs = filesystem(**IDLE)
    steps = printed_steps(move_journal_inside(fs, superblock(journal_uuid=uuid)))
    clear, new = "tune2fs -O ^has_journal /dev/sda", "tune2fs -O has_journal /dev/sda"
    outside = f"{{ {new} || tune2fs -J device=UUID={uuid} /dev/sda; }}"
    assert [step.command for step in steps[:3]] == [
        CHECK,
        f"{HELD}{clear} && {outside if uuid else new}",
        "tune2fs -l /dev/sda | grep -qE '^Journal inode:[[:blank:]]+[1-9]'",
    ]
    back = f"{HELD}tune2fs -O ^has_journal /dev/sda && tune2fs -J device=UUID={uuid} /dev/sda"
    assert steps[3:] == ((Step(Phase.ROLLBACK, back),) if uuid else ())
