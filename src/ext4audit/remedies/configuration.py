"""Settings in files: a line of /etc/fstab; limits of dirty memory and attributes of block queues.

Of fstab one field of one line is edited: options, device or type. The edit is two lines, before
and after; the command is the shortest substitution that makes one of the other, mount point
included: a line of another mount point is never changed. It keeps a copy of the file with the date
and time in its name. Where the line is not the audited one any more, it matches nothing, and says
nothing: the verification does. Where fstab is a symbolic link, the new
file takes the place of the link, and what the link named stays as it was: no option of sed that
follows links is known to both GNU and busybox, and another name of the file would make each
command longer. Functions named `…_steps` return a whole change with its verification.

Limits (sysctl) and attributes (udev) are set now, and by a new file at every boot.
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
from ext4audit.finding import LineEdit, NewFile, Phase, Setting, Step
from ext4audit.remedies import in_phase, quote, verified

FSTAB = "/etc/fstab"
BACKUP = ".$(date +%Y%m%d-%H%M%S)"
"""The suffix of the copy that `sed -i` keeps, by the time of the edit; the number of the line
follows, because edits of two lines within one second would else write one copy."""
COMMA = r',(?=(?:[^"]*"[^"]*")*[^"]*$)'
"""A comma outside quotes: SELinux contexts hold commas of their own."""
SPEC = r"[A-Za-z0-9/_.:=-]+"
"""First fields that fstab spells one way only, and that begin no comment."""
GAP = r"[ \t]+|,|\r\Z"
"""What separates fields and options, and a carriage return at the end of a line."""
SPECIAL = frozenset(r".[*^$\/")
"""Characters that a basic regular expression of sed, delimited by /, does not match as such."""
DEVICE, PLACE, TYPE, OPTIONS = 0, 1, 2, 3
"""The fields of a line, counted from 0 (fstab(5))."""


def option_steps(line: FstabLine, drop: Sequence[str], add: Sequence[str]) -> tuple[Step, ...]:
    """Return the steps that remove the options `drop` from a line and append those in `add`.

    Empty where nothing changes, or where the line cannot be edited.
    """
    edit = edit_options(line, drop, add)
    return verified(edit) if edit else ()


def device_steps(line: FstabLine, spec: str) -> tuple[Step, ...]:
    """Return the steps that make `spec` the device of a line.

    They verify that `spec` resolves to the device that the line named before.
    """
    edit = edit_spec(line, spec)
    return verified(edit, f'test "$(findfs {spec})" -ef {line.spec}') if edit else ()


def edit_options(line: FstabLine, drop: Collection[str], add: Sequence[str]) -> Step | None:
    """Return the step that removes the options `drop` from a line and appends those in `add`.

    Options are compared by meaning: dropping nobarrier also drops `barrier=0`. An emptied field
    becomes `defaults`. None where nothing changes, or where the line has no options field or
    cannot be quoted for a shell.
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

    None where it is so already, or where a field has characters that fstab may spell in octal.
    """
    if spec == line.spec or not all(re.fullmatch(SPEC, each) for each in (spec, line.spec)):
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
    return _step(LineEdit(FSTAB, line.line_number, before, after, line.is_numbered))


def _step(edit: LineEdit) -> Step | None:
    """Return the step that makes an edit; None where no shell word stands for it.

    It is done where the line itself is as wanted: findmnt(8) shows the first of several lines for
    a directory.
    """
    before, after = edit.before, edit.after
    there, back, whole = _script(edit, before, after), _script(edit, after, before), quote(after)
    if None in (there, back, whole):
        return None
    found = f"LC_ALL=C grep -qxF -e {whole}"
    return Step(
        Phase.PERSISTENT,
        f"sed -i{BACKUP}-{edit.line_number} {there} {FSTAB}",
        undo=f"sed -i {back} {FSTAB}",
        done=f"sed -n {edit.line_number}p {FSTAB} | {found}"
        if edit.is_numbered
        else f"{found} {FSTAB}",
        change=edit,
    )


def merged(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return steps with one edit of a line in the place of the first of several.

    Two edits in the same second would have one name for their copies of the file, and only the
    last edit of a line is done when all have run.
    """
    found: list[Step] = []
    places: dict[int, int] = {}
    for step in steps:
        edit, place = step.change, len(found)
        if isinstance(edit, LineEdit):
            place = places.setdefault(edit.line_number, place)
        both = _both(found[place], step) if place < len(found) else None
        if both:
            found[place] = both
        else:
            found.append(step)
    return tuple(found)


