"""The script that applies remedies: the remedies as data, and `fix.sh`, which applies them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import NamedTuple

from ext4audit.evidence import Unknown
from ext4audit.facts.host import Filesystem
from ext4audit.finding import (
    UUID_FIELD,
    WRITING_CHECKS,
    Check,
    Inspection,
    LineEdit,
    NewFile,
    NewMount,
    Phase,
    Remount,
    Setting,
    Step,
    Unmount,
)
from ext4audit.fixing import ChosenRemedy, LeftOut
from ext4audit.fixing.composition import compose, name_of
from ext4audit.remedies import Unquotable, images, quote
from ext4audit.remedies.remount import kept_by_mount

ALWAYS = frozenset(
    "awk cat chmod cmp cp cut date dd find grep head id ln mkdir mv od readlink rm sed stat sync "
    "tail tr wc".split()
)
"""The tools that fix.sh itself calls; remedies name the others that they call."""
HEAD = """\
#!/bin/sh
# ext4audit {version}: remedies for {node}, as audited {taken_at}.
# Usage: sh FILE             check all preconditions and show the changes; change nothing
#        sh FILE --apply     apply and verify each remedy; roll back one that fails
#        sh FILE --verify    check that the remedies are applied
#        sh FILE --undo      restore the previous state, which --apply recorded in
#                            ${{EXT4AUDIT_STATE:-/var/lib/ext4audit}}
#        --only NUMBER       this remedy only
# shellcheck disable=SC2016 # commands are data until their step runs
"""


class Unwritable(Exception):  # noqa: N818 - the message is printed as it is
    """Raised for a remedy that a script cannot contain; the message has the reason."""


class AuditedHost(NamedTuple):
    """The host that a script is for; `machine_id` is None if it was not captured."""

    node: str
    machine_id: str | None
    taken_at: str
    version: str


class Script(NamedTuple):
    """A script, its identity (a hash), its remedies in order, and the omitted findings."""

    text: str
    identity: str
    chosen: tuple[ChosenRemedy, ...]
    left: tuple[LeftOut, ...]


def build_script(
    audited: AuditedHost, chosen: Sequence[ChosenRemedy], left: Sequence[LeftOut]
) -> Script:
    """Return the script for the chosen remedies; its `left` includes those it cannot contain."""
    writable, unwritable = _writable(chosen)
    composed, conflicting, chains = compose(writable)
    all_left = (*left, *unwritable, *conflicting)
    remedies = [_function(number, each, chains) for number, each in enumerate(composed, start=1)]
    data = "\n".join((*_settings(audited, composed), *remedies))
    identity = hashlib.sha256(data.encode()).hexdigest()[:12]
    library = resources.files(__package__).joinpath("fix.sh").read_text(encoding="utf-8")
    head = _head(audited, composed, all_left)
    text = "\n".join((head, f"id={identity}", data, library, 'main "$@"\n'))
    return Script(text, identity, composed, all_left)


def _writable(chosen: Sequence[ChosenRemedy]) -> tuple[list[ChosenRemedy], list[LeftOut]]:
    """Divide remedies into those that a script can contain, and the others with the reason."""
    writable, left = [], []
    for each in chosen:
        try:
            _function(1, each, {})
        except Unwritable as reason:  # noqa: PERF203 - each can fail separately
            left.append(LeftOut(each.rule, each.subject, str(reason)))
        else:
            writable.append(each)
    return writable, left


def _head(audited: AuditedHost, chosen: Sequence[ChosenRemedy], left: Sequence[LeftOut]) -> str:
    about = HEAD.format(
        version=audited.version, node=_plain(audited.node), taken_at=audited.taken_at
    )
    lines = ["# Applied remedies:" if chosen else "# Applied remedies: none."]
    lines += [
        f"#   {n}. {_plain(each.title)}: {_plain(each.remedy.summary)}"
        for n, each in enumerate(chosen, 1)
    ]
    if left:
        lines += ["# Omitted findings:", *(f"#   {_plain(str(each))}" for each in left)]
    return about + "\n".join(lines)


def _plain(text: str) -> str:
    """Return a text as one line of printable ASCII, for a comment."""
    return "".join(character if " " <= character <= "~" else "?" for character in text)


def _settings(audited: AuditedHost, chosen: Sequence[ChosenRemedy]) -> Iterator[str]:
    called = {
        program
        for each in chosen
        for step in each.remedy.steps
        for program in (*step.programs.command, *step.rollback_programs, *step.programs.done)
    }
    yield f"machine_id={_word(audited.machine_id or '')}"
    yield f"node={_word(audited.node)}"
    yield f"tools='{' '.join(sorted(called | ALWAYS))}'"
    yield f"remedies={len(chosen)}"


def _function(number: int, each: ChosenRemedy, chains: Mapping[tuple[str, int], list[str]]) -> str:
    """Return the shell function with the data of one remedy; raises Unwritable."""
    work = [step for step in each.remedy.steps if step.phase is not Phase.VERIFY]
    # An edit verifies its line itself, because later remedies may also edit that line.
    edited = {step.done for step in work if isinstance(step.change, LineEdit)}
    verify = (step for step in each.remedy.steps if step.phase is Phase.VERIFY)
    checks = [_check(step) for step in verify if step.command not in edited]
    writing = [str(n) for n, step in enumerate(work, 1) if _writes(step.programs.done)]
    strict = _flag(not any(isinstance(step.change, Unmount) for step in work))
    checked = _flag(any(isinstance(step.change, Check) for step in work))
    about = f"title={_word(_plain(each.title))} steps={len(work)} strict={strict} checked={checked}"
    about += f" repeated={_word(_repeated(each, work))}"
    about += f" writing={_word(' '.join(('', *writing, '')))}"
    return "\n".join(
        (
            f"remedy_{number}() {{",
            "\tcase $1 in",
            f"\tabout) {about} ;;",
            _case("filesystems", _preconditions(each)),
            *(_case(str(n), [call]) for n, call in enumerate(_calls(each, work, chains), 1)),
            _case("verify", checks),
            "\tesac",
            "}",
        )
    )


def _repeated(each: ChosenRemedy, work: Sequence[Step]) -> str:
    """Return the options of mount(8) that the commands repeat, escaped as in its own table."""
    for step in work:
        place = _unmounted_by_undo(each, step)
        if isinstance(step.change, Unmount | Remount):
            place = step.change.mount_point
        if place is not None:
            fs = _mounted_at(each, place)
            mount = next(mount for mount in fs.mounts if mount.mount_point == place)
            return _key(",".join(kept_by_mount(fs, mount)))
    return ""


def _check(step: Step) -> str:
    return _call("verify", _flag(_writes(step.programs.command)), step.command)


def _writes(programs: Sequence[str]) -> bool:
    return not WRITING_CHECKS.isdisjoint(programs)


def _flag(is_set: bool) -> str:
    return "true" if is_set else "false"


def _case(label: str, commands: Iterable[str]) -> str:
    body = " &&\n\t\t\t".join(commands) or ":"
    return f"\t{label})\n\t\t{body}\n\t\t;;"


def _preconditions(each: ChosenRemedy) -> Iterator[str]:
    fields = (value.name for step in each.remedy.steps for value in step.sets)
    new_uuid = UUID_FIELD in fields
    for fs in each.filesystems:
        if images(fs):
            raise Unwritable("it is an image, not a mounted filesystem of the host")
        if fs.uuid is None:
            hint = fs.superblock.hint if isinstance(fs.superblock, Unknown) else ""
            why = f" ({hint})" if hint else ""
            raise Unwritable(f"its UUID is unknown{why}, so the script could not identify it")
        uuid = "" if new_uuid else fs.uuid
        yield _call("filesystem", fs.device, fs.name, str(fs.device_number), uuid)


def _calls(
    each: ChosenRemedy, work: Sequence[Step], chains: Mapping[tuple[str, int], list[str]]
) -> Iterator[str]:
    for step in work:
        match step.change:
            case LineEdit() as edit:
                yield _edit(edit, chains)
            case NewFile(path, content):
                yield _call("new_file", path, content.removesuffix("\n"))
            case Remount() as change:
                yield _remount(_mounted_at(each, change.mount_point), step, change)
            case Unmount(place, again):
                fs = _mounted_at(each, place)
                yield _call("unmount", place, _key(place), *_names(fs), step.command, again)
            case Check(device, is_forced, wholes):
                name, how = _on_device(each, device).name, "-fp" if is_forced else "-p"
                commands = step.command, step.rollback, step.done
                yield _call("check", device, name, how, *commands, *wholes)
            case Setting(audited):
                commands = step.command, step.rollback, step.done
                yield _call(*_by_unmount(each, step), "setting", *commands, audited)
            case Inspection(runs_first):
                yield _call("inspect", _flag(runs_first), step.command, step.done)
            case NewMount(place, done_before):
                commands = step.command, step.rollback, step.done
                yield _call("mount_step", _key(place), *commands, _flag(done_before))
            case _:
                commands = step.command, step.rollback, step.done
                yield _call(*_by_unmount(each, step), "run_step", *commands)


def _by_unmount(each: ChosenRemedy, step: Step) -> tuple[str, ...]:
    """Return the first words of the call of a step that only an unmount takes back, or ()."""
    place = _unmounted_by_undo(each, step)
    if place is None:
        return ()
    return "by_unmount", place, _key(place), *_names(_mounted_at(each, place))


def _unmounted_by_undo(each: ChosenRemedy, step: Step) -> str | None:
    """Return the mount point that must be unmounted to take a step back, None if none must be."""
    if step.undo or not step.undo_by_unmount or isinstance(step.change, NewMount):
        return None
    places = {place for fs in each.filesystems for place in fs.mount_points}
    return next((m.mount_point for m in step.mounts if m.mount_point in places), None)


def _edit(edit: LineEdit, chains: Mapping[tuple[str, int], list[str]]) -> str:
    chain = chains.get((edit.path, edit.line_number), [edit.before, edit.after])
    place = chain.index(edit.before) + 1 if edit.before in chain else 1
    number = edit.line_number if edit.is_numbered else 0
    return _call("edit_line", edit.path, str(number), str(place), *chain)


def _remount(fs: Filesystem, step: Step, change: Remount) -> str:
    mount = next(m for m in fs.mounts if m.mount_point == change.mount_point)
    before = {name_of(word): word for word in change.before}
    pairs = [f"{word}<{before.get(name_of(word), '')}" for word in change.after]
    return _call(
        "remount",
        change.mount_point,
        _key(change.mount_point),
        *_names(fs),
        mount.source or "none",
        _flag(change.is_bind),
        step.last_resort,
        step.done,
        *pairs,
    )


def _mounted_at(each: ChosenRemedy, place: str) -> Filesystem:
    for fs in each.filesystems:
        if place in fs.mount_points:
            return fs
    raise Unwritable(f"no audited filesystem is mounted on {place}")


def _on_device(each: ChosenRemedy, device: str) -> Filesystem:
    for fs in each.filesystems:
        if fs.device == device:
            return fs
    raise Unwritable(f"{device} is not an audited filesystem")


def _names(fs: Filesystem) -> tuple[str, str]:
    return fs.name, str(fs.device_number)


def _key(path: str) -> str:
    """Return a mount point, escaped as in mountinfo (fs/proc_namespace.c: show_mountinfo)."""
    return re.sub(r"[ \t\n\\]", lambda found: f"\\{ord(found[0]):03o}", path)


def _call(function: str, *words: str) -> str:
    return " ".join((function, *map(_word, words)))


def _word(text: str) -> str:
    """Return a shell word of printable ASCII; raises Unwritable."""
    try:
        return quote(text)
    except Unquotable as reason:
        raise Unwritable(str(reason)) from None
