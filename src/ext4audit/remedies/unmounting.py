"""What an unmount takes away, and no mount(8) brings back: then no command unmounts.

Seen on 6.18 with util-linux 2.38: the kernel detaches a loop device that `mount -o loop` has made
(autoclear) at the unmount, and the next mount finds no device; a mount that maps user IDs
(idmapped) comes back without its map, and all files have other owners. A new mount is shared where
the mount around it is, and private elsewhere (mount_namespaces(7)), whatever the old one was. And
a mount allows the writes that the kernel has stopped after an error (errors=remount-ro, an aborted
journal), which the mount table of Linux 5.11 to 6.14 does not show: e2fsck comes first.
"""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import Known, Unknown, for_wording
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import propagates_anew
from ext4audit.finding import Check, Remedy, Unmount, few
from ext4audit.remedies import has_errors
from ext4audit.remedies.remount import kept_by_mount

ROOT = "/"
NOT_SEEN = (
    "If settings in /sys/fs/ext4 were changed, these commands lose them, as they were not "
    "captured; the script of ext4audit fix keeps them."
)

BY_FSTAB = "the commands take this from fstab, as /run/mount/utab was not captured."
"""Options that only mount(8) keeps; the kernel's tables do not show them."""


def with_loss(remedy: Remedy, fs: Filesystem, host: Host) -> Remedy:
    """Return a remedy without commands that unmount, and the reason, where a mount is no way back.

    A rollback that unmounts is left out, and the remedy stays. What nobody saw of a mount that
    comes back is named.
    """
    unmounts = any(isinstance(step.change, Unmount) for step in remedy.steps)
    reason = next(losses(fs, host), None) or _unchecked(remedy, fs)
    if unmounts and len(fs.mounts) > 1 and ROOT not in fs.mount_points:
        places = few(fs.mount_points)
        reason = f"it is mounted on {places}, and stays in use until all of these are unmounted."
    if not fs.alive:
        return remedy
    if reason is None:
        notes = _unseen(fs) if unmounts else _in_use_until(remedy, fs)
        return remedy._replace(summary=" ".join((remedy.summary, *notes)))
    if unmounts:
        return remedy._replace(summary=f"{remedy.summary} No commands: {reason}", steps=())
    steps = tuple(step._replace(undo_by_unmount="") for step in remedy.steps)
    if steps == remedy.steps:
        return remedy
    note = f"There is no rollback that unmounts: {reason}"
    return remedy._replace(summary=f"{remedy.summary} {note}", steps=steps)


def _in_use_until(remedy: Remedy, fs: Filesystem) -> Iterator[str]:
    """Yield the sentence that a rollback which unmounts fails while another mount is there."""
    if len(fs.mounts) > 1 and any(step.undo_by_unmount for step in remedy.steps):
        yield (
            "The rollback unmounts it, and fails while it is mounted on more than one of "
            f"{few(fs.mount_points)}."
        )


def _unseen(fs: Filesystem) -> Iterator[str]:
    """Yield a sentence for each thing that the commands bring back by a guess, or not at all."""
    if isinstance(fs.settings, Unknown):
        yield NOT_SEEN
    unseen = (mount for mount in fs.mounts if mount.user_options is None)
    guessed = dict.fromkeys(word for mount in unseen for word in kept_by_mount(fs, mount))
    if guessed:
        yield f"{', '.join(guessed)}: {BY_FSTAB}"


def _unchecked(remedy: Remedy, fs: Filesystem) -> str | None:
    """Return the reason where a remedy mounts a filesystem with errors without a check."""
    if not has_errors(fs) or any(isinstance(step.change, Check) for step in remedy.steps):
        return None
    return "it has errors on record, and a mount allows writes again: check it with e2fsck first."


def losses(fs: Filesystem, host: Host) -> Iterator[str]:
    """Yield a sentence for each thing that an unmount of a filesystem takes away.

    Where the kernel is told to unmount the root, it makes it read-only (umount(2), do_umount_root).
    """
    if ROOT in fs.mount_points:
        yield "the root cannot be unmounted; work from a rescue system."
    device = _detached(fs)
    if device is not None and device.loop is not None:
        is_known = isinstance(device.loop.autoclear, Known)
        yield (
            f"the unmount {'detaches' if is_known else 'may detach'} {device.path} from its image "
            "(autoclear). Attach the image with losetup and mount that device, then scan again."
        )
    if any("idmapped" in mount.mount_options for mount in fs.mounts):
        yield "it is an idmapped mount, and mount would show its files with other owners."
    for mount in fs.mounts:
        before, after = mount.propagates, propagates_anew(mount, for_wording(host.mounts, ()))
        if before != after:
            yield (
                f"the propagation of the mount is {_spelled(before)}, and that of a new one would "
                f"be {_spelled(after)}."
            )


def _detached(fs: Filesystem) -> BlockDevice | None:
    """Return the loop device below a filesystem that an unmount detaches, if there is one.

    Any other device over the loop device holds it; unknown autoclear is taken for set.
    """
    device = for_wording(fs.stack, None)
    while device is not None and device.kind == "partition":
        device = next(iter(device.known_below), None)
    if device is None or device.loop is None:
        return None
    autoclear = device.loop.autoclear
    stays = isinstance(autoclear, Known) and not autoclear.value
    return None if stays else device


def _spelled(propagates: frozenset[str]) -> str:
    """Return the kinds of propagation in the words of mount(8)."""
    words = sorted("slave" if kind == "master" else kind for kind in propagates)
    return " and ".join(words) or "private"
