"""The primary superblock on a device: whether the next mount will find one.

The kernel works with a copy in memory, and goes on when the one on the device is destroyed. What
it answers by an ioctl then proves nothing about the next mount.
"""

from __future__ import annotations

from ext4audit.assemble.superblock import (
    device_node,
    dump_superblock,
    most_actionable,
    read_tuned_superblock,
)
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive
from ext4audit.facts.mount import DeviceNumber, Mount
from ext4audit.facts.superblock import PrimarySuperblock
from ext4audit.layout.groups import SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET_BYTES
from ext4audit.parsers.dumpe2fs import damage_in_message, parse_damage
from ext4audit.parsers.superblock import damage_of
from ext4audit.sources.ask import CapturedDumpe2fs, ReadBytes, RunCommand, Source

PRIMARY = "primary superblock"
_READINGS = 3
"""The kernel may be writing it: damage that stays is damage."""
_BROKEN = frozenset({Why.FAILED, Why.TIMED_OUT, Why.UNPARSABLE})
"""The ways in which dumpe2fs itself failed. A host without it, or a refusal, is none."""


def read_primary(
    source: Source, path: str, number: DeviceNumber, mounts: tuple[Mount, ...]
) -> Evidence[PrimarySuperblock]:
    """Return what is on the device at `path`, which must have the device number.

    dumpe2fs verifies the checksum, too: where it succeeds, nothing else is read. Where it fails,
    the bytes decide; where they cannot be read, the message of dumpe2fs does.
    """
    node = device_node(source, path, number)
    if isinstance(node, Unknown):
        return node
    dumped, printed = dump_superblock(source, path, number), _printed(source, path)
    if isinstance(dumped, Known) and printed == Known("", dumped.origin):
        return Known(PrimarySuperblock(), dumped.origin)
    found = _stored(source, path)
    if isinstance(found, Unknown):
        found = printed if isinstance(printed, Known) else _captured(source, path, printed, found)
    if isinstance(found, Unknown):
        return found
    failed = dumped if isinstance(dumped, Unknown) and dumped.why in _BROKEN else None
    kernel = read_tuned_superblock(source, number, mounts) if found.value else None
    return Known(PrimarySuperblock(found.value, failed, kernel), found.origin)


def _printed(source: Source, path: str) -> Evidence[str]:
    """Return the damage that dumpe2fs reports on either of its outputs, "" for none."""
    answer = source.fetch(RunCommand(("dumpe2fs", "-h", path)))
    if isinstance(answer, Known):
        return derive(PRIMARY, parse_damage, answer)
    message = damage_in_message(answer.detail)
    return Known(message, f"dumpe2fs -h {path}") if message else answer


def _captured(source: Source, path: str, *others: Unknown) -> Evidence[str]:
    full = derive(PRIMARY, parse_damage, source.fetch(CapturedDumpe2fs(path)))
    return full if isinstance(full, Known) else most_actionable(*others)


def _stored(source: Source, path: str) -> Evidence[str]:
    """Return the damage of the bytes on the device where each reading has it, "" for none."""
    first = derive(PRIMARY, damage_of, source.fetch(_place(path, 0)))
    if isinstance(first, Unknown) or not first.value:
        return first
    for reading in range(1, _READINGS):
        again = derive(PRIMARY, damage_of, source.fetch(_place(path, reading)))
        if isinstance(again, Known) and not again.value:
            return again
    return first


def _place(path: str, reading: int) -> ReadBytes:
    return ReadBytes(path, SUPERBLOCK_OFFSET_BYTES, SUPERBLOCK_BYTES, reading)
