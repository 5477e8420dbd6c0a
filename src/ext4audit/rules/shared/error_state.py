"""Recorded errors, and whether a filesystem has stopped accepting writes after one.

Seen on 5.10, 6.1, 6.12, 6.18 and 7.2 (fixtures/hosts/forced-readonly-*): up to 5.10 the superblock
becomes ro under a mount that stays rw; from then on everything says rw, and only the journal's
errno tells, until 6.15 or later adds the word emergency_ro.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ext4audit.evidence import Evidence, Known, Undetermined, Unknown, Why, need
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import Mount, flags_of
from ext4audit.facts.superblock import RecordedError
from ext4audit.finding import Citation, Confidence, Disruption, Remedy, Severity, Step
from ext4audit.remedies.offline import checked, unmounted_steps, why_by_hand
from ext4audit.remedies.shell import quote
from ext4audit.rule import NotApplicable
from ext4audit.rules.shared.quantities import utc

CODES = dict(
    enumerate(
        "UNKNOWN EIO ENOMEM EFSBADCRC EFSCORRUPTED ENOSPC ENOKEY EROFS EFBIG EEXIST ERANGE "
        "EOVERFLOW EBUSY ENOTDIR ENOTEMPTY ESHUTDOWN EFAULT".split(),
        1,
    )
)
"""The kinds of errors by the number in last_error_errcode (fs/ext4/ext4.h: EXT4_ERR_*)."""
STOPPED = frozenset({"emergency_ro", "shutdown", "abort"})
"""Words of the mount table that an error adds, and that no mount takes."""
LOOK_FIRST = (
    "Save dmesg and look at the disk first (smartctl, /proc/mdstat): on hardware that fails, "
    "e2fsck makes it worse. Where -p gives up, e2fsck -f asks before each repair: take an image "
    "of the device before."
)


def cite_errors(fs: Filesystem) -> Iterator[Citation]:
    """Yield the count of the errors, and what is recorded of the first and the last."""
    if not isinstance(fs.errors, Known):
        return
    counters, origin = fs.errors.value, fs.errors.origin
    yield Citation("errors", str(counters.errors), origin)
    if counters.errors and counters.first:
        yield Citation("first error", spell(counters.first), origin)
    if counters.errors and counters.last:
        kind = CODES.get(counters.last_code or 0)
        words = f"{spell(counters.last)}{f' ({kind})' if kind else ''}"
        yield Citation("last error", words, origin)


def spell(error: RecordedError) -> str:
    """Return an error as words: when, where in the kernel's source, and what it was about."""
    about = [("inode", error.inode), ("block", error.block)]
    parts = (
        f"on {utc(error.at)}" if error.at is not None else "",
        f"in {error.function}(), line {error.line}" if error.function else "",
        *(f"about {name} {number}" for name, number in about if number),
    )
    return ", ".join(part for part in parts if part) or "nothing else is recorded"


def check_it(fs: Filesystem, verify: tuple[str, ...]) -> Remedy:
    """Return the remedy that unmounts, checks and mounts again, as commands where they do it."""
    if any(mount.mount_point == "/" for mount in fs.mounts):
        return Remedy(
            summary="Boot once with fsck.mode=force on the kernel's command line, which makes "
            "systemd or the initramfs check the root; or check it from a rescue system.",
            disruption=Disruption.REBOOT,
            trade_off=LOOK_FIRST,
        )
    steps = check_steps(fs, verify)
    by_hand = "" if steps else f", {why_by_hand(fs)}"
    return Remedy(
        summary=f"Stop what writes to it, unmount it, let e2fsck check it, and mount it{by_hand}.",
        disruption=Disruption.UNMOUNT,
        steps=steps,
        trade_off=LOOK_FIRST,
    )


def check_steps(fs: Filesystem, verify: tuple[str, ...]) -> tuple[Step, ...]:
    """Return the commands of the check; what it repairs, nothing takes back."""
    asked = replace(fs, mounts=tuple(as_asked_for(mount) for mount in fs.mounts))
    return unmounted_steps(asked, [checked(fs)], verify)


def as_asked_for(mount: Mount) -> Mount:
    """Return a mount as it was before the kernel stopped its writes: so it is mounted again.

    A superblock that is ro under a mount that is rw was made so by an error.
    """
    words = [word for word in mount.super_options if word not in STOPPED]
    if "ro" not in mount.mount_options:
        words = ["rw" if word == "ro" else word for word in words]
    return replace(mount, super_options=tuple(words))


def no_errors_left(fs: Filesystem) -> str:
    """Return the command that fails while the kernel has errors on record."""
    return f"grep -qx 0 {quote(f'/sys/fs/ext4/{fs.name}/errors_count')}"


WORDS = ("emergency_ro", "shutdown")
REMOUNT_RO = "errors=remount-ro"


@dataclass(frozen=True, slots=True)
class Stop:
    """That writes have stopped: how sure it is, and what shows it."""

    confidence: Confidence
    severity: Severity
    because: str
    citations: tuple[Citation, ...]


def stop_of(fs: Filesystem) -> Stop | None:
    """Return what shows that a mounted filesystem refuses writes, None where it accepts them.

    Raises NotApplicable for one that is read-only on purpose.
    """
    if not fs.mounts:
        need(fs.options)
    word = next(_words(fs), None)
    if word is not None:
        because = f"the kernel says {word.value}"
        return Stop(Confidence.CONFIRMED, Severity.CRITICAL, because, (word,))
    return _read_only(fs) if need(fs.read_only) else _still_called_writable(fs)


