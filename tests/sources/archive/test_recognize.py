from __future__ import annotations

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.sources import ArchiveError, ReadFile, Source
from ext4audit.sources.archive import is_wanted, recognise
from ext4audit.sources.snapshot.writing import RecordingSource
from support.archives.contents import (
    UNAME,
    archive,
    empty_archive,
    moved_below,
    recognised_capture,
    sos_files,
    sosreport,
)
from support.hosts.evidence_host import HostEvidence
from support.hosts.fixture_hosts import FIXTURE_HOSTS, captured

SUSE = {
    "basic-environment.txt": (
        "#==[ Command ]===#\n# /bin/date\nFri Feb 16 09:21:33 UTC 2024\n\n"
        "#==[ Command ]===#\n# /bin/uname -a\n"
        "Linux sles-1 5.14.21-150500.55.44-default #1 SMP x86_64 x86_64 x86_64 GNU/Linux\n\n"
    )
}
INSIGHTS = {
    "insights_commands/hostname_-f": "rhel-1.example.com\n",
    "insights_commands/date_--utc": "Tue Nov 10 17:42:55 UTC 2020\n",
    "etc/fstab": "",
}


@pytest.mark.parametrize("top", ["", "sosreport-db-1-2026-11-21-vqvzcad"])
def test_a_sosreport_is_named_after_its_host_and_dated_by_its_clock(top: str) -> None:
    """The common top directory may be there or not."""
    found = recognised_capture(moved_below(top, sos_files()) if top else sos_files())
    assert (found.kind, found.label, found.taken_at) == (
        "sosreport",
        "db-1",
        "2026-11-21T05:56:57Z",
    )


@pytest.mark.parametrize("target", ["/etc", "../elsewhere", "link", "gone"])
@pytest.mark.parametrize("top", ["", "sosreport-db-1/"])
def test_a_link_that_leads_nowhere_does_not_hide_the_host(top: str, target: str) -> None:
    """It is not followed, and the rest of the archive is read; so is a data folder beside it."""
    links = {"link": target, **({f"{top}data": target} if top else {})}
    files = {f"{top}{path}": content for path, content in sos_files().items()}
    assert recognised_capture(files, links).label == "db-1"


@pytest.mark.parametrize("top", ["data", "insights-rhel-1-2020", "insights-rhel-1-2020/data"])
def test_an_insights_archive_has_its_outputs_in_another_folder(top: str) -> None:
    """Newer archives keep the host's files in `data`."""
    found = recognised_capture(moved_below(top, INSIGHTS))
    assert (found.kind, found.label, found.taken_at) == (
        "insights",
        "rhel-1.example.com",
        "2020-11-10T17:42:55Z",
    )


def test_supportconfig_is_recognized_by_its_first_text() -> None:
    """The host's name comes from uname."""
    found = recognised_capture(moved_below("scc_sles-1_240216_0921", SUSE))
    assert (found.kind, found.label, found.taken_at) == (
        "supportconfig",
        "sles-1",
        "2024-02-16T09:21:33Z",
    )


def test_host_without_a_name_has_the_name_of_its_directory() -> None:
    """`-o filesys` runs neither hostname nor uname; the time is that in the directory's name."""
    files = {"sosreport-db-7-2026-11-21-abc/sos_commands/filesys/findmnt": ""}
    found = recognised_capture(files)
    assert (found.label, found.taken_at) == (
        "sosreport-db-7-2026-11-21-abc",
        "2026-11-21T00:00:00Z",
    )


@pytest.mark.parametrize(
    "files", [{}, {"manifest.json": "{}"}, {"a/b/c/sos_commands/x": ""}, {"sos_commands": "a file"}]
)
def test_other_archives_are_not_recognized(files: dict[str, str]) -> None:
    """A snapshot of ours is one example."""
    assert recognise(archive(files)) is None


def test_empty_archive_is_not_recognized() -> None:
    """Directories alone are not evidence."""
    assert recognise(empty_archive("a", "b")) is None


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"a/sos_commands/x": "", "b/sos_commands/x": ""},
            "the files of several hosts: 'a', 'b'",
        ),
        (
            {"a/sos_commands/x": "", "scc_b/basic-environment.txt": ""},
            "the files of several hosts: 'a', 'scc_b'",
        ),
        (
            {
                "sos-collector-2026/sosreport-a-2026-11-21-x.tar.xz": "",
                "sos-collector-2026/sosreport-b-2026-11-21-x.tar.xz": "",
            },
            (
                "a collection of 2 archives ('sos-collector-2026/sosreport-a-2026-11-21-x.tar.xz', "
                "'sos-collector-2026/sosreport-b-2026-11-21-x.tar.xz'), such as sos collect makes: "
                "unpack it and audit each of them"
            ),
        ),
        (
            {f"h{n}/sos_commands/\x1b[31m": "" for n in range(9)},
            "the files of several hosts: 'h0', 'h1', 'h2', …",
        ),
        (
            {"sos_commands/kernel/uname_-a": UNAME, "sos_commands/host/hostname": "web-2\n"},
            "the files of several hosts: 'web-2', 'db-1'",
        ),
        (
            {"sos_commands/kernel/uname_-a": UNAME, "sos_commands/host/hostname": "db-1\r\n"},
            "its texts have the line ends of Windows (CRLF): unpack it without converting them",
        ),
    ],
)
def test_archive_of_several_hosts_is_refused(files: dict[str, str], message: str) -> None:
    """A report that mixes two machines would describe neither."""
    with pytest.raises(ArchiveError) as raised:
        recognise(archive(files))
    assert str(raised.value) == f"given.tar.xz: {message}"


