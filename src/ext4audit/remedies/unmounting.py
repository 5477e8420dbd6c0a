"""What an unmount takes away, and no mount(8) brings back, and who uses a filesystem before it.

Seen on 6.18 with util-linux 2.38: the kernel detaches a loop device that `mount -o loop` has made
(autoclear) at the unmount, and the next mount finds no device; a mount that maps user IDs
(idmapped) comes back without its map, and all files have other owners. A new mount is shared where
the mount around it is, and private elsewhere (mount_namespaces(7)), whatever the old one was. And
a mount allows the writes that the kernel has stopped after an error (errors=remount-ro, an aborted
journal), which the mount table of Linux 5.11 to 6.14 does not show: e2fsck comes first. Below an
overlay, a bind mount in another namespace or an open file of it, umount and mount both exit with
0, and the superblock stays as it was, with its old options; over the backing file of a loop device
or a swap file umount fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ext4audit.evidence import Known, Unknown, for_wording
from ext4audit.facts import cached_by_identity
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import (
    DeviceNumber,
    Mount,
    mount_of,
    mounts_by_id,
    propagates_anew,
)
from ext4audit.finding import Check, Remedy, Unmount, few
from ext4audit.remedies import has_errors
from ext4audit.remedies.remount import kept_by_mount, with_other_mounts

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
        if not unmounts:
            return with_other_mounts(remedy, fs)
        notes = _unseen(fs)
        return remedy._replace(summary=" ".join((remedy.summary, *notes)))
    if unmounts:
        return remedy._replace(summary=f"{remedy.summary} No commands: {reason}", steps=())
    steps = tuple(step._replace(undo_by_unmount="") for step in remedy.steps)
    if steps == remedy.steps:
        return remedy
    note = f"There is no rollback that unmounts: {reason}"
    return remedy._replace(summary=f"{remedy.summary} {note}", steps=steps)


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


LAYERS = ("lowerdir", "lowerdir+", "datadir+", "upperdir", "workdir")
"""Options of an overlay that name directories; lowerdir names several, with colons."""


QUOTA_FILES = frozenset({"usrquota", "grpquota", "usrjquota", "grpjquota", "quota"})


def _then_quotas(fs: Filesystem) -> str:
    """Return the sentence on quotas that no mount turns on again; empty where there are none.

    Those of the feature `quota` are in force from the mount on.
    """
    superblock = for_wording(fs.superblock, None)
    names = {word.partition("=")[0] for mount in fs.mounts for word in mount.super_options}
    if QUOTA_FILES.isdisjoint(names) or (superblock and "quota" in superblock.features):
        return ""
    return " Then turn its quotas on again (quotaon): the unmount turns them off."


def first_and_then(fs: Filesystem, host: Host) -> str:
    """Return the sentences on what to stop before an unmount, and what to turn on after it."""
    return f"{users_sentence(fs, host)}{_then_quotas(fs)}"


def users_sentence(fs: Filesystem, host: Host) -> str:
    """Return the sentence that names the users of a filesystem; empty if none is known."""
    names = few(tuple(users_of(fs, host)))
    return f" First stop everything that uses it: {names}." if names else ""


def users_of(fs: Filesystem, host: Host) -> Iterator[str]:
    """Yield the names of the known users of a mounted filesystem.

    An automount mounts it again as soon as anything looks at it, by the options of its own.
    Swap files, open files and mounts in other namespaces are not among the facts of a host: the
    script of `ext4audit fix` looks for them when it runs.
    """
    mounts = for_wording(host.mounts, ())
    ours = dict.fromkeys(mount.mount_id for mount in fs.mounts)
    around = ((each, mounts_by_id(mounts).get(each.parent_id)) for each in fs.mounts)
    yield from dict.fromkeys(
        f"the automount of {its.mount_point}"
        for each, its in around
        if its and its.fstype == "autofs" and its.mount_point == each.mount_point
    )
    yield from (f"the mount on {place}" for place in fs.mount_points[1:])
    children = (child for own in ours for child in _children(mounts).get(own, ()))
    yield from (
        f"the mount on {each.mount_point}" for each in children if each.mount_id not in ours
    )
    yield from (f"the overlay on {place}" for place in _overlays(mounts).get(fs.device_number, ()))
    yield from _loops(host).get(fs.device_number, ())


@cached_by_identity
def _children(mounts: tuple[Mount, ...]) -> Mapping[int, list[Mount]]:
    """Return the mounts that are mounted on each mount, by its id."""
    found: dict[int, list[Mount]] = {}
    for mount in mounts:
        found.setdefault(mount.parent_id, []).append(mount)
    return found


@cached_by_identity
def _overlays(mounts: tuple[Mount, ...]) -> Mapping[DeviceNumber, list[str]]:
    """Return where overlays with a layer on each device are mounted."""
    found: dict[DeviceNumber, dict[str, None]] = {}
    for mount in mounts:
        if mount.fstype == "overlay":
            for below in filter(None, (mount_of(mounts, path) for path in _layers(mount))):
                found.setdefault(below.device_number, {})[mount.mount_point] = None
    return {number: list(places) for number, places in found.items()}


def _layers(overlay: Mount) -> Iterator[str]:
    """Yield the directories that an overlay is made of."""
    for option in overlay.super_options:
        name, _, value = option.partition("=")
        if name in LAYERS:
            yield from value.split(":")


@cached_by_identity
def _loops(host: Host) -> Mapping[DeviceNumber, list[str]]:
    """Return the loop devices below filesystems, by the device that holds their backing file."""
    found: dict[DeviceNumber, dict[str, None]] = {}
    for fs in (*host.filesystems, *host.lower, *for_wording(host.unmounted, ())):
        stack = for_wording(fs.stack, None)
        for device in stack.walk() if stack else ():
            loop = device.loop
            number = for_wording(loop.backing_device_number, None) if loop else None
            if loop and number:
                name = f"the loop device {device.name} (image {loop.backing_file})"
                found.setdefault(number, {})[name] = None
    return {number: list(names) for number, names in found.items()}
