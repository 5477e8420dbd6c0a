"""Which paths are images, by recorded evidence; tests/kernel checks it on real mounts."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from ext4audit.assemble.devices.target import (
    BadImage,
    Image,
    ImageFilesystem,
    Partition,
    PlainFile,
    Superblocks,
)
from ext4audit.assemble.image import read_image_journal, read_journal_inode
from ext4audit.assemble.image.host import host_of_images, image_of_target, with_images
from ext4audit.assemble.inventory import take_inventory
from ext4audit.engine import judge
from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.host import Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.facts.superblock import JOURNAL_SUPERBLOCK_BYTES, GroupTable
from ext4audit.report import Outcome
from ext4audit.rule import Scope
from ext4audit.rules import all_rules
from ext4audit.sources import ReadBytes, RealPath
from support.builders import filesystem, host, known, superblock, unknown
from support.hosts.evidence_host import HostEvidence, debian_host
from support.images.partitioned import superblock_bytes

PATH = "/data/vm.img"
LOOP, ON_LOOP = DeviceNumber(7, 0), DeviceNumber(254, 0)


def holder(kind: str = "file") -> HostEvidence:
    """Return a host with an image of one plausible filesystem on /data."""
    data = bytearray(superblock_bytes(2))
    data[0:4] = (2 * 8192).to_bytes(4, "little")
    host = debian_host().path(PATH, "8:16", 30, kind)
    for ask, answer in (
        (ReadBytes(PATH, 0, 512), bytes(512)),
        (ReadBytes(PATH, 1024, 1024), bytes(data)),
        (ReadBytes(PATH, 2 * 32768 * 4096 - 1, 1), b"\0"),
        (RealPath(PATH), PATH),
    ):
        host.answer(ask, answer)
    return host


def look(host: HostEvidence) -> Superblocks | Image | BadImage | PlainFile:
    """Return what the path is: an image, the superblocks mounted from it, or neither."""
    source = host.source()
    return image_of_target(source, take_inventory(source), PATH)


def test_a_regular_file_with_a_filesystem_is_an_image() -> None:
    """It is an image because no mounted filesystem is on it."""
    found = look(holder())
    assert isinstance(found, Image)
    assert [fs.device for fs in found.filesystems] == [PATH]


@pytest.mark.parametrize("kind", ["directory", "other"])
def test_only_regular_files_are_read(kind: str) -> None:
    """A FIFO, for example, is not read."""
    assert look(holder(kind)) == PlainFile()


def test_mounted_loop_device_replaces_its_image() -> None:
    """The live superblock is audited, not the image."""
    host = holder().loop("loop0", "7:0", PATH).mount(50, "7:0", "/vm", "/dev/loop0")
    note = "the image behind /dev/loop0; name its directory for the one that contains it"
    assert look(host) == Superblocks((LOOP,), note)


def test_mounted_device_on_the_loop_device_replaces_the_image() -> None:
    """A volume on a loop device over the file is mounted: the file is in use."""
    host = (
        holder()
        .loop("loop0", "7:0", PATH)
        .stacked("dm-0", "254:0", loop0="7:0")
        .mount(50, "254:0", "/vm", "/dev/mapper/vm")
    )
    found = look(host)
    assert isinstance(found, Superblocks)
    assert found.device_numbers == (ON_LOOP,)


def test_loop_device_of_another_file_is_ignored() -> None:
    """Only filesystems on this image count."""
    host = holder().loop("loop0", "7:0", "/data/other.img").mount(50, "7:0", "/vm", "/dev/loop0")
    assert isinstance(look(host), Image)


UUID = "0c6f6e2a-0000-4000-8000-000000000001"


def image(path: str = "/srv/fs.img", uuid: str | None = UUID, **changes: object) -> ImageFilesystem:
    """Build a filesystem in an image."""
    values: dict[str, object] = {"start_bytes": 0, **changes}
    return ImageFilesystem(path, superblock=Known(superblock(uuid=uuid), path), **values)  # type: ignore[arg-type]


def of_images(*images: ImageFilesystem) -> Host:
    """Build the host of images."""
    return host_of_images(images, "2026-01-02T03:04:05Z", "fs.img")


def test_an_image_is_a_filesystem_that_is_not_mounted() -> None:
    """It has the superblock's names, but no facts of a mount."""
    (fs,) = of_images(image()).filesystems
    assert (fs.alive, fs.mounts, fs.device, fs.name) == (False, (), "/srv/fs.img", "fs.img")
    assert (fs.id, fs.uuid, fs.layout) == (UUID, UUID, None)
    assert isinstance(fs.options, Unknown)
    assert fs.options.why is Why.ABSENT


