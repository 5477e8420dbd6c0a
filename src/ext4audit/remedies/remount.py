"""Remount a filesystem so that only the named options change, or unmount it for e2fsck and tune2fs.

Commands name both device and directory, so that mount(8) does not read fstab: it would look up a
line by the directory alone, even one for another device, and take flags and options from it.
Without fstab it takes flags only from the command line, so all flags in force are repeated. ext4
keeps its own options that a remount does not name (util-linux 2.38, busybox 1.35; mount(8)).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from ext4audit.evidence import Known, Unknown, for_wording
from ext4audit.facts.features_and_bugs import NOT_BY_REMOUNT
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import (
    ATIME_OPTIONS,
    CLEARED,
    IMPLIED,
    SUPERBLOCK_FLAGS,
    USER,
    EffectiveOption,
    FstabLine,
    Mount,
    flags_in_force,
    is_user_option,
)
from ext4audit.facts.options import option_name
from ext4audit.finding import Check, NewMount, Phase, Remedy, Remount, Step, Unmount, few
from ext4audit.layout import changed_settings
from ext4audit.remedies import (
    E2FSCK,
    MOUNTING,
    NOTHING,
    UNMOUNTING,
    Command,
    Work,
    if_quotable,
    images,
    is_writable,
    joined,
    mount_command,
    plain,
    quotable,
    quote,
    step,
    verify_steps,
)

SPELLED = {"nodioread_nolock": "dioread_lock"}
"""Spellings for tokens that older kernels reject: nodioread_nolock is unknown before 5.6."""


def usable_mount(fs: Filesystem) -> Mount | None:
    """Return the mount to work on: of the whole tree, not overmounted, and ro like the superblock.

    A remount sets ro in the superblock as well as in the mount, so one through a read-only mount
    of a writable filesystem would make all of it read-only. If the whole tree is mounted that way,
    like /sysroot of an ostree system, a mount of a part is used.
    """
    seen = [m for m in fs.mounts if not m.overmounted]
    seen.sort(key=lambda mount: (mount.shown_part, mount.mount_id))
    fitting = (m for m in seen if ("ro" in m.mount_options) == ("ro" in m.super_options))
    return next(fitting, None) if seen and seen[0].root == "/" else None


def single_mount(fs: Filesystem) -> Mount | None:
    """Return the mount whose unmount releases the superblock, as far as this namespace shows.

    None for the root, which cannot be unmounted, and if several mounts share the superblock: a new
    mount would get the options of the others.
    """
    mount = usable_mount(fs) if len(fs.mounts) == 1 else None
    return None if mount is None or mount.mount_point == "/" else mount


def with_other_mounts(remedy: Remedy, fs: Filesystem) -> Remedy:
    """Return a remedy with the sentence that its rollback fails while other mounts are there."""
    if not fs.mounts[1:] or not any(step.undo_by_unmount for step in remedy.steps):
        return remedy
    note = "The rollback unmounts it, and fails while it is mounted on more than one of"
    return remedy._replace(summary=f"{remedy.summary} {note} {few(fs.mount_points)}.")


def without_mount(fs: Filesystem) -> str:
    """Return the clause on where to work if `usable_mount` finds none."""
    if not fs.mounts:
        return "in the mount namespace that has it mounted"
    if all(mount.overmounted for mount in fs.mounts):
        return "as soon as no other mount hides it"
    whole = [mount for mount in fs.mounts if mount.root == "/" and not mount.overmounted]
    if any("ro" in mount.super_options for mount in whole):
        return "as soon as the filesystem is writable again"
    writable = "writable " if whole else ""
    return f"through a {writable}mount of the whole filesystem, which this namespace lacks"


def elsewhere(fs: Filesystem) -> str:
    """Return the clause of `without_mount` to end a summary, or "" if none is needed."""
    return "" if usable_mount(fs) or not fs.alive else f", {without_mount(fs)}"


def fstab_line(fs: Filesystem, mount: Mount) -> FstabLine | None:
    """Return the line of fstab that mount(8) reads for a mount, if it names this device."""
    entries = for_wording(fs.fstab, ())
    return next((entry.line for entry in entries if entry.is_for(mount)), None)


def typed(token: str) -> str:
    """Return the spelling of a token that every kernel accepts as input."""
    return SPELLED.get(token, token)


VERSION_COUNTER, COUNTS_VERSIONS = "i_version", "iversion"
"""A superblock flag that a remount clears unless it is repeated, as mount tables of kernels before
6.1 (5.10 booted; 6.1, 6.12 and 7.2 always count and list nothing) and as mount(8) spell it."""


def remount_command(mount: Mount, options: Sequence[str]) -> Command:
    """Return the command that changes the named options and flags, and nothing else."""
    counts = (COUNTS_VERSIONS,) if VERSION_COUNTER in mount.super_options else ()
    return _remount(mount, ("remount", *_with((*flags_in_force(mount), *counts), options)))


def bind_command(mount: Mount, flags: Sequence[str]) -> Command:
    """Return the command that changes flags of one mount, and not those of the superblock."""
    own = "ro" if "ro" in mount.mount_options else "rw"
    present = (f for f in flags_in_force(mount) if f not in SUPERBLOCK_FLAGS | {"ro", "rw"})
    return _remount(mount, ("remount", "bind", *_with((own, *present), flags)))


def _remount(mount: Mount, words: Sequence[str]) -> Command:
    """Return a remount command; any word can be the device, because the kernel ignores it."""
    source = next(quotable(mount.source or "none"), "none")
    text = f"mount -o {quote(','.join(words))} {source} {quote(mount.mount_point)}"
    return Command(text, MOUNTING)


def remount_step(
    mount: Mount,
    after: Sequence[str],
    before: Sequence[str],
    done: Sequence[Command] = (),
    by_unmount: Command = NOTHING,
) -> Step:
    """Return the step that applies `after` and whose undo restores `before`; `done` has checks."""
    return step(
        Phase.IMMEDIATE,
        remount_command(mount, after),
        undo=remount_command(mount, before) if before else NOTHING,
        done=joined(*done),
        change=Remount(mount.mount_point, tuple(before), tuple(after)),
        by_unmount=by_unmount,
    )


def _with(flags: Sequence[str], options: Sequence[str]) -> tuple[str, ...]:
    """Return flags and options without replaced flags, because the last does not always win.

    Observed with util-linux 2.38 on 6.18: noatime, then relatime, leaves noatime in force.
    """
    replaced = set(filter(None, map(CLEARED.get, options))) | set(options)
    if not ATIME_OPTIONS.keys().isdisjoint(options):
        replaced |= set(ATIME_OPTIONS)
    if "ro" in options:
        replaced.add("rw")
    return (*(flag for flag in flags if flag not in replaced), *options)


NOT_TYPED = frozenset({"ro", "rw", "seclabel"}) | SUPERBLOCK_FLAGS
"""Tokens of the mount table that are not filesystem options: flags, and a state of SELinux."""


def mount_again(
    fs: Filesystem, mount: Mount, tokens: Sequence[str], names: Collection[str]
) -> Command:
    """Return the command that restores a mount after an unmount, with `tokens` for `names`.

    It repeats everything that the mount table shows, known or not, such as SELinux's `context=`
    and options of a vendor's kernel. It also repeats the options that mount(8) keeps, and changed
    settings in sysfs, which an unmount discards.
    """
    others = (t for t in mount.super_options if t not in NOT_TYPED and option_name(t) not in names)
    kept = tuple(each for each in kept_by_mount(fs, mount) if each not in mount.super_options)
    # `user` implies flags: those that are not set are cleared after it.
    exempt = (flag.removeprefix("no") for flag in IMPLIED[USER] if flag not in mount.mount_options)
    first, behind = ((*kept, *exempt), ()) if USER in kept else ((), kept)
    options = (*first, *flags_in_force(mount), *others, *tokens, *behind)
    made = mount_command(mount.fstype, options, fs.device, mount.mount_point)
    settings = changed_settings(fs) if for_wording(fs.settings, ()) else ()
    sysfs = f"/sys/fs/ext4/{fs.name}"
    again = (f"echo {value} > {quote(f'{sysfs}/{name}')}" for name, value in settings)
    return Command(" && ".join((made.text, *again)), MOUNTING, mounts=(made,))


def kept_by_mount(fs: Filesystem, mount: Mount) -> tuple[str, ...]:
    """Return the user options that mount(8) keeps for a mount, or those of fstab if unknown.

    fstab can be wrong about a manual mount, which then has _netdev or x-* after a new mount too.
    """
    if mount.user_options is not None:
        return mount.user_options
    line = fstab_line(fs, mount)
    return tuple(filter(is_user_option, line.options if line else ()))


@if_quotable
def revert_steps(fs: Filesystem, options: Sequence[EffectiveOption]) -> tuple[Step, ...]:
    """Return the steps that remount with the baseline of options that a mount call set.

    The result is empty if no mount can be remounted, if an option has no known baseline, or if a
    remount may not change it.
    """
    mount = usable_mount(fs)
    before = [typed(option.token) for option in options]
    after = [typed(option.baseline) for option in options if option.baseline]
    blocked = NOT_BY_REMOUNT.intersection(option.name for option in options)
    if mount is None or blocked or len(after) < len(options):
        return ()
    listed = quote(f"/proc/fs/ext4/{fs.name}/options")
    tokens = (quote(option.token) for option in options)
    checks = [plain(f"grep -q . {listed} && ! grep -qx {token} {listed}") for token in tokens]
    return (remount_step(mount, after, before, checks), *verify_steps(checks))


CHECK = "{{ e2fsck -f -p {device} || test $? -eq 1; }}"
"""e2fsck(8) exits with 1 when it has corrected something, which is not a failure."""
PREEN = CHECK.replace("-f -p", "-p")
"""Without -f, e2fsck checks everything if the superblock records errors."""
OPENED = (
    "find /proc/[0-9]*/fd -exec stat -Lc {form} {{}} + 2>/dev/null | "
    'grep -qx "$(stat -Lc {form} {devices})"'
)
"""Fails if no process has one of the devices open, under any device node. A virtual machine opens
its disks non-exclusively, so e2fsck does not notice it, neither there nor on a part of the disk."""
NUMBER_OF_DEVICE, NUMBER_OF_FILE = "%t:%T", "%d:%i"
JOURNALED = frozenset({"needs_recovery", "fast_commit"})
"""Features of a filesystem whose journal may need a replay, which must not be left to tune2fs."""


def checked(fs: Filesystem) -> Work:
    """Return the e2fsck command that resize2fs and tune2fs require before or after their work."""
    command = Command(CHECK.format(device=quote(fs.device)), E2FSCK)
    return Work(command, Check(fs.device, wholes=wholes(fs)), replays=True)


def preened(fs: Filesystem) -> Work:
    """Return the e2fsck command that replays the journal, and checks only if necessary."""
    return Work(Command(PREEN.format(device=quote(fs.device)), E2FSCK), replays=True)


@if_quotable
def unmounted_steps(
    fs: Filesystem,
    work: Sequence[Work],
    verify: Sequence[Command],
    undo: Sequence[Work] = (),
    *,
    verify_is_complete: bool = True,
) -> tuple[Step, ...]:
    """Return the steps that run `work` on the unmounted filesystem, verify it, and undo it.

    `verify_is_complete` is false if `verify`, on the unmounted filesystem, cannot show that all
    work is done.
    The result is empty if these commands are not sufficient: for the root, for a filesystem that
    is mounted several times or in another namespace, or for a copy of a superblock.
    """
    if not is_writable(fs):
        return ()
    replay = () if work[0].replays else replay_first(fs)
    first = is_free(fs) if replay else _is_unused(fs)
    done = joined(*verify) if verify_is_complete else NOTHING
    steps = (*replay, *_if_unmounted(fs, first, work, undo, done))
    if fs.alive:
        mount = single_mount(fs)
        if mount is None:
            return ()
        steps = _between(fs, mount, steps)
    return (*steps, *verify_steps(verify))


def replay_first(fs: Filesystem) -> tuple[Step, ...]:
    """Return the step that replays the journal before tune2fs or debugfs write to a device.

    tune2fs omits fast commits from its replay, so files that were synced are lost (1.47.0).
    debugfs replays nothing: the next mount does, and restores the old superblock. The result is
    empty if an unmount empties the journal.
    """
    features = fs.superblock.value.features if isinstance(fs.superblock, Known) else JOURNALED
    is_replayed = fs.alive and not any("norecovery" in m.super_options for m in fs.mounts)
    if is_replayed or JOURNALED.isdisjoint(features):
        return ()
    command = joined(_is_unused(fs), preened(fs).command)
    check = Check(fs.device, is_forced=False, wholes=wholes(fs))
    return (step(Phase.IMMEDIATE, command, change=check),)


def by_hand(fs: Filesystem, steps: Sequence[Step]) -> str:
    """Return the clause that ends a summary without steps, or "" if there are steps."""
    return "" if steps else f", {why_by_hand(fs)}"


def why_by_hand(fs: Filesystem) -> str:
    """Return where or when the work must be done if `unmounted_steps` returns no steps."""
    if any(mount.mount_point == "/" for mount in fs.mounts):
        return "from a rescue system, because the root cannot be unmounted"
    if not fs.alive or fs.mounts:
        return "as soon as it is not mounted anywhere"
    if isinstance(fs.fstype, Unknown):
        return "as soon as no mount namespace and no open file uses it"
    return "as soon as the mount namespace that uses it has unmounted it"


def _between(fs: Filesystem, mount: Mount, work: Sequence[Step]) -> tuple[Step, ...]:
    """Return the unmount, the work, and a mount like the current one, or () without work.

    If none of the work has an undo, the unmount and the mount have none either.
    """
    if not work:
        return ()
    again = mount_again(fs, mount, (), ())
    there, back = unmount_and_mount(mount, again, again)
    if not any(each.undo for each in work):
        there, back = there._replace(undo=""), back._replace(undo_by_unmount="")
    return (there, *work, back)


def unmount_and_mount(
    mount: Mount,
    before: Command,
    after: Command,
    phase: Phase = Phase.IMMEDIATE,
    checks: Sequence[Command] = (),
) -> tuple[Step, Step]:
    """Return an unmount, and the mount by `after`, shown by `checks`; `before` mounts as now."""
    where = quote(mount.mount_point)
    end = Command(f"umount {where}", UNMOUNTING)
    there = joined(*checks) if checks else Command(f"mountpoint -q {where}", ("mountpoint",))
    new = NewMount(mount.mount_point, done_before=not checks)
    return (
        step(phase, end, before, change=Unmount(mount.mount_point, before.text)),
        step(phase, after, NOTHING, there, change=new, by_unmount=end),
    )


def _if_unmounted(
    fs: Filesystem, first: Command, work: Sequence[Work], undo: Sequence[Work], done: Command
) -> tuple[Step, ...]:
    """Return steps that fail while any mount namespace still holds the filesystem.

    `first` is the test before the first command; the other commands test `is_free`.
    The last step has the undo of all of them. `done` is set on the last step that is not an
    e2fsck check, because only running e2fsck shows its result.
    """
    last, free = len(work) - 1, is_free(fs)
    tested = max((at for at, each in enumerate(work) if each.check is None), default=-1)
    back = joined(free, *(each.command for each in undo)) if undo else NOTHING
    return tuple(
        step(
            Phase.IMMEDIATE,
            joined(free if at else first, each.command),
            back if at == last else NOTHING,
            done if at == tested else NOTHING,
            change=each.check,
        )
        for at, each in enumerate(work)
    )


def unopened(fs: Filesystem) -> Command:
    """Return the command that fails while a process has the device or the image open."""
    for image in images(fs):
        return plain(f"! {OPENED.format(form=NUMBER_OF_FILE, devices=quote(image.path))}")
    return unopened_device(fs.device, wholes(fs))


def unopened_device(device: str, wholes: Sequence[str]) -> Command:
    """Return the command that fails while a process has a device, or the file of a loop, open."""
    devices = (device, *wholes)
    loops = (each[5:] for each in devices if re.fullmatch("/dev/loop[0-9]+", each))
    files = (f'"$(cat /sys/block/{loop}/loop/backing_file)"' for loop in loops)
    tests = [OPENED.format(form=NUMBER_OF_DEVICE, devices=" ".join(map(quote, devices)))]
    tests += (OPENED.format(form=NUMBER_OF_FILE, devices=file) for file in files)
    return joined(*(plain(f"! {test}") for test in tests))


def wholes(fs: Filesystem) -> tuple[str, ...]:
    """Return the paths of the devices that contain the device of a filesystem."""
    return tuple(each.path for each in fs.stack.value.wholes) if isinstance(fs.stack, Known) else ()


def is_free(fs: Filesystem) -> Command:
    """Return the command that fails while any mount namespace has the filesystem mounted."""
    return plain(f"test ! -e {quote(f'/sys/fs/ext4/{fs.name}')}")


def _is_unused(fs: Filesystem) -> Command:
    """Return the command that fails while it is mounted or, if it was not `alive`, is open."""
    return is_free(fs) if fs.alive else joined(is_free(fs), unopened(fs))
