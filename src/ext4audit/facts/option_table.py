"""The spellings and the defaults of ext4 options by kernel version.

The options are data, in option_spellings.toml, each with its source; the table is parsed at the
first use. A default is stated from the first version on in which it was verified; before that it
is not known, and nothing is concluded from it.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from ext4audit.facts import read_table, remembered

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


TABLE = "option_spellings.toml"
NOT_VERIFIED = "?"
"""The token of a default that nobody has verified, in the data file."""


def _spec(name: str, entry: Mapping[str, Any]) -> OptionSpec:
    """Build an option from its entry in the data file."""
    defaults = (
        (tuple(map(int, since.split("."))), None if token == NOT_VERIFIED else token)
        for since, token in entry.get("defaults", {}).items()
    )
    return OptionSpec(
        name,
        entry.get("on", name),
        entry.get("off", ""),
        MappingProxyType(entry.get("aliases", {})),
        tuple(defaults),
        MappingProxyType(entry.get("superblock_bits", {})),
    )


class _Vocabulary:
    """The options of a table, and what its tokens were found to spell."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.options = {name: _spec(name, entry) for name, entry in table.items()}
        self.recognize = lru_cache(maxsize=1024)(self._recognize)

    def _recognize(self, token: str) -> tuple[OptionSpec, str] | None:
        for spec in self.options.values():
            canonical = spec.recognize(token)
            if canonical is not None:
                return spec, canonical
        return None


@remembered
def _of(table: dict[str, Any]) -> _Vocabulary:
    return _Vocabulary(table)


def _vocabulary() -> _Vocabulary:
    """Return the vocabulary in force; the table is read at the first use."""
    return _of(read_table(TABLE))


def all_options() -> tuple[OptionSpec, ...]:
    """Return every option, in the order of the data file."""
    return tuple(_vocabulary().options.values())


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


def recognize(token: str) -> tuple[OptionSpec, str] | None:
    """Return the option that a token belongs to and its canonical spelling, None if unknown."""
    return _vocabulary().recognize(token)


def spec_named(name: str) -> OptionSpec:
    """Return the option called `name`; raises KeyError for a name that is not in the table."""
    return _vocabulary().options[name]


def sets_option(token: str, name: str) -> bool:
    """Whether a token spells some state of the option `name`."""
    known = recognize(token)
    return known is not None and known[0].name == name
