"""Mount a filesystem, or mount it again with options that a remount cannot change.

Observed on Linux 4.19 to 7.2: a remount rejects every change of `data=`, and no option clears
journal_async_commit or norecovery.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem, option_of
from ext4audit.facts.mount import DeviceNumber, FstabEntry, Mount, Provenance
from ext4audit.facts.options import spec_named
from ext4audit.finding import Disruption, Inspection, NewMount, Phase, Step
from ext4audit.remedies import (
    E2FSCK,
    FINDMNT,
    MOUNTING,
    NOTHING,
    UNMOUNTING,
    Command,
    if_quotable,
    in_force,
    joined,
    mount_table,
    quote,
    step,
    verified,
    verify_steps,
)
from ext4audit.remedies.configuration import edit_options
from ext4audit.remedies.options import (
    change_options,
    fstab_edits,
    is_default,
    mounting_lines,
    offline_string,
    superblock_change,
    superblock_checks,
    superblock_steps,
    verify_command,
)
from ext4audit.remedies.remount import (
    fstab_line,
    is_free,
    mount_again,
    single_mount,
    typed,
    unmount_and_mount,
    usable_mount,
    without_mount,
)

NOT_SET = ""
"""The wanted token of an option that is off unless the option listing shows it."""
OPPOSITE = {"delalloc": "delalloc"}
"""The state of an option, by name, if the superblock does not set it."""
MAKES_DIRECTORY = "x-mount.mkdir"
"""The fstab option, also spelled X-mount.mkdir, with which mount(8) creates the mount point."""


@if_quotable
def change_by_new_mount(
    fs: Filesystem,
    wanted: Mapping[str, str],
    *,
    inspect: bool = False,
    explicit: bool = False,
    replay: bool = False,
) -> tuple[Step, ...]:
    """Return the steps that change options, by name, to the wanted states by a new mount.

    fstab is corrected first, and the superblock while it is unmounted, because the new mount and
    the mount of the rollback read it. `inspect` runs e2fsck read-only before the new mount.
    `replay` stops before the unmount if the device is read-only, as no mount could then replay
    the journal. `explicit` repeats the states on the mount command line, in case neither a default
    nor an fstab entry provides them. If one command cannot unmount it, only fstab and the
    superblock are corrected; the result is empty if nothing is to be corrected.
    """
    mount = single_mount(fs)
    if mount is None:
        steps = change_options(fs, wanted, remount=False)
        return steps if any(each.phase is Phase.PERSISTENT for each in steps) else ()
    change = superblock_change(fs, wanted)
    stored = {n for n, t in wanted.items() if not explicit and (not t or is_default(fs, n, t))}
    new = [typed(token) for name, token in wanted.items() if name not in stored]
    checks = [*in_force(fs, wanted), *superblock_checks(fs, wanted)]
    now, names = [*_tokens_now(fs, wanted)], _names(fs, wanted)
    unmount, again = mount_anew(fs, mount, new, now, names, checks=checks)
    getro = f'test "$(blockdev --getro {quote(fs.device)})" = 0'
    writable = Command(getro, ("blockdev",))
    before = (step(Phase.IMMEDIATE, writable, change=Inspection()),) if replay else ()
    # This fails if another namespace has it mounted or if it is damaged.
    undamaged = joined(is_free(fs), Command(f"e2fsck -fn {quote(fs.device)}", E2FSCK))
    inspection = (step(Phase.IMMEDIATE, undamaged, change=Inspection()),) if inspect else ()
    return (
        *fstab_edits(fs, wanted),
        *_in_one_phase(
            *before,
            unmount,
            *inspection,
            *superblock_steps(fs, change),
            *offline_string(fs, change),
            again,
        ),
        *verify_steps(checks),
    )


def _in_one_phase(*steps: Step) -> Iterator[Step]:
    """Yield the steps in one phase, whose commands form one list that stops at a failure."""
    phases = {each.phase for each in steps}
    phase = Phase.PERSISTENT if Phase.PERSISTENT in phases else Phase.IMMEDIATE
    yield from (each._replace(phase=phase) for each in steps)


def mount_anew(
    fs: Filesystem,
    mount: Mount,
    new: Sequence[str],
    old: Sequence[str],
    names: Collection[str],
    *,
    after: Mount | None = None,
    checks: Sequence[Command] = (),
) -> tuple[Step, Step]:
    """Return an unmount, and a mount with the tokens `new` in place of the options `names`.

    `old` has the tokens that the rollback restores; `after` is the mount with changed flags.
    `checks` show what the new mount changes.
    """
    back = mount_again(fs, mount, [typed(token) for token in old], names)
    again = mount_again(fs, after or mount, new, names)
    return unmount_and_mount(mount, back, again, checks=checks)


def left_by_hand(fs: Filesystem) -> str:
    """Return a sentence on the remaining manual steps, or "" if the steps are complete."""
    if usable_mount(fs) is None:
        return f" Unmount it and mount it again {without_mount(fs)}."
    if "/" in fs.mount_points:
        return " Then restart: the root cannot be unmounted."
    if single_mount(fs) is None:
        return " Then unmount it from all its mount points and mount it again, or restart."
    return ""


def disruption_of_new_mount(fs: Filesystem) -> Disruption:
    """Return the disruption of a new mount: a reboot for the root, otherwise an unmount."""
    return Disruption.REBOOT if "/" in fs.mount_points else Disruption.UNMOUNT


def _names(fs: Filesystem, wanted: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the options that a mount must not repeat: wanted and implied ones.

    With data=journal the mount table shows nodelalloc, which would outlast it if repeated.
    """
    options = fs.options.value.options if isinstance(fs.options, Known) else ()
    implied = {option.name for option in options if option.set_by is Provenance.IMPLIED}
    return frozenset({*wanted, *implied})


