"""The layout page of a device or an image: its members, and the array that a user describes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.inventory import take_inventory
from ext4audit.assemble.layout_page import page_of_device, page_of_image
from ext4audit.evidence import Known, Unknown, need
from ext4audit.sources import ReadBytes
from ext4audit.sources.live import LiveSource
from support.hosts.evidence_host import HostEvidence
from support.hosts.fixture_hosts import captured
from support.images.mke2fs import striped_geometry
from support.images.partitioned import (
    BLOCKS_PER_GROUP,
    LINUX,
    boot_record,
    descriptor_bytes,
    descriptors_at,
    grow,
    superblock_at,
    superblock_bytes,
    write_at,
)

PATH = "/img"
MIB = 1 << 20
TWO_GROUPS_BYTES = 2 * BLOCKS_PER_GROUP * 4096


def with_filesystem(offset: int = 0) -> HostEvidence:
    """Return a host with a filesystem of two groups in an image."""
    host = HostEvidence()
    for reading in (0, 1):
        host.answer(superblock_at(PATH, reading, offset=offset), superblock_bytes(2))
    return host.answer(descriptors_at(PATH, 2, offset=offset), descriptor_bytes(0, 2))


def test_the_room_of_a_new_filesystem_is_the_device() -> None:
    """LAY001 and the page agree, even if a user describes the array."""
    source, taken_at = captured("raid0-12-disks-default-mkfs")
    (fs,) = (fs for fs in assemble_host(source, taken_at).filesystems if fs.layout is not None)
    assert fs.layout is not None
    device_bytes = need(need(fs.stack).size_sectors) * 512
    inventory = take_inventory(source)
    pages = [
        need(page_of_device(source, inventory, fs.device_number, array))
        for array in (None, striped_geometry(8, 64))
    ]
    layouts = [need(fs.layout), *(page.layout for page in pages)]
    assert [layout.device_bytes for layout in layouts] == [device_bytes] * 3


def test_an_image_is_a_single_device() -> None:
    """All bitmaps of its two groups are on it, and nothing stripes."""
    page = page_of_image(with_filesystem().source(), PATH, None, 0)
    assert isinstance(page, Known)
    assert page.value.layout.geometry is None
    assert page.value.layout.bitmaps.loads == (4,)
    assert (page.value.advice, page.value.stack) == (None, PATH)


@pytest.mark.parametrize(
    ("last", "details"),
    [
        (TWO_GROUPS_BYTES - 1, []),
        (TWO_GROUPS_BYTES - 2, [f"it is truncated: it should have {TWO_GROUPS_BYTES} bytes"]),
        (TWO_GROUPS_BYTES, [f"it is truncated: it should have {TWO_GROUPS_BYTES} bytes"]),
    ],
    ids=["whole", "a byte short", "only a byte behind it"],
)
def test_an_image_is_truncated_without_its_last_byte(last: int, details: list[str]) -> None:
    """The doubt gives the length of a complete image."""
    page = page_of_image(
        with_filesystem().answer(ReadBytes(PATH, last, 1), b"\0").source(), PATH, None, 0
    )
    assert isinstance(page, Known)
    assert [gap.detail for gap in page.value.layout.doubts] == details


@pytest.mark.parametrize("offset", [0, 1 << 20])
def test_a_described_array_has_the_members_of_the_page(offset: int) -> None:
    """The filesystem begins at the offset on the array."""
    array = striped_geometry(4, 512)
    page = page_of_image(with_filesystem(offset).source(), PATH, array, offset)
    assert isinstance(page, Known)
    assert page.value.layout.geometry == array._replace(offset_bytes=offset)
    assert len(page.value.layout.members) == 4
    assert page.value.advice is not None
    assert page.value.stack == "given by the options"


@pytest.mark.parametrize(
    ("starts", "offset", "found"),
    [
        ((1,), 0, 1),
        ((1,), 1, 1),
        ((1, 300), 1, 1),
        ((1, 300), 300, 300),
        ((1, 300), 0, "2 filesystems start at bytes 1048576, 314572800: select one with --offset"),
        ((1, 300), 2, "no filesystem starts at byte 2097152"),
    ],
)
def test_a_partition_is_selected_by_its_offset(
    starts: tuple[int, ...], offset: int, found: int | str, tmp_path: Path
) -> None:
    """All offsets are in MiB; without an offset there must be exactly one filesystem."""
    image = tmp_path / "disk.img"
    write_at(image, {0: boot_record(*((LINUX, mib * 2048, 256 * 2048) for mib in starts))})
    for mib in starts:
        write_at(image, {mib * MIB + 1024: superblock_bytes(2)})
        write_at(image, {mib * MIB + 4096: descriptor_bytes(0, 2)})
    grow(image, 600 * MIB)
    page = page_of_image(LiveSource(), str(image), striped_geometry(4, 512), offset * MIB)
    if isinstance(page, Unknown):
        assert page.detail == found
    else:
        assert page.value.layout.geometry == striped_geometry(4, 512)._replace(
            offset_bytes=int(found) * MIB
        )


def test_an_image_without_a_filesystem_has_no_page() -> None:
    """The page is unknown for the same reason as the superblock."""
    assert isinstance(page_of_image(HostEvidence().source(), PATH, None, 0), Unknown)
