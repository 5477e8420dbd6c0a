"""Change ext4 mount options to a wanted state, now and persistently, with rollback.

They are stored in fstab, or as defaults in the superblock: in option bits and in s_mount_opts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ext4audit.evidence import Known, for_wording
from ext4audit.facts.host import Filesystem, option_of
from ext4audit.facts.mount import BINDS, FstabLine, Mount, Provenance
from ext4audit.facts.options import canonical, recognize, spec_named
from ext4audit.finding import (
    MOUNT_STRING,
    Assignment,
    Disruption,
    Phase,
    Setting,
    Step,
    Unmount,
)
from ext4audit.remedies import (
    NOTHING,
    TUNE2FS,
    UNMOUNTING,
    Command,
    containing,
    if_quotable,
    in_force,
    is_writable,
    joined,
    mounted_by,
    quote,
    step,
    toggled,
    tuned,
    verified,
    verify_steps,
)
from ext4audit.remedies.configuration import edit_options
from ext4audit.remedies.remount import (
    is_free,
    mount_again,
    remount_step,
    replay_first,
    typed,
    unmount_and_mount,
    usable_mount,
)

SAFE_STRING = r"[A-Za-z0-9_=.:/,-]*"
"""Strings that debugfs, whose requests have their own syntax, accepts unchanged."""


class SuperblockChange(NamedTuple):
    """The changes of a superblock that give a mount without options the wanted ones.

    `bits` has the names of option bits to clear. `string` is s_mount_opts before and after.
    `unseen` has tokens in force that either a bit or the string sets; which one is unknown.
    `held` has all tokens to be removed.
    """

    bits: tuple[str, ...]
    string: tuple[str, str] | None
    unseen: tuple[str, ...]
    held: tuple[str, ...]


def superblock_change(fs: Filesystem, wanted: Mapping[str, str]) -> SuperblockChange:
    """Return the changes that the superblock needs for the `wanted` tokens, by option name."""
    bits = dict(_bits(fs, wanted))
    string = _string(fs, wanted)
    unseen = tuple(_unseen(fs, wanted))
    known = filter(None, map(recognize, string[0].split(","))) if string else ()
    dropped = [token for _, token in known if _against(token, wanted)]
    held = tuple(dict.fromkeys((*bits.values(), *dropped, *unseen)))
    return SuperblockChange(tuple(bits), string, unseen, held)


@if_quotable
def clear_defaults(fs: Filesystem, wanted: Mapping[str, str]) -> tuple[Step, ...]:
    """Return the steps that clear settings of an unmounted superblock that contradict `wanted`.

    The result is empty if no program can write to it: an e2image file contains a copy, and
    e2fsprogs interpret the part of a name after a question mark as options.
    """
    change = superblock_change(fs, wanted)
    if not change.held or not is_writable(fs):
        return ()
    steps = [*replay_first(fs), *_bit_steps(fs, change)]
    if change.string is not None:
        steps.append(_string_step(fs, *change.string))
    return (*steps, step(Phase.VERIFY, verify_command(fs, change)))


@if_quotable
def store_default(fs: Filesystem, name: str, token: str) -> tuple[Step, ...]:
    """Return the steps that make `token` the default of an option that has bits, such as data=.

    It takes effect at the next mount. The result is empty if the current bits are unknown, or if
    s_mount_opts, which overrides the bits, sets the option.
    """
    if not isinstance(fs.superblock, Known):
        return ()
    superblock = fs.superblock.value
    known = filter(None, map(recognize, superblock.mount_option_string.split(",")))
    if any(spec.name == name for spec, _ in known):
        return ()
    tokens = spec_named(name).superblock_bits
    bit = next(bit for bit, meaning in tokens.items() if meaning == token)
    old = next((bit for bit in superblock.default_mount_options if bit in tokens), f"^{bit}")
    check = f"tune2fs -l {quote(fs.device)} | grep -qE '^Default mount options:.* {bit}( |$)'"
    change, undo = (_set_bits(fs, [each]) for each in (bit, old))
    # The bits of an option are one field: another remedy must not set another of them.
    change = change._replace(sets=(*change.sets, Assignment(fs.device, f"tune2fs -o {name}", bit)))
    return verified(step(Phase.PERSISTENT, change, undo, Command(check, TUNE2FS)))


def superblock_steps(fs: Filesystem, change: SuperblockChange) -> Iterator[Step]:
    """Yield the steps that clear bits, and tokens of an s_mount_opts that could not be read.

    They take effect at the next mount, and are allowed on a mounted filesystem.
    """
    yield from _bit_steps(fs, change)
    for token in change.unseen:
        yield _unseen_step(fs, token)


def string_steps(
    fs: Filesystem, change: SuperblockChange, mount: Mount, again: Command
) -> Iterator[Step]:
    """Yield the steps that write s_mount_opts of a mounted filesystem.

    Only debugfs can write a list, but it must never write to a live superblock, which another
    mount namespace may still hold after the unmount. `again` is the command that mounts it again.
    """
    if change.string is None:
        return
    before, after = change.string
    if "," in after:
        there, back = unmount_and_mount(mount, again, again, Phase.PERSISTENT)
        yield from (there, *offline_string(fs, change), back)
        return
    online = _string_step(fs, before, after)
    if "," not in before:
        yield online
        return
    unmount = Command(f"umount {quote(mount.mount_point)}", UNMOUNTING)
    restore = joined(is_free(fs), _set_string(fs, before))
    # It is mounted again even if another mount namespace still holds it.
    work = containing(f"{{ {restore.text}; {again.text}; }}", restore, again)
    offline = joined(unmount, work, _has_string(fs, before))
    yield _string_step(fs, before, after, back=offline)


def offline_string(fs: Filesystem, change: SuperblockChange) -> tuple[Step, ...]:
    """Return the step that writes s_mount_opts of an unmounted filesystem, if it changes."""
    return () if change.string is None else (_string_step(fs, *change.string, is_free(fs)),)


def _bit_steps(fs: Filesystem, change: SuperblockChange) -> Iterator[Step]:
    if change.bits:
        listed = f"tune2fs -l {quote(fs.device)} | grep '^Default mount options:'"
        done = f"{listed} && ! {listed} | grep -qwE '{'|'.join(change.bits)}'"
        clear, undo = _set_bits(fs, [f"^{bit}" for bit in change.bits]), _set_bits(fs, change.bits)
        yield step(Phase.PERSISTENT, clear, undo, Command(done, TUNE2FS))


def _unseen_step(fs: Filesystem, token: str) -> Step:
    """Return the step that clears s_mount_opts if it contains only this token."""
    device = quote(fs.device)
    only = f"grep -qxE 'Mount options: +({_spellings(token)})'"
    clear = f"if tune2fs -l {device} | {only}; then tune2fs -E mount_opts= {device}; fi"
    some = f"tune2fs -l {device} | grep -q '^Mount options:'"
    undo = "" if _bits_of(token) else f"{some} || tune2fs -E mount_opts={token} {device}"
    done = f"tune2fs -l {device} | grep -q UUID: && ! tune2fs -l {device} | {only}"
    # Whether it has the feature mmp, with which these would need -f, was not read either.
    found = step(Phase.PERSISTENT, *(Command(each, TUNE2FS) for each in (clear, undo, done)))
    return found._replace(sets=(Assignment(fs.device, MOUNT_STRING, f"not {token}"),))


def verify_command(fs: Filesystem, change: SuperblockChange) -> Command:
    """Return the command that fails while the superblock holds an unwanted token."""
    spellings = "|".join(_spellings(token) for token in change.held)
    listing = f"tune2fs -l {quote(fs.device)}"
    lines = f"{listing} | grep -iE '^(default )?mount options:'"
    check = f"{listing} | grep -q UUID: && ! {lines} | grep -qwE '{spellings}'"
    return Command(check, TUNE2FS)


def _string_step(
    fs: Filesystem, before: str, after: str, first: Command = NOTHING, back: Command = NOTHING
) -> Step:
    """Return the step that writes s_mount_opts and nothing else.

    `first` is tested before each command. `back`, which unmounts, replaces the undo.
    """
    new, undo = (_set_string(fs, string) for string in (after, before))
    if first.text:
        new, undo = joined(first, new), joined(first, undo)
    done, audited = (_has_string(fs, string) for string in (after, before))
    undo, change = NOTHING if back.text else undo, Setting(audited.text)
    found = step(Phase.PERSISTENT, new, undo, done, change=change, by_unmount=back)
    return found._replace(sets=(Assignment(fs.device, MOUNT_STRING, after),))


def _has_string(fs: Filesystem, string: str) -> Command:
    """Return the command that fails unless s_mount_opts is this string."""
    listed = f"tune2fs -l {quote(fs.device)}"
    check = f"{listed} | grep -qxE 'Mount options: +{re.escape(string)}'"
    if not string:
        check = f"{listed} | grep -q UUID: && ! {listed} | grep -q '^Mount options:'"
    return Command(check, TUNE2FS)


def _set_bits(fs: Filesystem, bits: Sequence[str]) -> Command:
    return tuned(fs, "{tune2fs} -o {bits} {device}", toggled(fs, "-o", bits), bits=",".join(bits))


def _set_string(fs: Filesystem, string: str) -> Command:
    """Return the command that writes s_mount_opts.

    tune2fs 1.47.0 cannot write a list, because a comma ends its argument; debugfs can.
    """
    if "," not in string:
        return tuned(fs, "{tune2fs} -E mount_opts={string} {device}", string=string)
    request = f"'set_super_value mount_opts {string}'"
    return Command(f"debugfs -w -R {request} {quote(fs.device)}", ("debugfs",))


def _bits(fs: Filesystem, wanted: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the option bits that must be cleared, with the tokens that they set."""
    present = fs.superblock.value.default_mount_options if isinstance(fs.superblock, Known) else ()
    for name, token in wanted.items():
        for bit, meaning in spec_named(name).superblock_bits.items():
            if meaning != token and (bit in present or _set_by_bits(fs, name, meaning)):
                yield bit, meaning


