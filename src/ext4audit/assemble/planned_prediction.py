"""What a plan's filesystem will be, and how that is known."""

from __future__ import annotations

from ext4audit.evidence import Evidence, Unknown
from ext4audit.facts.groups import GroupTable
from ext4audit.facts.layout import Basis
from ext4audit.facts.superblock import Superblock
from ext4audit.records import dataclass


@dataclass(frozen=True, slots=True)
class Prediction:
    """What mke2fs will make, and how that is known; `doubts` make it only likely.

    `assumed` are sentences for people. A superblock that is Unknown(FAILED) was refused by
    mke2fs, in its own words.
    """

    superblock: Evidence[Superblock]
    table: Evidence[GroupTable]
    basis: Basis
    doubts: tuple[Unknown, ...]
    assumed: tuple[str, ...]
