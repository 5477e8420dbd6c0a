"""parse_dry_run: what `mke2fs -n -v` prints."""

from __future__ import annotations

import pytest

from ext4audit.parsers.mkfs_dry_run import DryRun, parse_dry_run

HUGE = """\
mke2fs 1.47.0 (5-Feb-2023)
fs_types for mke2fs.conf resolution: 'ext4', 'huge'
Filesystem label=
OS type: Linux
Block size=4096 (log=2)
Fragment size=4096 (log=2)
Stride=128 blocks, Stripe width=1536 blocks
1074530304 inodes, 17179869184 blocks
858993459 blocks (5.00%) reserved for the super user
First data block=0
524673 block groups
32744 blocks per group, 32744 fragments per group
2048 inodes per group
"""
ONE_GROUP = """\
Block size=4096 (log=2)
Cluster size=65536 (log=6)
16384 inodes, 262144 blocks
First data block=0
Maximum filesystem blocks=268435456
1 block group
524288 blocks per group, 32768 clusters per group
16384 inodes per group
"""


def test_the_parameters_of_64_tib() -> None:
    """As mke2fs 1.47.0 prints them."""
    assert parse_dry_run(HUGE) == DryRun(
        block_bytes=4096,
        inodes=1074530304,
        blocks=17179869184,
        first_block=0,
        groups=524673,
        blocks_per_group=32744,
        inodes_per_group=2048,
        usage_types=("huge",),
    )


def test_one_group_of_clusters() -> None:
    """Groups are counted in blocks also with bigalloc; without -v there are no usage types."""
    found = parse_dry_run(ONE_GROUP)
    assert (found.groups, found.blocks_per_group, found.usage_types) == (1, 524288, ())


@pytest.mark.parametrize("line", HUGE.splitlines()[4:5] + HUGE.splitlines()[7:8])
def test_a_line_that_is_missing_is_named(line: str) -> None:
    """Half an answer is no answer."""
    with pytest.raises(ValueError, match="does not state"):
        parse_dry_run(HUGE.replace(line, ""))
