from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.assemble.superblock import (
    read_raw_superblock,
    read_superblock,
    read_unzeroed_groups,
    read_uuid,
)
from ext4audit.evidence import Evidence, Known, Unknown, Why, need
from ext4audit.facts.mount import DeviceNumber
from ext4audit.facts.superblock import Superblock
from ext4audit.sources import (
    CapturedDumpe2fs,
    EffectiveUser,
    FilesystemUuid,
    ReadBytes,
    ResolvePath,
    TuneSuperblock,
)
from ext4audit.sources.captured import MapSource
from ext4audit.sources.live import LiveSource
from ext4audit.sources.snapshot.writing import RecordingSource
from support.builders import mount, superblock
from support.hosts.evidence_host import (
    DATA_UUID,
    HostEvidence,
    absent,
    debian_host,
    denied,
    descriptors,
    dumpe2fs_text,
    failed,
)
from support.images.mke2fs import needs_e2fsprogs, sparse_image
from support.images.partitioned import superblock_at, superblock_bytes

SDB = DeviceNumber(8, 16)
DATA = mount("/data", number=SDB, mount_id=30)
AGAIN = mount("/again", number=SDB, mount_id=31)


def tuned(blocks: int = 6553600) -> bytes:
    """Return the ioctl's answer, with nobarrier as a superblock default and a size."""
    answer = bytearray(232)
    struct.pack_into("<H", answer, 8, 1)
    struct.pack_into("<Q", answer, 32, blocks)
    struct.pack_into("<I", answer, 40, 0x100)
    return bytes(answer)


def superblock_of(host: HostEvidence) -> Evidence[Superblock]:
    """Read the superblock of /dev/sdb, mounted on /data and again on /again."""
    return read_superblock(host.source(), "/dev/sdb", SDB, (DATA, AGAIN))


def test_dumpe2fs_is_the_best_reader() -> None:
    """dumpe2fs prints all fields, so the ioctl is not used."""
    host = debian_host().answer(TuneSuperblock("/data"), tuned())
    found = superblock_of(host)
    assert isinstance(found, Known)
    assert (found.origin, found.value.uuid, found.value.default_mount_options) == (
        "dumpe2fs -h /dev/sdb",
        DATA_UUID,
        ("user_xattr", "acl"),
    )


@pytest.mark.parametrize("gap", [denied(), absent()])
def test_without_root_the_ioctl_is_used_at_the_mount_point(gap: Unknown) -> None:
    """EXT4_IOC_GET_TUNE_SB_PARAM needs neither root nor the device (Linux 6.18)."""
    host = debian_host().dumpe2fs("/dev/sdb", gap).answer(TuneSuperblock("/data"), tuned())
    found = superblock_of(host)
    assert isinstance(found, Known)
    assert found.origin == "EXT4_IOC_GET_TUNE_SB_PARAM on /data"
    assert found.value.default_mount_options == ("nobarrier",)


@pytest.mark.parametrize("gap", [denied(), absent(), failed()])
def test_without_dumpe2fs_the_bytes_are_parsed(gap: Unknown) -> None:
    """Without e2fsprogs, or if dumpe2fs fails, the superblock is read as 1024 raw bytes."""
    host = debian_host().dumpe2fs("/dev/sdb", gap).answer(TuneSuperblock("/data"), tuned())
    host.answer(superblock_at("/dev/sdb"), superblock_bytes(8))
    found = superblock_of(host)
    assert isinstance(found, Known)
    assert (found.origin, found.value.size_blocks) == ("1024 bytes at 1024 of /dev/sdb", 262144)


def test_an_archive_may_hold_the_full_text_only() -> None:
    """With sos's option for it, dumpe2fs runs without -h, and its output includes the header."""
    host = debian_host().dumpe2fs("/dev/sdb", absent())
    host.answer(CapturedDumpe2fs("/dev/sdb"), dumpe2fs_text(label="archived"))
    found = superblock_of(host)
    assert isinstance(found, Known)
    assert (found.origin, found.value.label) == ("dumpe2fs /dev/sdb", "archived")


