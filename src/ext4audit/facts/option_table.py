"""The spellings and the defaults of ext4 options by kernel version.

Sources: `Opt_*` tables and `_ext4_show_options` of fs/ext4/super.c in Linux 3.10 to 7.2, and
what 4.14.67, 4.19.222, 5.4.286, 5.10.262, 6.1.192, 6.12.94, 6.18.44 and 7.2.13 printed when
booted. A default is stated from the first version on in which it was verified; before that it
is not known, and nothing is concluded from it.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

Version = tuple[int, ...]


class OptionSpec(NamedTuple):
    """One option: the tokens of its states, other spellings, and its default by version.

    `on` and `off` are how the options file of a current kernel spells the two states; an
    option with a value has its prefix ("commit=") as `on`. `aliases` maps another spelling to
    a token. `defaults` are (first version, token) in ascending order: None is "not verified", ""
    is "not listed". `superblock_bits` maps the names in `Default mount options:` to tokens.
    """

    name: str
    on: str
    off: str = ""
    aliases: Mapping[str, str] = MappingProxyType({})
    defaults: tuple[tuple[Version, str | None], ...] = ()
    superblock_bits: Mapping[str, str] = MappingProxyType({})

    @property
    def has_value(self) -> bool:
        """Whether the option carries a value."""
        return self.on.endswith("=")

    def default(self, upstream: Version) -> str | None:
        """Return the token of the kernel's default in `upstream`, None where not verified."""
        known = [token for since, token in self.defaults if upstream >= since]
        return known[-1] if known else None

    def opposite(self, token: str) -> str | None:
        """Return the other state of an option with two states."""
        if self.has_value:
            return None
        return self.off if token == self.on else self.on

    def recognize(self, token: str) -> str | None:
        """Return the canonical token that `token` spells, or None if it is another option's."""
        if token in self.aliases:
            return self.aliases[token]
        if not token:
            return None  # `off` is empty where an option has no second state
        if token in (self.on, self.off) or (self.has_value and token.startswith(self.on)):
            return token
        return None


def _switch(name: str, default: str, **extra: Mapping[str, str]) -> OptionSpec:
    """Build an option of two states whose default never changed since Linux 3.4."""
    return OptionSpec(name, name, f"no{name}", defaults=(((3, 4), default),), **extra)


def _flag(name: str, *aliases: str) -> OptionSpec:
    """Build an option that is listed when it is set and not listed otherwise."""
    return OptionSpec(name, name, aliases=dict.fromkeys(aliases, name), defaults=(((3, 4), ""),))


def _value(name: str, default: str | None = None, **aliases: str) -> OptionSpec:
    """Build an option with a value; `default` is the value that every kernel starts from."""
    defaults = (((3, 4), f"{name}={default}"),) if default is not None else ()
    return OptionSpec(name, f"{name}=", aliases=aliases, defaults=defaults)


