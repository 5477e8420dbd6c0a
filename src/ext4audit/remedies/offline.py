"""Change what no mounted filesystem may change: unmount it, make sure, work, mount it again."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import Mount
from ext4audit.finding import Phase, Step
from ext4audit.remedies.remount import mount_again, usable_mount
from ext4audit.remedies.shell import quote

CHECK = "{{ e2fsck -f -p {device} || test $? -eq 1; }}"
"""e2fsck(8) exits with 1 when it has corrected something, which is no failure."""


def checked(fs: Filesystem) -> str:
    """Return the command that checks a filesystem as resize2fs and tune2fs ask for it."""
    return CHECK.format(device=quote(fs.device))


def unmounted_steps(
    fs: Filesystem, work: Sequence[str], verify: Sequence[str], undo: Sequence[str] = ()
) -> tuple[Step, ...]:
    """Return the commands that do `work` on the unmounted filesystem, check it, and undo it.

    Empty where that takes more than these commands: for the root, for a filesystem that is
    mounted several times or in another namespace, for a copy of a superblock, or where a name
    cannot be written as a shell word.
    """
    if quote(fs.device) is None or not _is_device(fs):
        return ()
    if not fs.alive:
        there, back = _guarded(fs, work), _guarded(fs, undo)
    else:
        mount = usable_mount(fs)
        if mount is None or len(fs.mounts) > 1 or mount.mount_point == "/":
            return ()
        if quote(mount.mount_point) is None:
            return ()
        there, back = _between(fs, mount, work), _between(fs, mount, undo)
    return (
        *(Step(Phase.IMMEDIATE, command) for command in there),
        *(Step(Phase.VERIFY, command) for command in verify),
        *(Step(Phase.ROLLBACK, command) for command in back),
    )


def why_by_hand(fs: Filesystem) -> str:
    """Return the words for where to do it when there are no commands; they follow a comma."""
    if any(mount.mount_point == "/" for mount in fs.mounts):
        return "from a rescue system, because the root cannot be unmounted"
    if fs.alive and not fs.mounts:
        return "once the mount namespace that holds it has unmounted it"
    return "once it is mounted nowhere"


def _between(fs: Filesystem, mount: Mount, work: Sequence[str]) -> tuple[str, ...]:
    """Return the unmount, the work, and the mount as it is now; nothing where there is no work."""
    if not work:
        return ()
    where = quote(mount.mount_point)
    return f"umount {where}", *_guarded(fs, work), mount_again(fs, mount, (), ())


def _guarded(fs: Filesystem, work: Sequence[str]) -> tuple[str, ...]:
    """Return commands that do nothing while any mount namespace still holds the filesystem."""
    held = quote(f"/sys/fs/ext4/{fs.name}")
    return tuple(f"test ! -e {held} && {command}" for command in work)


def _is_device(fs: Filesystem) -> bool:
    """Whether e2fsprogs can write to what was audited: an e2image file holds a copy."""
    top = fs.stack.value.kind if isinstance(fs.stack, Known) else ""
    return top != "e2image" and not (top == "image" and "?" in fs.device)
