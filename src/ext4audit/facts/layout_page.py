"""What `ext4audit layout` shows of one filesystem."""

from __future__ import annotations

from ext4audit.facts.counsel import Counsel
from ext4audit.facts.layout import MetadataLayout
from ext4audit.facts.superblock import Superblock
from ext4audit.records import dataclass


@dataclass(frozen=True, slots=True)
class LayoutPage:
    """The layout of a filesystem on its members, and the advice for it.

    `target` is the device or the image. `stack` says what the members are taken from (a sysfs
    path, or what was stated), `origin` where the places of the metadata were read. `counsel` is
    None where nothing stripes.
    """

    target: str
    superblock: Superblock
    layout: MetadataLayout
    counsel: Counsel | None
    stack: str
    origin: str
