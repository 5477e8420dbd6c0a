"""Image files as TARGET arguments, and hosts whose filesystems are in image files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ext4audit.assemble import ask
from ext4audit.assemble.devices import StackReader
from ext4audit.assemble.devices.target import (
    BadImage,
    Image,
    ImageFilesystem,
    PlainFile,
    Superblocks,
)
from ext4audit.assemble.filesystem import (
    NO_JOURNAL_ERRNO,
    NO_LAZY_INITIALIZATION,
    NO_USAGE,
    NOT_MOUNTED,
    stored_errors,
)
from ext4audit.assemble.host import mark_shared_uuids
from ext4audit.assemble.image import (
    CHECK_A_COPY,
    find_image,
    read_image_groups,
    read_image_journal,
    read_journal_inode,
)
from ext4audit.assemble.image.unreadable import cut_off
from ext4audit.assemble.inventory import Inventory
from ext4audit.evidence import Known, Unknown, Why, for_wording
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice, QueueLimits
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.facts.superblock import PrimarySuperblock
from ext4audit.parsers import parse_resolved_path
from ext4audit.sources import RealPath, ResolvePath, Source


def image_of_target(
    source: Source, inventory: Inventory, path: str
) -> Superblocks | Image | BadImage | PlainFile:
    """Return the image at a path, or PlainFile if the path is not a regular file.

    A mounted image selects its mounted superblocks: the bytes in the file can be outdated, and
    tune2fs must not write to them.
    """
    found = ask(source, ResolvePath(path), parse_resolved_path, f"path {path}")
    if isinstance(found, Unknown) or found.value.type != "file":
        return PlainFile()
    image = find_image(source, path)
    if isinstance(image, PlainFile):
        return image
    live = _mounted_from(source, inventory, path)
    if not live:
        return image
    names = ", ".join(f"/dev/{inventory.names[number]}" for number in live)
    return Superblocks(
        live, f"the image behind {names}; name its directory for the one that contains it"
    )


def _mounted_from(source: Source, inventory: Inventory, path: str) -> tuple[DeviceNumber, ...]:
    """Return the mounted devices whose stack has a loop device backed by the file."""
    real = for_wording(source.fetch(RealPath(path)), path).removesuffix("\n")
    reader = StackReader(source)
    found = []
    for number in sorted(inventory.names):
        stack = reader.read(number)
        if isinstance(stack, Known) and any(
            device.loop and device.loop.backing_file == real for device in stack.value.walk()
        ):
            found.append(number)
    return tuple(found)


HINT = "scan the host that mounts it"
IMAGES_ORIGIN = "images, which have no other devices"
NUMBERS_OF_A_FILESYSTEM = 2
"""Minor numbers per filesystem: file and partition. No block device has their major number 0."""


def image_gaps(source: Source, images: Iterable[ImageFilesystem]) -> tuple[Unknown, ...]:
    """Return the unreadable parts of images whose superblocks can be read.

    No rule needs the block groups or the journal of an image. But what a parser rejects is damage,
    and an audit that does not report it is incomplete.
    """
    gaps: list[Unknown] = []
    for image in images:
        gaps += cut_off(source, image)
        groups = read_image_groups(source, image)
        inode = read_journal_inode(source, image, groups)
        gaps += (
            replace(each, hint=CHECK_A_COPY)
            for each in (groups, inode, read_image_journal(source, image))
            if isinstance(each, Unknown)
        )
    return tuple(gaps)


def host_of_images(
    images: Sequence[ImageFilesystem], taken_at: str, name: str, gaps: tuple[Unknown, ...] = ()
) -> Host:
    """Return a host with the filesystems of the images; all other facts are unknown."""
    return Host(
        name=name,
        taken_at=taken_at,
        kernel=_not_captured("kernel release"),
        os=_not_captured("operating system"),
        virtualization=Known(None, "an image file"),
        container=Known(None, "an image file"),
        kernel_arguments=_not_captured("kernel command line"),
        memory=_not_captured("memory"),
        mounts=_not_captured("mount table"),
        fstab=_not_captured("/etc/fstab"),
        filesystems=tuple(mark_shared_uuids(_filesystems(images))),
        gaps=gaps,
        devices=Known((), IMAGES_ORIGIN),
        unmounted=Known((), IMAGES_ORIGIN),
        boot_loader=_not_captured("boot loader"),
        md_arrays=_not_captured("mdadm.conf"),
        fstrim=_not_captured("fstrim.timer"),
        trims_all=_not_captured("fstrim.service"),
        raid0_default_layout=_not_captured("raid0.default_layout"),
    )


def with_images(
    host: Host, images: Sequence[ImageFilesystem], gaps: tuple[Unknown, ...] = ()
) -> Host:
    """Return the host with the filesystems of the images added."""
    everything = [*host.filesystems, *_filesystems(images)]
    filesystems = tuple(mark_shared_uuids(everything))
    return host._replace(filesystems=filesystems, gaps=(*host.gaps, *gaps))


def _filesystems(images: Iterable[ImageFilesystem]) -> list[Filesystem]:
    return [
        _filesystem(image, index * NUMBERS_OF_A_FILESYSTEM + 1)
        for index, image in enumerate(images)
    ]


def _filesystem(image: ImageFilesystem, minor: int) -> Filesystem:
    stack = _stack(image, minor)
    superblock = image.superblock.value
    return Filesystem(
        device_number=stack.device_number,
        name=stack.name,
        device=image.device,
        fstype=NOT_MOUNTED,
        alive=False,
        mounts=(),
        read_only=NOT_MOUNTED,
        superblock=image.superblock,
        uuid=superblock.uuid,
        label=superblock.label,
        options=NOT_MOUNTED,
        fstab=_not_captured("/etc/fstab"),
        stack=Known(stack, image.path),
        layout=None,
        usage=NO_USAGE,
        errors=stored_errors(image.superblock),
        journal_errno=NO_JOURNAL_ERRNO,
        unzeroed_groups=NO_LAZY_INITIALIZATION,
        primary=Known(PrimarySuperblock(), image.superblock.origin),
    )


def _stack(image: ImageFilesystem, minor: int) -> BlockDevice:
    """Return the file as a block device without members, or its partition with the file below."""
    file = _file(image, minor)
    if image.partition is None:
        return file
    return replace(
        file,
        name=f"{file.name} partition {image.partition.number}",
        path=image.device,
        device_number=DeviceNumber(0, minor + 1),
        kind="partition",
        size_sectors=Known(image.partition.size_bytes // SECTOR_BYTES, image.path),
        start_sectors=image.partition.start_bytes // SECTOR_BYTES,
        below=Known((file,), image.path),
    )


def _file(image: ImageFilesystem, minor: int) -> BlockDevice:
    return BlockDevice(
        name=image.path.rpartition("/")[2],
        path=image.path,
        device_number=DeviceNumber(0, minor),
        kind="image" if image.descriptors_at_bytes is None else "e2image",
        size_sectors=_not_captured("size"),
        queue=_queue(),
        below=Known((), image.path),
    )


def _queue() -> QueueLimits:
    gap = _not_captured("request queue")
    return QueueLimits(gap, gap, gap, gap, gap, gap, gap, gap, gap, gap, gap)


def _not_captured(what: str) -> Unknown:
    return Unknown(what, Why.NOT_CAPTURED, "an image file does not contain it", HINT)
