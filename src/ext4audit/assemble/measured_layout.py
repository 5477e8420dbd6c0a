"""Measure the metadata of a filesystem on a stack that may stripe."""

from __future__ import annotations

from functools import partial

from ext4audit.assemble.group_table import read_group_table
from ext4audit.evidence import Evidence, Known, Unknown, derive
from ext4audit.facts.block import BlockDevice
from ext4audit.facts.layout import MetadataLayout
from ext4audit.facts.superblock import Superblock
from ext4audit.layout.guess_geometry import guess_geometry
from ext4audit.layout.load import measure
from ext4audit.layout.map_of import map_of
from ext4audit.layout.map_stack import map_stack
from ext4audit.layout.stack_map import StackMap
from ext4audit.sources.ask import Source


def measured_layout(
    source: Source, path: str, superblock: Evidence[Superblock], stack: BlockDevice
) -> Evidence[MetadataLayout] | None:
    """Return the metadata counted by member device, None where nothing stripes after all."""
    stack_map, doubts = map_or_guess(stack)
    if isinstance(stack_map, Known) and stack_map.value.geometry is None:
        return None
    if isinstance(stack_map, Unknown):
        return stack_map
    groups = read_group_table(source, path, stack.device_number, superblock)
    counted = partial(measure, doubts=doubts)
    return derive(f"metadata layout of {path}", counted, groups, superblock, stack_map)


def map_or_guess(stack: BlockDevice) -> tuple[Evidence[StackMap], tuple[Unknown, ...]]:
    """Return the map of a stack, or the one that its I/O sizes suggest and what hides the true."""
    found = map_stack(stack)
    if isinstance(found, Known):
        return found, ()
    guess = guess_geometry(stack)
    if guess is None:
        return found, ()
    origin = f"minimum and optimal I/O size of {stack.name}"
    guessed = derive(found.what, map_of, Known(guess, origin))
    return (guessed, (found,)) if isinstance(guessed, Known) else (found, ())