def _tokens_now(fs: Filesystem, wanted: Mapping[str, str]) -> Iterator[str]:
    """Yield the tokens that the rollback must restore."""
    for name, token in wanted.items():
        option = option_of(fs, name)
        if option is not None and option.token != token:
            yield option.token


@if_quotable
def mount_by_fstab(entry: FstabEntry, device_number: DeviceNumber) -> tuple[Step, ...]:
    """Return the steps that list a directory and mount it by fstab; their undo unmounts it.

    They fail if something is mounted there, which a mount would hide, or if another device is
    mounted: mount(8) looks up the line by the directory and takes the first of several. It
    creates the directory if the line has x-mount.mkdir. The unmount uses the path as the mount
    table will spell it, without symbolic links.
    """
    where, real = quote(entry.line.mount_point), quote(entry.place)
    new = NewMount(entry.place)
    check = Command(f"mountpoint -d {where} | grep -qx {device_number}", ("mountpoint",))
    makes = {option.partition("=")[0].lower() for option in entry.line.options} & {MAKES_DIRECTORY}
    listing = f"{{ test ! -e {where} || ls -A {where}; }}" if makes else f"ls -A {where}"
    first = Command(f"{listing} && ! mountpoint -q {where}", ("ls", "mountpoint"))
    make, end = Command(f"mount {where}", MOUNTING), Command(f"umount {real}", UNMOUNTING)
    there = step(Phase.IMMEDIATE, make, NOTHING, check, change=new, by_unmount=end)
    free = step(Phase.IMMEDIATE, first, change=Inspection(runs_first=True))
    return (free, *verified(there))


@if_quotable
def move_to_fstab(fs: Filesystem, tokens: Mapping[str, str]) -> tuple[Step, ...]:
    """Return the steps that move options, by name, from the superblock to fstab, and mount again.

    The mount table omits what the superblock sets, even if fstab sets it too (6.18). The result
    is empty if fstab does not mount it, or if more than one mount must be unmounted.
    """
    mount = single_mount(fs)
    known = tokens.keys() <= OPPOSITE.keys()
    if mount is None or not known or fstab_line(fs, mount) is None:
        return ()
    change = superblock_change(fs, {name: OPPOSITE[name] for name in tokens})
    if not change.held:
        return ()
    table = f"{mount_table(quote(mount.mount_point), 'OPTIONS')} | tr , '\\n'"
    shown = (Command(f"{table} | grep -qx {quote(each)}", FINDMNT) for each in tokens.values())
    checks = [*shown, verify_command(fs, change)]
    new = [typed(token) for token in tokens.values()]
    unmount, again = mount_anew(fs, mount, new, (), tokens, checks=checks)
    return (
        *_edits_to(fs, tokens),
        *_in_one_phase(
            unmount,
            *superblock_steps(fs, change),
            *offline_string(fs, change),
            again,
        ),
        *verify_steps(checks),
    )


def _edits_to(fs: Filesystem, tokens: Mapping[str, str]) -> Iterator[Step]:
    """Yield the edits that write the tokens into every entry that mounts the device."""
    drop = [state for name, token in tokens.items() for state in _other_states(name, token)]
    add = [typed(token) for token in tokens.values()]
    yield from filter(None, (edit_options(line, drop, add) for line in mounting_lines(fs)))


def _other_states(name: str, token: str) -> tuple[str, ...]:
    spec = spec_named(name)
    return tuple(state for state in (spec.on, spec.off) if state and state != token)
