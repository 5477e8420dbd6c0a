"""The command line of mke2fs, and the output of `mke2fs -n`."""

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from ext4audit.facts.mount import EXT_FSTYPES
from ext4audit.facts.plan import MkfsArguments

VALUED = frozenset("-b -C -e -E -g -G -i -I -J -L -m -M -N -o -O -r -t -T -U".split())
JOURNAL = "-j"
BEHAVIOUR = frozenset("-D -F -q -v".split())
"""Flags that change how mke2fs works, but not the filesystem that it makes."""
REFUSED = {
    "-c": "it would search the device for bad blocks",
    "-d": "it would copy a directory into the filesystem",
    "-l": "it reads a list of bad blocks",
    "-n": "it makes nothing",
    "-S": "it writes superblocks over an existing filesystem",
    "-z": "it writes an undo file",
}
_LINES = {
    "block_bytes": re.compile(r"^Block size=([0-9]+) ", re.MULTILINE),
    "inodes": re.compile(r"^([0-9]+) inodes, [0-9]+ blocks$", re.MULTILINE),
    "blocks": re.compile(r"^[0-9]+ inodes, ([0-9]+) blocks$", re.MULTILINE),
    "groups": re.compile(r"^([0-9]+) block groups?$", re.MULTILINE),
    "blocks_per_group": re.compile(r"^([0-9]+) blocks per group, ", re.MULTILINE),
    "inodes_per_group": re.compile(r"^([0-9]+) inodes per group$", re.MULTILINE),
    "reserved_blocks": re.compile(r"^([0-9]+) blocks \(.*%\) reserved", re.MULTILINE),
}
_MOST_BLOCKS = re.compile(r"^Maximum filesystem blocks=([0-9]+)$", re.MULTILINE)
_CLUSTER = re.compile(r"^Cluster size=([0-9]+) ", re.MULTILINE)
_BACKUPS = "Superblock backups stored on blocks:"
_USAGE = re.compile(r"^fs_types for mke2fs.conf resolution: (.*)$", re.MULTILINE)
_WARNING = re.compile(
    r"^(?:mke2fs: )?Warning: ([^\n]*?(?: than\n[^\n]*)?[^\n\s])\s*$", re.MULTILINE | re.IGNORECASE
)


class DryRun(NamedTuple):
    """The parameters that mke2fs chose; `usage_types` are the equivalent arguments of -T.

    mke2fs may lower -g silently: `blocks_per_group` is the number that it uses. `most_blocks` is
    the size that the reserved descriptors allow, None if none are reserved. `backups` is the
    number of groups that begin with a backup superblock. `cluster_blocks` is 1 without bigalloc.
    """

    block_bytes: int
    inodes: int
    blocks: int
    groups: int
    blocks_per_group: int
    inodes_per_group: int
    reserved_blocks: int
    usage_types: tuple[str, ...]
    most_blocks: int | None = None
    backups: int = 0
    cluster_blocks: int = 1


def parse_mkfs_arguments(text: str) -> MkfsArguments:
    """Parse "-g 32744 -O ^metadata_csum"; raise ValueError that names a refused argument.

    Arguments are split as in a POSIX shell (shlex), without expansions. Only options of mke2fs(8)
    that describe the filesystem are accepted; a device is not.
    """
    if not text.isprintable():
        raise ValueError("it contains an unprintable character")
    values: list[tuple[str, str]] = []
    features: list[str] = []
    extended: list[str] = []
    behaviour: list[str] = []
    for flag, value in _options(shlex.split(text)):
        if flag == "-O":
            features += _list(value)
        elif flag == "-E":
            if extended:
                raise ValueError("-E is given twice: mke2fs takes only the last; join them")
            extended += _list(value)
        elif value is None:
            behaviour.append(flag)
        else:
            values.append((flag, value))
    options = MkfsArguments(tuple(values), tuple(features), tuple(extended), tuple(behaviour))
    _refuse(options)
    return options


def parse_dry_run(text: str) -> DryRun:
    """Parse the statistics (misc/mke2fs.c: show_stats); raise ValueError for other text."""
    numbers = {}
    for name, pattern in _LINES.items():
        match = pattern.search(text)
        if match is None:
            raise ValueError(f"mke2fs -n does not state {name}")
        numbers[name] = int(match[1])
    usage = _USAGE.search(text)
    arguments = re.findall(r"'([^']*)'", usage[1]) if usage else []
    most = _MOST_BLOCKS.search(text)
    cluster = _CLUSTER.search(text)
    backups = re.findall("[0-9]+", text.partition(_BACKUPS)[2])
    return DryRun(
        **numbers,
        usage_types=tuple(arguments[1:]),
        most_blocks=int(most[1]) if most else None,
        backups=len(backups),
        cluster_blocks=int(cluster[1]) // numbers["block_bytes"] if cluster else 1,
    )


def parse_warnings(text: str) -> tuple[str, ...]:
    """Return the distinct warnings of mke2fs, such as a truncated label or an ignored type."""
    return tuple(dict.fromkeys(each.replace("\n", " ") for each in _WARNING.findall(text)))


def _options(arguments: list[str]) -> Iterator[tuple[str, str | None]]:
    """Split words into flags and values as getopt(3) does, including "-g32744" and "-Fq"."""
    rest = iter(arguments)
    for word in rest:
        if not word.startswith("-") or word in {"-", "--"}:
            raise ValueError(f"{word!r} is not an option; do not give the device or its size here")
        letters = word[1:]
        while letters:
            flag, letters = f"-{letters[0]}", letters[1:]
            if flag in VALUED:
                yield flag, letters or _next(rest, flag)
                letters = ""
            elif flag == JOURNAL:
                yield "-O", "has_journal"
            elif flag in BEHAVIOUR:
                yield flag, None
            else:
                reason = REFUSED.get(flag, "not an option of mke2fs that describes a filesystem")
                raise ValueError(f"{flag}: {reason}")


def _next(rest: Iterator[str], flag: str) -> str:
    value = next(rest, None)
    if value is None:
        raise ValueError(f"{flag} needs a value")
    return value


def _list(value: str | None) -> list[str]:
    return [word for word in (value or "").split(",") if word]


def _refuse(options: MkfsArguments) -> None:
    """Raise ValueError for options that need another device or do not make a filesystem."""
    if "journal_dev" in options.features:
        raise ValueError("-O journal_dev: it makes a journal for other filesystems")
    if options.has_extended("offset"):
        raise ValueError("-E offset: only filesystems that fill their device can be planned")
    if any(word.startswith("device=") for word in _list(options.value("-J"))):
        raise ValueError("-J device: a journal on another device cannot be planned")
    fstype = options.value("-t") or "ext4"
    if fstype not in EXT_FSTYPES:
        raise ValueError(f"-t {fstype}: only ext4, ext3 and ext2 can be planned")