def has_stopped(fs: Filesystem) -> bool:
    """Whether HLT002 finds more than a possibility: then its cure comes before any other."""
    try:
        stop = stop_of(fs)
    except (Undetermined, NotApplicable):
        return False
    return stop is not None and stop.confidence is not Confidence.POSSIBLE


def _words(fs: Filesystem) -> Iterator[Citation]:
    """Yield the words by which newer kernels say that they refuse writes."""
    for word in WORDS:
        option = fs.options.value.find(word) if isinstance(fs.options, Known) else None
        if option is not None:
            yield Citation("in force", word, option.origin)
        if any(word in mount.super_options for mount in fs.mounts):
            yield Citation("in force", word, "/proc/self/mountinfo")


def _read_only(fs: Filesystem) -> Stop | None:
    """Judge a superblock that says ro: an error did that where somebody asked for rw."""
    if need(fs.errors).errors == 0:
        raise NotApplicable("it is read-only, and no error is recorded")
    forced = [m for m in fs.mounts if "ro" in m.super_options and "ro" not in m.mount_options]
    asked = next(_asks_for_rw(fs), None)
    shown = Citation("superblock", "ro", "/proc/self/mountinfo")
    if asked is not None:
        because = f"it is read-only and {asked.origin} asks for rw"
        return Stop(Confidence.CONFIRMED, Severity.CRITICAL, because, (shown, asked))
    if forced:
        flags = Citation("mount", ",".join(forced[0].mount_options), "/proc/self/mountinfo")
        because = "its superblock is ro under a mount that is rw"
        return Stop(Confidence.LIKELY, Severity.CRITICAL, because, (shown, flags))
    need(fs.fstab)
    raise NotApplicable("it is read-only, and nothing asks for more")


def _asks_for_rw(fs: Filesystem) -> Iterator[Citation]:
    """Yield the entries of fstab that mean to write to it."""
    entries = fs.fstab.value if isinstance(fs.fstab, Known) else ()
    for line in (e.line for e in entries if any(e.is_for(mount) for mount in fs.mounts)):
        if "ro" not in flags_of(line.options):
            origin = f"/etc/fstab line {line.line_number}"
            yield Citation("fstab options", line.raw_options or "defaults", origin)


def _still_called_writable(fs: Filesystem) -> Stop | None:
    """Judge a superblock that says rw.

    Where no error is counted nothing has stopped: the next write would run into an aborted
    journal, and count. Nobody who is not root needs the journal's errno then.
    """
    if need(fs.errors).errors == 0:
        return None
    errno = fs.journal_errno
    if isinstance(errno, Known) and errno.value != 0:
        citation = Citation("journal errno", str(errno.value), errno.origin)
        because = f"the journal has given up with error {errno.value}"
        return Stop(Confidence.CONFIRMED, Severity.CRITICAL, because, (citation,))
    behaviour = need(need(fs.options).token("errors"))
    if behaviour == REMOUNT_RO and _happened_since_the_mount(fs):
        return _by_times(fs, errno)
    if not _has_no_journal(fs):
        need(errno)
    return None


def _has_no_journal(fs: Filesystem) -> bool:
    return isinstance(fs.superblock, Known) and not fs.superblock.value.has_journal


def _by_times(fs: Filesystem, errno: Evidence[int]) -> Stop:
    """Return what follows from the times alone.

    A journal that has not given up speaks against it. Yet a device that had gone away cannot
    have taken the errno; and who went from errors=continue to remount-ro after the error still
    writes (tried on 6.18).
    """
    certain = isinstance(errno, Unknown) or _has_no_journal(fs)
    at = _last_error_at(fs)
    return Stop(
        Confidence.LIKELY if certain else Confidence.POSSIBLE,
        Severity.CRITICAL if certain else Severity.HIGH,
        f"{REMOUNT_RO} is in force, and an error happened since it was mounted",
        (
            Citation("in force", REMOUNT_RO, need(fs.options).source),
            Citation("last error", utc(at), "superblock"),
            Citation("last mount", utc(need(fs.superblock).last_mounted_at or 0), "superblock"),
        ),
    )


def _happened_since_the_mount(fs: Filesystem) -> bool:
    """Whether the last error is of this mount, and no check came after it."""
    superblock = need(fs.superblock)
    mounted, at = superblock.last_mounted_at, _last_error_at(fs)
    if mounted is None:
        raise Undetermined((_not_told("time of the last mount"),))
    checked = superblock.last_checked_at
    return at >= mounted and not (checked is not None and checked > at)


def _last_error_at(fs: Filesystem) -> int:
    """Return when the last error was; of the superblock itself where it has the same error.

    dumpe2fs prints times without a zone: two that it printed compare, whatever the zone is.
    """
    superblock = need(fs.superblock)
    counters = need(fs.errors)
    same = superblock.error_count == counters.errors
    places = (superblock.last_error if same else None, counters.last, superblock.last_error)
    at = next((each.at for each in places if each and each.at is not None), None)
    if at is None:
        raise Undetermined((_not_told("time of the last error"),))
    return at


def _not_told(what: str) -> Unknown:
    return Unknown(what, Why.ABSENT, "neither sysfs nor the superblock tells it", "run as root")