def _set_by_bits(fs: Filesystem, name: str, token: str) -> bool:
    """Return whether the option's provenance shows that the bits set, or may set, `token`."""
    option = option_of(fs, name)
    if option is None:
        return False
    layers = [(layer.provenance, layer.token) for layer in option.layers]
    sources = {*layers, (option.set_by, option.token)}
    return bool(sources & {(Provenance.SUPERBLOCK_BITS, token), (Provenance.SUPERBLOCK, token)})


def _string(fs: Filesystem, wanted: Mapping[str, str]) -> tuple[str, str] | None:
    """Return s_mount_opts before and after the change, or None without a change."""
    before = fs.superblock.value.mount_option_string if isinstance(fs.superblock, Known) else ""
    after = ",".join(token for token in before.split(",") if not _against(token, wanted))
    return (before, after) if after != before and re.fullmatch(SAFE_STRING, before) else None


def _unseen(fs: Filesystem, wanted: Mapping[str, str]) -> Iterator[str]:
    """Yield the unwanted tokens that the superblock sets, if it could not be read."""
    if isinstance(fs.superblock, Known):
        return
    in_superblock = {Provenance.SUPERBLOCK, Provenance.SUPERBLOCK_STRING}
    for option, token in ((option_of(fs, name), token) for name, token in wanted.items()):
        if option is None or option.token == token or not re.fullmatch(SAFE_STRING, option.token):
            continue
        if in_superblock & {option.set_by, *(layer.provenance for layer in option.layers)}:
            yield option.token


