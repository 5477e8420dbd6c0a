"""/etc/fstab: the mounts that the administrator intends (fstab(5))."""

from __future__ import annotations

import re

from ext4audit.facts.mount import FstabLine
from ext4audit.parsers.escapes import decode_octal, split_options

_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")
_BLANKS = re.compile(r"[ \t]+")
_REQUIRED_FIELDS = 3
_DEFAULTS = ["defaults", "0", "0"]


def parse_fstab(text: str) -> tuple[FstabLine, ...]:
    """Parse an fstab; lines that mount(8) reports as "parse error … ignored" are ignored too.

    Those have fewer than three fields, or something other than a number in the fifth or sixth.
    More than six fields are allowed, a "#" is a comment only at the start of a line, and a
    carriage return at the end of a line is dropped (all as libmount 2.38.1 does, by test).
    """
    numbered = enumerate(text.split("\n"), start=1)
    parsed = (_line(number, line) for number, line in numbered)
    return tuple(line for line in parsed if line is not None)


def _line(number: int, line: str) -> FstabLine | None:
    """Parse one line; None for a comment, a blank line and a line that mount(8) ignores."""
    stripped = line.removesuffix("\r").strip(" \t")
    if not stripped or stripped.startswith("#"):
        return None
    fields = _BLANKS.split(stripped)
    if len(fields) < _REQUIRED_FIELDS:
        return None
    given = fields[_REQUIRED_FIELDS:][: len(_DEFAULTS)]
    raw_options, frequency, fsck_pass = given + _DEFAULTS[len(given) :]
    if not (_NUMBER.fullmatch(frequency) and _NUMBER.fullmatch(fsck_pass)):
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
    )
