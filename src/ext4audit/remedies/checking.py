"""Check a filesystem with e2fsck: after errors, if it is unclean, and from a backup."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import Evidence, Known
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import Mount
from ext4audit.facts.superblock import ERROR_MARK
from ext4audit.finding import Disruption, Remedy, Step
from ext4audit.layout import usual_backups
from ext4audit.remedies import TUNE2FS, Command, if_quotable, plain, quote
from ext4audit.remedies.remount import by_hand, checked, preened, unmounted_steps

ERROR_STATES = frozenset({"emergency_ro", "shutdown", "abort"})
"""Options that the mount table shows after an error, but that a mount does not accept."""
LOOK_FIRST = (
    "Save dmesg and check the disk first (smartctl, /proc/mdstat): on failing hardware e2fsck can "
    "make the damage worse. If -p gives up, e2fsck -f asks before each repair: take an image of "
    "the device first."
)


@if_quotable
def preen(fs: Filesystem) -> tuple[Step, ...]:
    """Return the steps that replay the journal and repair what is safe to repair (e2fsck -p)."""
    device = quote(fs.device)
    clean = f"tune2fs -l {device} | grep -qE '^Filesystem state: +clean$'"
    replayed = f"! tune2fs -l {device} | grep -qwE 'needs_recovery|orphan_present'"
    return unmounted_steps(fs, (preened(fs),), (Command(f"{clean} && {replayed}", TUNE2FS),))


def check_filesystem(fs: Filesystem, *, try_write: bool = False) -> Remedy:
    """Return the remedy that unmounts, checks and mounts a filesystem, or reboots for the root.

    It is verified with the kernel's error counter, with the error mark of the superblock if it
    was set, and with `try_write` by writing a file. Repairs of e2fsck cannot be undone.
    """
    if any(mount.mount_point == "/" for mount in fs.mounts):
        return Remedy(
            summary="Boot once with fsck.mode=force on the kernel command line, so that systemd or "
            "the initramfs checks the root; or check it from a rescue system.",
            disruption=Disruption.REBOOT,
            trade_off=LOOK_FIRST,
        )
    steps = _checked_unmounted(fs, try_write=try_write)
    return Remedy(
        summary="Stop all writers, unmount it, check it with e2fsck, and mount it"
        f"{by_hand(fs, steps)}.",
        disruption=Disruption.UNMOUNT,
        steps=steps,
        trade_off=LOOK_FIRST,
    )


@if_quotable
def _checked_unmounted(fs: Filesystem, *, try_write: bool) -> tuple[Step, ...]:
    before = fs._replace(mounts=tuple(without_error_state(mount) for mount in fs.mounts))
    writes = _writes_a_file(fs) if try_write else ()
    no_errors = plain(f"grep -qx 0 {quote(f'/sys/fs/ext4/{fs.name}/errors_count')}")
    verify = (no_errors, *_no_mark_left(fs), *writes)
    return unmounted_steps(before, (checked(fs),), verify)


def repair_from_backup(fs: Filesystem, block_bytes: Evidence[int]) -> Remedy:
    """Return advice, without steps, for a destroyed primary superblock.

    If the block size is known, it names the location where mke2fs writes the first backup.
    """
    save = "Copy the data first, before any unmount or restart. " if fs.alive else ""
    command = "e2fsck -b, with the block of a backup, and -B, with the block size"
    if isinstance(block_bytes, Known):
        _group, block = usual_backups(block_bytes.value)[0]
        command = f"e2fsck -b {block} -B {block_bytes.value}, the first backup of mke2fs"
    return Remedy(
        summary=f"{save}Find out what wrote to the device, take an image of it, and repair the "
        f"image from a backup superblock: {command}.",
        disruption=Disruption.UNMOUNT,
        trade_off="e2fsck restores the state of the backup. Other overwritten blocks are lost.",
    )


def without_error_state(mount: Mount) -> Mount:
    """Return a mount as it was before an error made the kernel reject writes.

    If the superblock is ro although the mount is rw, an error made it ro.
    """
    options = [option for option in mount.super_options if option not in ERROR_STATES]
    if "ro" not in mount.mount_options:
        options = ["rw" if option == "ro" else option for option in options]
    return mount._replace(super_options=tuple(options))


def _no_mark_left(fs: Filesystem) -> Iterator[Command]:
    """Yield a check that the superblock's error mark is gone, if it was set."""
    if isinstance(fs.superblock, Known) and fs.superblock.value.is_marked:
        line = f"tune2fs -l {quote(fs.device)} | grep '^Filesystem state:'"
        yield Command(f"{line} | grep -qv '{ERROR_MARK}'", TUNE2FS)


def _writes_a_file(fs: Filesystem) -> Iterator[Command]:
    """Yield a command that creates, syncs and removes a file, unless a mount is read-only."""
    if fs.mounts and not any("ro" in mount.mount_options for mount in fs.mounts):
        where = quote(fs.mount_points[0])
        write = f'file=$(mktemp -p {where} .ext4audit.XXXXXX) && sync "$file" && rm "$file"'
        yield Command(write, ("mktemp",))