def _both(first: Step, second: Step) -> Step | None:
    """Return one edit for two of a line, the second of what the first leaves; None if it cannot."""
    one, other = first.change, second.change
    if not isinstance(one, LineEdit) or not isinstance(other, LineEdit):
        return None
    is_change = one.after == other.before and one.before != other.after
    return _step(one._replace(after=other.after)) if is_change else None


def _composed(line: FstabLine) -> str:
    """Return a line that was not read from a file, as fstab(5) spells it."""
    names = (line.spec, line.mount_point, line.fstype)
    fields = (re.sub(r"[ \t\n\\]", lambda found: f"\\{ord(found[0]):03o}", name) for name in names)
    return " ".join((*fields, line.raw_options, f"{line.dump_frequency} {line.fsck_pass}"))


def _script(edit: LineEdit, before: str, after: str) -> str | None:
    """Return the script that makes `after` of `before`; None where no shell word stands for it.

    Without a number, the whole line is its address.
    """
    if not edit.is_numbered:
        old, new = Replacement("^", before, "$", after).escaped()
        return quote(f"s/{old}/{new}/")
    old, new = _substitution(before, after)
    return quote(f"{edit.line_number}s/{old}/{new}/")


class Replacement(NamedTuple):
    """What `s` of sed replaces in a line, and by what, before characters are escaped."""

    begin: str
    old: str
    end: str
    new: str

    @property
    def size(self) -> int:
        """The characters of both sides where none is escaped: the least that they can be."""
        return sum(map(len, self))

    def escaped(self) -> tuple[str, str]:
        """Return both sides as sed takes them."""
        return self.begin + _pattern(self.old) + self.end, _replacement(self.new)


@lru_cache(maxsize=256)  # several remedies of a report may make the same edit, and take it back
def _substitution(before: str, after: str) -> tuple[str, str]:
    """Return what `s` of sed replaces in a line, and by what: the shortest of whole options.

    sed replaces the first match, which must be the right one. In the changed line nothing may
    match, so that a second run changes nothing, nor an undo where the edit has not run.
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
    """Yield what would do; the whole line is one that always fits.

    Each holds the mount point: a line that has moved since the audit is not taken for another one.
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
            there, again = (_first_match(text, old, begin, end) for text in (before, after))
            if (there, again) == (start, None):
                yield Replacement(begin, old, end, after[start:stop_after])


def _anchored(edges: Sequence[int], outermost: int, anchor: str) -> Iterator[tuple[int, str]]:
    """Yield edges without an anchor, and the outermost one with it as well."""
    for edge in edges:
        yield edge, ""
        if edge == outermost:
            yield edge, anchor


def _first_match(text: str, old: str, begin: str, end: str) -> int | None:
    """Return where sed finds `old` in a text, between its anchors if there are any."""
    where = text.rfind(old) if end else text.find(old)
    is_anchored = (not begin or where == 0) and (not end or where + len(old) == len(text))
    return where if where >= 0 and is_anchored else None


def _common(first: str, second: str) -> int:
    """Return how many characters two texts have in common at their start."""
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
    """Return what stands for `text` on the right side of a substitution."""
    return _escaped(re.sub(r"([\\&/])", r"\\\1", text))


