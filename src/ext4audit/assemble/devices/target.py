"""TARGET arguments: the superblocks that a path or an identifier selects, and image files.

`TargetResolver` resolves a path on the live host through bind mounts, overlays and loop devices.
It uses the mount ID of an O_PATH descriptor, because st_dev is not reliable: a file on an overlay
has a device number that no mount table lists (observed on 6.18). `only_filesystems` selects from
a host that is already assembled.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

from ext4audit.assemble import ask, read
from ext4audit.assemble.devices.fstab import list_devices
from ext4audit.assemble.host import OUT_OF_SCOPE
from ext4audit.assemble.inventory import Inventory, neighbours
from ext4audit.assemble.superblock import dump_superblock
from ext4audit.evidence import Known, Unknown, Why, for_wording
from ext4audit.facts import cached_by_identity, grouped
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import (
    EXT_FSTYPES,
    DeviceNumber,
    Mount,
    ResolvedPath,
    mount_of,
    mounts_by_id,
)
from ext4audit.facts.superblock import Superblock
from ext4audit.parsers import parse_resolved_path
from ext4audit.parsers.dumpe2fs import stopped_at_journal
from ext4audit.sources import RealPath, ResolvePath, Source

UNREAD_SUPERBLOCK = "its superblock cannot be read"
MAX_OVERLAY_DEPTH = 8
"""The limit for stacked overlays; the kernel allows two (FILESYSTEM_MAX_STACK_DEPTH)."""


class Superblocks(NamedTuple):
    """The superblocks that a path selects; `note` is an explanation for the user, or empty."""

    device_numbers: tuple[DeviceNumber, ...]
    note: str = ""


class NotExt4(NamedTuple):
    """A path that exists but is not on ext4; `reason` describes where it is."""

    reason: str


class Unreachable(NamedTuple):
    """A path that does not exist or cannot be accessed."""

    reason: str


Target: TypeAlias = Superblocks | NotExt4 | Unreachable


class Partition(NamedTuple):
    """One partition: its number in Linux (logical partitions start at 5), offset and size.

    `size_bytes` is the size in the partition table; the image may be shorter.
    """

    number: int
    start_bytes: int
    size_bytes: int


class ImageFilesystem(NamedTuple):
    """A filesystem in an image file, and the byte at which it begins.

    `partition` is None if the filesystem is not in a partition. `descriptors_at_bytes` is set only
    for e2image files, in which the metadata have other offsets than in the filesystem.
    """

    path: str
    start_bytes: int
    superblock: Known[Superblock]
    partition: Partition | None = None
    descriptors_at_bytes: int | None = None

    @property
    def device(self) -> str:
        """The image as an argument of dumpe2fs, tune2fs and debugfs ("disk.img?offset=1048576")."""
        return f"{self.file}?offset={self.start_bytes}" if self.start_bytes else self.file

    @property
    def file(self) -> str:
        """The path as an argument of other programs, such as mke2fs.

        A name that begins with a dash gets the prefix "./", so that it is not taken as an option.
        """
        return f"./{self.path}" if self.path.startswith("-") else self.path


class Image(NamedTuple):
    """An image file with filesystems; `note` is a remark for the user, or empty.

    `gaps` has the partitions that hold, or may hold, a filesystem which cannot be audited.
    """

    path: str
    filesystems: tuple[ImageFilesystem, ...]
    note: str = ""
    gaps: tuple[Unknown, ...] = ()


class BadImage(NamedTuple):
    """An image file that cannot be audited, and the reason."""

    reason: str


class PlainFile(NamedTuple):
    """Any other file; `note` is a remark on its content for the user, or empty."""

    note: str = ""


class TargetResolver:
    """Resolver of paths to the mounted superblocks in one inventory."""

    def __init__(self, source: Source, inventory: Inventory) -> None:
        """Store the source and the inventory; nothing is read yet."""
        self.source = source
        self.inventory = inventory

    def resolve(self, path: str, depth: int = 0) -> Target:
        """Return the superblocks that `path` selects, or the reason why it selects none."""
        found = ask(self.source, ResolvePath(path), parse_resolved_path, f"path {path}")
        if isinstance(found, Unknown):
            missing = found.why is Why.ABSENT
            return Unreachable(
                "does not exist" if missing else f"cannot be reached: {found.detail}"
            )
        if found.value.represents is not None:
            return self._block_device(path, found.value.represents)
        image = self._loop_over(path, found.value)
        return image or self._on_mount(found.value, depth)

    def is_file(self, path: str) -> bool:
        """Return whether a path is a regular file, which may be an image."""
        found = ask(self.source, ResolvePath(path), parse_resolved_path, f"path {path}")
        return isinstance(found, Known) and found.value.type == "file"

    def _block_device(self, path: str, number: DeviceNumber) -> Target:
        if number in self.inventory.names:
            return Superblocks((number,))
        superblock = dump_superblock(self.source, path, number)
        if isinstance(superblock, Known):
            journal = NotExt4("not ext4: it is an external journal, not a filesystem")
            found = Superblocks((number,), "not mounted: audited from its superblock")
            return journal if superblock.value.is_journal else found
        devices = for_wording(list_devices(self.source), ())
        fstype = next((each.fstype for each in devices if each.device_number == number), None)
        at_journal = fstype is None and stopped_at_journal(superblock.detail)
        if fstype in EXT_FSTYPES or at_journal:
            what = "dumpe2fs cannot read its journal" if at_journal else UNREAD_SUPERBLOCK
            return Superblocks((number,), f"not mounted, and {what}")
        if fstype is not None:
            return NotExt4(f"not ext4: {fstype}")
        if superblock.why is Why.FAILED:
            return NotExt4(f"not ext4: no ext4 superblock on it ({superblock.detail})")
        # dumpe2fs did not run or read the device, so the content of the device is unknown.
        hint = f"; {superblock.hint}" if superblock.hint else ""
        return Unreachable(f"cannot be read: {superblock.detail}{hint}")

    def _loop_over(self, path: str, found: ResolvedPath) -> Superblocks | None:
        """Return the superblock in an image file that backs a mounted loop device, else None."""
        if found.type != "file":
            return None
        real = for_wording(self.source.fetch(RealPath(path)), path).removesuffix("\n")
        number = self._by_file.get(real)
        if number is None:
            return None
        name = self.inventory.names[number]
        note = f"the image behind /dev/{name}; name its directory for the one that contains it"
        return Superblocks((number,), note)

    @cached_property
    def _by_file(self) -> Mapping[str, DeviceNumber]:
        """The first loop device of each backing file."""
        found: dict[str, DeviceNumber] = {}
        for number, name in self.inventory.names.items():
            backing = read(self.source, f"/sys/block/{name}/loop/backing_file", str)
            found.setdefault(for_wording(backing, "").removesuffix("\n"), number)
        return found

    def _on_mount(self, found: ResolvedPath, depth: int) -> Target:
        mount = mounts_by_id(self.inventory.visible).get(found.mount_id)
        if mount is None:
            return Unreachable("is on a mount that the mount table does not list")
        if mount.fstype in EXT_FSTYPES:
            return Superblocks((mount.device_number,))
        if mount.fstype == "overlay" and depth < MAX_OVERLAY_DEPTH:
            return self._overlay(mount, depth)
        return NotExt4(f"not ext4: {mount.fstype} (mounted on {mount.mount_point})")

    def _overlay(self, mount: Mount, depth: int) -> Target:
        """Resolve an overlay to its upper directory, which receives the writes."""
        options = (option.partition("=") for option in mount.super_options)
        upper = next((value for key, _, value in options if key == "upperdir"), None)
        if upper is None:
            return NotExt4(
                f"not ext4: an overlay without an upper directory on {mount.mount_point}"
            )
        if not upper.startswith("/"):
            # A relative path: the directory in which mount(8) was run is unknown.
            return Unreachable(f"is on an overlay whose upper directory {upper} cannot be found")
        below = self.resolve(upper, depth + 1)
        if isinstance(below, Superblocks):
            return Superblocks(below.device_numbers, f"an overlay; writes go to {upper}")
        if isinstance(below, Unreachable):
            return Unreachable(f"is on an overlay whose upper directory {upper} {below.reason}")
        return NotExt4(f"an overlay whose upper directory {upper} is {below.reason}")


def in_words(targets: Iterable[str]) -> str:
    """Return the targets as text; an empty target (an unset shell variable) is shown as ''."""
    return ", ".join(target or "''" for target in targets)


def only_filesystems(host: Host, targets: Sequence[str], *, may_lack_targets: bool = False) -> Host:
    """Return the host with only the filesystems that the targets name.

    As in `assemble_host`, host-wide gaps and unmounted filesystems are out of scope and dropped.
    Other filesystems that rules need are kept as `lower`.
    Raises ValueError if a target names no filesystem, because an empty report would look clean.
    `may_lack_targets` allows this for a host that is one of many.
    """
    found = {target: named_filesystems(host, target) for target in targets}
    missing = [target for target in targets if not found[target]]
    if missing and not may_lack_targets:
        raise ValueError(f"no ext4 filesystem is called {in_words(missing)}")
    named = {id(fs) for filesystems in found.values() for fs in filesystems}
    chosen = tuple(fs for fs in host.filesystems if id(fs) in named)
    live = {fs.device_number: fs for fs in (*host.filesystems, *host.lower) if fs.alive}
    rows = for_wording(host.devices, ())
    needed = neighbours(chosen, live, lambda number: live[number].stack, rows)
    lower = tuple(live[number] for number in needed)
    return host._replace(filesystems=chosen, gaps=(), lower=lower, unmounted=OUT_OF_SCOPE)


def named_filesystems(host: Host, target: str) -> tuple[Filesystem, ...]:
    """Return the filesystems that a target names, empty if there are none.

    A target is a device ("/dev/sda1", "sda1", "8:1"), a UUID (also "UUID=…"), a label
    ("LABEL=…"), or a path. A path selects the last filesystem that is mounted on its longest
    mount point. The host's symbolic links are unknown and not followed.
    """
    mount = mount_holding(host, target)
    name = target if mount is None else str(mount.device_number)
    return _named(host.filesystems).get(name, ())


def mount_holding(host: Host, target: str) -> Mount | None:
    """Return the mount that holds a path, None if the target names a filesystem itself.

    Device paths are never on the root filesystem: an archive can lack the mount of /dev.
    """
    if target in _named(host.filesystems):
        return None
    mount = mount_of(for_wording(host.mounts, ()), target)
    is_device = target.startswith("/dev/") and mount is not None and mount.mount_point == "/"
    return None if is_device else mount


@cached_by_identity
def _named(filesystems: tuple[Filesystem, ...]) -> Mapping[str, tuple[Filesystem, ...]]:
    """Map each name of the filesystems to the filesystems that have it, in their order."""
    return grouped((name, fs) for fs in filesystems for name in _names(fs))


def _names(fs: Filesystem) -> set[str]:
    names = {fs.device, fs.name, str(fs.device_number), f"/dev/{fs.name}"}
    if fs.uuid is not None:
        names |= {fs.uuid, f"UUID={fs.uuid}"}
    if fs.label:
        names.add(f"LABEL={fs.label}")
    return names
