"""Put what a vendor demands in force, and show it where its checks look.

A mount table leaves out what the superblock asks for, also where fstab asks for it too (6.18).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ext4audit.evidence import Known, value_or
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.kernel_bugs import exposure
from ext4audit.facts.mount import ATIME_OPTIONS, FstabEntry, Mount
from ext4audit.facts.option_table import recognize, spec_named
from ext4audit.finding import Disruption, Phase, Remedy, Step
from ext4audit.remedies.fstab import FstabEdit, edit_options
from ext4audit.remedies.mounting import (
    FlagChange,
    by_remount,
    change_by_new_mount,
    corrected,
    disruption_of_new_mount,
    how,
    remountable,
    single_mount,
)
from ext4audit.remedies.options import BINDS, change_options, disruption, forgotten, option_of
from ext4audit.remedies.remount import DELALLOC_STAYS_SINCE, fstab_line, mount_again, typed
from ext4audit.remedies.shell import quote
from ext4audit.remedies.superblock import (
    apply_commands,
    superblock_change,
    undo_commands,
    verify_command,
)
from ext4audit.rules.shared.citations import rootflags, what_else_sets_it

OPPOSITE = {"delalloc": "delalloc"}
"""What a superblock without the option means, of those that a vendor's check looks for."""


def shown_remedy(fs: Filesystem, host: Host, words: Sequence[str]) -> Remedy:
    """Return what moves words from the superblock to fstab, and mounts anew."""
    tokens = {known[0].name: known[1] for known in map(recognize, words) if known is not None}
    steps = tuple(_listing_steps(fs, tokens))
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


def _listing_steps(fs: Filesystem, tokens: Mapping[str, str]) -> Iterator[Step]:
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


GENTLE = {"relatime": ("atime", "relatime"), "noatime": ("noatime",)}
"""What brings back the access times of a mount; strictatime where it shows neither word.

Seen with util-linux 2.38 on 6.18: relatime alone leaves the noatime of the mount table in force.
"""


def in_force_remedy(fs: Filesystem, host: Host, words: Sequence[str]) -> Remedy:
    """Return what puts words in force now and for good: flags first, then options of ext4."""
    tokens = {known[0].name: known[1] for known in map(recognize, words) if known is not None}
    beside = _beside(fs, host, tokens)
    anew = _needs_new_mount(host, tokens)
    steps = _option_steps(fs, words, {**tokens, **beside}, anew=anew)
    also = ", with dioread_lock, because of PRF001 on this kernel" if beside else ""
    by_hand = [how(fs)] if anew else []
    by_hand += [what_else_sets_it(fs, host, name) for name in tokens]
    return Remedy(
        f"Put {', '.join(words)} in force and into fstab{also}."
        f"{''.join(dict.fromkeys((*by_hand, forgotten(steps))))}",
        disruption_of_new_mount(fs) if anew else disruption(steps) if steps else Disruption.REMOUNT,
        steps,
    )


def _beside(fs: Filesystem, host: Host, tokens: Mapping[str, str]) -> dict[str, str]:
    """Return what must go with nodelalloc where dioread_nolock would make writes slow."""
    if tokens.get("delalloc") != "nodelalloc":
        return {}
    option = option_of(fs, "dioread_nolock")
    exposed = exposure("PRF001", host.kernel)
    affected = isinstance(exposed, Known) and exposed.value.affected
    off = option is not None and option.token == "nodioread_nolock"  # noqa: S105 - an option
    return {"dioread_nolock": "nodioread_nolock"} if affected and not off else {}


def _needs_new_mount(host: Host, tokens: Mapping[str, str]) -> bool:
    """Whether a remount is refused, or may be."""
    if tokens.get("delalloc") != "nodelalloc":
        return False
    kernel = value_or(host.kernel, None)
    return kernel is None or kernel.since(*DELALLOC_STAYS_SINCE)


def _option_steps(
    fs: Filesystem, words: Sequence[str], tokens: Mapping[str, str], *, anew: bool
) -> tuple[Step, ...]:
    """Return all commands in their order, the way back in the opposite one; all or none."""
    flags: list[Step] = []
    for word in (word for word in words if word in ATIME_OPTIONS):
        for mount in [mount for mount in fs.mounts if word not in mount.mount_options]:
            if not remountable(mount):
                return ()
            change = _flag_change(mount, word)
            flags = _joined(flags, by_remount(fs, change, (_shows(mount, word),)))
            fs = _after(fs, change)
    if not tokens:
        return tuple(flags)
    options = change_by_new_mount(fs, tokens, said=True) if anew else change_options(fs, tokens)
    return tuple(_joined(flags, options)) if options else ()


def _joined(first: Sequence[Step], then: Sequence[Step]) -> list[Step]:
    """Return two series as one: forward, then checks, then back, the later first."""
    return [
        *_without(first, Phase.VERIFY, Phase.ROLLBACK),
        *_without(then, Phase.VERIFY, Phase.ROLLBACK),
        *(step for step in (*first, *then) if step.phase is Phase.VERIFY),
        *(step for step in (*then, *first) if step.phase is Phase.ROLLBACK),
    ]


def _without(steps: Sequence[Step], *phases: Phase) -> Iterator[Step]:
    return (step for step in steps if step.phase not in phases)


def _flag_change(mount: Mount, word: str) -> FlagChange:
    before = next((back for shown, back in GENTLE.items() if shown in mount.mount_options), None)
    kept = tuple(each for each in mount.mount_options if each not in ATIME_OPTIONS)
    return FlagChange(
        before=mount,
        after=replace(mount, mount_options=(*kept, word)),
        words=(word,),
        back=before or ("strictatime",),
        drop=ATIME_OPTIONS.keys() - {word},
        add=(word,),
    )


def _after(fs: Filesystem, change: FlagChange) -> Filesystem:
    """Return the filesystem that the next commands meet: its mount and its fstab are changed."""
    mounts = (change.after if mount == change.before else mount for mount in fs.mounts)
    left = replace(corrected(fs, change), mounts=tuple(mounts))
    if not (isinstance(left.fstab, Known) and isinstance(fs.fstab, Known)):
        return left
    as_they_were = fs.fstab.value
    entries = (each if each in as_they_were else _written(each) for each in left.fstab.value)
    return replace(left, fstab=Known(tuple(entries), left.fstab.origin))


def _written(entry: FstabEntry) -> FstabEntry:
    """Return the entry with its options as an edit writes them."""
    words = ",".join(entry.line.options) or "defaults"
    return replace(entry, line=replace(entry.line, raw_options=words))


def _shows(mount: Mount, word: str) -> str:
    return f"findmnt -no VFS-OPTIONS -M {quote(mount.mount_point)} | grep -qw {word}"
