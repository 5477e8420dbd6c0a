"""Parsers turn one text into a fact; they are pure and raise ValueError on what is not it."""

from __future__ import annotations

import re
from calendar import timegm

_COMPAT = (
    "dir_prealloc imagic_inodes has_journal ext_attr resize_inode dir_index lazy_bg FEATURE_C7 "
    "snapshot_bitmap sparse_super2 fast_commit stable_inodes orphan_file"
).split()
_INCOMPAT = (
    "compression filetype needs_recovery journal_dev meta_bg FEATURE_I5 extent 64bit mmp flex_bg "
    "ea_inode FEATURE_I11 dirdata metadata_csum_seed large_dir inline_data encrypt casefold"
).split()
_RO_COMPAT = (
    "sparse_super large_file FEATURE_R2 huge_file uninit_bg dir_nlink extra_isize FEATURE_R7 "
    "quota bigalloc metadata_csum replica read-only project shared_blocks verity orphan_present"
).split()
_JOURNAL_MODES = {
    0x20: "journal_data",
    0x40: "journal_data_ordered",
    0x60: "journal_data_writeback",
}
_JOURNAL_MODE_MASK = 0x60
_MOUNT_OPTIONS = {
    0: "debug",
    1: "bsdgroups",
    2: "user_xattr",
    3: "acl",
    4: "uid16",
    8: "nobarrier",
    9: "block_validity",
    10: "discard",
    11: "nodelalloc",
}
_ERRORS = {1: "continue", 3: "panic"}
_FLAGS = ("signed_directory_hash", "unsigned_directory_hash", "test_filesystem")
_HASHES = ("legacy", "half_md4", "tea")
_SYSTEMS = ("Linux", "Hurd", "Masix", "FreeBSD", "Lites")
_CLEAN, _WITH_ERRORS = 1, 2
_TIME = re.compile(
    r"[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) (?P<day>[ 0-9][0-9]) "
    r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2}) (?P<year>[0-9]{4})"
)
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_FIRST_YEAR = 1970


def feature_names(compat: int, incompat: int, ro_compat: int) -> frozenset[str]:
    """Name the features; an unknown bit 12 of the compatible ones is "FEATURE_C12"."""
    kinds = ((compat, _COMPAT, "C"), (incompat, _INCOMPAT, "I"), (ro_compat, _RO_COMPAT, "R"))
    return frozenset(
        names[bit] if bit < len(names) else f"FEATURE_{letter}{bit}"
        for bits, names, letter in kinds
        for bit in _bits(bits)
    )


def mount_option_names(bits: int) -> tuple[str, ...]:
    """Name the default mount options: the journal mode, then bit by bit."""
    mode = bits & _JOURNAL_MODE_MASK
    names = [_JOURNAL_MODES[mode]] if mode else []
    names += [_MOUNT_OPTIONS.get(bit, f"MNTOPT_{bit}") for bit in _bits(bits & ~_JOURNAL_MODE_MASK)]
    return tuple(names)


def errors_behaviour(number: int) -> str:
    """Name the errors behaviour as ext4_fill_super() takes it: any other value is remount-ro."""
    return _ERRORS.get(number, "remount-ro")


def flag_names(bits: int) -> tuple[str, ...]:
    """Name the flags; dumpe2fs leaves out the bits that it does not know."""
    return tuple(name for bit, name in enumerate(_FLAGS) if bits >> bit & 1)


def hash_name(number: int) -> str:
    """Name the hash of directory indexes: "HASHALG_6" for one without a name."""
    return _HASHES[number] if number < len(_HASHES) else f"HASHALG_{number}"


def system_name(number: int) -> str:
    """Name the operating system that made the filesystem."""
    return _SYSTEMS[number] if number < len(_SYSTEMS) else "(unknown os)"


def state_text(bits: int) -> str:
    """Name the state: whether it was unmounted cleanly, and whether errors were found."""
    clean = "clean" if bits & _CLEAN else "not clean"
    return f"{clean} with errors" if bits & _WITH_ERRORS else clean


def parse_ctime(text: str) -> int | None:
    """Return seconds since 1970, taking the time for UTC; None for "n/a" and for any other text.

    An odd time is no reason to reject the whole superblock: all other fields remain valid.
    """
    match = _TIME.fullmatch(text)
    if match is None or match["month"] not in _MONTHS or int(match["year"]) < _FIRST_YEAR:
        return None
    day, hour, minute, second = map(int, match.group("day", "hour", "minute", "second"))
    month = _MONTHS.index(match["month"]) + 1
    return timegm((int(match["year"]), month, day, hour, minute, second))


def _bits(bits: int) -> list[int]:
    """Return the numbers of the bits that are set, lowest first."""
    return [bit for bit in range(32) if bits >> bit & 1]