def _against(token: str, wanted: Mapping[str, str]) -> bool:
    """Return whether a token of the string is another state of a wanted option."""
    known = recognize(token)
    return known is not None and wanted.get(known[0].name, known[1]) != known[1]


def _bits_of(token: str) -> tuple[str, ...]:
    """Return the option bits that set `token`."""
    known = recognize(token)
    return tuple(b for b, t in known[0].superblock_bits.items() if t == token) if known else ()


def _spellings(token: str) -> str:
    """Return a regular expression for a token's spellings in the bit field and in the string."""
    known = recognize(token)
    aliases = [a for a, t in known[0].aliases.items() if t == token] if known else []
    return "|".join(dict.fromkeys((token, *aliases, *_bits_of(token))))


def _lasting(fs: Filesystem, mount: Mount, wanted: Mapping[str, str]) -> Iterator[Step]:
    """Yield the steps that make the wanted tokens persistent."""
    yield from fstab_edits(fs, wanted)
    change = superblock_change(fs, wanted)
    yield from superblock_steps(fs, change)
    yield from string_steps(fs, change, mount, mount_again(fs, mount, (), wanted))


def superblock_checks(fs: Filesystem, wanted: Mapping[str, str]) -> Iterator[Command]:
    """Yield the command that fails while the superblock has an unwanted state, if it has one."""
    change = superblock_change(fs, wanted)
    if change.held:
        yield verify_command(fs, change)


def fstab_edits(fs: Filesystem, wanted: Mapping[str, str]) -> Iterator[Step]:
    """Yield the edits of the entries that mount the device."""
    yield from filter(None, (_edit(fs, line, wanted) for line in mounting_lines(fs)))


