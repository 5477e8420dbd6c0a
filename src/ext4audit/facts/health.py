"""What the kernel has recorded of errors in a filesystem that is alive."""

from __future__ import annotations

from ext4audit.facts.superblock import RecordedError
from ext4audit.records import dataclass


@dataclass(frozen=True, slots=True)
class ErrorCounters:
    """/sys/fs/ext4/<device>/{errors_count,first_error_*,last_error_*}, readable without root.

    The counter survives reboots until e2fsck clears it (ABI testing/sysfs-fs-ext4). `warnings`
    counts since the mount, None before Linux 5.9, which has no such file. `last_code` is the
    number of the last error's kind (fs/ext4/ext4.h: EXT4_ERR_*; 0 where none is recorded),
    None before Linux 5.8.
    """

    errors: int
    warnings: int | None = None
    first: RecordedError | None = None
    last: RecordedError | None = None
    last_code: int | None = None
