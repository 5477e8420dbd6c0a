from __future__ import annotations

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.parsers.devices_and_mounts import parse_mount_table
from ext4audit.sources.archive.devices import read_devices
from ext4audit.sources.archive.layouts import SosCapture
from ext4audit.sources.archive.mounts import MountTable, mounted_files, read_mountinfo, read_utab
from support.archives.contents import MOUNTINFO, PARTITIONS, archive, capture

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
    held = capture({"proc/partitions": PARTITIONS, **files})
    return read_mountinfo(held, read_devices(held))


@pytest.mark.parametrize(
    ("files", "text", "origin"),
    [
        ({"proc/self/mountinfo": MOUNTINFO}, MOUNTINFO, "/proc/self/mountinfo"),
        ({"proc/1/mountinfo": MOUNTINFO, "proc/mounts": "x"}, MOUNTINFO, "/proc/1/mountinfo"),
        ({"proc/self/mountinfo": "\n", "proc/mounts": MOUNTS}, MADE, "/proc/mounts"),
        ({"etc/mtab": MOUNTS}, MADE, "/etc/mtab"),
        ({"proc/self/mountinfo": MOUNTINFO[:-9], "proc/mounts": MOUNTS}, MADE, "/proc/mounts"),
        ({"proc/mounts": MOUNTS[:-9], "etc/mtab": MOUNTS}, MADE, "/etc/mtab"),
        ({"proc/mounts": "an error of the\n", "etc/mtab": MOUNTS}, MADE, "/etc/mtab"),
        ({"proc/mounts": f"# made by a test\n\n{MOUNTS}"}, MADE, "/proc/mounts"),
        (
            {"sos_commands/filesys/mount_-l": MOUNT},
            MADE,
            "sos_commands/filesys/mount_-l",
        ),
    ],
)
def test_the_best_mount_table_is_read(files: dict[str, str], text: str, origin: str) -> None:
    """The best is mountinfo; else a table is built, with options split and parents by path."""
    assert mountinfo(files) == Known(text, origin)


@pytest.mark.parametrize(
    "files",
    [
        {"proc/self/mountinfo": MOUNTINFO[:-1]},
        {"proc/mounts": MOUNTS[:-9]},
        {"proc/mounts": MOUNTS[:-9], "sos_commands/filesys/mount_-l": MOUNT[:-3]},
        {"proc/mounts": "cat: /proc/mounts: Permission denied\n"},
        {"proc/mounts": "/dev/vdb /data\n", "etc/mtab": "bash: mount: command not found\n"},
    ],
)
def test_truncated_mount_table_is_a_gap(files: dict[str, str]) -> None:
    """A missing mount would be reported as absent, and "nobarr" not recognized as nobarrier."""
    found = mountinfo(files)
    assert isinstance(found, Unknown)
    assert found.why is Why.UNPARSABLE


def test_mount_table_behind_an_external_link_is_not_captured() -> None:
    """/etc/mtab is such a link; the hint tells how to capture a table."""
    made = archive({"sos_commands/x/x": ""}, links={"etc/mtab": "/proc/self/mounts"})
    held = SosCapture(made, "", kind="sosreport", commands="sos_commands")
    assert read_mountinfo(held, read_devices(held)) is None


def test_flags_of_a_mount_are_no_options_of_its_superblock() -> None:
    """/proc/mounts lists both in one field."""
    line = "/dev/vdb /data ext4 rw,nosuid,relatime,nosymfollow,idmapped,seclabel,nobarrier 0 0\n"
    found = mountinfo({"proc/mounts": line})
    assert isinstance(found, Known)
    assert found.value == (
        "1 0 253:16 / /data rw,nosuid,relatime,nosymfollow,idmapped - ext4 /dev/vdb "
        "rw,seclabel,nobarrier\n"
    )


def test_mount_of_a_device_without_a_number_is_omitted() -> None:
    """The other mounts, such as /dev/vda1, are kept, and this one is not reported as unmounted."""
    found = mountinfo({"proc/mounts": MOUNTS.replace("/dev/vdb /da\\040ta ", "/dev/sdz1 /odd ")})
    assert isinstance(found, Known)
    assert found.value.split("\n")[:4] == [
        *MADE.split("\n")[:2],
        "3 1 ?:? / /odd ro,noatime - ext4 /dev/sdz1 ro,nobarrier,data=ordered",
        "4 1 253:16 / /da\\040ta/in ro,noatime - ext4 /dev/vdb ro",
    ]


ODD_LINES = [
    "cat: /proc/mounts: Input/output error",
    "/dev/vdc /srv ext4",
    "/dev/vdc srv ext4 rw 0 0",
    "/dev/vdc /srv ext4 rw,nobarrier 0",
]


@pytest.mark.parametrize("line", ODD_LINES)
def test_line_that_is_no_mount_is_a_gap(line: str) -> None:
    """A mount on it would be reported as absent; the parser of mountinfo names the line."""
    assert mountinfo({"proc/mounts": f"{MOUNTS}{line}\n"}) == Known(
        f"{MADE}{line}\n", "/proc/mounts"
    )
    table = parse_mount_table(f"{MADE}{line}\n")
    assert [len(table.mounts), len(table.unread)] == [4, 1]


def test_options_with_blanks_are_read() -> None:
    """Docker Desktop makes such a mount in WSL 2. The source of a mount may be empty."""
    lines = "drvfs /mnt 9p rw,aname=drvfs;path=C:\\Program Files 0 0\n /t tmpfs rw 0 0\n"
    found = mountinfo({"proc/mounts": MOUNTS + lines})
    assert isinstance(found, Known)
    assert not parse_mount_table(found.value).unread


