"""Mount options to try on a kernel: all of the grammar, with valid and invalid values."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.facts.options import ext4_options

REQUIRED_COMPANIONS = {
    "journal_async_commit": "data=writeback,journal_async_commit",
    "usrjquota=a": "usrjquota=a,jqfmt=vfsv1",
    "grpjquota=a": "grpjquota=a,jqfmt=vfsv1",
}
"""Options that a mount accepts only in combination with another."""
UNAVAILABLE_HERE = frozenset(
    # They need a device, a feature or a kernel configuration that is not available here.
    "journal_dev journal_path prjquota dax test_dummy_encryption fc_debug_force "
    "fc_debug_max_replay debug_want_extra_isize inlinecrypt".split()
)
VALUES = {"text": ("a",), "any": ("none",), "int": ("1",), "optional-int": ("1",)}
INVALID_AND_EDGE_VALUES = (
    *("bogus", "bogus_opt=1", "extents", "noi_version", "stripe=0", "stripe=999999", "commit=0x1e"),
    *("commit", "commit=x", "commit=-1", "commit=99999999", "data", "data=foo", "errors=foo"),
    *("delalloc=1", "nodelalloc=1", "barrier=0", "barrier=2", "barrier=x", "auto_da_alloc=x"),
    *("inode_readahead_blks=33", "inode_readahead_blks=0", "journal_ioprio=7", "journal_ioprio=8"),
    *("mb_optimize_scan=2", "mb_optimize_scan", "jqfmt=x", "data_err=x", "dax=x", "resuid=x"),
    *("init_itable=x", "max_dir_size_kb=x", "sb=x", "usrjquota=", "check=none", "journal=update"),
    *("stripe=4294967295", "stripe=4294967296", "stripe=08", "resuid=4294967295"),
    *("inode_readahead_blks=040", "inode_readahead_blks=2147483648", "init_itable=99999999999"),
)
"""Options with valid and invalid values of every class."""


def options_to_try() -> tuple[str, ...]:
    """Return each option of the grammar with valid values, and options with invalid ones."""
    return tuple(dict.fromkeys((*_valid_options(), *INVALID_AND_EDGE_VALUES)))


def _valid_options() -> Iterator[str]:
    for key, reported in ext4_options().items():
        kind = reported.get("value", "none")
        values = tuple(kind) if isinstance(kind, list) else VALUES.get(kind, ())
        if key not in UNAVAILABLE_HERE and key != "journal":
            yield from (f"{key}={value}" for value in values if value)
            if kind in ("none", "optional-int"):
                yield key
