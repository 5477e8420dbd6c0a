"""The ioctls of a mount point."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources import FilesystemUuid, TuneSuperblock
from ext4audit.sources.live import LiveSource, has_common_encoding, read_request


def test_request_numbers_are_those_of_the_kernel() -> None:
    """`_IOR` gives what a C compiler gives for the two requests on x86-64."""
    assert read_request(ord("f"), 45, 232) == 0x80E8662D
    assert read_request(0x15, 0, 17) == 0x80111500


@pytest.mark.parametrize(
    ("machine", "common"),
    [
        ("x86_64", True),
        ("i686", True),
        ("aarch64", True),
        ("armv7l", True),
        ("riscv64", True),
        ("s390x", True),
        ("loongarch64", True),
        ("ppc64le", False),
        ("mips64", False),
        ("sparc64", False),
        ("alpha", False),
        ("parisc64", False),
    ],
)
def test_other_machines_encode_ioctls_in_another_way(machine: str, common: bool) -> None:
    """If the direction bits are elsewhere, no request is sent at all."""
    assert has_common_encoding(machine) is common


@pytest.mark.parametrize(
    ("ask", "what", "hint"),
    [
        (
            TuneSuperblock("/proc"),
            "EXT4_IOC_GET_TUNE_SB_PARAM on /proc",
            "needs ext4 and Linux 6.18 or newer",
        ),
        (
            FilesystemUuid("/proc"),
            "FS_IOC_GETFSUUID on /proc",
            "needs a filesystem with a UUID and Linux 6.9 or newer",
        ),
    ],
)
def test_a_filesystem_without_the_request_says_unsupported(
    ask: TuneSuperblock | FilesystemUuid, what: str, hint: str
) -> None:
    """ENOTTY is reported as "unsupported", with the required kernel version."""
    answer = LiveSource().fetch(ask)
    assert answer == Unknown(what, Why.UNSUPPORTED, "Inappropriate ioctl for device", hint)


def test_a_missing_mount_point_is_absent() -> None:
    """A mount point that was removed is absent, and a device node is not a mount point."""
    gone = LiveSource().fetch(TuneSuperblock("/no/such/place"))
    assert isinstance(gone, Unknown)
    assert gone.why is Why.ABSENT
    device = LiveSource().fetch(TuneSuperblock("/dev/null"))
    assert isinstance(device, Unknown)
    assert device.detail == "a character device, not a mount point"


def test_the_root_filesystem_answers_where_it_is_ext4() -> None:
    """On ext4 and Linux 6.18 the answer is 232 bytes, for a directory and for a file on it."""
    answer = LiveSource().fetch(TuneSuperblock("/"))
    if isinstance(answer, Unknown):
        pytest.skip(f"no ext4 with the request at /: {answer.detail}")
    assert len(answer.value) == 232
    for path in ("/etc", "/etc/passwd"):
        below = LiveSource().fetch(TuneSuperblock(path))
        assert isinstance(below, Known)


MOUNTED = """
mount -o loop "$1" "$2" && exec "$3" -c '
import sys
from ext4audit.evidence import Unknown
from ext4audit.sources import FilesystemUuid, TuneSuperblock
from ext4audit.sources.live import LiveSource
for ask in (TuneSuperblock, FilesystemUuid):
    answer = LiveSource().fetch(ask(sys.argv[1]))
    print(answer.detail if isinstance(answer, Unknown) else answer.value.hex())
' "$2"
"""


@pytest.mark.kernel
def test_superblock_of_a_mounted_ext4(tmp_path: Path) -> None:
    """Stride, stripe width and UUID are those that mke2fs was given."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    image, mount_point = tmp_path / "image", tmp_path / "mnt"
    mount_point.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    uuid = "0f0e0d0c-0b0a-4908-8706-050403020100"
    layout = "stride=16,stripe_width=64"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-U", uuid, "-E", layout, image], check=True)
    arguments = ["sh", str(image), str(mount_point), sys.executable]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", MOUNTED, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    superblock, found_uuid = done.stdout.split("\n")[:2]
    if "ioctl" in superblock:
        pytest.skip(f"the kernel is older than Linux 6.18: {superblock}")
    raw = bytes.fromhex(superblock)
    assert len(raw) == 232
    assert raw[14:16] == b"\x10\x00"
    assert raw[52:56] == b"\x40\x00\x00\x00"
    assert found_uuid == "0f0e0d0c0b0a49088706050403020100"
