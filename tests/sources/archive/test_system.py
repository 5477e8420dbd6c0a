from __future__ import annotations

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources.archive.devices import read_devices
from ext4audit.sources.archive.layouts import SosCapture
from ext4audit.sources.archive.system import (
    memory,
    mounted_sources,
    read_mountinfo,
    read_utab,
    taken_at,
    uname,
)
from support.archives.contents import MOUNTINFO, PARTITIONS, archive


def capture(files: dict[str, str]) -> SosCapture:
    """Return the capture of a sosreport with these files."""
    made = archive({"sos_commands/x/x": "", **files})
    return SosCapture(made, "", kind="sosreport", commands="sos_commands")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Linux vm 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 x86_64 GNU/Linux\n",
            "6.1.0-18-amd64\n#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1\nx86_64\nvm",
        ),
        (
            (
                "Linux h 4.18.0-553.el8.x86_64 #1 SMP Fri May 10 UTC 2024 x86_64 x86_64 x86_64 "
                "GNU/Linux\n"
            ),
            "4.18.0-553.el8.x86_64\n#1 SMP Fri May 10 UTC 2024\nx86_64\nh",
        ),
        (
            "Linux a b 5.10.0 #1 SMP aarch64 aarch64 aarch64 GNU/Linux\n",
            "5.10.0\n#1 SMP\naarch64\na b",
        ),
        ("Linux\n", None),
        ("uname: command not found\n", None),
    ],
)
def test_uname_is_cut_into_its_answers(text: str, expected: str | None) -> None:
    """RHEL prints the machine three times, and a node name may hold a blank."""
    found = uname(capture({"sos_commands/kernel/uname_-a": text}))
    assert (found.value if found else None) == expected


def test_the_name_that_hostname_printed_counts_more() -> None:
    """`uname -a` cannot be cut safely where a node name looks like a release."""
    files = {
        "sos_commands/kernel/uname_-a": "Linux 5.10 5.10.0 #1 SMP x86_64 GNU/Linux\n",
        "sos_commands/host/hostname": "5.10 5.10.0\n",
    }
    found = uname(capture(files))
    assert found is not None
    assert found.value == "5.10.0\n#1 SMP\nx86_64\n5.10"


def test_proc_version_tells_the_kernel_where_uname_did_not_run() -> None:
    """Its machine is not known, and nothing needs it."""
    text = "Linux version 5.10.0-28-amd64 (x@y) (gcc 10, GNU ld) #1 SMP Debian 5.10.209-2\n"
    files = {"proc/version": text, "proc/sys/kernel/hostname": "db-2\n"}
    assert uname(capture(files)) == Known(
        "5.10.0-28-amd64\n#1 SMP Debian 5.10.209-2\n\ndb-2", "/proc/version"
    )


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/meminfo": "MemTotal: 100 kB\nMemAvailable:   50 kB\n"}, "102400\n51200"),
        (
            {
                "sos_commands/memory/free": (
                    "        total used free shared buff/cache available\n"
                    "Mem:      100   10   20      5         30        50\nSwap: 0 0 0\n"
                )
            },
            "102400\n51200",
        ),
        (
            {
                "sos_commands/memory/free": (
                    "        total used free shared buffers cached\n"
                    "Mem:      100   10   20      5      30     50\n"
                )
            },
            None,
        ),
        ({"proc/meminfo": "MemTotal: 100 kB\nMemFree: 50 kB\n"}, None),
        ({}, None),
    ],
)
def test_memory_is_reported_in_bytes(files: dict[str, str], expected: str | None) -> None:
    """free(1) before procps 3.3.10 has no column of available memory: cached is another thing."""
    found = memory(capture(files))
    assert (found.value if found else None) == expected


