"""Mount tables: mountinfo, fstab and /proc/fs/ext4/*/options, with their escapes."""

from __future__ import annotations

import re
from typing import NamedTuple

from ext4audit.facts.mount import FstabLine, Mount
from ext4audit.parsers.kernel_files import parse_device_number, parse_integer

_OCTAL = rb"\\([0-7]{3})"
_OPTION = re.compile(r'[^,="]*="[^"]*"(?=,|$)|[^,]*')
_FIXED_FIELDS = 6
_FIELDS_AFTER_SEPARATOR = 3
_NUMBER = r"[+-]?[0-9]{1,10}"
_BLANKS = r"[ \t]+"
_REQUIRED_FIELDS = 3
_DEFAULTS = ["defaults", "0", "0"]
UNKNOWN_NUMBER = "?:?"
"""Stands for the device number in a table that was composed without it; the kernel has no such."""


class NumberNotCapturedError(ValueError):
    """A mount whose device number nothing in an archive tells."""


class UnreadLine(NamedTuple):
    """A line of the mount table that tells no mount, counted from 1, and why."""

    line_number: int
    error: ValueError


class MountTable(NamedTuple):
    """The mounts of a table, and its lines that could not be read."""

    mounts: tuple[Mount, ...]
    unread: tuple[UnreadLine, ...] = ()


def parse_mount_table(text: str) -> MountTable:
    r"""Parse the lines of a mount table one by one; ValueError where none is a mount.

    An empty table would mean that nothing is mounted, so it is refused. A line that cannot be
    read costs no other mount, but whoever concludes from the absence of one must look at `unread`.
    Lines end at "\n" alone: a mount point may hold \x0b, \x85 or U+2028, which the kernel does
    not escape and at which str.splitlines() would break the line.
    """
    mounts, unread = list[Mount](), list[UnreadLine]()
    for number, line in enumerate(text.split("\n"), start=1):
        found = _mount_or_error(line) if line else None
        if isinstance(found, Mount):
            mounts.append(found)
        elif found is not None:
            unread.append(UnreadLine(number, found))
    if not mounts:
        raise unread[0].error if unread else ValueError("the mount table is empty")
    return MountTable(tuple(mounts), tuple(unread))


def _mount_or_error(line: str) -> Mount | ValueError:
    try:
        return _mount(line)
    except ValueError as error:
        return error


def _mount(line: str) -> Mount:
    """Parse one line: six fields, optional fields of any number, "-", three fields.

    Fields are cut at every single space: a mount may have an empty source (`mount -t tmpfs ""`).
    """
    fields = line.split(" ")
    try:
        separator = fields.index("-", _FIXED_FIELDS)
    except ValueError:
        raise ValueError(f"not a mount: {line[:80]!r}") from None
    after = fields[separator + 1 :]
    if len(after) != _FIELDS_AFTER_SEPARATOR:
        raise ValueError(f"not a mount: {line[:80]!r}")
    if fields[2] == UNKNOWN_NUMBER:
        source, place = decode_octal(after[1]), decode_octal(fields[4])
        raise NumberNotCapturedError(
            f"the device number of {source}, mounted on {place}, is not in the archive"
        )
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


def parse_fstab(text: str) -> tuple[FstabLine, ...]:
    """Parse an fstab; lines that mount(8) reports as "parse error … ignored" are ignored too.

    Those have fewer than three fields, or something other than a number in the fifth or sixth.
    More than six fields are allowed, a "#" is a comment only at the start of a line, and a
    carriage return at the end of a line is dropped (all as libmount 2.38.1 does, by test).
    ValueError for NUL: a crash can leave a file of zeros, which is no empty fstab.
    """
    if "\0" in text:
        raise ValueError("it holds NUL")
    numbered = enumerate(text.split("\n"), start=1)
    parsed = (_line(number, line) for number, line in numbered)
    return tuple(line for line in parsed if line is not None)


def _line(number: int, line: str) -> FstabLine | None:
    """Parse one line; None for a comment, a blank line and a line that mount(8) ignores."""
    stripped = line.removesuffix("\r").strip(" \t")
    if not stripped or stripped.startswith("#"):
        return None
    fields = re.split(_BLANKS, stripped)
    if len(fields) < _REQUIRED_FIELDS:
        return None
    given = fields[_REQUIRED_FIELDS:][: len(_DEFAULTS)]
    raw_options, frequency, fsck_pass = given + _DEFAULTS[len(given) :]
    if not (re.fullmatch(_NUMBER, frequency) and re.fullmatch(_NUMBER, fsck_pass)):
        return None
    return FstabLine(
        line_number=number,
        spec=decode_octal(fields[0]),
        mount_point=decode_octal(fields[1]),
        fstype=decode_octal(fields[2]),
        options=split_options(decode_octal(raw_options)),
        raw_options=raw_options,
        dump_frequency=int(frequency),
        fsck_pass=int(fsck_pass),
        text=line,
    )


def parse_options_file(text: str) -> tuple[str, ...]:
    """Parse the options file: one option a line, "rw" or "ro" first.

    The quota options are appended to the last line, with commas, in every kernel from 3.4 to 7.2
    (ext4_show_quota_options() of fs/ext4/super.c). Options that no mainline kernel prints are
    kept: vendor kernels add their own. ValueError for a text that does not start with the
    state; stat(2) reports 0 bytes for the real file, so an empty text means that nothing was read.
    """
    tokens = tuple(
        decode_octal(token.strip()) for line in text.split("\n") for token in split_options(line)
    )
    tokens = tuple(token for token in tokens if token)
    if not tokens or tokens[0] not in {"rw", "ro"}:
        raise ValueError(f"{text[:40]!r} does not start with rw or ro")
    return tokens


def split_options(text: str) -> tuple[str, ...]:
    """Split an option list at its commas, but not inside the quotes of an SELinux context.

    `context="system_u:object_r:container_file_t:s0:c498,c574"` is one option, printed so by
    security/selinux/hooks.c on every container host with MCS labels.
    """
    found: list[str] = []
    position = 0
    while position <= len(text):
        match = _OPTION.match(text, position)
        end = match.end() if match else position
        found.append(text[position:end])
        position = end + 1
    return tuple(option for option in found if option)


def decode_octal(text: str) -> str:
    r"""Decode the escapes that the kernel and fstab(5) write for blanks in names ("\040").

    The escapes stand for bytes, not characters: "\303\244" is one character of UTF-8, so the
    text is decoded as bytes. Bytes that are not UTF-8 become surrogates again. Anything but three
    octal digits stays as it is (as in util-linux). ValueError: a surrogate that is no byte.
    Source: mangle_path() in fs/seq_file.c, fstab(5).
    """
    if "\\" not in text:
        return text
    raw = text.encode("utf-8", "surrogateescape")
    decoded = re.sub(_OCTAL, lambda match: bytes([int(match[1], 8) & 0xFF]), raw)
    return decoded.decode("utf-8", "surrogateescape")