EXTENTS = struct.pack("<HHHHIIHHI", 0xF30A, 8, 340, 0, 0, 0, 32768, 0, 77)
JOURNAL = struct.pack(">II", 0xC03B3998, 4).ljust(JOURNAL_SUPERBLOCK_BYTES, b"\0")
JOURNALED = {"features": frozenset({"has_journal"}), "block_bytes": 4096}


@pytest.mark.parametrize(
    ("changes", "known_"),
    [
        ({"features": frozenset()}, True),
        ({**JOURNALED, "journal_device": 0x801, "journal_uuid": UUID}, True),
        ({**JOURNALED, "journal_inode": 8}, False),
        ({**JOURNALED, "journal_inode": 8, "journal_first_block": 100}, False),
        ({**JOURNALED, "journal_inode": 8, "journal_first_block": 77}, True),
        ({**JOURNALED, "journal_inode": 8, "journal_index_block": 50}, True),
        ({**JOURNALED, "journal_inode": 8, "journal_index_block": 51}, False),
    ],
    ids=["none", "external", "no place", "unreadable", "inside", "many extents", "unread extents"],
)
def test_a_journal_is_read_where_the_image_has_one(
    changes: dict[str, object], *, known_: bool
) -> None:
    """If the superblock does not give the journal's place, that is a gap as well."""
    fs = ImageFilesystem("/fs.img", 0, Known(superblock(**changes), "/fs.img"))
    evidence = HostEvidence().answer(ReadBytes("/fs.img", 50 * 4096, 4096), EXTENTS)
    evidence = evidence.answer(ReadBytes("/fs.img", 77 * 4096, len(JOURNAL)), JOURNAL)
    source = evidence.source()
    assert isinstance(read_image_journal(source, fs), Known) is known_
    copy = fs._replace(descriptors_at_bytes=8192)
    assert isinstance(read_image_journal(source, copy), Known)


def test_a_partition_lies_on_the_image() -> None:
    """Its start is counted in sectors, so that alignment can be checked."""
    part = image(start_bytes=1048576, partition=Partition(3, 1048576, 4096000))
    (fs,) = of_images(part).filesystems
    assert isinstance(fs.stack, Known)
    top, below = fs.stack.value.walk()
    assert (top.kind, top.name, top.start_sectors) == ("partition", "fs.img partition 3", 2048)
    assert top.size_sectors == Known(8000, "/srv/fs.img")
    assert (below.kind, below.name, below.path) == ("image", "fs.img", "/srv/fs.img")
    assert (top.device_number, below.device_number) == (DeviceNumber(0, 2), DeviceNumber(0, 1))
    assert fs.device == "/srv/fs.img?offset=1048576"


def test_a_copy_by_e2image_is_distinguished() -> None:
    """Its device is marked as a copy, so that no remedy writes to it."""
    (fs,) = of_images(image(descriptors_at_bytes=8192)).filesystems
    assert isinstance(fs.stack, Known)
    assert fs.stack.value.kind == "e2image"


def test_gaps_of_an_image_have_hints() -> None:
    """Kernel, memory and fstab are those of the host that will mount it."""
    found = of_images(image())
    for gap in (found.kernel, found.memory, found.fstab, found.mounts, found.kernel_arguments):
        assert isinstance(gap, Unknown)
        assert gap.why is Why.NOT_CAPTURED
        assert gap.hint == "scan the host that mounts it"
    assert found.gaps == ()


