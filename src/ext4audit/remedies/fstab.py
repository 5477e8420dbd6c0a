"""Edit one field of one line of /etc/fstab: options, device or type.

An edit does nothing where the line is not what was audited. Functions named `…_steps` return a
whole change: edit, verification and rollback.
"""

import re
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from ext4audit.facts.mount import FstabLine
from ext4audit.facts.option_table import recognize
from ext4audit.finding import Phase, Step
from ext4audit.remedies import ASCII_LETTERS_AND_DIGITS, in_phase, quote

FSTAB = "/etc/fstab"
BACKUP = "/etc/fstab.ext4audit"
COMMA = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')
"""A comma outside quotes: SELinux contexts hold commas of their own."""
PLAIN = frozenset(ASCII_LETTERS_AND_DIGITS + "/_-")
SPEC = re.compile(r"[A-Za-z0-9/_.:=-]+")
"""First fields that fstab spells one way only, and that begin no comment."""
BLANK, FIELD = "[[:blank:]]", "[^[:blank:]]+"
SPECIAL = frozenset(r".[()*+?{}^$|\#")
"""Characters that an extended regular expression of sed, delimited by #, does not match as such."""
ANY_QUOTA = "(usr|grp|prj)j?quota"


class FstabEdit(NamedTuple):
    """Shell commands that change one field of one line, and those that change it back.

    The last command of each fails where the line differs from what was audited.
    """

    apply: tuple[str, ...]
    undo: tuple[str, ...]


def option_steps(line: FstabLine, drop: Sequence[str], add: Sequence[str]) -> tuple[Step, ...]:
    """Return the steps that remove the options `drop` from a line and append those in `add`.

    Empty where nothing changes, or where the line cannot be edited or verified.
    """
    gone = (f"! {check}" for check in _option_checks(line, drop))
    return _edit_steps(line, edit_options(line, drop, add), (*gone, *_option_checks(line, add)))


def remove_quota_steps(line: FstabLine, options: Sequence[str]) -> tuple[Step, ...]:
    """Return the steps that remove quota options from a line; no kind of quota may be left."""
    where = quote(line.mount_point)
    check = (
        f"findmnt --fstab -n {where} > /dev/null && "
        f"! findmnt --fstab -no OPTIONS {where} | grep -qE '{ANY_QUOTA}'"
    )
    return _edit_steps(line, edit_options(line, options, ()), (check,))


def device_steps(line: FstabLine, spec: str) -> tuple[Step, ...]:
    """Return the steps that make `spec` the device of a line.

    They verify that `spec` resolves to the device that the line named before.
    """
    where = quote(line.mount_point)
    checks = (
        f"findmnt --fstab -no SOURCE {where} | grep -qxF {spec}",
        f'test "$(findfs {spec})" -ef {line.spec}',
    )
    return _edit_steps(line, edit_spec(line, spec), checks)


def _edit_steps(line: FstabLine, edit: FstabEdit | None, checks: Sequence[str]) -> tuple[Step, ...]:
    """Return an edit with its checks; empty without an edit, or where no check can be written."""
    if edit is None or quote(line.mount_point) is None:
        return ()
    return (
        *in_phase(Phase.PERSISTENT, edit.apply),
        *in_phase(Phase.VERIFY, checks),
        *in_phase(Phase.ROLLBACK, edit.undo),
    )


def edit_options(line: FstabLine, drop: Collection[str], add: Sequence[str]) -> FstabEdit | None:
    """Return the commands that remove the options `drop` from a line and append those in `add`.

    Options are compared by meaning: dropping nobarrier also drops `barrier=0`. An emptied field
    becomes `defaults`. None where nothing changes, or where the line has no options field or
    cannot be quoted for a shell.
    """
    unwanted = {_meaning(token) for token in drop}
    kept = [token for token in COMMA.split(line.raw_options) if _meaning(token) not in unwanted]
    present = {_meaning(token) for token in kept}
    kept += [token for token in dict.fromkeys(add) if _meaning(token) not in present]
    edited = ",".join(token for token in kept if token) or "defaults"
    if edited == line.raw_options or not line.raw_options:
        return None
    there = _commands(line, line.raw_options, edited)
    back = _commands(line, edited, line.raw_options)
    return FstabEdit(there, back) if there and back else None


