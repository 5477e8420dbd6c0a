"""Room on a filesystem: what fills it, the reserve, and growth."""

from __future__ import annotations

from ext4audit.finding import Phase, Step
from ext4audit.remedies.superblock_fields import (
    find_many_files,
    grow_to_device,
    set_reserved_blocks,
)
from support.builders import filesystem, known, mount, superblock, unknown
from support.remedies.steps_as_text import printed_steps


def test_the_fullest_directories_are_looked_for_below_a_mount_point() -> None:
    """The first whose name can be quoted; the advice stands without one, too."""
    fs = filesystem(mounts=(mount("/a\n"), mount("/my data", mount_id=31)))
    assert "(find '/my data' -xdev -printf '%h\\n' | sort" in find_many_files(fs).summary
    nowhere = find_many_files(filesystem(mounts=())).summary
    assert nowhere.endswith("delete files that are not needed.")


def test_the_reserve_is_set_and_set_back() -> None:
    """The rollback writes the number that the superblock holds now."""
    fs = filesystem(superblock=known(superblock(reserved_blocks=1310720)))
    assert printed_steps(set_reserved_blocks(fs, 262144)) == (
        Step(Phase.IMMEDIATE, "tune2fs -r 262144 /dev/sda"),
        Step(Phase.VERIFY, "tune2fs -l /dev/sda | grep -qE '^Reserved block count: +262144$'"),
        Step(Phase.ROLLBACK, "tune2fs -r 1310720 /dev/sda"),
    )


def test_a_reserve_of_zero_is_a_number_to_go_back_to() -> None:
    """Zero is not unknown."""
    fs = filesystem(superblock=known(superblock(reserved_blocks=0)))
    assert printed_steps(set_reserved_blocks(fs, 1))[-1].command == "tune2fs -r 0 /dev/sda"


def test_without_the_present_reserve_there_are_no_steps() -> None:
    """There would be no rollback."""
    assert set_reserved_blocks(filesystem(superblock=unknown("superblock")), 1) == ()
    none = filesystem(superblock=known(superblock(reserved_blocks=None)))
    assert set_reserved_blocks(none, 1) == ()
    nameless = filesystem(device="\0", superblock=known(superblock(reserved_blocks=5)))
    assert set_reserved_blocks(nameless, 1) == ()


def test_growth_is_verified_by_what_lies_idle() -> None:
    """The two sizes are compared by a shell, and only an unmounted filesystem shrinks again."""
    grow, verify = printed_steps(grow_to_device(filesystem(), 1 << 30))
    assert grow == Step(Phase.IMMEDIATE, "resize2fs /dev/sda")
    assert verify.phase is Phase.VERIFY
    assert verify.command.startswith('test "$(( $(blockdev --getsize64 /dev/sda) - $(dumpe2fs -h')
    assert verify.command.endswith('" -le 1073741824')
    assert grow_to_device(filesystem(device="\0"), 1) == ()
