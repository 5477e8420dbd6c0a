"""Set superblock fields: RAID hints (stride, stripe width), inode size, UUID and label."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import Mount
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Phase, Step
from ext4audit.remedies.fstab import FstabEdit, edit_options
from ext4audit.remedies.offline import CHECK, checked, unmounted_steps
from ext4audit.remedies.options import option_of
from ext4audit.remedies.remount import remount_command, usable_mount
from ext4audit.remedies.shell import quote

RAID_HINTS = {"RAID stride": 0, "RAID stripe width": 1}
"""What tune2fs -l calls the two hints, and their place in the pair (stride, width)."""
PLAIN_IDENTIFIER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_. -]*")
"""Identifiers that every tool prints as they are: of others lsblk may have shown something else."""


def set_stripe(fs: Filesystem, superblock: Superblock, stride: int, width: int) -> tuple[Step, ...]:
    """Return the steps that put stride and width, in blocks, into the superblock and in force.

    stripe= leaves fstab: `stripe=0` there does nothing, because the superblock's value wins, and
    any other would win over the superblock. Empty where no mount of the whole filesystem is here.
    """
    mount = usable_mount(fs)
    lost = fs.alive and (mount is None or quote(mount.mount_point) is None)
    if lost or quote(fs.device) is None:
        return ()
    old, now = (superblock.stride_blocks, superblock.stripe_width_blocks), _stripe_in_force(fs)
    edits = list(_without_stripe(fs))
    do = [command for edit in edits for command in edit.apply]
    undo = [command for edit in reversed(edits) for command in edit.undo]
    if old != (stride, width):
        do, undo = [*do, _store(fs, stride, width)], [_store(fs, *old), *undo]
    return (
        *_steps(Phase.IMMEDIATE, _remount(fs, mount, now, width)),
        *_steps(Phase.PERSISTENT, do),
        *_steps(Phase.VERIFY, [*_is_in_force(fs, width), *_is_stored(fs, (stride, width))]),
        *_steps(Phase.ROLLBACK, undo),
        *_steps(Phase.ROLLBACK, _remount(fs, mount, width, now)),
    )


def _remount(fs: Filesystem, mount: Mount | None, old: int | None, new: int | None) -> list[str]:
    """Return the remount that puts a stripe in force, none where it is or nothing is mounted."""
    if mount is None or None in {old, new} or old == new:
        return []
    return [remount_command(fs, mount, [f"stripe={new}"], {"stripe"})]


def _stripe_in_force(fs: Filesystem) -> int | None:
    """Return the stripe in force, None where the options do not show it."""
    option = option_of(fs, "stripe")
    value = option.token.partition("=")[2] if option else ""
    return int(value) if value.isascii() and value.isdigit() else None


def _without_stripe(fs: Filesystem) -> Iterator[FstabEdit]:
    """Yield the edits that take stripe= out of the entries of the device."""
    entries = fs.fstab.value if isinstance(fs.fstab, Known) else ()
    for line in (entry.line for entry in entries):
        drop = [option for option in line.options if option.startswith("stripe=")]
        edit = edit_options(line, drop, ())
        if edit is not None:
            yield edit


def _store(fs: Filesystem, stride: int, width: int) -> str:
    """Return the command that stores both hints; allowed on a mounted filesystem."""
    return f"tune2fs -E stride={stride},stripe_width={width} {quote(fs.device)}"


def _is_in_force(fs: Filesystem, width: int) -> Iterator[str]:
    """Yield the command that fails while another stripe is in force."""
    if fs.alive:
        yield f"grep -qx stripe={width} {quote(f'/proc/fs/ext4/{fs.name}/options')}"


def _is_stored(fs: Filesystem, wanted: tuple[int, int]) -> Iterator[str]:
    """Yield the commands that fail while the superblock holds another value; 0 is not printed."""
    listing = f"tune2fs -l {quote(fs.device)}"
    for label, place in RAID_HINTS.items():
        value = wanted[place]
        if value:
            yield f"{listing} | grep -qxE '{label}: +{value}'"
        else:
            yield f"{listing} | grep -q UUID: && ! {listing} | grep -q '^{label}:'"


def set_inode_size(fs: Filesystem, inode_bytes: int) -> tuple[Step, ...]:
    """Return the steps that enlarge all inodes in place, which nothing takes back."""
    device = quote(fs.device)
    return unmounted_steps(
        fs,
        (checked(fs), f"tune2fs -I {inode_bytes} {device}", checked(fs)),
        (f"tune2fs -l {device} | grep -qE '^Inode size:[[:blank:]]+{inode_bytes}$'",),
    )


def new_uuid(kernel_name: str, old: str) -> tuple[Step, ...]:
    """Return the steps that give a device that is not mounted a random UUID instead of `old`."""
    return _identifier_steps(kernel_name, "UUID", "-U", "random", old)


def clear_label(kernel_name: str, old: str) -> tuple[Step, ...]:
    """Return the steps that take the label `old` from a device that is not mounted."""
    return _identifier_steps(kernel_name, "LABEL", "-L", "''", old)


def _identifier_steps(
    kernel_name: str, key: str, option: str, new: str, old: str
) -> tuple[Step, ...]:
    """Return the steps for one device, each refused while it is mounted in any namespace.

    `option` is the option of tune2fs that sets what blkid calls `key`; `new` is quoted.
    """
    device, before = quote(f"/dev/{kernel_name}"), quote(old)
    if device is None or before is None or not PLAIN_IDENTIFIER.fullmatch(old):
        return ()
    held = quote(f"/sys/fs/ext4/{kernel_name.replace('/', '!')}")
    work = CHECK.format(device=device), f"tune2fs {option} {new} {device}"
    expected = f"!= {before}" if key == "UUID" else f"= {new}"
    found = f'"$(blkid -p -o value -s {key} {device})"'
    return (
        *(Step(Phase.IMMEDIATE, f"test ! -e {held} && {command}") for command in work),
        Step(Phase.VERIFY, f"blkid -p {device} && test {found} {expected}"),
        Step(Phase.ROLLBACK, f"test ! -e {held} && tune2fs {option} {before} {device}"),
    )


def _steps(phase: Phase, commands: Sequence[str]) -> tuple[Step, ...]:
    """Make steps of commands."""
    return tuple(Step(phase, command) for command in commands)
