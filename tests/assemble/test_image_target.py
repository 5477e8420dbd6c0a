"""What a path is as an image, by evidence; tests/kernel has it on real mounts."""

from __future__ import annotations

import pytest

from evidence_host import HostEvidence, debian_host
from ext4audit.assemble.image import BadImage, Image, PlainFile
from ext4audit.assemble.image_target import image_of_target
from ext4audit.assemble.inventory import take_inventory
from ext4audit.assemble.target import Superblocks
from ext4audit.facts.mount import DeviceNumber
from ext4audit.sources.ask import ReadBytes, RealPath
from raw_filesystem import superblock_bytes

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
        host.tell(ask, answer)
    return host


def look(host: HostEvidence) -> Superblocks | Image | BadImage | PlainFile:
    """Say what the path is as an image."""
    source = host.source()
    return image_of_target(source, take_inventory(source), PATH)


def test_a_regular_file_with_a_filesystem_is_an_image() -> None:
    """Nothing that is mounted lies on it."""
    found = look(holder())
    assert isinstance(found, Image)
    assert [fs.device for fs in found.filesystems] == [PATH]


@pytest.mark.parametrize("kind", ["directory", "other"])
def test_nothing_but_a_regular_file_is_looked_into(kind: str) -> None:
    """A FIFO is not read, whatever would be answered."""
    assert look(holder(kind)) == PlainFile()


def test_a_loop_device_that_is_mounted_stands_for_its_image() -> None:
    """The superblock that lives is the one to judge."""
    host = holder().loop("loop0", "7:0", PATH).mount(50, "7:0", "/vm", "/dev/loop0")
    note = "the image behind /dev/loop0; its directory stands for the one it lies on"
    assert look(host) == Superblocks((LOOP,), note)


def test_so_does_what_lies_on_the_loop_device() -> None:
    """A volume over a loop over the file is mounted: the file is in use all the same."""
    host = (
        holder()
        .loop("loop0", "7:0", PATH)
        .stacked("dm-0", "254:0", loop0="7:0")
        .mount(50, "254:0", "/vm", "/dev/mapper/vm")
    )
    found = look(host)
    assert isinstance(found, Superblocks)
    assert found.device_numbers == (ON_LOOP,)


def test_a_loop_device_over_another_file_is_no_matter() -> None:
    """Only what lies on this image counts."""
    host = holder().loop("loop0", "7:0", "/data/other.img").mount(50, "7:0", "/vm", "/dev/loop0")
    assert isinstance(look(host), Image)