def test_where_dumpe2fs_is_missing_root_may_still_help() -> None:
    """The refusal is reported, since a user can remedy it first."""
    host = debian_host().dumpe2fs("/dev/sdb", absent())
    host.answer(superblock_at("/dev/sdb"), denied("1024 bytes at 1024 of /dev/sdb"))
    assert superblock_of(host) == denied("1024 bytes at 1024 of /dev/sdb")


@pytest.mark.parametrize("offset", [0, 1 << 20])
def test_an_image_is_read_at_its_offset(offset: int) -> None:
    """dumpe2fs takes no offset, and an image file has no device number to compare."""
    host = HostEvidence().answer(superblock_at("/img", offset=offset), superblock_bytes(8))
    found = read_raw_superblock(host.source(), "/img", offset_bytes=offset)
    assert isinstance(found, Known)
    assert found.value.blocks_per_group == 32768


def test_a_mount_point_that_is_overmounted_is_not_asked() -> None:
    """An ioctl there reaches the topmost filesystem, so the next mount point is used."""
    host = debian_host().dumpe2fs("/dev/sdb", denied())
    host.path("/data", "8:32", 40).path("/again", "8:16", 31)
    host.answer(TuneSuperblock("/data"), tuned(1)).answer(TuneSuperblock("/again"), tuned())
    assert need(superblock_of(host)).size_blocks == 6553600


@pytest.mark.parametrize(
    "answer", [b"", b"x" * 231, bytes(232), Unknown("ioctl", Why.UNSUPPORTED, "ENOTTY")]
)
def test_when_neither_answers_the_reason_of_dumpe2fs_stands(answer: bytes | Unknown) -> None:
    """A user can remedy this one."""
    host = debian_host().dumpe2fs("/dev/sdb", denied("superblock of /dev/sdb"))
    host.answer(TuneSuperblock("/data"), answer)
    assert superblock_of(host) == denied("superblock of /dev/sdb")


@pytest.mark.parametrize("text", ["", "garbage", dumpe2fs_text().replace("Block size", "Block")])
def test_an_odd_output_is_unknown(text: str) -> None:
    """Text that does not look like dumpe2fs output is not a superblock."""
    found = superblock_of(debian_host().dumpe2fs("/dev/sdb", text))
    assert isinstance(found, Unknown)
    assert (found.what, found.why) == ("superblock of /dev/sdb", Why.UNPARSABLE)


def test_another_device_of_the_same_name_is_not_read() -> None:
    """In a container, /dev/sdb may be the node of another disk."""
    assert superblock_of(debian_host().node("/dev/sdb", "8:32")) == Unknown(
        "superblock of /dev/sdb",
        Why.ABSENT,
        "/dev/sdb is not the block device 8:16",
        "run on the host, outside containers",
    )


def test_a_missing_node_is_unknown() -> None:
    """Containers often have no device nodes."""
    found = superblock_of(debian_host().answer(ResolvePath("/dev/sdb"), absent("path /dev/sdb")))
    assert found == absent("path /dev/sdb")


def test_the_kernel_states_the_uuid_of_a_mounted_filesystem() -> None:
    """FS_IOC_GETFSUUID (Linux 6.9) works without root."""
    raw = bytes.fromhex(DATA_UUID.replace("-", ""))
    host = debian_host().answer(FilesystemUuid("/data"), raw)
    assert read_uuid(host.source(), SDB, (DATA,)) == DATA_UUID
    assert read_uuid(host.source(), SDB, ()) is None
    assert read_uuid(debian_host().source(), SDB, (DATA,)) is None


DEVICE = "/dev/sdb"
TABLE_AT = 4096


def of_groups(groups: int, **changes: object) -> Known[Superblock]:
    """Return a superblock with this many groups and 32-byte descriptors."""
    given = {
        "features": frozenset({"metadata_csum"}),
        "size_blocks": groups * 32768,
        "block_bytes": 4096,
        "first_block": 0,
        "blocks_per_group": 32768,
        "descriptor_bytes": 32,
        **changes,
    }
    return Known(superblock(**given), DATA_UUID)


def recorded(groups: int, unzeroed: int) -> RecordingSource:
    """Return a source that serves any part of the table and records the asks."""
    table = descriptors(groups, unzeroed=unzeroed)
    whole = ReadBytes(DEVICE, TABLE_AT, len(table))
    return RecordingSource(MapSource({whole: Known(table, "")}))


