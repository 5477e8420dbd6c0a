from __future__ import annotations

import pytest

from ext4audit.evidence import Known
from ext4audit.sources.archive.system import (
    memory,
    taken_at,
    uname,
)
from support.archives.contents import capture


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
def test_uname_fields(text: str, expected: str | None) -> None:
    """RHEL prints the machine three times, and a node name may contain a blank."""
    found = uname(capture({"sos_commands/kernel/uname_-a": text}))
    assert (found.value if found else None) == expected


def test_output_of_hostname_takes_precedence() -> None:
    """`uname -a` is ambiguous if the node name looks like a release."""
    files = {
        "sos_commands/kernel/uname_-a": "Linux 5.10 5.10.0 #1 SMP x86_64 GNU/Linux\n",
        "sos_commands/host/hostname": "5.10 5.10.0\n",
    }
    found = uname(capture(files))
    assert found is not None
    assert found.value == "5.10.0\n#1 SMP\nx86_64\n5.10"


def test_kernel_from_proc_version() -> None:
    """Its machine is unknown, but nothing needs it."""
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
def test_memory_in_bytes(files: dict[str, str], expected: str | None) -> None:
    """free(1) before procps 3.3.10 has no column of available memory; cached is another value."""
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
def test_time_from_the_best_captured_clock(
    files: dict[str, str], label: str, expected: str
) -> None:
    """A clock with a time zone is preferred, then a file's name; the current time is never used."""
    assert taken_at(capture(files), label) == expected
