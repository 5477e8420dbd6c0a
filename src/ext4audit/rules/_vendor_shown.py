"""Set an option where the mount table shows it: in fstab, and no more in the superblock.

A mount table leaves out what the superblock asks for, also where fstab asks for it too (6.18).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import Mount
from ext4audit.facts.option_table import recognize, spec_named
from ext4audit.finding import Disruption, Phase, Remedy, Step
from ext4audit.rules._fstab import FstabEdit, edit_options
from ext4audit.rules._new_mount import disruption_of_new_mount, how, single_mount
from ext4audit.rules._persist import BINDS
from ext4audit.rules._remount import fstab_line, mount_again, typed
from ext4audit.rules._setters import rootflags
from ext4audit.rules._shell import quote
from ext4audit.rules._tune import apply_commands, superblock_change, undo_commands, verify_command

OPPOSITE = {"delalloc": "delalloc"}
"""What a superblock without the option means, of those that a vendor's check looks for."""


def shown_remedy(fs: Filesystem, host: Host, words: Sequence[str]) -> Remedy:
    """Return what moves words from the superblock to fstab, and mounts anew."""
    tokens = {known[0].name: known[1] for known in map(recognize, words) if known is not None}
    steps = tuple(_steps(fs, tokens))
    return Remedy(
        f"Ask for {', '.join(words)} in fstab, clear it in the superblock, and mount it anew."
        f"{how(fs)}{_first(fs, host)}",
        disruption_of_new_mount(fs) if fs.alive else Disruption.ONLINE,
        steps,
    )


def _first(fs: Filesystem, host: Host) -> str:
    """Return the sentence on the place that is left where no entry of fstab mounts it."""
    if "/" in fs.mount_points:
        return " rootflags= must ask for it too." if rootflags(host) else ""
    mount = single_mount(fs)
    if mount is None or fstab_line(fs, mount) is not None:
        return ""
    return " No fstab entry names it: the unit or script that mounts it must ask for it first."


def _steps(fs: Filesystem, tokens: Mapping[str, str]) -> Iterator[Step]:
    """Yield the commands; none where fstab does not mount it, or more than one mount must end."""
    mount = single_mount(fs)
    edits = list(_edits(fs, tokens))
    where = quote(mount.mount_point) if mount else None
    known = tokens.keys() <= OPPOSITE.keys()
    if mount is None or where is None or not known or fstab_line(fs, mount) is None:
        return
    change = superblock_change(fs, {name: OPPOSITE[name] for name in tokens})
    if not change.held:
        return
    again = mount_again(fs, mount, [typed(token) for token in tokens.values()], tokens)
    back = mount_again(fs, mount, (), tokens)
    forward = [c for edit in edits for c in edit.apply]
    yield from _of(Phase.PERSISTENT, [*forward, *apply_commands(fs, change, where, again)])
    yield from _of(Phase.IMMEDIATE, [f"umount {where}", again])
    yield from _of(Phase.VERIFY, [*_shown(mount, tokens), verify_command(fs, change)])
    undo = [c for edit in reversed(edits) for c in edit.undo]
    undone = [*undo_commands(fs, change, where, back), *undo, f"umount {where}", back]
    yield from _of(Phase.ROLLBACK, undone)


def _edits(fs: Filesystem, tokens: Mapping[str, str]) -> Iterator[FstabEdit]:
    for entry in fs.fstab.value if isinstance(fs.fstab, Known) else ():
        if BINDS.isdisjoint(entry.line.options):
            drop = [state for name in tokens for state in _others(name, tokens[name])]
            edit = edit_options(entry.line, drop, [typed(token) for token in tokens.values()])
            if edit is not None:
                yield edit


def _others(name: str, token: str) -> tuple[str, ...]:
    spec = spec_named(name)
    return tuple(state for state in (spec.on, spec.off) if state and state != token)


def _shown(mount: Mount, tokens: Mapping[str, str]) -> list[str]:
    table = f"findmnt -no OPTIONS {quote(mount.mount_point)} | tr , '\\n'"
    return [f"{table} | grep -qx {token}" for token in tokens.values()]


def _of(phase: Phase, commands: Sequence[str]) -> Iterator[Step]:
    return (Step(phase, command) for command in commands)
