"""Read where a filesystem's bitmaps lie on its stripe; nothing is read where there is none."""

from __future__ import annotations

from ext4audit.assemble.reading import ask
from ext4audit.evidence import Evidence, Unknown, derive
from ext4audit.facts.block import BlockDevice
from ext4audit.facts.layout import MetadataLayout
from ext4audit.facts.superblock import Superblock
from ext4audit.layout.load import measure
from ext4audit.layout.stripe import find_stripe
from ext4audit.parsers.dumpe2fs_groups import parse_group_table
from ext4audit.sources.ask import RunCommand, Source


def read_layout(
    source: Source, path: str, superblock: Evidence[Superblock], stack: Evidence[BlockDevice]
) -> Evidence[MetadataLayout] | None:
    """Return the bitmaps counted by member device, None where no stripe lies below.

    `dumpe2fs -g` (e2fsprogs 1.43) reads the descriptors only: 64 TiB in 0.2 s, where plain
    dumpe2fs reads every bitmap of a production array for half a minute.
    """
    if isinstance(stack, Unknown):
        return stack
    geometry = find_stripe(stack.value)
    if geometry is None or isinstance(geometry, Unknown):
        return geometry
    locations = ask(
        source, RunCommand(("dumpe2fs", "-g", path)), parse_group_table, f"block groups of {path}"
    )
    return derive(f"metadata layout of {path}", measure, locations, superblock, geometry)
