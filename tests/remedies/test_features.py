"""Features set and cleared offline, as exact commands."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import FstabLine
from ext4audit.finding import Disruption, Phase, Step
from ext4audit.remedies.features import (
    clear_fast_commit,
    convert_to_64bit,
    convert_to_ext4,
    enable_large_dir,
    enable_metadata_csum,
    without_features,
)
from support.builders import filesystem, fstab_entry, mount, superblock
from support.remedies.steps_as_text import printed_steps, step_and_undo_lines

IDLE = filesystem(alive=False, mounts=())
HELD = "test ! -e /sys/fs/ext4/sda && "
CHECK = f"{HELD}{{ e2fsck -f -p /dev/sda || test $? -eq 1; }}"
REBUILT = "{ e2fsck -f -p -D /dev/sda || test $? -eq 1; }"
LISTED = "tune2fs -l /dev/sda | grep '^Filesystem features:'"


def steps(do: Sequence[str], verify: Sequence[str], undo: Sequence[str] = ()) -> tuple[Step, ...]:
    """Make what is printed for a filesystem that is not mounted; CHECK is guarded already."""
    return (
        *(Step(Phase.IMMEDIATE, each if each == CHECK else HELD + each) for each in do),
        *(Step(Phase.VERIFY, each) for each in verify),
        *(Step(Phase.ROLLBACK, each if each.startswith(CHECK) else HELD + each) for each in undo),
    )


def test_a_plan_leaves_features_out_at_mkfs() -> None:
    """Nothing exists that could be changed."""
    remedy = without_features(IDLE, ("orphan_file", "large_dir"), planned=True)
    assert remedy.summary == "Create it with -O ^orphan_file,^large_dir."
    assert remedy.steps == ()


def test_features_that_tune2fs_clears_are_cleared_and_set_again() -> None:
    """Each is verified by itself, and a failing tune2fs -l is no success."""
    remedy = without_features(IDLE, ("orphan_file", "fast_commit"), planned=False)
    assert (remedy.summary, remedy.disruption, remedy.destructive) == (
        "Remove orphan_file, fast_commit.",
        Disruption.UNMOUNT,
        False,
    )
    assert printed_steps(remedy.steps) == steps(
        (CHECK, "tune2fs -O ^orphan_file,^fast_commit /dev/sda"),
        (
            f"{LISTED} | grep -qvw orphan_file",
            f"{LISTED} | grep -qvw fast_commit",
        ),
        (f"{CHECK} && tune2fs -O orphan_file,fast_commit /dev/sda",),
    )


def test_a_feature_that_stays_needs_a_new_filesystem() -> None:
    """One that tune2fs cannot clear is enough."""
    remedy = without_features(IDLE, ("orphan_file", "bigalloc"), planned=False)
    assert (remedy.disruption, remedy.destructive, remedy.steps) == (Disruption.RECREATE, True, ())


def test_the_summary_names_the_place_where_no_commands_are() -> None:
    """Of the root, from a rescue system."""
    fs = filesystem(mounts=(mount("/"),))
    remedy = without_features(fs, ("orphan_file",), planned=False)
    assert remedy.summary.startswith("Remove orphan_file, from a rescue system")
    assert remedy.steps == ()


def test_fast_commit_is_cleared_without_a_check() -> None:
    """tune2fs only drops the area of fast commits."""
    assert printed_steps(clear_fast_commit(IDLE)) == steps(
        ("tune2fs -O ^fast_commit /dev/sda",),
        (f"{LISTED} | grep -qvw fast_commit",),
        ("tune2fs -O fast_commit /dev/sda",),
    )


@pytest.mark.parametrize(("before", "also"), [("", ",^uninit_bg"), ("uninit_bg", "")])
def test_checksums_are_turned_off_again_without_a_trace(before: str, also: str) -> None:
    """The rollback clears uninit_bg, which tune2fs sets, unless it was there before."""
    held = superblock(features=frozenset({"extent", *before.split()}))
    assert printed_steps(enable_metadata_csum(IDLE, held)) == steps(
        (CHECK, f"tune2fs -O metadata_csum /dev/sda && {REBUILT}"),
        (f"{LISTED} | grep -qw metadata_csum",),
        (f"{CHECK} && tune2fs -O ^metadata_csum{also} /dev/sda",),
    )


def test_large_dir_has_no_rollback() -> None:
    """tune2fs cannot clear it; the check follows the change."""
    verify = f"{LISTED} | grep -qw large_dir"
    assert printed_steps(enable_large_dir(IDLE)) == steps(
        ("tune2fs -O large_dir /dev/sda", CHECK), (verify,)
    )


def test_64bit_is_converted_both_ways() -> None:
    """resize2fs requires a check before each."""
    assert printed_steps(convert_to_64bit(IDLE)) == steps(
        (CHECK, "resize2fs -b /dev/sda"),
        (f"{LISTED} | grep -qw 64bit",),
        (f"{CHECK} && resize2fs -s /dev/sda",),
    )


def ext3(*lines: FstabLine) -> tuple[Filesystem, tuple[FstabLine, ...]]:
    """Return a filesystem that is mounted as ext3, and its lines of fstab."""
    return filesystem(mounts=(mount(fstype="ext3"),)), lines


def test_ext3_becomes_ext4_in_fstab_first() -> None:
    """Where the boot comes between, the driver of ext4 mounts it all the same; no rollback."""
    fs, lines = ext3(fstab_entry(fstype="ext3").line)
    found = convert_to_ext4(fs, lines, ("extent", "dir_index"))
    assert step_and_undo_lines(found)[:4] == [
        "persistent: fstab 7: ext3 -> ext4",
        "immediate: umount /data",
        (f"immediate: {HELD}tune2fs -O extent,dir_index /dev/sda && {CHECK.removeprefix(HELD)}"),
        "immediate: mount -t ext4 -o rw,relatime /dev/sda /data",
    ]
    assert [step.command for step in printed_steps(found)[4:]] == [
        f"{LISTED} | grep -qw extent",
        "findmnt -nfd backward -o FSTYPE -M /data | grep -qx ext4",
        found[0].done,
    ]


def test_there_is_no_conversion_where_fstab_cannot_be_edited() -> None:
    """Else the mount at the end would be of ext3, and fail."""
    line = fstab_entry(fstype="ext3").line._replace(text="UUID=\0 /data ext3 rw", fstype="ext3")
    fs, lines = ext3(line)
    assert convert_to_ext4(fs, lines, ("extent",)) == ()


def test_there_is_no_edit_of_fstab_where_it_cannot_be_unmounted() -> None:
    """An edit alone would make the next boot fail."""
    fs = filesystem(mounts=(mount("/", fstype="ext3"),))
    assert convert_to_ext4(fs, (fstab_entry(fstype="ext3").line,), ("extent",)) == ()
