"""The settings made by the options of an fstab line."""

from __future__ import annotations

import pytest

from ext4audit.facts.mount import DeviceNumber, intended_flags, mount_of
from support.builders import mount


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ("defaults", "relatime"),
        ("relatime", "relatime"),
        ("norelatime", "relatime"),
        ("atime", "relatime"),
        ("noatime", "noatime"),
        ("noatime,relatime", "noatime"),
        ("noatime,norelatime", "noatime"),
        ("noatime,nostrictatime", "noatime"),
        ("noatime,atime", "relatime"),
        ("atime,noatime", "noatime"),
        ("strictatime", "strictatime"),
        ("strictatime,noatime", "strictatime"),
        ("noatime,strictatime", "strictatime"),
        ("strictatime,relatime", "strictatime"),
        ("strictatime,atime", "strictatime"),
        ("strictatime,nostrictatime", "relatime"),
        ("noatime,strictatime,nostrictatime", "noatime"),
    ],
)
def test_options_for_access_times_are_bits(options: str, flag: str) -> None:
    """tests/kernel/options/test_access_times.py mounts them in every order."""
    assert intended_flags(options.split(",")) == {flag}


OTHER = DeviceNumber(8, 16)
TABLE = (
    mount("/", mount_id=21),
    mount("/m", mount_id=40),
    mount("/m", mount_id=23, number=OTHER),  # on top: a new mount gets the lowest free number
    mount("//odd", mount_id=50),
)


@pytest.mark.parametrize(
    ("path", "mount_id"),
    [
        ("/", 21),
        ("/usr", 21),
        ("/mm", 21),
        ("/m", 23),
        ("/m/", 23),
        ("/m/a/b", 23),
        ("//odd/a", 50),
        ("//other", 21),
        ("m", None),
        ("", None),
    ],
)
def test_the_last_mount_on_the_longest_mount_point_holds_a_path(
    path: str, mount_id: int | None
) -> None:
    """The table lists mounts in the order in which they were made; their numbers are reused."""
    found = mount_of(TABLE, path)
    assert (found.mount_id if found else None) == mount_id


def test_no_mount_is_made_up_where_the_table_has_no_root() -> None:
    """A truncated table is an example."""
    assert mount_of(TABLE[1:3], "/usr") is None


def test_the_mount_of_a_path_beyond_path_max_is_that_of_its_beginning() -> None:
    """No kernel resolves it; each of the directories above 20 MiB would be looked up."""
    assert mount_of(TABLE, "/a" * 10_000_000) == mount_of(TABLE, "/a")