@given(st.integers(1, 20_000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_the_count_is_right_and_costs_few_reads(numbers: tuple[int, int]) -> None:
    """This holds at any stage of initialization; 20,000 groups are 2.4 TiB."""
    groups, unzeroed = numbers
    source = recorded(groups, unzeroed)
    assert need(read_unzeroed_groups(source, DEVICE, of_groups(groups))) == unzeroed
    assert len(source.answers) <= 10


@pytest.mark.parametrize("unzeroed", [0, 1, 200_000, 524_288])
def test_the_largest_filesystem_costs_no_more_than_twenty(unzeroed: int) -> None:
    """64 TiB have 524,288 groups in 4096 blocks of descriptors."""
    source = recorded(524_288, unzeroed)
    assert need(read_unzeroed_groups(source, DEVICE, of_groups(524_288))) == unzeroed
    assert len(source.answers) <= (14 if unzeroed else 1)


@pytest.mark.parametrize(("groups", "reads"), [(2048, [2048 * 32]), (2049, [32, *[4096] * 4])])
def test_64_kib_of_descriptors_are_read_at_once(groups: int, reads: list[int]) -> None:
    """One ask costs less than five; a longer table is bisected by blocks."""
    source = recorded(groups, 1000)
    assert need(read_unzeroed_groups(source, DEVICE, of_groups(groups))) == 1000
    assert [ask.length_bytes for ask in source.answers if isinstance(ask, ReadBytes)] == reads


def test_without_checksums_there_is_nothing_to_be_owed() -> None:
    """Nothing is read either."""
    source = recorded(8, 8)
    assert need(read_unzeroed_groups(source, DEVICE, of_groups(8, features=frozenset()))) == 0
    assert not source.answers


@pytest.mark.parametrize(
    ("user", "hint"), [("1000", "run as root"), ("0", "run on the host, outside containers")]
)
def test_where_the_device_is_refused_nothing_is_read(user: str, hint: str) -> None:
    """The ioctl does not return the places of descriptors; root gets another hint than a user."""
    source = RecordingSource(MapSource({EffectiveUser(): Known(user, "id -u")}))
    found = read_unzeroed_groups(source, DEVICE, of_groups(8, blocks_per_group=None))
    assert isinstance(found, Unknown)
    assert (found.why, found.hint) == (Why.DENIED, hint)
    assert not any(isinstance(ask, ReadBytes) for ask in source.answers)


def test_a_gap_among_the_descriptors_is_unknown() -> None:
    """Groups that could not be read do not count as zeroed."""
    host = debian_host().answer(ReadBytes(DEVICE, TABLE_AT, 8 * 32), denied())
    found = read_unzeroed_groups(host.source(), DEVICE, of_groups(8))
    assert isinstance(found, Unknown)
    assert found.why is Why.DENIED


@needs_e2fsprogs
@pytest.mark.parametrize(
    "features", ["meta_bg,^resize_inode", "^64bit", "^metadata_csum,uninit_bg"]
)
@pytest.mark.parametrize("lazy", [0, 1])
def test_dumpe2fs_sees_as_many(features: str, lazy: int) -> None:
    """The counts agree on a real filesystem that was never mounted."""
    with sparse_image(3 << 30) as image:
        make(image, features, lazy)
        groups = dumped(image)
        expected = groups.count(": (Blocks ") - groups.count("ITABLE_ZEROED")
        found = read_raw_superblock(LiveSource(), str(image))
        assert need(read_unzeroed_groups(LiveSource(), str(image), found)) == expected
        assert (expected > 0) == bool(lazy)


def make(image: Path, features: str, lazy: int) -> None:
    """Make a filesystem; if discard works, mke2fs knows that the blocks are zeroed."""
    extended = f"nodiscard,lazy_itable_init={lazy}"
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", features, "-E", extended, str(image)]
    subprocess.run(command, check=True)


def dumped(image: Path) -> str:
    """Return the count that dumpe2fs of all groups shows."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    done = subprocess.run(
        ["dumpe2fs", image], check=True, capture_output=True, text=True, env=environment
    )
    return done.stdout
