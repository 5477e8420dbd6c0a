from __future__ import annotations

import pytest

from ext4audit.sources.mangling import mangle, numbered


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("dumpe2fs -h /dev/vda1", "dumpe2fs_-h_.dev.vda1"),
        ("/usr/sbin/dumpe2fs -h /dev/vda1", "dumpe2fs_-h_.dev.vda1"),
        ("/sbin/dumpe2fs -h /dev/vda1", "dumpe2fs_-h_.dev.vda1"),
        ("dumpe2fs  /dev/vda1", "dumpe2fs_.dev.vda1"),
        ("mdadm -D /dev/md*", "mdadm_-D_.dev.md"),
        ("blkid -c /dev/null", "blkid_-c_.dev.null"),
        ("lsblk -O -P", "lsblk_-O_-P"),
        ("ls -lanR /sys/block", "ls_-lanR_.sys.block"),
        ("dumpe2fs -h /dev/mapper/vg-a+b", "dumpe2fs_-h_.dev.mapper.vg-a_b"),
        ("dumpe2fs -h /dev/mapper/vg-a b", "dumpe2fs_-h_.dev.mapper.vg-a_b"),
        ("dumpe2fs -h /dev/vg/lv", "dumpe2fs_-h_.dev.vg.lv"),
        ("dumpe2fs -h /dev/vg.lv", "dumpe2fs_-h_.dev.vg.lv"),
        ("dumpe2fs -h /dev/mapper/\udcff\n$(id)", "dumpe2fs_-h_.dev.mapper._id"),
        ("x" * 300, "x" * 255),
        ("", ""),
    ],
)
def test_a_command_line_has_one_file_name(line: str, name: str) -> None:
    """Folders of programs go, a slash is a dot, a run of other characters is one underscore."""
    assert mangle(line) == name


@pytest.mark.parametrize(
    ("name", "count", "expected"),
    [("a", 0, "a"), ("a", 1, "a.1"), ("a", 12, "a.12"), ("x" * 255, 2, "x" * 253 + ".2")],
)
def test_a_second_file_of_one_name_has_a_number(name: str, count: int, expected: str) -> None:
    """The number fits into 255 bytes, where it takes the place of the name's end."""
    assert numbered(name, count) == expected
