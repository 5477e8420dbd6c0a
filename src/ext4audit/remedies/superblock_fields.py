"""Change fields of the superblock: stripe, sizes, identifiers, reserve, errors=, owners.

The options are corrected in fstab if fstab sets them, otherwise in the superblock's field, which
then applies to every mount.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ext4audit import remedies
from ext4audit.evidence import Known
from ext4audit.facts import whole_number
from ext4audit.facts.host import Filesystem, fstab_lines, option_of
from ext4audit.facts.mount import Mount, Provenance
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Assignment, Disruption, Inspection, Phase, Remedy, Setting, Step
from ext4audit.remedies import (
    E2FSCK,
    TUNE2FS,
    Command,
    Work,
    containing,
    done_of,
    if_quotable,
    joined,
    plain,
    quotable,
    quote,
    step,
    tuned,
    verified,
    verify_steps,
)
from ext4audit.remedies.remount import remount_step, replay_first, usable_mount

CONTINUE, PANIC = "errors=continue", "errors=panic"
ERRORS_FIELD = {"errors=remount-ro": "Remount read-only"}
"""The field as tune2fs -l prints it, by token."""


@if_quotable
def stop_at_errors(fs: Filesystem, token: str) -> tuple[Step, ...]:
    """Return the steps that replace errors=continue by `token`, now and at every mount.

    The result is empty if there is no usable mount, if s_mount_opts overrides the superblock's
    field, or for a panic, whose steps no test may run, because an error would stop the machine.
    """
    mount = usable_mount(fs)
    if token == PANIC or mount is None:
        return ()
    if fstab_lines(fs, "errors") or _is_overridden_by_mount(fs, token):
        return remedies.options.change_option(fs, "errors", token)
    return () if errors_in_string(fs) else _set_errors_field(fs, mount, token)


def errors_in_string(fs: Filesystem) -> bool:
    """Return whether s_mount_opts sets errors=."""
    option = option_of(fs, "errors")
    if option is not None and option.set_by is Provenance.SUPERBLOCK_STRING:
        return True
    string = fs.superblock.value.mount_option_string if isinstance(fs.superblock, Known) else ""
    return "errors=" in string


def _is_overridden_by_mount(fs: Filesystem, token: str) -> bool:
    """Return whether the superblock has the wanted state, and a mount call overrode it."""
    stored = isinstance(fs.superblock, Known) and f"errors={fs.superblock.value.errors}" == token
    return stored and not errors_in_string(fs)


def _set_errors_field(fs: Filesystem, mount: Mount, token: str) -> tuple[Step, ...]:
    device = quote(fs.device)
    path = quote(f"/proc/fs/ext4/{fs.name}/options")
    value = token.removeprefix("errors=")
    behavior = f"tune2fs -l {device} | grep -qx 'Errors behavior: *"
    stored = Command(f"{behavior}{ERRORS_FIELD[token]}'", TUNE2FS)
    in_force = plain(f"grep -qx {quote(token)} {path}")
    change, undo = (_by_tune2fs(fs, f"-e {each}") for each in (value, "continue"))
    audited = Setting(f"{behavior}Continue'")
    store = step(Phase.PERSISTENT, change, undo, stored, change=audited)
    return (
        remount_step(mount, (token,), (CONTINUE,), (in_force,)),
        store._replace(sets=(Assignment(fs.device, "tune2fs -e", value),)),
        *verify_steps((in_force, stored)),
    )


def _by_tune2fs(fs: Filesystem, words: str) -> Command:
    """Return the command that sets a field, also of a mounted filesystem."""
    return tuned(fs, "{tune2fs} {words} {device}", words=words)


@if_quotable
def give_reserve_to_root(fs: Filesystem, others: Mapping[str, str]) -> tuple[Step, ...]:
    """Return the steps that set resuid and resgid, whose current tokens are `others`, to 0.

    The result is empty if there is no usable mount, if a value is not a number, or if the fields
    of the superblock are unknown.
    """
    mount = usable_mount(fs)
    numbers = [token.partition("=")[2] for token in others.values()]
    if mount is None or any(whole_number(number) is None for number in numbers):
        return ()
    before = fs.superblock.value if isinstance(fs.superblock, Known) else None
    owners = (before.reserved_uid, before.reserved_gid) if before else (None, None)
    if any(fstab_lines(fs, name) for name in others):
        steps = remedies.options.change_options(fs, {name: f"{name}=0" for name in others})
        # Below the options of fstab, which the edit removes, the fields may name another account.
        stored = _set_owner_fields(fs, *owners) if steps and any(owners) else ()
        return _verified_last((*steps, *stored))
    root = [f"{name}=0" for name in others]
    path = quote(f"/proc/fs/ext4/{fs.name}/options")
    checks = [plain(f"grep -qx {token} {path}") for token in root]
    now = remount_step(mount, root, tuple(others.values()), checks)
    stored = _set_owner_fields(fs, *owners)
    return _verified_last((now, *verify_steps(checks), *stored)) if stored else ()


def _verified_last(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps with those that verify at the end."""
    return tuple(sorted(steps, key=lambda each: each.phase is Phase.VERIFY))