@pytest.mark.parametrize("name", ["db-1", "DB-1", "db-1.example.com"])
def test_short_and_full_name_are_one_host(name: str) -> None:
    """`hostname` may print the domain when uname does not."""
    assert sosreport({"sos_commands/host/hostname": f"{name}\n"}).label == name


@pytest.mark.parametrize(
    "named",
    [{"insights_commands/uname_-a": UNAME}, {"proc/sys/kernel/hostname": "db-1\n"}],
)
def test_localhost_name_is_not_a_second_host(named: dict[str, str]) -> None:
    """`hostname -f` prints "localhost.localdomain" on many hosts; the node name counts."""
    assert (
        recognised_capture(
            {"insights_commands/hostname_-f": "localhost.localdomain\n", **named}
        ).label
        == "db-1"
    )


def test_hostile_names_are_shown_escaped() -> None:
    """ESC in a directory's name does not reach the terminal."""
    files = {"a\x1b[31m/sos_commands/x": "", "b\n/sos_commands/x": ""}
    with pytest.raises(ArchiveError, match=r"'a\\x1b\[31m', 'b\\n'"):
        recognise(archive(files))


TOP = "sosreport-db-1-2026-11-21-abc/"


@pytest.mark.parametrize(
    "name",
    [
        "proc/1/mountinfo",
        "proc/mounts",
        "proc/self/mounts",
        "proc/fs/ext4/vda1/options",
        "proc/fs/jbd2/vda1-8/info",
        "proc/sys/vm/dirty_ratio",
        "sys/block/md0/md/level",
        "sys/devices/virtual/block/md0/queue/write_cache",
        "sys/devices/pci0000:00/nvme/nvme0/nvme0n1/queue/write_cache",
        "etc/fstab",
        "usr/lib/os-release",
        "sos_commands/filesys/dumpe2fs_-h_.dev.vda1",
        "sos_commands/kernel/dmesg",
        "sos_commands/block/a\nb",
        "sos_reports/manifest.json",
        "insights_commands/lsblk_-P",
        "data/insights_commands/uname_-a",
        "fs-diskio.txt",
    ],
)
def test_files_about_filesystems_are_kept(name: str) -> None:
    """A file is kept with a directory above it and without."""
    assert is_wanted(name)
    assert is_wanted(TOP + name)


@pytest.mark.parametrize("fixture", FIXTURE_HOSTS)
def test_every_file_that_an_audit_reads_is_kept(fixture: str) -> None:
    """A skipped file would be reported as one that the host lacks."""
    assert passed_over(captured(fixture)[0]) == set()


def test_every_file_that_an_audit_falls_back_on_is_kept() -> None:
    """On a host without any evidence all alternatives are tried."""
    assert not passed_over(HostEvidence().source()), "_WANTED of sources/archive lacks them"


def passed_over(captured: Source) -> set[str]:
    """Return the files that an audit reads but that are not kept of an archive."""
    source = RecordingSource(captured)
    assemble_host(source, "2026-01-02T03:04:05Z")
    asked = {ask.path for ask in source.answers if isinstance(ask, ReadFile)}
    assert len(asked) > 3
    return {path for path in asked if not is_wanted(path.removeprefix("/"))}


@pytest.mark.parametrize(
    "name",
    [
        "var/log/messages",
        "proc/1/smaps",
        "proc/kallsyms",
        "sos_commands/logs/journalctl_--no-pager",
        "sos_commands/networking/ip_addr",
        "sos_reports/sos.html",
        "sys/module/ext4/refcnt",
        "rpm.txt",
        "messages.txt",
        "not-fs-diskio.txt",
        "etc/shadow",
    ],
)
def test_logs_and_irrelevant_files_are_not_kept(name: str) -> None:
    """Such files are gigabytes of an archive, and hold its secrets."""
    assert not is_wanted(name)
    assert not is_wanted(TOP + name)