OPTIONS: tuple[OptionSpec, ...] = (
    OptionSpec("minixdf", "minixdf", "bsddf", defaults=(((3, 4), "bsddf"),)),
    _switch(
        "grpid",
        "nogrpid",
        aliases={"bsdgroups": "grpid", "sysvgroups": "nogrpid"},
        superblock_bits={"bsdgroups": "grpid"},
    ),
    OptionSpec(
        "block_validity",
        "block_validity",
        "noblock_validity",
        defaults=(((4, 14), "block_validity"),),
        superblock_bits={"block_validity": "block_validity"},
    ),
    OptionSpec(
        "dioread_nolock",
        "dioread_nolock",
        "nodioread_nolock",
        aliases={"dioread_lock": "nodioread_nolock"},
        # Default on since 244adf6426ee (5.6); never taken into the 4.x and 5.4 stable series.
        defaults=(((3, 4), "nodioread_nolock"), ((5, 6), "dioread_nolock")),
    ),
    _switch("discard", "nodiscard", superblock_bits={"discard": "discard"}),
    _switch("delalloc", "delalloc", superblock_bits={"nodelalloc": "nodelalloc"}),
    OptionSpec(
        "warn_on_error", "warn_on_error", "nowarn_on_error", defaults=(((3, 4), "nowarn_on_error"),)
    ),
    # On by itself when the superblock has metadata_csum: no default by version.
    OptionSpec("journal_checksum", "journal_checksum", "nojournal_checksum"),
    _switch(
        "barrier",
        "barrier",
        aliases={"barrier=1": "barrier", "barrier=0": "nobarrier"},
        superblock_bits={"nobarrier": "nobarrier"},
    ),
    _switch(
        "auto_da_alloc",
        "auto_da_alloc",
        aliases={"auto_da_alloc=1": "auto_da_alloc", "auto_da_alloc=0": "noauto_da_alloc"},
    ),
    # Both are on where the kernel was configured with them (CONFIG_EXT4_FS_POSIX_ACL): no default
    # by version.
    OptionSpec(
        "user_xattr",
        "user_xattr",
        "nouser_xattr",
        superblock_bits={"user_xattr": "user_xattr"},
    ),
    OptionSpec("acl", "acl", "noacl", superblock_bits={"acl": "acl"}),
    OptionSpec(
        "prefetch_block_bitmaps",
        "prefetch_block_bitmaps",
        "no_prefetch_block_bitmaps",
        # Off on 5.10 and on from 5.15; when it changed between them is not verified. 5.10 lists
        # it only when it is on, and its mount refuses the negative option.
        defaults=(
            ((5, 10), ""),
            ((5, 11), None),
            ((5, 15), "prefetch_block_bitmaps"),
        ),
    ),
    OptionSpec(
        "init_itable",
        "init_itable=",
        "noinit_itable",
        aliases={"init_itable": "init_itable=10"},
        defaults=(((3, 4), "init_itable=10"),),
    ),
    OptionSpec(
        "data",
        "data=",
        defaults=(((3, 4), "data=ordered"),),
        superblock_bits={
            "journal_data": "data=journal",
            "journal_data_ordered": "data=ordered",
            "journal_data_writeback": "data=writeback",
        },
    ),
    OptionSpec(
        "nouid32",
        "nouid32",
        defaults=(((3, 4), ""),),
        superblock_bits={"uid16": "nouid32"},
    ),
    OptionSpec("debug", "debug", defaults=(((3, 4), ""),), superblock_bits={"debug": "debug"}),
    _value("errors", "continue"),
    OptionSpec(
        "commit",
        "commit=",
        aliases={"commit=0": "commit=5"},
        defaults=(((3, 4), "commit=5"),),
    ),
    _value("resuid", "0"),
    _value("resgid", "0"),
    _value("min_batch_time", "0"),
    _value("max_batch_time", "15000"),
    _value("stripe", "0"),
    _value("inode_readahead_blks", "32"),
    _value("max_dir_size_kb", "0"),
    _value("data_err"),
    _value("sb"),
    _value("jqfmt"),
    _value("usrjquota"),
    _value("grpjquota"),
    _value("mb_optimize_scan"),
    _value("test_dummy_encryption"),
    OptionSpec("dax", "dax=", aliases={"dax": "dax=always"}),
    _flag("journal_async_commit"),
    _flag("norecovery", "noload"),
    _flag("nombcache", "no_mbcache"),
    _flag("inlinecrypt"),
    _flag("abort"),
    _flag("emergency_ro"),
    _flag("shutdown"),
    # Printed always or never, by version; quota options depend on the features: no default.
    OptionSpec("i_version", "i_version"),
    OptionSpec("fc_debug_force", "fc_debug_force"),
    OptionSpec("quota", "quota", "noquota"),
    OptionSpec("usrquota", "usrquota"),
    OptionSpec("grpquota", "grpquota"),
    OptionSpec("prjquota", "prjquota"),
)