@pytest.mark.parametrize(
    ("files", "label", "expected"),
    [
        (
            {"sos_commands/date/date_--utc": "Sat Nov  7 05:56:57 UTC 2026\n"},
            "",
            "2026-11-07T05:56:57Z",
        ),
        ({"sos_commands/date/date": "Sat Nov 21 05:56:57 GMT 2026\n"}, "", "2026-11-21T05:56:57Z"),
        (
            {
                "sos_commands/date/date": "Sat Nov 21 06:56:57 CET 2026\n",
                "sos_commands/systemd/timedatectl": (
                    "   Local time: Sat 2026-11-21 06:56:58 CET\n"
                    "Universal time: Sat 2026-11-21 05:56:58 UTC\n"
                ),
            },
            "",
            "2026-11-21T05:56:58Z",
        ),
        (
            {"sos_reports/manifest.json": '{"start_time": "2026-11-21 05:56:57.391596"}'},
            "",
            "2026-11-21T05:56:57Z",
        ),
        ({}, "sosreport-h-lbl-2026-11-21-vqvzcad.tar.xz", "2026-11-21T00:00:00Z"),
        ({}, "insights-h-20201110174255.tar.gz", "2020-11-10T17:42:55Z"),
        ({}, "scc_h_261121_0557.txz", "2026-11-21T05:57:00Z"),
        ({}, "sosreport-h-20261399.tar.xz", "1970-01-01T00:00:00Z"),
        ({}, "sosreport-h-2026-19-39-x.tar.xz", "1970-01-01T00:00:00Z"),
        ({}, "some.tar", "1970-01-01T00:00:00Z"),
        ({"sos_commands/date/date": "Sat Foo 99 05:56:57 UTC 2026\n"}, "", "1970-01-01T00:00:00Z"),
    ],
)
def test_the_time_is_the_best_clock_that_was_captured(
    files: dict[str, str], label: str, expected: str
) -> None:
    """A clock that names its zone first; a file's name last; never the time of now."""
    assert taken_at(capture(files), label) == expected


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
        ({"proc/self/mountinfo": MOUNTINFO[:-9], "proc/mounts": MOUNTS}, MADE, "/proc/mounts"),
        ({"proc/mounts": MOUNTS[:-9], "etc/mtab": MOUNTS}, MADE, "/etc/mtab"),
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


@pytest.mark.parametrize(
    "files",
    [
        {"proc/self/mountinfo": MOUNTINFO[:-1]},
        {"proc/mounts": MOUNTS[:-9]},
        {"proc/mounts": MOUNTS[:-9], "sos_commands/filesys/mount_-l": MOUNT[:-3]},
    ],
)
def test_a_mount_table_that_is_cut_off_is_none(files: dict[str, str]) -> None:
    """A mount that it lacks would be said to be absent, and "nobarr" not to be nobarrier."""
    found = mountinfo(files)
    assert isinstance(found, Unknown)
    assert found.why is Why.UNPARSABLE


def test_a_mount_table_behind_a_link_that_leads_out_is_not_captured() -> None:
    """/etc/mtab is one; the hint says how to capture a table."""
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


def test_an_ext4_on_a_device_without_a_number_costs_its_own_line_only() -> None:
    """No table would hide /dev/vda1; a table without the line would say "not mounted"."""
    found = mountinfo({"proc/mounts": MOUNTS.replace("/dev/vdb /da\\040ta ", "/dev/sdz1 /odd ")})
    assert isinstance(found, Known)
    assert found.value.split("\n")[:4] == [
        *MADE.split("\n")[:2],
        "3 1 ?:? / /odd ro,noatime - ext4 /dev/sdz1 ro,nobarrier,data=ordered",
        "4 1 253:16 / /da\\040ta/in ro,noatime - ext4 /dev/vdb ro",
    ]


def test_an_archive_without_any_mount_table_has_none() -> None:
    """Not an empty one, which would read as "nothing is mounted"."""
    assert mountinfo({"sos_commands/filesys/mount_-l": "mount: not found\n"}) is None


def test_sources_are_reported_by_number_for_what_ext4_serves() -> None:
    """Octal escapes are undone: a file name of sos is made of the real name."""
    text = MOUNTINFO + "41 25 253:16 /a /b\\040c rw - ext4 /dev/my\\040disk rw\nodd\n"
    assert mounted_sources(text) == {
        "253:1": ("/dev/vda1",),
        "253:16": ("/dev/vdb", "/dev/my disk"),
    }


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
def test_what_mount_keeps_is_in_what_it_prints(
    files: dict[str, str], sysroot: str, expected: str | None
) -> None:
    """In a container it is another mount(8), with a table of its own."""
    found = read_utab(capture(files), sysroot)
    assert (found.value if isinstance(found, Known) else None) == expected
