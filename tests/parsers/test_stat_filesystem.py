from __future__ import annotations

import pytest

from ext4audit.facts.mount import DeviceNumber
from ext4audit.facts.usage import Usage
from ext4audit.parsers.stat_filesystem import parse_stat_filesystem


def test_the_numbers_are_those_of_statvfs_in_order() -> None:
    """Device number, f_frsize, f_blocks, f_bfree, f_bavail, f_files, f_ffree."""
    number, usage = parse_stat_filesystem("8:1 4096 600 500 400 300 200")
    assert number == DeviceNumber(8, 1)
    assert usage == Usage(4096, 600, 500, 400, 300, 200)


@pytest.mark.parametrize(
    "text",
    ["", "8:1", "8:1 4096 1 1 1 1", "8:1 0 1 1 1 1 1", "8:1 4096 1 1 1 1 -1", "x 1 1 1 1 1 1"],
)
def test_another_text_is_an_error(text: str) -> None:
    """Too few numbers, blocks of no size, less than nothing, and no device."""
    with pytest.raises(ValueError, match="is not"):
        parse_stat_filesystem(text)
