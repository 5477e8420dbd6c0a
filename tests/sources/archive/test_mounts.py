from __future__ import annotations

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources.archive.devices import read_devices
from ext4audit.sources.archive.layouts import SosCapture
from ext4audit.sources.archive.mounts import mounted_sources, read_mountinfo
from support.archives.contents import MOUNTINFO, PARTITIONS, archive

MOUNTS = (
    "/dev/vda1 / ext4 rw,relatime 0 0\n"
    "proc /proc proc rw,nosuid 0 0\n"
    "/dev/vdb /da\\040ta ext4 ro,noatime,nobarrier,data=ordered 0 0\n"
    "/dev/vdb /da\\040ta/in ext4 ro,noatime 0 0\n"
)
MADE = (
    "1 0 253:1 / / rw,relatime - ext4 /dev/vda1 rw\n"
    "2 1 0:2 / /proc rw,nosuid - proc proc rw\n"
    "3 1 253:16 / /da\\040ta ro,noatime - ext4 /dev/vdb ro,nobarrier,data=ordered\n"
    "4 3 253:16 / /da\\040ta/in ro,noatime - ext4 /dev/vdb ro\n"
)
MOUNT = (
    "/dev/vda1 on / type ext4 (rw,relatime) [ro ot]\n"
    "proc on /proc type proc (rw,nosuid)\n"
    "/dev/vdb on /da ta type ext4 (ro,noatime,nobarrier,data=ordered)\n"
    "/dev/vdb on /da ta/in type ext4 (ro,noatime)\n"
)


def mountinfo(files: dict[str, str]) -> object:
    """Return the mount table of a sosreport with these files."""
    made = archive({"sos_commands/x/x": "", "proc/partitions": PARTITIONS, **files})
    capture = SosCapture(made, "", kind="sosreport", commands="sos_commands")
    return read_mountinfo(capture, read_devices(capture))


@pytest.mark.parametrize(
    ("files", "text", "origin"),
    [
        ({"proc/self/mountinfo": MOUNTINFO}, MOUNTINFO, "/proc/self/mountinfo"),
        ({"proc/1/mountinfo": MOUNTINFO, "proc/mounts": "x"}, MOUNTINFO, "/proc/1/mountinfo"),
        ({"proc/self/mountinfo": "\n", "proc/mounts": MOUNTS}, MADE, "/proc/mounts"),
        ({"etc/mtab": MOUNTS}, MADE, "/etc/mtab"),
        (
            {"sos_commands/filesys/mount_-l": MOUNT},
            MADE,
            "sos_commands/filesys/mount_-l",
        ),
    ],
)
def test_the_best_mount_table_is_read(files: dict[str, str], text: str, origin: str) -> None:
    """Best is mountinfo as it is; else one is made, with options divided and parents by place."""
    assert mountinfo(files) == Known(text, origin)


def test_an_ext4_on_a_device_without_a_number_is_unknown() -> None:
    """A table without it would say that it is not mounted."""
    found = mountinfo({"proc/mounts": "/dev/sdz1 / ext4 rw 0 0\n"})
    assert found == Unknown(
        "/proc/self/mountinfo",
        Why.NOT_CAPTURED,
        "/proc/mounts: the device number of /dev/sdz1 is not in the archive",
    )


def test_an_archive_without_any_mount_table_has_none() -> None:
    """Not an empty one, which would read as "nothing is mounted"."""
    assert mountinfo({"sos_commands/filesys/mount_-l": "mount: not found\n"}) is None


def test_sources_are_told_by_number_for_what_ext4_serves() -> None:
    """Octal escapes are undone: a file name of sos is made of the real name."""
    text = MOUNTINFO + "41 25 253:16 /a /b\\040c rw - ext4 /dev/my\\040disk rw\nodd\n"
    assert mounted_sources(text) == {
        "253:1": ("/dev/vda1",),
        "253:16": ("/dev/vdb", "/dev/my disk"),
    }