def mounting_lines(fs: Filesystem) -> Iterator[FstabLine]:
    """Yield the lines of fstab that mount the device, except bind mounts."""
    lines = (entry.line for entry in for_wording(fs.fstab, ()))
    yield from (line for line in lines if BINDS.isdisjoint(line.options))


def _edit(fs: Filesystem, line: FstabLine, wanted: Mapping[str, str]) -> Step | None:
    """Return the edit of a line that removes other states and adds wanted non-default ones."""
    present = [known for known in map(recognize, line.options) if known is not None]
    drop = [token for spec, token in present if wanted.get(spec.name, token) != token]
    add = [typed(token) for name, token in wanted.items() if not is_default(fs, name, token)]
    return edit_options(line, drop, add)


def is_default(fs: Filesystem, name: str, token: str) -> bool:
    """Return whether a mount without options has the token once the superblock is corrected."""
    option = option_of(fs, name)
    if option is not None and option.baseline == token:
        return True
    layers = option.layers if option is not None else ()
    by_kernel = [layer.token for layer in layers if layer.provenance is Provenance.KERNEL_DEFAULT]
    defaults = {default for _, default in spec_named(name).defaults}
    return token in by_kernel or (not by_kernel and defaults == {token})


def change_option(fs: Filesystem, name: str, wanted: str) -> tuple[Step, ...]:
    """Return the steps of `change_options` for one option, such as "data" to "data=ordered"."""
    return change_options(fs, {name: wanted})


@if_quotable
def change_options(
    fs: Filesystem, wanted: Mapping[str, str], *, remount: bool = True
) -> tuple[Step, ...]:
    """Return the steps that change several options, by name, to the wanted states at once.

    Persistent steps correct the origin of an option: the device's fstab entries, the superblock's
    bits, or its string. If none of these sets it, no step can make the change persistent. The
    steps are in execution order. `remount=False` omits the change of the running mount, which is
    always omitted for `data=`, because every kernel rejects it by remount. What takes effect only
    at the next mount is not verified. The result is empty if this namespace has no mount of the
    whole filesystem, or if a name cannot be quoted for a shell.
    """
    mount = usable_mount(fs)
    if mount is None:
        return ()
    tokens = {name: canonical(token) for name, token in wanted.items()}
    live = _live(fs, mount, tokens) if remount else ()
    changed_now = {n: t for n, t in tokens.items() if remount and n != "data"}
    checks = [*in_force(fs, changed_now), *superblock_checks(fs, tokens)]
    return (*live, *_lasting(fs, mount, tokens), *verify_steps(checks))


def disruption(steps: tuple[Step, ...]) -> Disruption:
    """Return the disruption of applying the steps; their rollback may be more disruptive.

    If there are no steps, it is a manual remount in the namespace that has the mount.
    """
    if any(isinstance(each.change, Unmount) for each in steps):
        return Disruption.UNMOUNT
    if not steps or any(each.phase is Phase.IMMEDIATE for each in steps):
        return Disruption.REMOUNT
    return Disruption.ONLINE


def not_persistent(fs: Filesystem, steps: tuple[Step, ...]) -> str:
    """Return a sentence if there are steps but none is persistent and fstab has no entry, or ""."""
    lasts = any(each.phase is Phase.PERSISTENT for each in steps) or any(mounting_lines(fs))
    if not steps or lasts:
        return ""
    return f" It has no fstab entry: also correct {mounted_by(fs)}."


def _live(fs: Filesystem, mount: Mount, tokens: Mapping[str, str]) -> Iterator[Step]:
    """Yield the remount that puts the tokens in force, unless they already are."""
    before = {name: option.token for name in tokens if (option := option_of(fs, name))}
    new = {n: t for n, t in tokens.items() if n != "data" and before.get(n) != t}
    old = {name: before[name] for name in new if name in before}
    if new:
        after, back = ([typed(token) for token in each.values()] for each in (new, old))
        by_unmount = _back_by_unmount(fs, mount, old)
        yield remount_step(mount, after, back, tuple(in_force(fs, new)), by_unmount)


def _back_by_unmount(fs: Filesystem, mount: Mount, old: Mapping[str, str]) -> Command:
    """Return the commands that restore tokens if a remount may refuse nodelalloc, else none."""
    if old.get("delalloc") != "nodelalloc":
        return NOTHING
    again = mount_again(fs, mount, [typed(token) for token in old.values()], old)
    # If another mount exists, a new one succeeds but gets the options of the other.
    checks = in_force(fs, old) if len(fs.mounts) > 1 else ()
    return joined(Command(f"umount {quote(mount.mount_point)}", UNMOUNTING), again, *checks)
