"""Which filesystems of a captured host a word names."""

from __future__ import annotations

import pytest

from builders import UNREAD, UUID, filesystem, host, known, mount
from ext4audit.assemble.selection import named_filesystems, only_filesystems
from ext4audit.facts.mount import DeviceNumber

ROOT, DATA = DeviceNumber(8, 1), DeviceNumber(9, 127)
ROOT_MOUNT = mount("/", number=ROOT)
DATA_MOUNT = mount("/data", number=DATA)
TMPFS = mount("/data/run", number=DeviceNumber(0, 30), fstype="tmpfs")
HOST = host(
    filesystem(device_number=ROOT, name="sda1", device="/dev/sda1", uuid=None, label="root"),
    filesystem(device_number=DATA, name="dm-3", device="/dev/mapper/vg-data", uuid=UUID),
    mounts=known((ROOT_MOUNT, DATA_MOUNT, TMPFS)),
    gaps=(UNREAD,),
)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("/dev/sda1", ["sda1"]),
        ("sda1", ["sda1"]),
        ("8:1", ["sda1"]),
        ("LABEL=root", ["sda1"]),
        ("/dev/mapper/vg-data", ["dm-3"]),
        ("/dev/dm-3", ["dm-3"]),
        (UUID, ["dm-3"]),
        (f"UUID={UUID}", ["dm-3"]),
        ("/", ["sda1"]),
        ("/data", ["dm-3"]),
        ("/data/", ["dm-3"]),
        ("/data/mysql/ibdata1", ["dm-3"]),
        ("/database", ["sda1"]),
        ("/data/run/x", []),
        ("root", []),
        ("", []),
    ],
)
def test_a_word_names_a_filesystem(word: str, expected: list[str]) -> None:
    """Device, number, UUID, label, or a path on it; a path on another filesystem names none."""
    assert [fs.name for fs in named_filesystems(HOST, word)] == expected


def test_the_last_mount_on_a_directory_is_what_its_path_leads_to() -> None:
    """Of two filesystems on one mount point the later hides the earlier."""
    two = host(
        filesystem(device_number=ROOT, name="below"),
        filesystem(device_number=DATA, name="above"),
        mounts=known(
            (
                mount("/m", number=ROOT),
                mount("/m", number=DATA),
            )
        ),
    )
    assert [fs.name for fs in named_filesystems(two, "/m/file")] == ["above"]


def test_without_a_mount_table_a_path_names_nothing() -> None:
    """What is not known is not guessed."""
    blind = host(filesystem(device_number=ROOT), mounts=UNREAD)
    assert named_filesystems(blind, "/data") == ()


def test_what_is_left_has_no_gaps_of_the_host() -> None:
    """As of a live scan of TARGETs: the host as a whole was not asked for."""
    left = only_filesystems(HOST, ["/data", "sda1", UUID])
    assert [fs.name for fs in left.filesystems] == ["sda1", "dm-3"]
    assert left.gaps == ()
