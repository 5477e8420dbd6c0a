"""Read what the kernel has recorded of errors: sysfs, else the superblock."""

from __future__ import annotations

from ext4audit.assemble.inventory import SYS_EXT4
from ext4audit.assemble.reading import integer, word
from ext4audit.evidence import Evidence, Known, Unknown, Why, value_or
from ext4audit.facts.health import ErrorCounters
from ext4audit.facts.superblock import RecordedError, Superblock
from ext4audit.sources.ask import Source

WHAT = "recorded errors"


def read_live_errors(
    source: Source, name: str, superblock: Evidence[Superblock]
) -> Evidence[ErrorCounters]:
    """Return the counters of a filesystem that is alive; their details only where there are any."""
    directory = f"{SYS_EXT4}/{name}"
    count = integer(source, f"{directory}/errors_count")
    if isinstance(count, Unknown):
        on_disk = stored_errors(superblock)
        return on_disk if isinstance(on_disk, Known) else count
    warnings = value_or(integer(source, f"{directory}/warning_count"), None)
    if count.value == 0:
        return Known(ErrorCounters(0, warnings), count.origin)
    stored = value_or(stored_errors(superblock), ErrorCounters(0))
    return Known(
        ErrorCounters(
            errors=count.value,
            warnings=warnings,
            first=_recorded(source, f"{directory}/first_error", stored.first),
            last=_recorded(source, f"{directory}/last_error", stored.last),
            last_code=value_or(integer(source, f"{directory}/last_error_errcode"), None),
        ),
        count.origin,
    )


def stored_errors(superblock: Evidence[Superblock]) -> Evidence[ErrorCounters]:
    """Return what the superblock itself says."""
    if isinstance(superblock, Unknown):
        return superblock
    known = superblock.value
    if known.error_count is None:
        return Unknown(WHAT, Why.UNSUPPORTED, "this reading of the superblock does not tell them")
    counters = ErrorCounters(known.error_count, None, known.first_error, known.last_error)
    return Known(counters, superblock.origin)


def _recorded(source: Source, prefix: str, stored: RecordedError | None) -> RecordedError | None:
    """Return one error; before Linux 5.8 sysfs has no more of it than the time."""
    at = value_or(integer(source, f"{prefix}_time"), 0) or None
    function = word(source, f"{prefix}_func")
    if function is None:
        return stored or (RecordedError(at, "", 0, 0, 0) if at else None)
    line, inode, block = (
        value_or(integer(source, f"{prefix}_{each}"), 0) for each in ("line", "ino", "block")
    )
    return RecordedError(at, function, line, inode, block)