def test_archive_without_a_mount_table() -> None:
    """An empty table would mean that nothing is mounted."""
    assert mountinfo({"sos_commands/filesys/mount_-l": "mount: not found\n"}) is None


def test_mount_sources_of_ext4_by_device_number() -> None:
    """Octal escapes are decoded, since sos makes file names from the real name."""
    text = MOUNTINFO + "41 25 253:16 /a /b\\040c rw - ext4 /dev/my\\040disk rw\nodd\n"
    found = MountTable(text).sources
    assert {number: tuple(paths) for number, paths in found.items()} == {
        "253:1": ("/dev/vda1",),
        "253:16": ("/dev/vdb", "/dev/my disk"),
    }


def test_a_path_longer_than_path_max_is_not_resolved() -> None:
    """The directories above a path of many MiB would take terabytes."""
    table = MountTable(MOUNTINFO)
    assert table.resolve("/data" + "/a" * 2000) is not None
    assert table.resolve("/data" + "/a" * 1_000_000) is None


def test_a_mount_point_longer_than_path_max_is_below_the_root() -> None:
    """Its parent is not looked for among a million directories."""
    long = "/a" * 1_000_000
    mounts = f"/dev/vda1 / ext4 rw 0 0\n/dev/vda1 {long} ext4 rw 0 0\n"
    table = mountinfo({"proc/mounts": mounts})
    assert isinstance(table, Known)
    assert table.value.split("\n")[1].startswith("2 1 ")


PRINTED = "/dev/vdb on /a b type ext4 (rw,relatime,_netdev,x-w=c d) [label]\nodd\n"


@pytest.mark.parametrize(
    ("files", "sysroot", "expected"),
    [
        (
            {"sos_commands/filesys/mount_-l": PRINTED},
            "/",
            "SRC=/dev/vdb TARGET=/a\\040b OPTS=rw,relatime,_netdev,x-w=c\\040d\n",
        ),
        (
            {"sos_commands/filesys/mount_-l": "/dev/vdb on /a type ext4 (rw) [l]b[]\n"},
            "/",
            "SRC=/dev/vdb TARGET=/a OPTS=rw\n",
        ),
        ({"sos_commands/filesys/mount_-l": PRINTED}, "/host", None),
        ({"sos_commands/filesys/mount_-l": "mount: command not found\n"}, "/", None),
        ({}, "/", None),
    ],
)
def test_user_options_are_in_the_output_of_mount(
    files: dict[str, str], sysroot: str, expected: str | None
) -> None:
    """A container has another mount(8), with a separate table."""
    found = read_utab(capture(files), sysroot)
    assert (found.value if isinstance(found, Known) else None) == expected


def table(*rows: str) -> str:
    """Return a mountinfo of rows such as "7:0 /a ext4 /dev/loop0"."""
    parts = (row.split(" ") for row in rows)
    return "".join(
        f"{index} 1 {number} / {place} rw - {fstype} {source} rw\n"
        for index, (number, place, fstype, source) in enumerate(parts, 30)
    )


LOOP = "7:0 /a ext4 /dev/loop0"
OVER = "7:1 /a ext4 /dev/loop1"
DISK = "8:1 /a ext4 /dev/sda1"
ON_A = " on /a type ext4 (rw)\n"
BOTH = f"/x.img{ON_A}/y.img{ON_A}"


@pytest.mark.parametrize(
    ("rows", "printed", "files"),
    [
        ((LOOP,), f"/x.img{ON_A}", {"7:0": "/x.img"}),
        ((LOOP,), "/x.img on /a type ext4 (rw,relatime) [label]\n", {"7:0": "/x.img"}),
        ((LOOP,), "/x.img on /elsewhere type ext4 (rw)\n", {}),
        ((LOOP,), f"/dev/loop0{ON_A}", {}),
        ((DISK,), f"/dev/sda1{ON_A}", {}),
        (
            ("7:0 /a\\040b ext4 /dev/loop0",),
            "/x y.img on /a b type ext4 (rw)\n",
            {"7:0": "/x y.img"},
        ),
        # Mounted over each other.
        ((LOOP, OVER), BOTH, {"7:0": "/x.img", "7:1": "/y.img"}),
        ((DISK, LOOP), f"/dev/sda1{ON_A}/x.img{ON_A}", {"7:0": "/x.img"}),
        ((LOOP, OVER), f"/y.img{ON_A}", {}),
        ((LOOP,), BOTH, {}),
        # By an automount, which mount(8) prints or not.
        (("0:40 /a autofs systemd-1", LOOP), f"/x.img{ON_A}", {"7:0": "/x.img"}),
        ((LOOP,), f"systemd-1 on /a type autofs (rw)\n/x.img{ON_A}", {"7:0": "/x.img"}),
        # On several directories.
        ((LOOP, LOOP.replace("/a", "/b")), f"/x.img{ON_A}", {"7:0": "/x.img"}),
        ((), f"/x.img{ON_A}", {}),
        ((LOOP,), "mount: not found\n", {}),
    ],
)
def test_backing_file_is_in_the_output_of_mount(
    rows: tuple[str, ...], printed: str, files: dict[str, str]
) -> None:
    """The kernel's table has the device in its place."""
    held = capture({"proc/self/mountinfo": table(*rows), "sos_commands/filesys/mount_-l": printed})
    origin = "sos_commands/filesys/mount_-l"
    assert mounted_files(held) == {number: Known(file, origin) for number, file in files.items()}
