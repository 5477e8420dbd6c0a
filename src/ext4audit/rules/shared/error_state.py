"""Recorded errors, and whether a filesystem refuses writes after one.

Observed on 5.10, 6.1, 6.12, 6.18 and 7.2 (fixtures/hosts/forced-readonly-*). Up to 5.10 the
superblock becomes ro under a mount that stays rw. Later kernels show rw everywhere, and only the
errno of the aborted journal shows the state. Linux 6.15 and later add the option emergency_ro.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ext4audit.evidence import (
    MOUNT_TABLE,
    Evidence,
    Known,
    Undetermined,
    Unknown,
    Why,
    for_wording,
    need,
    origin_of,
)
from ext4audit.facts.host import ErrorCounters, Filesystem, Host, option_of
from ext4audit.facts.mount import flags_of
from ext4audit.facts.superblock import ERROR_MARK, RecordedError
from ext4audit.finding import Citation, Confidence, Severity
from ext4audit.rule import NotApplicable
from ext4audit.rules.shared import cite_fstab_options, superblock_field
from ext4audit.rules.shared.quantities import DAY_SECONDS, seconds_since_1970, utc

RECENT_SECONDS = 7 * DAY_SECONDS
LARGEST_UTC_OFFSET_SECONDS = 14 * 3600
"""The offset of the easternmost time zone, Pacific/Kiritimati (tzdata)."""

CODES: dict[int | None, str] = dict(
    enumerate(
        "UNKNOWN EIO ENOMEM EFSBADCRC EFSCORRUPTED ENOSPC ENOKEY EROFS EFBIG EEXIST ERANGE "
        "EOVERFLOW EBUSY ENOTDIR ENOTEMPTY ESHUTDOWN EFAULT".split(),
        1,
    )
)
"""Error names by the number in last_error_errcode (fs/ext4/ext4.h: EXT4_ERR_*)."""


def cite_errors(fs: Filesystem) -> Iterator[Citation]:
    """Cite the error count, the superblock state, and the recorded first and last errors."""
    if not isinstance(fs.errors, Known):
        return
    counters, origin = fs.errors.value, fs.errors.origin
    yield Citation("errors", str(counters.errors), origin)
    state = state_of(fs)
    if isinstance(state, Known) and (ERROR_MARK in state.value or not counters.errors):
        yield Citation("state", state.value, state.origin)
    if counters.errors and counters.first:
        yield Citation("first error", error_text(counters.first), origin)
    if counters.errors and counters.last:
        kind = CODES.get(counters.last_code)
        value = f"{error_text(counters.last)}{f' ({kind})' if kind else ''}"
        yield Citation("last error", value, origin)


def state_of(fs: Filesystem) -> Evidence[str]:
    """Return the superblock state: "clean" or "not clean", with or without "with errors"."""
    return superblock_field(fs, "state of the superblock", lambda superblock: superblock.state)


def is_marked(fs: Filesystem) -> bool:
    """Return whether the superblock is marked "with errors", even if its error count is 0.

    Replaying an aborted journal sets the mark without a count (ext4_clear_journal_err() in
    fs/ext4/super.c), as does an e2fsck that gives up. Only a complete check clears it.
    """
    need(state_of(fs))
    return need(fs.superblock).is_marked


def time_of_last_mount(fs: Filesystem) -> Evidence[int]:
    """Return the time of the last mount, 0 if none is recorded; only root can read it."""
    return superblock_field(
        fs,
        "time of the last mount",
        lambda each: each.last_mounted_at or (None if each.block_bytes is None else 0),
    )


def is_old_record(fs: Filesystem, host: Host, counters: ErrorCounters) -> bool:
    """Return whether the last error is over seven days old and, if known, precedes this mount.

    A rule that lowers a severity because of this must then `need(time_of_last_mount())`.
    """
    at = counters.last.at if counters.last else None
    now = seconds_since_1970(host.taken_at)
    mounted = time_of_last_mount(fs)
    since = [] if now is None else [now - RECENT_SECONDS]
    if isinstance(mounted, Known) and mounted.value:
        since.append(mounted.value)
    doubt = LARGEST_UTC_OFFSET_SECONDS if host.has_local_times else 0
    return at is not None and bool(since) and at < min(since) - doubt


def counted_errors(number: int) -> str:
    """Return a number of errors as a phrase: "1 error", "3 errors"."""
    return "1 error" if number == 1 else f"{number} errors"


def error_text(error: RecordedError) -> str:
    """Return an error as text: its time, kernel function and line, and the inode or block."""
    about = [("inode", error.inode), ("block", error.block)]
    parts = (
        f"on {utc(error.at)}" if error.at is not None else "",
        f"in {error.function}(), line {error.line}" if error.function else "",
        *(f"about {name} {number}" for name, number in about if number),
    )
    return ", ".join(part for part in parts if part) or "no details recorded"


ERROR_OPTIONS = ("emergency_ro", "shutdown")
"""Options by which newer kernels show that they refuse writes."""
REMOUNT_RO = "errors=remount-ro"


class WriteStop(NamedTuple):
    """The verdict that the kernel refuses writes, with its confidence, reason and evidence."""

    confidence: Confidence
    severity: Severity
    because: str
    citations: tuple[Citation, ...]


def write_stop_of(fs: Filesystem) -> WriteStop | None:
    """Return the verdict that a mounted filesystem refuses writes, None if it accepts them.

    Raises NotApplicable if the filesystem is read-only on purpose.
    """
    if not fs.mounts:
        need(fs.options)
    shown = next(_error_options(fs), None)
    if shown is not None:
        because = f"the kernel shows {shown.value}"
        return WriteStop(Confidence.CONFIRMED, Severity.CRITICAL, because, (shown,))
    return _judge_read_only(fs) if need(fs.read_only) else _judge_writable(fs)


def has_stopped(fs: Filesystem) -> bool:
    """Return whether it is confirmed or likely, as in HLT002, that a filesystem refuses writes."""
    try:
        stop = write_stop_of(fs)
    except (Undetermined, NotApplicable):
        return False
    return stop is not None and stop.confidence is not Confidence.POSSIBLE


def _error_options(fs: Filesystem) -> Iterator[Citation]:
    """Cite the options that show an emergency read-only state or a shutdown."""
    for name in ERROR_OPTIONS:
        option = option_of(fs, name)
        if option is not None:
            yield Citation("in force", name, option.origin)
        if any(name in mount.super_options for mount in fs.mounts):
            yield Citation("in force", name, MOUNT_TABLE)


def _judge_read_only(fs: Filesystem) -> WriteStop | None:
    """Judge a superblock that is ro: an error caused it if the mount or fstab sets rw."""
    if need(fs.errors).errors == 0 and not is_marked(fs):
        raise NotApplicable("it is read-only, and no error is recorded")
    need(fs.mounted_here)
    forced = [m for m in fs.mounts if "ro" in m.super_options and "ro" not in m.mount_options]
    requested = next(_rw_entries(fs), None)
    shown = Citation("superblock", "ro", MOUNT_TABLE)
    if requested is not None:
        because = f"it is read-only, but {requested.origin} sets rw"
        return WriteStop(Confidence.CONFIRMED, Severity.CRITICAL, because, (shown, requested))
    if forced:
        flags = Citation("mount", ",".join(forced[0].mount_options), MOUNT_TABLE)
        because = "its superblock is ro under a mount that is rw"
        return WriteStop(Confidence.LIKELY, Severity.CRITICAL, because, (shown, flags))
    need(fs.fstab)
    raise NotApplicable("it is read-only, and fstab does not set rw")


def _rw_entries(fs: Filesystem) -> Iterator[Citation]:
    """Cite the fstab entries that mount the filesystem writable at every boot.

    A line with noauto is for mounts by hand, such as a read-only one to save data.
    """
    entries = for_wording(fs.fstab, ())
    places = {mount.mount_point for mount in fs.mounts}
    for line in (entry.line for entry in entries if entry.place in places):
        if "ro" not in flags_of(line.options) and "noauto" not in line.options:
            yield cite_fstab_options(line)


def _judge_writable(fs: Filesystem) -> WriteStop | None:
    """Judge a superblock that is rw.

    Without a counted or marked error the journal is not aborted, because the next write would
    fail and be counted. The journal's errno is then not needed.
    """
    counted = need(fs.errors).errors
    if counted == 0 and not is_marked(fs):
        return None
    errno = fs.journal_errno
    if isinstance(errno, Known) and errno.value != 0:
        citation = Citation("journal errno", str(errno.value), errno.origin)
        because = f"the journal was aborted with error {errno.value}"
        return WriteStop(Confidence.CONFIRMED, Severity.CRITICAL, because, (citation,))
    behaviour = need(need(fs.options).token("errors"))
    if behaviour == REMOUNT_RO and not counted:
        return _judge_by_mark(fs)
    if behaviour == REMOUNT_RO and _happened_since_the_mount(fs):
        return _judge_by_times(fs, errno)
    if not _has_no_journal(fs):
        need(errno)
    return None


def _has_no_journal(fs: Filesystem) -> bool:
    return isinstance(fs.superblock, Known) and not fs.superblock.value.has_journal


def _judge_by_times(fs: Filesystem, errno: Evidence[int]) -> WriteStop:
    """Judge only by the times of the last error and the last mount.

    A journal errno of 0 contradicts an abort, but a device that had disappeared could not store
    the errno. A filesystem that was remounted from errors=continue to remount-ro after the error
    still accepts writes (6.18).
    """
    certain = isinstance(errno, Unknown) or _has_no_journal(fs)
    return WriteStop(
        Confidence.LIKELY if certain else Confidence.POSSIBLE,
        Severity.CRITICAL if certain else Severity.HIGH,
        f"{REMOUNT_RO} is in force, and an error happened since it was mounted",
        (
            Citation("in force", REMOUNT_RO, need(fs.options).source),
            _cite_time(fs, "time of the last error", _last_error_at(fs)),
            _cite_time(fs, "time of the last mount", _mounted_at(fs)),
        ),
    )


def _judge_by_mark(fs: Filesystem) -> WriteStop:
    """Judge by the mark "with errors" alone: the time of the error is not recorded."""
    return WriteStop(
        Confidence.POSSIBLE,
        Severity.HIGH,
        f"{REMOUNT_RO} is in force, and the superblock is marked {ERROR_MARK}, but counts none",
        (Citation("in force", REMOUNT_RO, need(fs.options).source),),
    )


def _happened_since_the_mount(fs: Filesystem) -> bool:
    """Return whether the last error happened during this mount, with no check after it."""
    at, checked = _last_error_at(fs), need(fs.superblock).last_checked_at
    return at >= _mounted_at(fs) and not (checked is not None and checked > at)


def _mounted_at(fs: Filesystem) -> int:
    mounted = need(fs.superblock).last_mounted_at
    if mounted is None:
        raise Undetermined((_unknown_time("time of the last mount"),))
    return mounted


def _last_error_at(fs: Filesystem) -> int:
    """Return the time of the last error, from the superblock if it records the same error.

    dumpe2fs prints times without a time zone; two times from its output can be compared anyway.
    """
    superblock = need(fs.superblock)
    counters = need(fs.errors)
    same = superblock.error_count == counters.errors
    places = (superblock.last_error if same else None, counters.last, superblock.last_error)
    at = next((each.at for each in places if each and each.at is not None), None)
    if at is None:
        raise Undetermined((_unknown_time("time of the last error"),))
    return at


def _cite_time(fs: Filesystem, what: str, at: int) -> Citation:
    """Cite a time from the superblock, with the superblock's origin."""
    return Citation(what, utc(at), origin_of(fs.superblock))


def _unknown_time(what: str) -> Unknown:
    return Unknown(what, Why.ABSENT, "neither sysfs nor the superblock shows it")
