"""The page of `ext4audit layout`: the metadata of one filesystem on the member devices.

The filesystem is on a block device or in an image. The members come from the device stack, or from
an array that the user describes: a RAID controller presents one disk, and an image has no members.
"""

from functools import partial

from ext4audit.assemble.devices import StackReader
from ext4audit.assemble.devices.target import BadImage, Image, ImageFilesystem, PlainFile
from ext4audit.assemble.image import find_image, read_image_groups, superblock_at
from ext4audit.assemble.image.unreadable import cut_off, goes_on
from ext4audit.assemble.inventory import Inventory
from ext4audit.assemble.layout import map_or_guess, read_group_table, size_of_device
from ext4audit.assemble.superblock import device_path, read_raw_superblock, read_superblock
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive, origin_of
from ext4audit.facts.layout import LayoutPage, StripeGeometry
from ext4audit.facts.mount import DeviceNumber
from ext4audit.facts.superblock import GroupTable, Superblock, sizes_of
from ext4audit.layout import SUPERBLOCK_OFFSET_BYTES
from ext4audit.layout.advice import layout_advice
from ext4audit.layout.bitmap_placement import measure
from ext4audit.layout.byte_map import ANY_PERIOD_BYTES, Place, StackMap
from ext4audit.layout.levels import map_of
from ext4audit.sources import Source

ARRAY_ORIGIN = "given by the options"
"""The evidence origin of an array that the user describes."""


def page_of_device(
    source: Source, inventory: Inventory, number: DeviceNumber, array: StripeGeometry | None
) -> Evidence[LayoutPage]:
    """Return the page of the filesystem on a block device; `array` replaces the device stack."""
    mounts = inventory.visible
    stack = StackReader(source).read(number)
    path = device_path(stack, inventory.names.get(number, str(number)))
    own = tuple(mount for mount in mounts if mount.device_number == number)
    superblock = read_superblock(source, path, number, own)
    groups = read_group_table(source, path, number, superblock)
    of_device = partial(_page, path, path, superblock, groups, device_bytes=size_of_device(stack))
    if array is not None:
        return of_device(_map_of_array(array))
    if isinstance(stack, Unknown):
        return stack
    stack_map, doubts = map_or_guess(stack.value)
    return of_device(stack_map, doubts=doubts)


def page_of_image(
    source: Source, path: str, array: StripeGeometry | None, offset: int
) -> Evidence[LayoutPage]:
    """Return the page of the filesystem in an image file.

    The image holds only the filesystem, or a whole disk or array in which the filesystem begins at
    byte `offset` or, if that is 0, in the only partition with a filesystem.
    """
    found = _filesystem_of_image(source, path, offset)
    if isinstance(found, Unknown):
        return found
    if array is None and offset != found.start_bytes and offset:
        detail = f"its filesystem begins at byte {found.start_bytes}"
        hint = "an offset on an array needs --members and --chunk"
        return Unknown(f"filesystem in {path}", Why.UNSUPPORTED, detail, hint)
    stack_map = _single_device_map(path)
    if array is not None:
        stack_map = _map_of_array(array._replace(offset_bytes=offset or found.start_bytes))
    groups = read_image_groups(source, found)
    # An e2image file holds only the metadata, and not at the offsets of the filesystem.
    made_in = None if found.descriptors_at_bytes is not None else found.file
    doubts = cut_off(source, found)
    return _page(
        found.device,
        made_in,
        found.superblock,
        groups,
        stack_map,
        doubts=doubts,
        start_bytes=found.start_bytes,
        keeps_size=goes_on(source, found),
    )


def _filesystem_of_image(source: Source, path: str, offset: int) -> ImageFilesystem | Unknown:
    """Return the filesystem in the image, selected by `offset` if several or none were found."""
    image = find_image(source, path)
    filesystems = image.filesystems if isinstance(image, Image) else ()
    matching = [fs for fs in filesystems if not offset or fs.start_bytes in (0, offset)]
    if len(matching) == 1:
        return matching[0]
    what = f"filesystem in {path}"
    if matching:
        places = ", ".join(str(fs.start_bytes) for fs in matching)
        detail = f"{len(matching)} filesystems start at bytes {places}"
        return Unknown(what, Why.FAILED, f"{detail}: select one with --offset")
    if isinstance(image, PlainFile):
        superblock = read_raw_superblock(source, path, offset_bytes=offset)
        if isinstance(superblock, Unknown):
            return superblock
        return ImageFilesystem(path, offset, superblock)
    by_offset = superblock_at(source, path, offset + SUPERBLOCK_OFFSET_BYTES)
    if isinstance(by_offset, Known):
        return ImageFilesystem(path, offset, by_offset)
    bad = by_offset or image
    reason = bad.reason if isinstance(bad, BadImage) else f"no filesystem starts at byte {offset}"
    return Unknown(what, Why.UNPARSABLE, reason)


def _page(
    target: str,
    path: str | None,
    superblock: Evidence[Superblock],
    groups: Evidence[GroupTable],
    stack_map: Evidence[StackMap],
    *,
    doubts: tuple[Unknown, ...] = (),
    start_bytes: int = 0,
    keeps_size: bool = False,
    device_bytes: int | None = None,
) -> Evidence[LayoutPage]:
    """Return the page built from the evidence; with `doubts` the member map is only likely."""

    def build(table: GroupTable, made: Superblock, members: StackMap) -> LayoutPage:
        sizes = sizes_of(made)
        layout = measure(table, sizes, members, doubts=doubts, device_bytes=device_bytes)
        return LayoutPage(
            target=target,
            path=path,
            start_bytes=start_bytes,
            keeps_size=keeps_size,
            superblock=made,
            layout=layout,
            advice=None if layout.geometry is None else layout_advice(layout, sizes),
            stack=origin_of(stack_map),
            origin=origin_of(groups),
        )

    return derive(f"metadata layout of {target}", build, groups, superblock, stack_map)


def _map_of_array(geometry: StripeGeometry) -> Evidence[StackMap]:
    return derive("the array", map_of, Known(geometry, ARRAY_ORIGIN))


def _single_device_map(path: str) -> Evidence[StackMap]:
    """Return the map of an image for which no array is described: a single device."""
    one = StackMap(
        members=(path,),
        geometry=None,
        data=lambda byte: (Place(0, byte),),
        parity=lambda _byte: (),
        period_bytes=ANY_PERIOD_BYTES,
    )
    return Known(one, path)
