"""`ext4audit scan IMAGE` while the kernel uses the image, and afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.filesystems.scratch import Scratch, run
from support.images.partitioned import grow, with_gpt
from support.program import run as program

pytestmark = pytest.mark.kernel
Make = Callable[..., Scratch]
MIB = 1 << 20


def audited(path: Path) -> tuple[list[tuple[str, bool]], str, str]:
    """Return a scan's devices with their liveness, its source, and its notes."""
    done = program("scan", "-f", "json", "--fail-on", "never", "--allow-incomplete", str(path))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    devices = [(fs["device"], fs["mounted"]) for fs in found["filesystems"]]
    return devices, found["source"]["kind"], done.stderr


def test_while_an_image_is_mounted_its_live_superblock_is_audited(scratch: Make) -> None:
    """The file's bytes may be outdated; after the unmount they are the only source."""
    one = scratch().make().mount()
    device = one.device
    devices, kind, reported = audited(one.image)
    assert (devices, kind) == ([(device, True)], "live")
    assert f"the image behind {device}" in reported
    one.unmount()
    assert audited(one.image)[:2] == ([(str(one.image), False)], "image")


@pytest.fixture
def mounted_partition(tmp_path: Path, private_mounts: None) -> Iterator[tuple[Path, Path]]:  # noqa: ARG001
    """Mount the second partition of a disk image by its offset."""
    image, place = tmp_path / "disk.img", tmp_path / "mnt"
    grow(image, 64 * MIB)
    with_gpt(image, {1: (2048, 34815), 2: (34816, 67583)})
    for start in (1, 17):
        run("mke2fs", "-q", "-F", "-t", "ext4", "-E", f"offset={start * MIB}", image, "16M")
    place.mkdir()
    run("mount", "-o", f"loop,offset={17 * MIB},sizelimit={16 * MIB}", image, place)
    yield image, place
    run("umount", place)


def test_while_a_partition_is_mounted_the_image_stands_for_it(
    mounted_partition: tuple[Path, Path],
) -> None:
    """A command must not write to a file that the kernel writes to."""
    image, place = mounted_partition
    device = run("findmnt", "-n", "-o", "SOURCE", "--mountpoint", place).strip()
    assert audited(image)[:2] == ([(device, True)], "live")


def test_a_plain_file_on_ext4_stands_for_its_filesystem(scratch: Make) -> None:
    """This includes a file with the magic number at the superblock's offset."""
    one = scratch().make().mount()
    data = bytearray(4096)
    data[1024 + 0x38 : 1024 + 0x3A] = b"\x53\xef"
    plain = one.mount_point / "table.ibd"
    plain.write_bytes(data)
    assert audited(plain) == ([(one.device, True)], "live", "")


def test_an_image_on_ext4_is_audited_and_not_what_it_lies_on(scratch: Make) -> None:
    """Naming its directory audits the filesystem that holds it, and the note says so."""
    one = scratch().make().mount()
    image = one.mount_point / "fs.img"
    run("mke2fs", "-q", "-F", "-t", "ext4", image, "16M")
    devices, kind, reported = audited(image)
    assert (devices, kind) == ([(str(image), False)], "image")
    assert "to audit the filesystem that holds it, name its directory" in reported
    assert audited(image.parent)[0] == [(one.device, True)]


def test_invalid_images_do_not_select_their_filesystem(scratch: Make) -> None:
    """Zeros, junk, and a disk without ext4 give exit code 2, and nothing is audited."""
    one = scratch().make().mount()
    disk, zeros, junk = (one.mount_point / name for name in ("empty.img", "zeros", "junk"))
    grow(disk, 20 * MIB)
    with_gpt(disk, {1: (2048, 4095)})
    grow(zeros, 20 * MIB)
    junk.write_bytes(bytes(range(256)) * 4096)
    for path in (disk, zeros, junk):
        done = program("scan", str(path))
        assert (done.returncode, done.stdout) == (2, ""), path
        assert f"{path}: no ext2, ext3 or ext4" in done.stderr


def test_a_mounted_image_whose_superblock_is_zeroed_is_the_live_filesystem(scratch: Make) -> None:
    """The kernel has it mounted; the rules report what is wrong with the file."""
    one = scratch().make().mount()
    with one.image.open("r+b") as file:
        file.seek(1024)
        file.write(bytes(1024))
    assert audited(one.image)[:2] == ([(one.device, True)], "live")
