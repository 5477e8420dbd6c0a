"""parse_dry_run: the output of `mke2fs -n -v`."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.parsers.mke2fs import DryRun, parse_dry_run, parse_mkfs_arguments


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("-g 32744 -O ^metadata_csum", "-g 32744 -O ^metadata_csum"),
        ("-g32744 -G16", "-g 32744 -G 16"),
        ("-O a -O b,c", "-O a,b,c"),
        ("-E stride=4,,stripe_width=8", "-E stride=4,stripe_width=8"),
        ("-j", "-O has_journal"),
        ("-FqG 4", "-G 4"),
        ("-L 'two words'", "-L|two words"),
        ("-b -4096", "-b -4096"),
        ("-J size=64,location=1G", "-J size=64,location=1G"),
    ],
)
def test_options_are_parsed_as_by_getopt(text: str, line: str) -> None:
    """Values may be attached; several -O are joined, as in mke2fs since 1.43."""
    split = line.split("|") if "|" in line else line.split()
    assert parse_mkfs_arguments(text).arguments() == tuple(split)


def test_flags_without_effect_on_the_filesystem_are_kept_apart() -> None:
    """They are part of the printed line, but do not change the filesystem."""
    assert parse_mkfs_arguments("-F -m 0 -qv").behaviour == ("-F", "-q", "-v")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("/dev/sda", "is not an option"),
        ("-m 0 /dev/sda", "is not an option"),
        ("-m 0 ; reboot", "is not an option"),
        ("-- /dev/sda", "is not an option"),
        ("-", "is not an option"),
        ("-c", "bad blocks"),
        ("-S", "writes superblocks"),
        ("-n", "makes nothing"),
        ("-z undo", "undo file"),
        ("-d /etc", "copy a directory"),
        ("-l list", "bad blocks"),
        ("-X", "not an option"),
        ("-Fc", "bad blocks"),
        ("--help", "-\\-: not an option"),
        ("-g", "needs a value"),
        ("-E a=1 -E b=2", "given twice"),
        ("-E offset=4096", "fill their device"),
        ("-J device=/dev/sdb", "another device"),
        ("-O journal_dev", "makes a journal for other filesystems"),
        ("-J size=4,device=UUID=x", "another device"),
        ("-t xfs", "ext4, ext3 and ext2"),
        ("-L 'open", "closing quotation"),
        ("-L a\nb", "unprintable character"),
        ("-L \x1b[2J", "unprintable character"),
        ("-L \udcff", "unprintable character"),
    ],
)
def test_options_that_do_not_describe_a_filesystem_are_refused(text: str, reason: str) -> None:
    """A device, a command, or an option that reads or writes something else is refused."""
    with pytest.raises(ValueError, match=f"(?i){reason}"):
        parse_mkfs_arguments(text)


def test_text_is_never_run_by_a_shell() -> None:
    """Text that a shell would run is a plain value."""
    assert parse_mkfs_arguments("-L '$(reboot)'").value("-L") == "$(reboot)"


@given(st.text() | st.text("-gGOEbFq 0123456789,=^'\\\"", max_size=30))
def test_any_text_is_options_or_a_value_error(text: str) -> None:
    """Parsed options can be printed and parsed again."""
    try:
        options = parse_mkfs_arguments(text)
    except ValueError:
        return
    assert parse_mkfs_arguments(shlex.join(options.arguments())).arguments() == options.arguments()


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
13107 blocks (5.00%) reserved for the super user
First data block=0
Maximum filesystem blocks=268435456
1 block group
524288 blocks per group, 32768 clusters per group
16384 inodes per group
"""


def test_the_parameters_of_64_tib_are_parsed() -> None:
    """The values are those that mke2fs 1.47.0 prints."""
    assert parse_dry_run(HUGE) == DryRun(
        block_bytes=4096,
        inodes=1074530304,
        blocks=17179869184,
        groups=524673,
        blocks_per_group=32744,
        inodes_per_group=2048,
        reserved_blocks=858993459,
        usage_types=("huge",),
    )


def test_a_single_group_of_clusters_is_parsed() -> None:
    """Groups are counted in blocks even with bigalloc; without -v there are no usage types."""
    found = parse_dry_run(ONE_GROUP)
    assert (found.groups, found.blocks_per_group, found.usage_types) == (1, 524288, ())
    assert (found.reserved_blocks, found.most_blocks, found.backups) == (13107, 268435456, 0)
    assert found.cluster_blocks == 16


def test_backups_are_counted() -> None:
    """mke2fs prints the block numbers of backups on separate lines."""
    listed = "Superblock backups stored on blocks: \n\t524288, 1572864, \n\t4026007552\n\n"
    assert parse_dry_run(HUGE + listed).backups == 3


@pytest.mark.parametrize("line", HUGE.splitlines()[4:5] + HUGE.splitlines()[7:8])
def test_a_missing_line_is_named(line: str) -> None:
    """A partial answer is refused."""
    with pytest.raises(ValueError, match="does not state"):
        parse_dry_run(HUGE.replace(line, ""))
