"""Change settings in files: a line of /etc/fstab, dirty memory limits, block queue attributes.

An edit of fstab changes one field of one line: options, device or type. It is stored as the line
before and after. The sed command is the shortest substitution that turns one into the other and
contains the mount point, so the line of another mount point is never changed. It keeps a copy of
the file with the date and time in its name. If the line is no longer the audited one, sed matches
nothing and does not report it; the verification then fails. If fstab is a symbolic link, a new
file replaces the link and its target remains unchanged: GNU and busybox sed have no common option
that follows links, and naming the target would make each command longer. Functions named
`…_steps` return a complete change with its verification.

Limits (sysctl) and attributes (udev) are set immediately, and by a new file at every boot.
"""

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from ext4audit.facts.host import Memory
from ext4audit.facts.mount import FstabLine
from ext4audit.facts.options import recognize
from ext4audit.finding import Assignment, LineEdit, NewFile, Phase, Setting, Step
from ext4audit.remedies import (
    Command,
    done_of,
    if_quotable,
    plain,
    quote,
    step,
    verified,
    verify_steps,
)

FSTAB = "/etc/fstab"
BACKUP = ".$(date +%Y%m%d-%H%M%S)"
"""The suffix of the copy that `sed -i` keeps: the time of the edit. The line number is appended,
because edits of two lines within one second would otherwise write the same copy."""
COMMA = r',(?=(?:[^"]*"[^"]*")*[^"]*$)'
"""A comma outside quotes; SELinux contexts contain commas inside quotes."""
SPEC = r"[A-Za-z0-9/_.:=-]+"
"""First fields that have only one spelling in fstab and do not begin a comment."""
GAP = r"[ \t]+|,|\r\Z"
"""Separators of fields and options, and a carriage return at the end of a line."""
SPECIAL = frozenset(r".[*^$\/")
"""Characters that are special in a basic regular expression of sed delimited by /."""
DEVICE, PLACE, TYPE, OPTIONS = 0, 1, 2, 3
"""The fields of a line, counted from 0 (fstab(5))."""


@if_quotable
def option_steps(line: FstabLine, drop: Sequence[str], add: Sequence[str]) -> tuple[Step, ...]:
    """Return the steps that remove the options `drop` from a line and append those in `add`.

    The result is empty if nothing changes or if the line cannot be edited.
    """
    edit = edit_options(line, drop, add)
    return verified(edit) if edit else ()


@if_quotable
def device_steps(line: FstabLine, spec: str) -> tuple[Step, ...]:
    """Return the steps that make `spec` the device of a line.

    They verify that `spec` resolves to the same device as the previous one of the line.
    """
    edit = edit_spec(line, spec)
    if edit is None:
        return ()
    same = Command(f'test "$(findfs {spec})" -ef {line.spec}', ("findfs",))
    return verified(edit._replace(devices=(line.spec,)), same)


def edit_options(line: FstabLine, drop: Collection[str], add: Sequence[str]) -> Step | None:
    """Return the step that removes the options `drop` from a line and appends those in `add`.

    Options are compared by meaning: dropping nobarrier also drops `barrier=0`. An emptied field
    becomes `defaults`. The result is None if nothing changes or if the line has no options field.
    """
    unwanted = {_meaning(token) for token in drop}
    before = [token for token in re.split(COMMA, line.raw_options) if token]
    kept = [token for token in before if _meaning(token) not in unwanted]
    present = {_meaning(token) for token in kept}
    kept += [token for token in dict.fromkeys(add) if _meaning(token) not in present]
    edited = kept or ["defaults"]
    is_same = before in (kept, edited) or not line.raw_options
    return None if is_same else _edit(line, OPTIONS, ",".join(edited))


def edit_spec(line: FstabLine, spec: str) -> Step | None:
    """Return the step that makes `spec` the first field of a line, which names the device.

    The result is None if it already is, or if fstab may have octal escapes in one of the fields.
    """
    if spec == line.spec or not all(re.fullmatch(SPEC, each) for each in (spec, line.spec)):
        return None
    return _edit(line, DEVICE, spec)


def edit_type(line: FstabLine, fstype: str) -> Step | None:
    """Return the step that changes the type of a line, or None if it already has this type."""
    return None if line.fstype == fstype else _edit(line, TYPE, fstype)