NOT_EXT4_OPTIONS = frozenset(
    (
        "defaults rw ro suid nosuid dev nodev exec noexec auto noauto user nouser users group "
        "owner async sync dirsync atime noatime diratime nodiratime relatime norelatime "
        "strictatime nostrictatime lazytime nolazytime iversion noiversion mand nomand silent "
        "loud nofail _netdev bind rbind remount private shared slave unbindable symfollow "
        "nosymfollow rprivate rshared rslave runbindable"
    ).split()
)
"""Options of fstab that mount(8), the VFS or systemd handle and ext4 never sees."""

NOT_EXT4_OPTIONS_WITH_VALUE = frozenset(
    "defaults rw ro async sync dirsync lazytime nolazytime mand nomand user".split()
)
"""The options of these that are accepted with any value; others with a value reach ext4, which
refuses them.

Observed with mount 2.38.1 on 6.18; since 2.39 the flags have values of their own.
"""
VALUES_OF_FLAGS = frozenset({"", "recursive", "vfs", "fs"})
"""The values that a flag may have in newer versions of mount(8)."""


class FalseToken(NamedTuple):
    """A token that some kernels print in the options file although it is not in force.

    It counts only when the mount table shows it too. Versions are [since, before).
    """

    token: str
    since: Version
    before: Version


FALSE_TOKENS: tuple[FalseToken, ...] = (
    # EXT4_MOUNT_DAX is 0 without CONFIG_FS_DAX and so passes the "all bits set" test.
    FalseToken("dax", (4, 17), (5, 8)),
    # Shares bit 0x10 with errors=continue under CONFIG_EXT4_DEBUG.
    FalseToken("fc_debug_force", (5, 10), (6, 3)),
)

MOUNT_TABLE_WRONG_WITHOUT_JOURNAL: tuple[Version, Version] = ((4, 4), (5, 2))
"""[since, before): without a journal the mount table prints defaults and drops nobarrier
(1e381f60dad9, seen on 4.14.67)."""

FULL_DISPLAY_TOKENS = frozenset({"bsddf", "nogrpid", "nodiscard", "auto_da_alloc", "nobarrier"})
"""Tokens that only an options file of Linux 4.17 and later prints: it lists both states. An
older file lists only what is set, so a missing `barrier` there means off."""

UNLISTED_IS_OFF: tuple[str, ...] = (
    "minixdf",
    "grpid",
    "block_validity",
    "dioread_nolock",
    "discard",
    "delalloc",
    "journal_checksum",
    "barrier",
    "user_xattr",
    "acl",
)
"""Options that an options file of Linux 3.4 to 4.16 lists only when they are on. (Its
`noauto_da_alloc` is a set bit: unlisted, auto_da_alloc is on.)"""

DEFAULT_OFF_BELOW_PAGE_SIZE: tuple[Version, Version] = ((5, 7), (6, 8))
"""[since, before): dioread_nolock is not the default where blocks are smaller than pages
(626b035b816b; the default again from 6.8, seen on 6.12)."""

IMPLIED_BY_DATA_JOURNAL: Mapping[str, str] = MappingProxyType(
    {"delalloc": "nodelalloc", "dioread_nolock": "nodioread_nolock"}
)
"""What data=journal turns off by itself; the mount table then prints these tokens."""

NOT_EXT4_FSTYPE_DEFAULTS: Mapping[str, str] = MappingProxyType({"delalloc": "nodelalloc"})
"""What the ext4 driver leaves off for superblocks mounted as ext2 or ext3."""


@lru_cache(maxsize=1024)
def recognize(token: str) -> tuple[OptionSpec, str] | None:
    """Return the option that a token belongs to and its canonical spelling, None if unknown."""
    for spec in OPTIONS:
        canonical = spec.recognize(token)
        if canonical is not None:
            return spec, canonical
    return None


def spec_named(name: str) -> OptionSpec:
    """Return the option called `name`; raises KeyError for a name that is not in the table."""
    for spec in OPTIONS:
        if spec.name == name:
            return spec
    raise KeyError(name)


def sets_option(token: str, name: str) -> bool:
    """Whether a token spells some state of the option `name`."""
    known = recognize(token)
    return known is not None and known[0].name == name
