"""Effect of each ext4 option on each kernel: set at mount, by remount, in the superblock.

Only raw texts are returned; the host's tests read them with the product's own parsers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from ext4audit.facts.options import OptionSpec, all_options
from lab.support.devices import disk, run
from lab.support.mounting import MS_REMOUNT, KernelLog, mount_call, unmount
from lab.support.scenario import JsonObject, scenario

PLACE = Path("/mnt/options")
MKFS = ("mkfs.ext4", "-q", "-F", "-b")
SIZE = "160M"  # two groups, the second with a copy of the superblock
VALUES = {
    "init_itable=": ("init_itable=20",),
    "data=": ("data=ordered", "data=writeback", "data=journal"),
    "errors=": ("errors=continue", "errors=remount-ro", "errors=panic"),
    "commit=": ("commit=30",),
    "resuid=": ("resuid=7",),
    "resgid=": ("resgid=7",),
    "min_batch_time=": ("min_batch_time=10",),
    "max_batch_time=": ("max_batch_time=10000",),
    "stripe=": ("stripe=64",),
    "inode_readahead_blks=": ("inode_readahead_blks=64",),
    "max_dir_size_kb=": ("max_dir_size_kb=1000",),
    "data_err=": ("data_err=abort", "data_err=ignore"),
    "sb=": ("sb=131072",),  # in KiB, where group 1 begins
    "jqfmt=": ("jqfmt=vfsv1",),
    "usrjquota=": ("usrjquota=aquota.user,jqfmt=vfsv1",),
    "grpjquota=": ("grpjquota=aquota.group,jqfmt=vfsv1",),
    "mb_optimize_scan=": ("mb_optimize_scan=0", "mb_optimize_scan=1"),
    "test_dummy_encryption=": ("test_dummy_encryption=v2",),
    "dax=": ("dax=always", "dax=never", "dax=inode"),
}
"""Example values of the options that take one."""
TOGETHER = ("data=writeback,journal_async_commit", "data=journal,delalloc", "barrier=1,nobarrier")
"""Combinations of options worth testing."""
REMOUNTS = (
    *(("", word) for word in ("nodelalloc", "nobarrier", "noauto_da_alloc", "discard")),
    *(("", word) for word in ("dioread_lock", "commit=30", "stripe=64", "errors=remount-ro")),
    *(("", word) for word in ("init_itable=20", "nojournal_checksum", "nombcache", "dax=always")),
    *(("", word) for word in ("data=ordered", "data=writeback", "data=journal")),
    *(("", word) for word in ("journal_async_commit", "noblock_validity", "max_dir_size_kb=9")),
    ("", "norecovery"),
    *((word, f"no{word}") for word in ("delalloc", "barrier", "auto_da_alloc", "discard")),
    *((f"no{word}", word) for word in ("delalloc", "barrier", "auto_da_alloc", "discard")),
    ("dioread_lock", "dioread_nolock"),
    ("data=writeback", "data=ordered"),
    ("data=writeback", "journal_async_commit"),
    ("data=journal", "delalloc"),
    ("data=journal", "dioread_nolock"),
    ("nobarrier", "commit=30"),
)
"""Pairs of options at mount and options of the remount that follows."""
BITS = (
    "nobarrier,nodelalloc,journal_data_writeback",
    "journal_data",
    "journal_data_ordered,discard,debug",
    "bsdgroups,uid16,block_validity",
)
"""Arguments of `tune2fs -o`, each used on a new filesystem."""
STRING = "nodelalloc,noauto_da_alloc,dioread_lock,data=writeback"
"""Default mount options string that tune2fs cannot write: a comma ends its argument."""


@scenario(every_era=True)
def option_table() -> JsonObject:
    """Mount a filesystem with each token in the product's table."""
    device = _make("4096")
    superblock = run("dumpe2fs", "-h", device)
    tokens = [*itertools.chain.from_iterable(map(_tokens, all_options())), *TOGETHER]
    given = {token: _try(device, token) for token in dict.fromkeys(tokens)}
    sound = run("e2fsck", "-fn", device)
    return {"superblock": superblock, "default": _try(device), "given": given, "fsck": sound}


@scenario(every_era=True)
def remount_matrix() -> JsonObject:
    """Remount with one option, on filesystems mounted with another."""
    device = _make("4096")
    return {f"{before}|{word}": _remount(device, before, word) for before, word in REMOUNTS}


@scenario(every_era=True)
def superblock_options() -> JsonObject:
    """Mount without options after tune2fs and debugfs have changed the superblock."""
    commands = [f"tune2fs -o {words}" for words in BITS]
    commands.append("tune2fs -E mount_opts=nobarrier")
    commands.append(f"debugfs -w -R 'set_super_value mount_opts {STRING}'")
    return {command: _tuned(command) for command in commands}


@scenario(every_era=True)
def other_filesystems() -> JsonObject:
    """Mount filesystems with other defaults: small blocks, no journal, ext3, ext2."""
    return {
        "small blocks": _shown_of(_make("1024")),
        "no journal": _shown_of(_make("4096", "-O", "^has_journal")),
        "ext3": _shown_of(_make("4096", "-t", "ext3"), "ext3"),
        "ext2": _shown_of(_make("4096", "-t", "ext2"), "ext2"),
    }


def _make(block_bytes: str, *options: str) -> str:
    device = disk("wide")
    PLACE.mkdir(exist_ok=True)
    run(*MKFS, block_bytes, *options, device, SIZE)
    return device


def _tokens(spec: OptionSpec) -> Sequence[str]:
    """Return the mount options to try for a spec: both states or some values, and aliases."""
    states = VALUES[spec.on] if spec.has_value else (spec.on,)
    return (*states, *filter(None, [spec.off]), *spec.aliases)


def _tuned(command: str) -> JsonObject:
    device = _make("4096")
    run("sh", "-c", f"{command} {device}")
    return _shown_of(device)


def _shown_of(device: str, fstype: str = "ext4") -> JsonObject:
    return {"superblock": run("dumpe2fs", "-h", device), **_try(device, fstype=fstype)}


def _try(device: str, options: str = "", fstype: str = "ext4") -> JsonObject:
    """Mount with these options; return the error number, the options shown and the kernel log."""
    log = KernelLog()
    error = mount_call(device, PLACE, options, fstype=fstype)
    if error:
        return {"errno": error, "log": log.lines()}
    try:
        return {"errno": 0, "log": log.lines(), **_show(device)}
    finally:
        unmount(PLACE)


def _remount(device: str, before: str, options: str) -> JsonObject:
    error = mount_call(device, PLACE, before)
    if error:
        return {"first_errno": error}
    try:
        log = KernelLog()
        error = mount_call(device, PLACE, options, MS_REMOUNT)
        return {"errno": error, "log": log.lines(), **_show(device)}
    finally:
        unmount(PLACE)


def _show(device: str) -> JsonObject:
    """Return the options file and the line of mountinfo."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines(keepends=True)
    file = Path(f"/proc/fs/ext4/{Path(device).name}/options")
    return {
        "file": file.read_text(),
        "mountinfo": next(line for line in lines if f" {PLACE} " in line),
    }
