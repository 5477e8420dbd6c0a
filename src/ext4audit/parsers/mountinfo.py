"""/proc/<pid>/mountinfo: the mounts in force (proc_pid_mountinfo(5))."""

from __future__ import annotations

from ext4audit.facts.mount import Mount
from ext4audit.parsers.escapes import decode_octal, split_options
from ext4audit.parsers.sysfs import parse_device_number, parse_integer

_FIXED_FIELDS = 6
_FIELDS_AFTER_SEPARATOR = 3


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    r"""Parse a mount table; ValueError for a line that is no mount, and for an empty table.

    An empty table would read as "nothing is mounted, all is well", so it is refused.
    Lines end at "\n" alone: a mount point may hold \x0b, \x85 or U+2028, which the kernel does
    not escape and at which str.splitlines() would break the line.
    """
    lines = [line for line in text.split("\n") if line]
    if not lines:
        raise ValueError("the mount table is empty")
    return tuple(_mount(line) for line in lines)


def _mount(line: str) -> Mount:
    """Parse one line: six fields, optional fields of any number, "-", three fields.

    Fields are cut at every single space: a mount may have an empty source (`mount -t tmpfs ""`).
    """
    fields = line.split(" ")
    try:
        separator = fields.index("-", _FIXED_FIELDS)
    except ValueError:
        raise ValueError(f"no mount in {line[:80]!r}") from None
    after = fields[separator + 1 :]
    if len(after) != _FIELDS_AFTER_SEPARATOR:
        raise ValueError(f"no mount in {line[:80]!r}")
    return Mount(
        mount_id=parse_integer(fields[0]),
        parent_id=parse_integer(fields[1]),
        device_number=parse_device_number(fields[2]),
        root=decode_octal(fields[3]),
        mount_point=decode_octal(fields[4]),
        mount_options=_options(fields[5]),
        fstype=decode_octal(after[0]),
        source=decode_octal(after[1]),
        super_options=_options(after[2]),
    )


def _options(text: str) -> tuple[str, ...]:
    r"""Split first, decode then: a comma inside a value is escaped ("lowerdir=/a\054b")."""
    return tuple(decode_octal(option) for option in split_options(text))
