"""Edit one field of one line of /etc/fstab by commands that leave a changed file alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ext4audit.facts.mount import FstabLine
from ext4audit.facts.option_table import recognize
from ext4audit.remedies.shell import ASCII_LETTERS_AND_DIGITS, quote

FSTAB = "/etc/fstab"
BACKUP = "/etc/fstab.ext4audit"
COMMA = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')
"""A comma outside quotes: SELinux contexts hold commas of their own."""
PLAIN = frozenset(ASCII_LETTERS_AND_DIGITS + "/_-")
SPEC = re.compile(r"[A-Za-z0-9/_.:=-]+")
"""First fields that fstab spells one way only, and that begin no comment."""
BLANK, WORD = "[[:blank:]]", "[^[:blank:]]+"
SPECIAL = frozenset(r".[()*+?{}^$|\#")
"""What an extended regular expression of sed, delimited by #, does not take for itself."""


@dataclass(frozen=True, slots=True)
class FstabEdit:
    """Shell commands that change one field of one line, and those that change it back.

    The last command of each fails where the line is no longer what the audit saw.
    """

    apply: tuple[str, ...]
    undo: tuple[str, ...]


def edit_options(line: FstabLine, drop: Collection[str], add: Sequence[str]) -> FstabEdit | None:
    """Return the commands that remove the options `drop` from a line and append those in `add`.

    Spellings are compared by what they mean: dropping nobarrier also drops `barrier=0`. An
    emptied field becomes `defaults`. None when there is nothing to change, or when the line has
    no options field or cannot be quoted for a shell.
    """
    unwanted = {_meaning(token) for token in drop}
    kept = [word for word in COMMA.split(line.raw_options) if _meaning(word) not in unwanted]
    present = {_meaning(word) for word in kept}
    kept += [word for word in dict.fromkeys(add) if _meaning(word) not in present]
    edited = ",".join(word for word in kept if word) or "defaults"
    if edited == line.raw_options or not line.raw_options:
        return None
    there = _commands(line, line.raw_options, edited)
    back = _commands(line, edited, line.raw_options)
    return FstabEdit(there, back) if there and back else None


def edit_spec(line: FstabLine, spec: str) -> FstabEdit | None:
    """Return the commands that make `spec` the first field of a line, which names the device.

    None when it is so, or where a field has characters that fstab may spell in octal.
    """
    if spec == line.spec or not all(SPEC.fullmatch(each) for each in (spec, line.spec)):
        return None
    there = _commands(line, line.spec, spec, _device)
    back = _commands(line, spec, line.spec, _device)
    return FstabEdit(there, back) if there and back else None


def edit_type(line: FstabLine, fstype: str) -> FstabEdit | None:
    """Return the commands that change the type of a line; None where it is this type already."""
    if line.fstype == fstype:
        return None
    there = _commands(line, line.fstype, fstype, _type)
    back = _commands(line, fstype, line.fstype, _type)
    return FstabEdit(there, back) if there and back else None


def says(line: FstabLine, words: Sequence[str]) -> tuple[str, ...]:
    """Return the commands that succeed where the entry of this mount point has each word.

    Not `findmnt --verify`: it fails for any other line of the file, too.
    """
    where = quote(line.mount_point)
    ask = f"findmnt --fstab -no OPTIONS {where}"
    return tuple(f"{ask} | grep -qwF -e {quote(word)}" for word in words) if where else ()


def _meaning(token: str) -> tuple[str, str]:
    """Return what a token means: its option and canonical spelling, or the word itself."""
    known = recognize(token)
    return (known[0].name, known[1]) if known else ("", token)


def _options(line: FstabLine) -> tuple[str, str]:
    """Return the expressions of what stands before the options field, and of its end."""
    start = f"{BLANK}*{WORD}{BLANK}+{_pattern(line.mount_point)}/*{BLANK}+{WORD}{BLANK}+"
    return start, f"({BLANK}|$)"


def _device(line: FstabLine) -> tuple[str, str]:
    """Return the expressions of what stands before the device field, and of what follows it."""
    return f"{BLANK}*", f"({BLANK}+{_pattern(line.mount_point)}/*{BLANK})"


def _type(line: FstabLine) -> tuple[str, str]:
    """Return the expressions of what stands before the type field, and of its end."""
    start = f"{BLANK}*{WORD}{BLANK}+{_pattern(line.mount_point)}/*{BLANK}+"
    return start, f"({BLANK}|$)"


def _commands(
    line: FstabLine,
    before: str,
    after: str,
    place: Callable[[FstabLine], tuple[str, str]] = _options,
) -> tuple[str, ...]:
    """Return the backup, the guarded edit, and the check that fails where nothing was edited.

    A backup that is there is kept: it is of the file before the first of several edits.

    The edit needs the line's number, mount point and field as the audit saw them. LC_ALL=C: in
    a UTF-8 locale the brackets match no byte that is not UTF-8, and a line with such a mount
    point was silently left as it was.
    """
    start, end = place(line)
    replacement = re.sub(r"([\\&#])", r"\\\1", after)
    script = f"{line.line_number}s#^({start}){_escape(before)}{end}#\\1{replacement}\\2#"
    quoted = quote(script)
    if quoted is None:
        return ()
    done = quote(f"^{start}{_escape(after)}{end}")
    say = f"line {line.line_number} of {FSTAB} is not what was audited: nothing changed, scan again"
    check = f"sed -n {line.line_number}p {FSTAB} | LC_ALL=C grep -qE {done}"
    return (
        f"test -e {BACKUP} || cp -a {FSTAB} {BACKUP}",
        f"LC_ALL=C sed -i -E {quoted} {FSTAB}",
        f"{check} || {{ echo '{say}' >&2; false; }}",
    )


def _pattern(mount_point: str) -> str:
    """Return an expression for a mount point; fstab may spell any byte of it in octal."""
    name = mount_point.encode("utf-8", "surrogateescape").decode("latin-1")
    pattern = "".join(_escape(c) if c in PLAIN | {"."} else "[^[:blank:]]{1,4}" for c in name)
    return pattern.rstrip("/") or "/"


def _escape(text: str) -> str:
    """Make an expression that matches `text` and nothing else."""
    return "".join(f"\\{c}" if c in SPECIAL else c for c in text)