def _escaped(text: str) -> str:
    """Spell what ends a field visibly, as GNU and busybox sed both take it."""
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
    check = f"sysctl -n vm.dirty_bytes | grep -qx {limit_bytes}"
    undo = f"sysctl -w {' '.join(before)}"
    # Where two assignments restore a limit, the second one is the audited value.
    present = dict(each.split("=") for each in before)
    audited = Setting(" && ".join(f"sysctl -n {k} | grep -qx {v}" for k, v in present.items()))
    return (
        Step(Phase.IMMEDIATE, f"sysctl -w {assignments}", undo, check, audited),
        Step(
            Phase.PERSISTENT,
            f"printf '{lines}' > {SYSCTL_FILE}",
            f"rm -f {SYSCTL_FILE}",
            change=NewFile(SYSCTL_FILE, "".join(f"{k} = {v}\n" for k, v in settings.items())),
        ),
        Step(Phase.VERIFY, check),
    )


def _restored(name: str, size_bytes: int, ratio_percent: int) -> tuple[str, ...]:
    """Return the assignments that restore a limit.

    The kernel refuses 0 bytes; a ratio replaces the bytes, but only when it changes, and it
    reads as 0 while bytes are set (mm/page-writeback.c; tried on 6.18).
    """
    if size_bytes:
        return (f"{name}_bytes={size_bytes}",)
    if not ratio_percent:
        return (f"{name}_ratio=1", f"{name}_ratio=0")
    return (f"{name}_ratio={ratio_percent}",)


def disable_writeback_throttling(disks: Sequence[tuple[str, int]]) -> tuple[Step, ...]:
    """Return the steps that set queue/wbt_lat_usec to 0.

    `disks` are kernel names with the present value. Empty where a name would need quoting.
    """
    if not all(re.fullmatch(KERNEL_NAME, name) for name, _ in disks):
        return ()
    now, at_boot = [], []
    for name, latency in disks:
        attribute = f"/sys/block/{name}/queue/wbt_lat_usec"
        now.append(_set_now(attribute, 0, latency, f"grep -qx 0 {attribute}"))
        keys = f'KERNEL=="{name}", ATTR{{queue/wbt_lat_usec}}="0"'
        at_boot.append(_set_at_boot(f"wbt-{name}", keys))
    return (*now, *at_boot, *in_phase(Phase.VERIFY, (step.done for step in now)))


def _set_now(attribute: str, value: int, present: int, check: str) -> Step:
    """Return the step that writes a value into a file of /sys that holds `present`."""
    there, back = (f"echo {each} > {attribute}" for each in (value, present))
    return Step(Phase.IMMEDIATE, there, back, check, Setting(f"grep -qx {present} {attribute}"))


def _set_at_boot(name: str, keys: str) -> Step:
    """Return the step that writes the rule for block devices which udev applies at every boot."""
    udev_rule = f'ACTION=="add|change", SUBSYSTEM=="block", {keys}'
    path = f"/etc/udev/rules.d/60-ext4audit-{name}.rules"
    write = f"echo '{udev_rule}' > {path}"
    return Step(Phase.PERSISTENT, write, f"rm -f {path}", change=NewFile(path, f"{udev_rule}\n"))


LONGEST_TIMEOUT = 4294967295
"""The largest value that queue/io_timeout takes; it reads back a little smaller (jiffies)."""
MODEL = r"[A-Za-z0-9 ]+"
"""Models of disks that stand for themselves in a udev rule, which has patterns."""


def lengthen_timeout(name: str, model: str, present_msec: int, least_msec: int) -> tuple[Step, ...]:
    """Return the steps that set the longest queue/io_timeout, now and for all disks of a model.

    `name` is the disk's kernel name; at least `least_msec` counts as done. Empty where a name
    would need quoting.
    """
    if not (re.fullmatch(KERNEL_NAME, name) and re.fullmatch(MODEL, model)):
        return ()
    attribute = f"/sys/block/{name}/queue/io_timeout"
    check = f'test "$(cat {attribute})" -ge {least_msec}'
    # By the model: the names of NVMe disks can change between starts.
    keys = (
        f'ENV{{DEVTYPE}}=="disk", ATTRS{{model}}=="{model}", '
        f'ATTR{{queue/io_timeout}}="{LONGEST_TIMEOUT}"'
    )
    return (
        _set_now(attribute, LONGEST_TIMEOUT, present_msec, check),
        _set_at_boot(f"timeout-{model.lower().replace(' ', '-')}", keys),
        Step(Phase.VERIFY, check),
    )
