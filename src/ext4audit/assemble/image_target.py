"""Which image a TARGET is, unless the kernel has what is in it in use."""

from __future__ import annotations

from ext4audit.assemble.image import BadImage, Image, PlainFile, find_image
from ext4audit.assemble.inventory import Inventory
from ext4audit.assemble.reading import ask
from ext4audit.assemble.stack import StackReader
from ext4audit.assemble.target import Superblocks
from ext4audit.evidence import Known, Unknown, value_or
from ext4audit.facts.mount import DeviceNumber
from ext4audit.parsers.resolved_path import parse_resolved_path
from ext4audit.sources.ask import RealPath, ResolvePath, Source


def image_of_target(
    source: Source, inventory: Inventory, path: str
) -> Superblocks | Image | BadImage | PlainFile:
    """Say what a path is as an image; anything but a regular file is a plain file here.

    What is mounted from an image is judged as it lives: its bytes in the file may be older, and
    tune2fs must not write to them.
    """
    found = ask(source, ResolvePath(path), parse_resolved_path, f"path {path}")
    if isinstance(found, Unknown) or found.value.type != "file":
        return PlainFile()
    image = find_image(source, path)
    if isinstance(image, PlainFile):
        return image
    live = _live_over(source, inventory, path)
    if not live:
        return image
    names = ", ".join(f"/dev/{inventory.names[number]}" for number in live)
    return Superblocks(
        live, f"the image behind {names}; its directory stands for the one it lies on"
    )


def _live_over(source: Source, inventory: Inventory, path: str) -> tuple[DeviceNumber, ...]:
    """Return the live superblocks that lie on the file: by a loop, also below others."""
    real = value_or(source.fetch(RealPath(path)), path).removesuffix("\n")
    reader = StackReader(source, value_or(inventory.mounts, ()))
    found = []
    for number in sorted(inventory.names):
        stack = reader.read(number)
        if isinstance(stack, Known) and any(
            device.loop and device.loop.backing_file == real for device in stack.value.walk()
        ):
            found.append(number)
    return tuple(found)
