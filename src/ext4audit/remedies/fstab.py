"""Edit one field of one line of /etc/fstab: options, device or type.

The edit is two lines, before and after; the command is the shortest substitution that makes one
of the other. It keeps a copy of the file with the date and time in its name. Where the line is
another than the audited one, it matches nothing, as a rule, and says nothing. `sed -i` puts a new
file in the place of a symbolic link; what the link named stays as it was. Functions named `…_steps`
return a whole change with its verification.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import product

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
GAP = re.compile(r"[ \t]+|,|\r\Z")
"""What separates fields and options, and a carriage return at the end of a line."""
SPECIAL = frozenset(r".[*^$\/")
"""Characters that a basic regular expression of sed, delimited by /, does not match as such."""
ANY_QUOTA = "(usr|grp|prj)j?quota"
DEVICE, TYPE, OPTIONS = 0, 2, 3
"""The fields of a line, counted from 0 (fstab(5))."""


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


def _edit_steps(line: FstabLine, edit: Step | None, checks: Sequence[str]) -> tuple[Step, ...]:
    """Return an edit with its checks; empty without an edit, or where no check can be written."""
    if edit is None or quote(line.mount_point) is None:
        return ()
    return (edit, *in_phase(Phase.VERIFY, checks))


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
    fields = list(re.finditer(r"[^ \t]+", before.removesuffix("\r")))
    if len(fields) <= field:
        return None
    start, end = fields[field].span()
    after = before[:start] + word + before[end:]
    there, back = _substitution(before, after), _substitution(after, before)
    edit, undo = (_words(line, f"s/{old}/{new}/") for old, new in (there, back))
    is_edited = _words(line, f"s/{back[0]}/&/p")
    if edit is None or undo is None or is_edited is None:
        return None
    return Step(
        Phase.PERSISTENT,
        f"sed -i{BACKUP} {edit}",
        undo=f"sed -i {undo}",
        done=f"sed -n {is_edited} | grep -q .",
        change=LineEdit(FSTAB, line.line_number, before, after),
    )


def _composed(line: FstabLine) -> str:
    """Return a line that was not read from a file, as fstab(5) spells it."""
    names = (line.spec, line.mount_point, line.fstype)
    fields = (re.sub(r"[ \t\n\\]", lambda found: f"\\{ord(found[0]):03o}", name) for name in names)
    return " ".join((*fields, line.raw_options, f"{line.dump_frequency} {line.fsck_pass}"))


def _words(line: FstabLine, command: str) -> str | None:
    """Return the script and the file for sed; None where no shell word stands for the script."""
    script = quote(f"{line.line_number}{command}")
    return f"{script} {FSTAB}" if script else None


def _substitution(before: str, after: str) -> tuple[str, str]:
    """Return what `s` of sed replaces in a line, and by what: the shortest of whole options.

    sed replaces the first match, which must be the right one. In the changed line nothing may
    match, so that a second run changes nothing, nor an undo where the edit has not run.
    """
    return min(_substitutions(before, after), key=lambda found: len(found[0]) + len(found[1]))


def _substitutions(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Yield the patterns with their replacements; the whole line is one that always fits."""
    head, tail = _common(before, after), _common(before[::-1], after[::-1])
    edges = {0, len(before), *(edge for gap in GAP.finditer(before) for edge in gap.span())}
    starts = sorted(edge for edge in edges if edge <= head)
    stops = sorted(edge for edge in edges if edge >= len(before) - tail)
    for (start, begin), (stop, end) in product(
        _anchored(starts, 0, "^"), _anchored(stops, len(before), "$")
    ):
        stop_after = stop + len(after) - len(before)
        if start <= min(stop, stop_after):
            old = before[start:stop]
            expression = re.compile(begin + re.escape(old) + (r"\Z" if end else ""))
            first = expression.search(before)
            if first and first.start() == start and not expression.search(after):
                yield begin + _pattern(old) + end, _replacement(after[start:stop_after])


def _anchored(edges: Sequence[int], outermost: int, anchor: str) -> Iterator[tuple[int, str]]:
    """Yield edges without an anchor, and the outermost one with it as well."""
    for edge in edges:
        yield edge, ""
        if edge == outermost:
            yield edge, anchor


def _common(first: str, second: str) -> int:
    """Return how many characters two texts have in common at their start."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


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


def _pattern(text: str) -> str:
    """Return an expression that matches `text` and nothing else."""
    return _escaped("".join(f"\\{c}" if c in SPECIAL else c for c in text))


def _replacement(text: str) -> str:
    """Return what stands for `text` on the right side of a substitution."""
    return _escaped(re.sub(r"([\\&/])", r"\\\1", text))


def _escaped(text: str) -> str:
    """Spell what ends a field visibly, as GNU and busybox sed both take it."""
    return text.replace("\t", r"\t").replace("\r", r"\r")
