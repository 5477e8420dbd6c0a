from __future__ import annotations

import pytest

from evidence_host import HostEvidence, absent, debian_host, dumpe2fs_text
from ext4audit.assemble.recorded_errors import read_live_errors, stored_errors
from ext4audit.evidence import Evidence, Known, Unknown, need
from ext4audit.facts.health import ErrorCounters
from ext4audit.facts.superblock import RecordedError, Superblock
from ext4audit.parsers.dumpe2fs_header import parse_superblock
from ext4audit.sources.ask import ReadFile
from ext4audit.sources.recording import RecordingSource

BASE = "/sys/fs/ext4/sdb"
FIRST = RecordedError(100, "ext4_lookup", 1853, 12, 34)
LAST = RecordedError(200, "ext4_journal_check_start", 84, 0, 0)
NO_SUPERBLOCK = Unknown("superblock", absent().why)


def with_errors(*, detailed: bool = True) -> HostEvidence:
    """Return a host whose kernel has recorded two errors of /dev/sdb."""
    host = debian_host().file(f"{BASE}/errors_count", "2\n").file(f"{BASE}/warning_count", "3\n")
    host.file(f"{BASE}/last_error_errcode", "5\n")
    for which, error in (("first", FIRST), ("last", LAST)):
        host.file(f"{BASE}/{which}_error_time", f"{error.at}\n")
        if detailed:
            host.file(f"{BASE}/{which}_error_func", f"{error.function}\n")
            host.file(f"{BASE}/{which}_error_line", f"{error.line}\n")
            host.file(f"{BASE}/{which}_error_ino", f"{error.inode}\n")
            host.file(f"{BASE}/{which}_error_block", f"{error.block}\n")
    return host


def live(
    host: HostEvidence, superblock: Evidence[Superblock] = NO_SUPERBLOCK
) -> Evidence[ErrorCounters]:
    """Read the errors of /dev/sdb."""
    return read_live_errors(host.source(), "sdb", superblock)


def on_disk(count: int | None = 1) -> Known[Superblock]:
    """Return a superblock with one error."""
    lines = "" if count is None else f"FS Error count:           {count}\n"
    text = dumpe2fs_text() + lines
    return Known(parse_superblock(text), "dumpe2fs")


def test_no_error_is_known_without_root() -> None:
    """The count is 0, and its details are not asked for."""
    recorder = RecordingSource(debian_host().as_user().source())
    assert need(read_live_errors(recorder, "sdb", NO_SUPERBLOCK)) == ErrorCounters(0, 0)
    assert set(recorder.answers) == {
        ReadFile(f"{BASE}/errors_count"),
        ReadFile(f"{BASE}/warning_count"),
    }


def test_errors_are_told_with_where_and_when() -> None:
    """The first and the last of them; the code is the last one's."""
    assert need(live(with_errors())) == ErrorCounters(2, 3, FIRST, LAST, 5)


@pytest.mark.parametrize("missing", ["warning_count", "last_error_errcode"])
def test_an_older_kernel_has_fewer_files(missing: str) -> None:
    """What it does not count is None and not 0."""
    found = need(live(with_errors().without(f"{BASE}/{missing}")))
    assert (found.warnings is None, found.last_code is None) == (
        missing == "warning_count",
        missing == "last_error_errcode",
    )


def test_before_5_8_sysfs_has_the_times_only() -> None:
    """The superblock may tell more; without it the time alone is kept."""
    found = need(live(with_errors(detailed=False)))
    assert found.first == RecordedError(100, "", 0, 0, 0)
    assert found.errors == 2


def test_where_sysfs_is_hidden_the_superblock_tells() -> None:
    """Without either nothing is known, and least of all that there was no error."""
    host = debian_host().without(BASE)
    assert need(live(host, on_disk())).errors == 1
    assert isinstance(live(host), Unknown)


def test_what_is_not_mounted_has_the_errors_of_its_superblock() -> None:
    """A reader that does not see the count does not say 0."""
    assert need(stored_errors(on_disk(None))).errors == 0
    assert stored_errors(NO_SUPERBLOCK) is NO_SUPERBLOCK