def test_a_healthy_image_passes_or_is_not_concerned() -> None:
    """Every filesystem rule gives a verdict for an image."""
    found = of_images(image())
    rules = [rule for rule in all_rules() if rule.scope is Scope.FILESYSTEM]
    verdicts = [judge(rule, found.filesystems[0], found) for rule in rules]
    outcomes = {v.rule.code: v.outcome for v in verdicts}
    assert set(outcomes.values()) <= {Outcome.PASS, Outcome.NOT_APPLICABLE}, outcomes
    assert outcomes["DUR002"] is Outcome.PASS


def test_copies_of_one_filesystem_have_ids_of_their_own() -> None:
    """A backup and its original share the UUID, possibly with a live filesystem."""
    found = of_images(image(), image("/srv/copy.img"), image("/srv/other.img", uuid=None))
    assert [fs.id for fs in found.filesystems] == [f"{UUID}@0:1", f"{UUID}@0:3", "0:5"]
    live = with_images(host(filesystem(uuid=UUID)), [image()])
    assert [fs.id for fs in live.filesystems] == [f"{UUID}@8:0", f"{UUID}@0:1"]


def test_beside_a_live_filesystem_the_host_is_known() -> None:
    """The host's facts come from the mount; the image is one more filesystem."""
    live = host(filesystem())
    both = with_images(live, [image(uuid=None)])
    assert (both.name, both.kernel, both.gaps) == (live.name, live.kernel, live.gaps)
    assert [fs.device for fs in both.filesystems] == ["/dev/sda", "/srv/fs.img"]


REGULAR_INODE = bytes.fromhex("a481") + bytes(24) + b"\1\0" + bytes(100)
TWO_GROUPS = GroupTable((1, 32769), (2, 32770), (3, 32771))
START = 1 << 20


@pytest.mark.parametrize(
    ("number", "offset"),
    [
        pytest.param(8, START + 3 * 4096 + 7 * 256, id="as mke2fs numbers it"),
        pytest.param(1, START + 3 * 4096, id="the first of a group"),
        pytest.param(8192, START + 3 * 4096 + 8191 * 256, id="the last of a group"),
        pytest.param(8193, START + 32771 * 4096, id="the first of the next"),
    ],
)
def test_the_inode_of_the_journal_is_read_from_its_table(number: int, offset: int) -> None:
    """Inodes are numbered from 1, and each group has a table of consecutive inodes."""
    block = superblock(size_blocks=2 * 32768, journal_inode=number)
    fs = ImageFilesystem(PATH, START, known(block))
    source = debian_host().answer(ReadBytes(PATH, offset, 128), REGULAR_INODE).source()
    assert isinstance(read_journal_inode(source, fs, known(TWO_GROUPS)), Known)


def test_an_inode_beyond_the_groups_is_none() -> None:
    """Two groups have 2 * 8192 inodes."""
    block = superblock(size_blocks=2 * 32768, journal_inode=2 * 8192 + 1)
    fs = ImageFilesystem(PATH, START, known(block))
    found = read_journal_inode(debian_host().source(), fs, known(TWO_GROUPS))
    assert isinstance(found, Unknown)
    assert found.detail == "there is no inode 16385"


@pytest.mark.parametrize(
    ("changes", "descriptors_at", "groups"),
    [
        pytest.param({"features": frozenset()}, None, known(TWO_GROUPS), id="no journal"),
        pytest.param({"journal_inode": None}, None, known(TWO_GROUPS), id="on another device"),
        pytest.param({"block_bytes": None}, None, known(TWO_GROUPS), id="sizes not known"),
        pytest.param({}, 4096, known(TWO_GROUPS), id="e2image holds none"),
        pytest.param({}, None, unknown("groups"), id="groups not known"),
    ],
)
def test_an_inode_that_is_not_in_the_image_is_no_gap(
    changes: dict[str, Any], descriptors_at: int | None, groups: Evidence[GroupTable]
) -> None:
    """Nothing is read for it; groups that cannot be read are a separate gap."""
    block = superblock(**{"size_blocks": 2 * 32768, "journal_inode": 8, **changes})
    fs = ImageFilesystem(PATH, START, known(block), descriptors_at_bytes=descriptors_at)
    found = read_journal_inode(debian_host().source(), fs, groups)
    assert isinstance(found, Known)
