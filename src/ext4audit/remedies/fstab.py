"""Edit one field of one line of /etc/fstab: options, device or type.

The edit is two lines, before and after; the command is the shortest substitution that makes one
of the other. Functions named `…_steps` return a whole change with its verification.
"""

import re
from collections.abc import Collection, Iterator, Sequence

from ext4audit.facts.mount import FstabLine
from ext4audit.facts.option_table import recognize
from ext4audit.finding import LineEdit, Phase, Step
from ext4audit.remedies import in_phase, quote

FSTAB = "/etc/fstab"
BACKUP = ".$(date +%Y%m%d-%H%M%S)"
"""The suffix of the copy that `sed -i` keeps, by the time of the edit."""
COMMA = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')
"""A comma outside quotes: SELinux contexts hold commas of their own."""
SPEC = re.compile(r"[A-Za-z0-9/_.:=-]+")
"""First fields that fstab spells one way only, and that begin no comment."""
SPECIAL = frozenset(r".[*^$\/")
"""Characters that a basic regular expression of sed, delimited by /, does not match as such."""
DEVICE, TYPE, OPTIONS = 0, 2, 3
"""The fields of a line, counted from 0 (fstab(5))."""


def option_steps(line: FstabLine, drop: Sequence[str], add: Sequence[str]) -> tuple[Step, ...]:
    """Return the steps that remove the options `drop` from a line and append those in `add`.

    Empty where nothing changes, or where the line cannot be edited.
    """
    return _verified(line, edit_options(line, drop, add))


def device_steps(line: FstabLine, spec: str) -> tuple[Step, ...]:
    """Return the steps that make `spec` the device of a line.

    They verify that `spec` resolves to the device that the line named before.
    """
    return _verified(line, edit_spec(line, spec), f'test "$(findfs {spec})" -ef {line.spec}')


def _verified(line: FstabLine, edit: Step | None, *checks: str) -> tuple[Step, ...]:
    """Return an edit with its checks; empty without an edit, or where no shell word is the line.

    The line itself is compared: findmnt(8) finds the first of several lines for a directory.
    """
    after = quote(edit.change.after) if edit and isinstance(edit.change, LineEdit) else None
    if edit is None or after is None:
        return ()
    there = f"sed -n {line.line_number}p {FSTAB} | LC_ALL=C grep -qxF -e {after}"
    return (edit, *in_phase(Phase.VERIFY, (there, *checks)))


def edit_options(line: FstabLine, drop: Collection[str], add: Sequence[str]) -> Step | None:
    """Return the step that removes the options `drop` from a line and appends those in `add`.

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
    return _edit(line, OPTIONS, edited)


def edit_spec(line: FstabLine, spec: str) -> Step | None:
    """Return the step that makes `spec` the first field of a line, which names the device.

    None where it is so already, or where a field has characters that fstab may spell in octal.
    """
    if spec == line.spec or not all(SPEC.fullmatch(each) for each in (spec, line.spec)):
        return None
    return _edit(line, DEVICE, spec)


def edit_type(line: FstabLine, fstype: str) -> Step | None:
    """Return the step that changes the type of a line; None where it is this type already."""
    return None if line.fstype == fstype else _edit(line, TYPE, fstype)


def _edit(line: FstabLine, field: int, word: str) -> Step | None:
    """Return the step that puts `word` into a field of a line; None where it has no such field."""
    before = line.text or _composed(line)
    fields = list(re.finditer(r"[^ \t]+", before))
    if len(fields) <= field:
        return None
    start, end = fields[field].span()
    after = before[:start] + word + before[end:]
    there, back = _command(line, before, after), _command(line, after, before)
    if there is None or back is None:
        return None
    edit = LineEdit(FSTAB, line.line_number, before, after)
    return Step(Phase.PERSISTENT, f"sed -i{BACKUP} {there}", f"sed -i {back}", change=edit)


def _composed(line: FstabLine) -> str:
    """Return a line that was not read from a file, as fstab(5) spells it."""
    names = (line.spec, line.mount_point, line.fstype)
    fields = (re.sub(r"[ \t\n\\]", lambda found: f"\\{ord(found[0]):03o}", name) for name in names)
    return " ".join((*fields, line.raw_options, f"{line.dump_frequency} {line.fsck_pass}"))


def _command(line: FstabLine, before: str, after: str) -> str | None:
    """Return the expression and the file for sed; None where no shell word stands for it."""
    old, new = _difference(before, after)
    replacement = re.sub(r"([\\&/])", r"\\\1", new)
    script = quote(f"{line.line_number}s/{_pattern(old)}/{replacement}/")
    return f"{script} {FSTAB}" if script else None


def _difference(before: str, after: str) -> tuple[str, str]:
    """Return the shortest run of whole options or fields that differs, and what replaces it.

    sed replaces the first that matches: it begins earlier until the first match is the right one.
    """
    ends = [0, *(match.end() for match in re.finditer(r"[ \t]+|,", before)), len(before)]
    starts = sorted({*ends, *(match.start() for match in re.finditer(",", before))})
    same_head = _common(before, after)
    same_tail = min(_common(before[::-1], after[::-1]), min(len(before), len(after)) - same_head)
    stops = [m.start() for m in re.finditer(r"[ \t,]", before)] + [len(before)]
    stop = min(each for each in stops if each >= len(before) - same_tail)
    for start in _backwards(starts, same_head):
        old = before[start:stop]
        if old and before.find(old) == start:
            return old, after[start : len(after) - (len(before) - stop)]
    return before, after


def _common(first: str, second: str) -> int:
    """Return how many characters two texts have in common at their start."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


def _backwards(starts: Sequence[int], most: int) -> Iterator[int]:
    return (start for start in reversed(starts) if start <= most)


def _meaning(token: str) -> tuple[str, str]:
    """Return the option and canonical spelling of a token, or the token itself."""
    known = recognize(token)
    return (known[0].name, known[1]) if known else ("", token)


def _pattern(text: str) -> str:
    """Return an expression that matches `text` and nothing else."""
    return "".join(f"\\{c}" if c in SPECIAL else c for c in text)
