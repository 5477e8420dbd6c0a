"""Read where a filesystem's metadata lies on its stripe; nothing is read where there is none."""

from __future__ import annotations

from ext4audit.evidence import Evidence, Unknown
from ext4audit.facts.block import BlockDevice
from ext4audit.facts.layout import MetadataLayout
from ext4audit.facts.superblock import Superblock
from ext4audit.layout.may_stripe import may_stripe
from ext4audit.sources.ask import Source


def read_layout(
    source: Source, path: str, superblock: Evidence[Superblock], stack: Evidence[BlockDevice]
) -> Evidence[MetadataLayout] | None:
    """Return the metadata counted by member device, None where no stripe lies below."""
    if isinstance(stack, Unknown):
        return stack
    if not may_stripe(stack.value):
        return None
    from ext4audit.assemble.measured_layout import measured_layout  # noqa: PLC0415 - 5 ms

    return measured_layout(source, path, superblock, stack.value)