def _set_owner_fields(fs: Filesystem, uid: int | None, gid: int | None) -> tuple[Step, ...]:
    """Return the steps that set the fields to 0; empty if the present fields are unknown.

    The rollback restores the superblock's own fields, which the options in force do not show:
    Linux 6.18.44 takes resgid from the field of resuid.
    """
    if uid is None or gid is None:
        return ()
    device = quote(fs.device)
    listing = f"tune2fs -l {device}"
    owned = f"{listing} | grep '^Reserved blocks [ug]id: *[1-9]'"
    stored = Command(f"{listing} | grep -q UUID: && ! {owned}", TUNE2FS)
    undo = _by_tune2fs(fs, f"-u {uid} -g {gid}")
    listed = (
        f"{listing} | grep -q '^Reserved blocks {kind}: *{number} '"
        for kind, number in (("uid", uid), ("gid", gid))
    )
    audited = Setting(" && ".join(listed))
    store = _by_tune2fs(fs, "-u 0 -g 0")
    fields = tuple(Assignment(fs.device, f"tune2fs {each}", "0") for each in ("-u", "-g"))
    lasting = step(Phase.PERSISTENT, store, undo, stored, change=audited)._replace(sets=fields)
    return (lasting, *verify_steps([stored]))


def reserve_nothing(fs: Filesystem, reserved_blocks: int) -> tuple[Step, ...]:
    """Return the steps that set the reserve to 0 blocks; the rollback restores their number."""
    return _reserve(fs, "-m 0", 0, reserved_blocks)


@if_quotable
def _reserve(fs: Filesystem, setting: str, blocks: int, before: int) -> tuple[Step, ...]:
    """Return the steps that change the reserve from `before` to `blocks` by a tune2fs option."""
    device = quote(fs.device)
    check, audited = (
        Command(f"tune2fs -l {device} | grep -qE '^Reserved block count: +{number}$'", TUNE2FS)
        for number in (blocks, before)
    )
    change, undo = _by_tune2fs(fs, setting), _by_tune2fs(fs, f"-r {before}")
    found = step(Phase.IMMEDIATE, change, undo, check, change=Setting(audited.text))
    return verified(found._replace(sets=(Assignment(fs.device, "tune2fs -r", str(blocks)),)))


def find_many_files(fs: Filesystem) -> Remedy:
    """Return advice to delete files, with a command that lists the fullest directories."""
    find = next(map(_count_files, quotable(*fs.mount_points)), "")
    return Remedy(
        f"Find the directories with the most files, and delete files that are not needed{find}.",
        Disruption.ONLINE,
    )


def _count_files(where: str) -> str:
    return f" (find {where} -xdev -printf '%h\\n' | sort | uniq -c | sort -n | tail)"


def set_reserved_blocks(fs: Filesystem, blocks: int) -> tuple[Step, ...]:
    """Return the steps that reserve `blocks` blocks for root.

    The result is empty if the superblock is unknown, because the rollback needs its number.
    """
    before = fs.superblock.value.reserved_blocks if isinstance(fs.superblock, Known) else None
    return () if before is None else _reserve(fs, f"-r {blocks}", blocks, before)