def _edit(line: FstabLine, field: int, word: str) -> Step | None:
    """Return the step that sets a field of a line to `word`, or None if the field is missing."""
    before = line.text or _composed(line)
    fields = list(re.finditer(r"[^ \t]+", before.removesuffix("\r")))
    if len(fields) <= field:
        return None
    start, end = fields[field].span()
    after = before[:start] + word + before[end:]
    return _step(LineEdit(FSTAB, line.line_number, before, after, line.is_numbered))


def _step(edit: LineEdit) -> Step:
    """Return the step that applies an edit.

    `done` checks the line itself, because findmnt(8) shows only the first of several lines for a
    directory.
    """
    before, after = edit.before, edit.after
    apply, undo = _script(edit, before, after), _script(edit, after, before)
    found = f"LC_ALL=C grep -qxF -e {quote(after)}"
    done = f"sed -n {edit.line_number}p {FSTAB} | {found}"
    return step(
        Phase.PERSISTENT,
        plain(f"sed -i{BACKUP}-{edit.line_number} {apply} {FSTAB}"),
        undo=plain(f"sed -i {undo} {FSTAB}"),
        done=plain(done if edit.is_numbered else f"{found} {FSTAB}"),
        change=edit,
    )


def merged(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return the steps with several edits of a line merged at the position of the first one.

    Two edits in the same second would give their copies of the file the same name, and when all
    have run, `done` holds only for the last edit of a line.
    """
    found: list[Step] = []
    places: dict[int, int] = {}
    for each in steps:
        edit, place = each.change, len(found)
        if isinstance(edit, LineEdit):
            place = places.setdefault(edit.line_number, place)
        combined = _merged_edit(found[place], each) if place < len(found) else None
        if combined:
            found[place] = combined
        else:
            found.append(each)
    return tuple(found)


def _merged_edit(first: Step, second: Step) -> Step | None:
    """Return one edit for two consecutive edits of a line, or None if they cannot be merged."""
    one, other = first.change, second.change
    if not isinstance(one, LineEdit) or not isinstance(other, LineEdit):
        return None
    is_change = one.after == other.before and one.before != other.after
    return _step(one._replace(after=other.after)) if is_change else None


def _composed(line: FstabLine) -> str:
    """Return the text of a line that was not read from a file, in the spelling of fstab(5)."""
    names = (line.spec, line.mount_point, line.fstype)
    fields = (re.sub(r"[ \t\n\\]", lambda found: f"\\{ord(found[0]):03o}", name) for name in names)
    return " ".join((*fields, line.raw_options, f"{line.dump_frequency} {line.fsck_pass}"))


def _script(edit: LineEdit, before: str, after: str) -> str:
    """Return the sed script that turns `before` into `after`, quoted.

    If the line has no number, the script matches the whole line.
    """
    if not edit.is_numbered:
        old, new = Replacement("^", before, "$", after).escaped()
        return quote(f"s/{old}/{new}/")
    old, new = _substitution(before, after)
    return quote(f"{edit.line_number}s/{old}/{new}/")


class Replacement(NamedTuple):
    """The pattern and the replacement of sed's `s` command, before characters are escaped."""

    begin: str
    old: str
    end: str
    new: str

    @property
    def size(self) -> int:
        """The number of characters of both sides without escapes, which is a lower bound."""
        return sum(map(len, self))

    def escaped(self) -> tuple[str, str]:
        """Return the pattern and the replacement, escaped for sed."""
        return self.begin + _pattern(self.old) + self.end, _replacement(self.new)


@lru_cache(maxsize=256)  # several remedies of a report may make and undo the same edit
def _substitution(before: str, after: str) -> tuple[str, str]:
    """Return the shortest pattern and replacement of whole options for sed's `s` command.

    sed replaces the first match, which must be the right one. The changed line must not match, so
    that a second run changes nothing, and neither does an undo if the edit has not run.
    """
    best = (sys.maxsize, 0, "", "")
    in_order = sorted(enumerate(_replacements(before, after)), key=lambda at: at[1].size)
    for number, each in in_order:
        if each.size > best[0]:
            break
        old, new = each.escaped()
        best = min(best, (len(old) + len(new), number, old, new))
    return best[2:]


def _replacements(before: str, after: str) -> Iterator[Replacement]:
    """Yield the possible replacements; that of the whole line always works.

    Each contains the mount point, so that no other line is edited after lines have moved.
    """
    head, tail = _common(before, after), _common(before[::-1], after[::-1])
    place = [found.span() for found in re.finditer(r"[^ \t\r]+", before)][PLACE : PLACE + 1]
    edges = {0, len(before), *(edge for gap in re.finditer(GAP, before) for edge in gap.span())}
    starts = sorted(edge for edge in edges if edge <= head)
    stops = sorted(edge for edge in edges if edge >= len(before) - tail)
    for (start, begin), (stop, end) in product(
        _anchored(starts, 0, "^"), _anchored(stops, len(before), "$")
    ):
        stop_after = stop + len(after) - len(before)
        names_place = all(start < first and last < stop for first, last in place)
        is_whole = (start, stop) == (0, len(before))
        if start <= min(stop, stop_after) and (names_place or is_whole):
            old = before[start:stop]
            matches = tuple(_first_match(text, old, begin, end) for text in (before, after))
            if matches == (start, None):
                yield Replacement(begin, old, end, after[start:stop_after])


def _anchored(edges: Sequence[int], outermost: int, anchor: str) -> Iterator[tuple[int, str]]:
    """Yield the edges without an anchor, and the outermost edge also with `anchor`."""
    for edge in edges:
        yield edge, ""
        if edge == outermost:
            yield edge, anchor


def _first_match(text: str, old: str, begin: str, end: str) -> int | None:
    """Return the position where sed finds `old` between its anchors, if any, or None."""
    where = text.rfind(old) if end else text.find(old)
    is_anchored = (not begin or where == 0) and (not end or where + len(old) == len(text))
    return where if where >= 0 and is_anchored else None


def _common(first: str, second: str) -> int:
    """Return the length of the common prefix of two texts."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


def _meaning(token: str) -> tuple[str, str]:
    """Return the option and canonical spelling of a token, or the token itself."""
    known = recognize(token)
    return (known[0].name, known[1]) if known else ("", token)


def _pattern(text: str) -> str:
    """Return an expression that matches `text` and nothing else."""
    return _escaped("".join(f"\\{c}" if c in SPECIAL else c for c in text))


def _replacement(text: str) -> str:
    """Return `text` escaped for the right side of a substitution."""
    return _escaped(re.sub(r"([\\&/])", r"\\\1", text))


def _escaped(text: str) -> str:
    """Replace tabs and carriage returns by escapes that GNU and busybox sed both accept."""
    return text.replace("\t", r"\t").replace("\r", r"\r")


SYSCTL_FILE = "/etc/sysctl.d/60-ext4audit-dirty.conf"
KERNEL_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
"""Device names that need no quoting in a shell, in a path and in a udev rule."""


def limit_dirty_memory(memory: Memory, limit_bytes: int) -> tuple[Step, ...]:
    """Return the steps that set vm.dirty_bytes, and a quarter of it as the background limit."""
    settings = {"vm.dirty_background_bytes": limit_bytes // 4, "vm.dirty_bytes": limit_bytes}
    assignments = " ".join(f"{key}={value}" for key, value in settings.items())
    lines = "".join(f"{key} = {value}\\n" for key, value in settings.items())
    background = memory.dirty_background_bytes, memory.dirty_background_ratio_percent
    before = (
        *_restored("vm.dirty_background", *background),
        *_restored("vm.dirty", memory.dirty_bytes, memory.dirty_ratio_percent),
    )
    check = _by_sysctl(f"-n vm.dirty_bytes | grep -qx {limit_bytes}")
    undo = _by_sysctl(f"-w {' '.join(before)}")
    # If two assignments restore a limit, the second one is the audited value.
    present = dict(each.split("=") for each in before)
    audited = Setting(" && ".join(f"sysctl -n {k} | grep -qx {v}" for k, v in present.items()))
    now = step(Phase.IMMEDIATE, _by_sysctl(f"-w {assignments}"), undo, check, change=audited)
    return (
        now._replace(sets=tuple(Assignment("", key, str(n)) for key, n in settings.items())),
        step(
            Phase.PERSISTENT,
            plain(f"printf '{lines}' > {SYSCTL_FILE}"),
            plain(f"rm -f {SYSCTL_FILE}"),
            change=NewFile(SYSCTL_FILE, "".join(f"{k} = {v}\n" for k, v in settings.items())),
        ),
        step(Phase.VERIFY, check),
    )


def _by_sysctl(words: str) -> Command:
    return Command(f"sysctl {words}", ("sysctl",))


def _restored(name: str, size_bytes: int, ratio_percent: int) -> tuple[str, ...]:
    """Return the assignments that restore a limit.

    The kernel rejects 0 bytes. A ratio replaces the bytes, but only if the ratio changes, and it
    reads as 0 while bytes are set (mm/page-writeback.c; tried on 6.18).
    """
    if size_bytes:
        return (f"{name}_bytes={size_bytes}",)
    if not ratio_percent:
        return (f"{name}_ratio=1", f"{name}_ratio=0")
    return (f"{name}_ratio={ratio_percent}",)


def disable_writeback_throttling(disks: Sequence[tuple[str, int]]) -> tuple[Step, ...]:
    """Return the steps that set queue/wbt_lat_usec to 0.

    `disks` has kernel names and current values. The result is empty if a name needs quoting.
    """
    if not all(re.fullmatch(KERNEL_NAME, name) for name, _ in disks):
        return ()
    now, at_boot = [], []
    for name, latency in disks:
        attribute = f"/sys/block/{name}/queue/wbt_lat_usec"
        now.append(_set_now(attribute, 0, latency, f"grep -qx 0 {attribute}"))
        keys = f'KERNEL=="{name}", ATTR{{queue/wbt_lat_usec}}="0"'
        at_boot.append(_set_at_boot(f"wbt-{name}", keys))
    return (*now, *at_boot, *verify_steps(map(done_of, now)))


def _set_now(attribute: str, value: int, present: int, check: str) -> Step:
    """Return the step that writes a value to a file in /sys whose current value is `present`."""
    change, undo = (plain(f"echo {each} > {attribute}") for each in (value, present))
    audited = Setting(f"grep -qx {present} {attribute}")
    return step(Phase.IMMEDIATE, change, undo, plain(check), change=audited)


def _set_at_boot(name: str, keys: str) -> Step:
    """Return the step that writes a udev rule for block devices, applied at every boot."""
    udev_rule = f'ACTION=="add|change", SUBSYSTEM=="block", {keys}'
    path = f"/etc/udev/rules.d/60-ext4audit-{name}.rules"
    write, remove = plain(f"echo '{udev_rule}' > {path}"), plain(f"rm -f {path}")
    return step(Phase.PERSISTENT, write, remove, change=NewFile(path, f"{udev_rule}\n"))


LONGEST_TIMEOUT = 4294967295
"""The largest value that queue/io_timeout accepts; it reads back a little smaller (jiffies)."""
MODEL = r"[A-Za-z0-9 ]+"
"""Models of disks that contain no special characters of the patterns in a udev rule."""


def lengthen_timeout(name: str, model: str, present_msec: int, least_msec: int) -> tuple[Step, ...]:
    """Return the steps that set the longest queue/io_timeout, now and for all disks of a model.

    `name` is the disk's kernel name; a timeout of at least `least_msec` counts as done. The
    result is empty if a name needs quoting.
    """
    if not (re.fullmatch(KERNEL_NAME, name) and re.fullmatch(MODEL, model)):
        return ()
    attribute = f"/sys/block/{name}/queue/io_timeout"
    check = f'test "$(cat {attribute})" -ge {least_msec}'
    # The rule matches the model, because names of NVMe disks can change between boots.
    keys = (
        f'ENV{{DEVTYPE}}=="disk", ATTRS{{model}}=="{model}", '
        f'ATTR{{queue/io_timeout}}="{LONGEST_TIMEOUT}"'
    )
    return (
        _set_now(attribute, LONGEST_TIMEOUT, present_msec, check),
        _set_at_boot(f"timeout-{model.lower().replace(' ', '-')}", keys),
        step(Phase.VERIFY, plain(check)),
    )