def edit_spec(line: FstabLine, spec: str) -> FstabEdit | None:
    """Return the commands that make `spec` the first field of a line, which names the device.

    None where it is so already, or where a field has characters that fstab may spell in octal.
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


def _option_checks(line: FstabLine, options: Sequence[str]) -> tuple[str, ...]:
    """Return a command for each option that fails where the entry of this mount point lacks it.

    Not `findmnt --verify`, which also fails for other lines of the file.
    """
    listing = f"findmnt --fstab -no OPTIONS {quote(line.mount_point)}"
    return tuple(f"{listing} | grep -qwF -e {quote(option)}" for option in options)


def _meaning(token: str) -> tuple[str, str]:
    """Return the option and canonical spelling of a token, or the token itself."""
    known = recognize(token)
    return (known[0].name, known[1]) if known else ("", token)


def _options(line: FstabLine) -> tuple[str, str]:
    """Return the expressions for what precedes the options field, and for its end."""
    start = f"{BLANK}*{FIELD}{BLANK}+{_pattern(line.mount_point)}/*{BLANK}+{FIELD}{BLANK}+"
    return start, f"({BLANK}|$)"


def _device(line: FstabLine) -> tuple[str, str]:
    """Return the expressions for what precedes the device field, and for what follows it."""
    return f"{BLANK}*", f"({BLANK}+{_pattern(line.mount_point)}/*{BLANK})"


def _type(line: FstabLine) -> tuple[str, str]:
    """Return the expressions for what precedes the type field, and for its end."""
    start = f"{BLANK}*{FIELD}{BLANK}+{_pattern(line.mount_point)}/*{BLANK}+"
    return start, f"({BLANK}|$)"


def _commands(
    line: FstabLine,
    before: str,
    after: str,
    place: Callable[[FstabLine], tuple[str, str]] = _options,
) -> tuple[str, ...]:
    """Return the backup, the edit, and the check that fails where nothing was edited.

    An existing backup is kept: it holds the file before the first of several edits.

    The edit matches the line by number, mount point and field as audited. LC_ALL=C: in a UTF-8
    locale the brackets match no byte that is not UTF-8, and a line with such a mount point
    would silently stay as it is.
    """
    start, end = place(line)
    replacement = re.sub(r"([\\&#])", r"\\\1", after)
    script = f"{line.line_number}s#^({start}){_escape(before)}{end}#\\1{replacement}\\2#"
    quoted = quote(script)
    if quoted is None:
        return ()
    done = quote(f"^{start}{_escape(after)}{end}")
    message = (
        f"line {line.line_number} of {FSTAB} is not what was audited: nothing changed, scan again"
    )
    check = f"sed -n {line.line_number}p {FSTAB} | LC_ALL=C grep -qE {done}"
    return (
        f"test -e {BACKUP} || cp -a {FSTAB} {BACKUP}",
        f"LC_ALL=C sed -i -E {quoted} {FSTAB}",
        f"{check} || {{ echo '{message}' >&2; false; }}",
    )


def _pattern(mount_point: str) -> str:
    """Return an expression for a mount point; fstab may spell any byte of it in octal."""
    name = mount_point.encode("utf-8", "surrogateescape").decode("latin-1")
    pattern = "".join(_escape(c) if c in PLAIN | {"."} else "[^[:blank:]]{1,4}" for c in name)
    return pattern.rstrip("/") or "/"


def _escape(text: str) -> str:
    """Make an expression that matches `text` and nothing else."""
    return "".join(f"\\{c}" if c in SPECIAL else c for c in text)