@if_quotable
def grow_to_device(fs: Filesystem, most_idle_bytes: int) -> tuple[Step, ...]:
    """Return the steps that grow a mounted filesystem to the size of its device.

    They verify that at most `most_idle_bytes` of the device are then unused.
    """
    device = quote(fs.device)
    program = '/^Block count:/ {n = $3} /^Block size:/ {printf "%.0f", n * $3}'
    own = f"$(dumpe2fs -h {device} 2>/dev/null | awk '{program}')"
    idle = f"$(( $(blockdev --getsize64 {device}) - {own} ))"
    check = Command(f'test "{idle}" -le {most_idle_bytes}', ("blockdev", "dumpe2fs"))
    grow = Command(f"resize2fs {device}", ("resize2fs",))
    return verified(step(Phase.IMMEDIATE, grow, done=check))


RAID_HINTS = "RAID stride", "RAID stripe width"
"""The labels of the two hints in the output of tune2fs -l."""
PLAIN_IDENTIFIER = r"[A-Za-z0-9_.][A-Za-z0-9_. -]*"
"""Identifiers that every tool prints unchanged; lsblk may have shown others differently."""


@if_quotable
def set_stripe(fs: Filesystem, superblock: Superblock, stride: int, width: int) -> tuple[Step, ...]:
    """Return the steps that store stride and width, in blocks, in the superblock and apply them.

    stripe= is removed from fstab: `stripe=0` has no effect there, because the superblock wins, and
    any other value overrides the superblock. Empty if it is mounted, but without a usable mount.
    """
    mount = usable_mount(fs)
    if fs.alive and mount is None:
        return ()
    old = superblock.stride_blocks, superblock.stripe_width_blocks
    stored = list(_is_stored(fs, (stride, width)))
    done, audited = (
        joined(*(containing(f"{{ {check.text}; }}", check) for check in checks))
        for checks in (stored, _is_stored(fs, old))
    )
    change, undo = _store(fs, stride, width), _store(fs, *old)
    store = step(Phase.PERSISTENT, change, undo, done, change=Setting(audited.text))
    value = Assignment(fs.device, "tune2fs -E", f"{stride},{width}")
    return (
        *_remounted(fs, mount, width),
        *_without_stripe(fs),
        *((*replay_first(fs), store._replace(sets=(value,))) if old != (stride, width) else ()),
        *verify_steps([*_is_in_force(fs, width), *stored]),
    )


def _remounted(fs: Filesystem, mount: Mount | None, width: int) -> Iterator[Step]:
    """Yield the remount that puts a stripe in force, unless it is or nothing is mounted."""
    option = option_of(fs, "stripe")
    now = whole_number(option.token.partition("=")[2]) if option else None
    if mount is not None and now is not None and now != width:
        yield remount_step(
            mount, (f"stripe={width}",), (f"stripe={now}",), tuple(_is_in_force(fs, width))
        )


def _without_stripe(fs: Filesystem) -> Iterator[Step]:
    """Yield the edits that remove stripe= from the fstab entries of the device."""
    for line in fstab_lines(fs, "stripe"):
        drop = [option for option in line.options if option.startswith("stripe=")]
        edit = remedies.configuration.edit_options(line, drop, ())
        if edit is not None:
            yield edit


def _store(fs: Filesystem, stride: int, width: int) -> Command:
    """Return the command that stores both hints; allowed on a mounted filesystem."""
    return _by_tune2fs(fs, f"-E stride={stride},stripe_width={width}")


def _is_in_force(fs: Filesystem, width: int) -> Iterator[Command]:
    """Yield the command that fails while another stripe is in force."""
    if fs.alive:
        yield plain(f"grep -qx stripe={width} {quote(f'/proc/fs/ext4/{fs.name}/options')}")


def _is_stored(fs: Filesystem, wanted: tuple[int, int]) -> Iterator[Command]:
    """Yield the commands that fail while the superblock has other values; 0 is not printed."""
    listing = f"tune2fs -l {quote(fs.device)}"
    for label, value in zip(RAID_HINTS, wanted, strict=True):
        check = f"{listing} | grep -qxE '{label}: +{value}'"
        if not value:
            check = f"{listing} | grep -q UUID: && ! {listing} | grep -q '^{label}:'"
        yield Command(check, TUNE2FS)


