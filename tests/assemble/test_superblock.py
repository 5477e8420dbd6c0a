from __future__ import annotations

import struct

import pytest

from builders import mount
from evidence_host import (
    DATA_UUID,
    HostEvidence,
    absent,
    debian_host,
    denied,
    dumpe2fs_text,
    failed,
)
from ext4audit.assemble.superblock import read_image_superblock, read_superblock, read_uuid
from ext4audit.evidence import Evidence, Known, Unknown, Why, need
from ext4audit.facts.mount import DeviceNumber
from ext4audit.facts.superblock import Superblock
from ext4audit.sources.ask import CapturedDumpe2fs, FilesystemUuid, ResolvePath, TuneSuperblock
from raw_filesystem import superblock_at, superblock_bytes

SDB = DeviceNumber(8, 16)
DATA = mount("/data", number=SDB, mount_id=30)
AGAIN = mount("/again", number=SDB, mount_id=31)


def tuned(blocks: int = 6553600) -> bytes:
    """Return the ioctl's answer: nobarrier as a superblock default, and a size."""
    answer = bytearray(232)
    struct.pack_into("<H", answer, 8, 1)
    struct.pack_into("<Q", answer, 32, blocks)
    struct.pack_into("<I", answer, 40, 0x100)
    return bytes(answer)


def superblock_of(host: HostEvidence) -> Evidence[Superblock]:
    """Read the superblock of /dev/sdb, mounted on /data and again on /again."""
    return read_superblock(host.source(), "/dev/sdb", SDB, (DATA, AGAIN))


def test_dumpe2fs_is_the_best_reader() -> None:
    """It shows all fields; the ioctl is not asked for its opinion."""
    host = debian_host().tell(TuneSuperblock("/data"), tuned())
    found = superblock_of(host)
    assert isinstance(found, Known)
    assert (found.origin, found.value.uuid, found.value.default_mount_options) == (
        "dumpe2fs -h /dev/sdb",
        DATA_UUID,
        ("user_xattr", "acl"),
    )


@pytest.mark.parametrize("hole", [denied(), absent()])
def test_without_root_the_kernel_answers_at_the_mount_point(hole: Unknown) -> None:
    """EXT4_IOC_GET_TUNE_SB_PARAM needs neither root nor the device (Linux 6.18)."""
    host = debian_host().dumpe2fs("/dev/sdb", hole).tell(TuneSuperblock("/data"), tuned())
    found = superblock_of(host)
    assert isinstance(found, Known)
    assert found.origin == "EXT4_IOC_GET_TUNE_SB_PARAM on /data"
    assert found.value.default_mount_options == ("nobarrier",)


@pytest.mark.parametrize("hole", [denied(), absent(), failed()])
def test_without_dumpe2fs_the_bytes_say_it(hole: Unknown) -> None:
    """A container without e2fsprogs, or a dumpe2fs that fails: the superblock is 1024 bytes."""
    host = debian_host().dumpe2fs("/dev/sdb", hole).tell(TuneSuperblock("/data"), tuned())
    host.tell(superblock_at("/dev/sdb"), superblock_bytes(8))
    found = superblock_of(host)
    assert isinstance(found, Known)
    assert (found.origin, found.value.size_blocks) == ("1024 bytes at 1024 of /dev/sdb", 262144)


def test_an_archive_may_hold_the_full_text_only() -> None:
    """With sos's option for it dumpe2fs is run without -h, and the header is in that text."""
    host = debian_host().dumpe2fs("/dev/sdb", absent())
    host.tell(CapturedDumpe2fs("/dev/sdb"), dumpe2fs_text(label="archived"))
    found = superblock_of(host)
    assert isinstance(found, Known)
    assert (found.origin, found.value.label) == ("dumpe2fs /dev/sdb", "archived")


def test_where_dumpe2fs_is_missing_root_may_still_help() -> None:
    """The refusal is what a user can cure first."""
    host = debian_host().dumpe2fs("/dev/sdb", absent())
    host.tell(superblock_at("/dev/sdb"), denied("1024 bytes at 1024 of /dev/sdb"))
    assert superblock_of(host) == denied("1024 bytes at 1024 of /dev/sdb")


@pytest.mark.parametrize("offset", [0, 1 << 20])
def test_an_image_is_read_at_its_offset(offset: int) -> None:
    """dumpe2fs takes no offset, and an image file has no device number to compare."""
    host = HostEvidence().tell(superblock_at("/img", offset=offset), superblock_bytes(8))
    found = read_image_superblock(host.source(), "/img", offset)
    assert isinstance(found, Known)
    assert found.value.blocks_per_group == 32768


def test_a_mount_point_that_is_covered_is_not_asked() -> None:
    """An ioctl there would answer for the filesystem on top; the next mount point is asked."""
    host = debian_host().dumpe2fs("/dev/sdb", denied())
    host.path("/data", "8:32", 40).path("/again", "8:16", 31)
    host.tell(TuneSuperblock("/data"), tuned(1)).tell(TuneSuperblock("/again"), tuned())
    assert need(superblock_of(host)).size_blocks == 6553600


@pytest.mark.parametrize(
    "answer", [b"", b"x" * 231, bytes(232), Unknown("ioctl", Why.UNSUPPORTED, "ENOTTY")]
)
def test_when_neither_answers_the_reason_of_dumpe2fs_stands(answer: bytes | Unknown) -> None:
    """It is the one that a user can cure."""
    host = debian_host().dumpe2fs("/dev/sdb", denied("superblock of /dev/sdb"))
    host.tell(TuneSuperblock("/data"), answer)
    assert superblock_of(host) == denied("superblock of /dev/sdb")


@pytest.mark.parametrize("text", ["", "garbage", dumpe2fs_text().replace("Block size", "Block")])
def test_an_odd_output_is_a_hole(text: str) -> None:
    """What is not the superblock as dumpe2fs prints it is none."""
    found = superblock_of(debian_host().dumpe2fs("/dev/sdb", text))
    assert isinstance(found, Unknown)
    assert (found.what, found.why) == ("superblock of /dev/sdb", Why.UNPARSABLE)


def test_another_device_of_the_same_name_is_not_read() -> None:
    """A container's /dev/sdb may be the node of another disk."""
    assert superblock_of(debian_host().node("/dev/sdb", "8:32")) == Unknown(
        "superblock of /dev/sdb",
        Why.ABSENT,
        "/dev/sdb is not the block device 8:16",
        "run on the host",
    )


def test_a_missing_node_is_a_hole() -> None:
    """Containers have no device nodes."""
    found = superblock_of(debian_host().tell(ResolvePath("/dev/sdb"), absent("path /dev/sdb")))
    assert found == absent("path /dev/sdb")


def test_the_kernel_states_the_uuid_of_a_mounted_filesystem() -> None:
    """FS_IOC_GETFSUUID (Linux 6.9) answers without root."""
    raw = bytes.fromhex(DATA_UUID.replace("-", ""))
    host = debian_host().tell(FilesystemUuid("/data"), raw)
    assert read_uuid(host.source(), SDB, (DATA,)) == DATA_UUID
    assert read_uuid(host.source(), SDB, ()) is None
    assert read_uuid(debian_host().source(), SDB, (DATA,)) is None
