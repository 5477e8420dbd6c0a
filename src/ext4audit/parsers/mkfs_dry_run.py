"""What `mke2fs -n -v` says it would make: the parameters, without making anything."""

from __future__ import annotations

import re

from ext4audit.records import dataclass

_LINES = {
    "block_bytes": re.compile(r"^Block size=([0-9]+) ", re.MULTILINE),
    "inodes": re.compile(r"^([0-9]+) inodes, [0-9]+ blocks$", re.MULTILINE),
    "blocks": re.compile(r"^[0-9]+ inodes, ([0-9]+) blocks$", re.MULTILINE),
    "first_block": re.compile(r"^First data block=([0-9]+)$", re.MULTILINE),
    "groups": re.compile(r"^([0-9]+) block groups?$", re.MULTILINE),
    "blocks_per_group": re.compile(r"^([0-9]+) blocks per group, ", re.MULTILINE),
    "inodes_per_group": re.compile(r"^([0-9]+) inodes per group$", re.MULTILINE),
}
_USAGE = re.compile(r"^fs_types for mke2fs.conf resolution: (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DryRun:
    """The parameters that mke2fs chose; `usage_types` are the words that -T would give.

    A silently lowered -g shows here: `blocks_per_group` is what will be made.
    """

    block_bytes: int
    inodes: int
    blocks: int
    first_block: int
    groups: int
    blocks_per_group: int
    inodes_per_group: int
    usage_types: tuple[str, ...]


def parse_dry_run(text: str) -> DryRun:
    """Parse the statistics (misc/mke2fs.c: show_stats); raises ValueError for other text."""
    numbers = {}
    for name, pattern in _LINES.items():
        match = pattern.search(text)
        if match is None:
            raise ValueError(f"mke2fs -n does not state {name}")
        numbers[name] = int(match[1])
    usage = _USAGE.search(text)
    words = re.findall(r"'([^']*)'", usage[1]) if usage else []
    return DryRun(**numbers, usage_types=tuple(words[1:]))