@if_quotable
def set_inode_size(fs: Filesystem, inode_bytes: int) -> tuple[Step, ...]:
    """Return the steps that enlarge all inodes in place, which cannot be undone.

    tune2fs fails if they already have the size: a second run would leave it unmounted.
    """
    device = quote(fs.device)
    size = f"tune2fs -l {device} | grep -qE '^Inode size:[[:blank:]]+{inode_bytes}$'"
    checked = remedies.remount.checked(fs)
    sets = (Assignment(fs.device, "tune2fs -I", str(inode_bytes)),)
    make = f"{{ {size} || tune2fs -I {inode_bytes} {device}; }}"
    enlarge = Work(Command(make, TUNE2FS, sets=sets))
    done = Command(size, TUNE2FS)
    return remedies.remount.unmounted_steps(fs, (checked, enlarge, checked), (done,))


def new_uuid(kernel_name: str, old: str, wholes: Sequence[str] = ()) -> tuple[Step, ...]:
    """Return the steps that replace the UUID `old` of an unmounted device by a random one."""
    return _identifier_steps(kernel_name, "UUID", ("-U", "random"), old, wholes)


def clear_label(kernel_name: str, old: str, wholes: Sequence[str] = ()) -> tuple[Step, ...]:
    """Return the steps that remove the label `old` from an unmounted device."""
    return _identifier_steps(kernel_name, "LABEL", ("-L", "''"), old, wholes)


@if_quotable
def _identifier_steps(
    kernel_name: str, key: str, setting: tuple[str, str], old: str, wholes: Sequence[str]
) -> tuple[Step, ...]:
    """Return the steps for one device, which fail while it is mounted in any namespace.

    The rollback runs e2fsck first, too: tune2fs rejects a new UUID after a mount since the last
    check, and replays no fast commits (1.47.0). Only the audited identifier is replaced, so that
    nothing changes on a second run, or after a boot that gave the name to another disk.

    `setting` is the tune2fs option for the identifier that blkid names `key`, and the quoted new
    value; `wholes` are the devices that contain the device.
    """
    option, new = setting
    device, before = quote(f"/dev/{kernel_name}"), quote(old)
    if not re.fullmatch(PLAIN_IDENTIFIER, old):
        return ()
    held = quote(f"/sys/fs/ext4/{kernel_name.replace('/', '!')}")
    expected = f"!= {before}" if key == "UUID" else f"= {new}"
    found = f'"$(blkid -p -o value -s {key} {device})"'
    check = Command(f"blkid -p {device} && test {found} {expected}", ("blkid",))
    free = plain(f"test ! -e {held}")
    unopened = remedies.remount.unopened_device(f"/dev/{kernel_name}", wholes)
    is_audited = Command(f"test {found} = {before}", ("blkid",))
    audited = Setting(f"blkid -p {device} && {is_audited.text}")
    e2fsck = Command(remedies.remount.CHECK.format(device=device), E2FSCK)
    checked = joined(free, unopened, e2fsck)
    write, restore = (
        Command(f"tune2fs {option} {each} {device}", TUNE2FS) for each in (new, before)
    )
    change, undo = joined(free, is_audited, write), joined(checked, free, restore)
    named = step(Phase.IMMEDIATE, change, undo, check, change=audited)._replace(
        sets=(Assignment(f"/dev/{kernel_name}", f"tune2fs {option}", new),),
        devices=(f"/dev/{kernel_name}",),
    )
    return (step(Phase.IMMEDIATE, checked), *verified(named))


def only_carrier(uuid: str) -> Step:
    """Return the check that exactly one device has a UUID, to run before fstab refers to it.

    It lists all devices, bypassing the cache, because blkid of busybox cannot search for a UUID.
    """
    found = f"BLKID_FILE=/dev/null blkid | grep -cF ' UUID=\"{uuid}\"'"
    only_one = Command(f'test "$({found})" = 1', ("blkid",))
    return step(Phase.PERSISTENT, only_one, change=Inspection())


@if_quotable
def grow_unmounted(fs: Filesystem, most_idle_bytes: int) -> tuple[Step, ...]:
    """Return the steps that grow an unmounted filesystem to the size of its device.

    They are verified as in `grow_to_device`. The result is empty if no command can unmount it.
    """
    work = remedies.remount.checked(fs), remedies.features.resized(quote(fs.device))
    verify = tuple(map(done_of, grow_to_device(fs, most_idle_bytes)[:1]))
    return remedies.remount.unmounted_steps(fs, work, verify)
