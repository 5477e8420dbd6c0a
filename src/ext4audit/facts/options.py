"""The ext4 mount options: spellings, defaults by kernel version, and what each kernel accepts.

The options are data, in option_spellings.toml and option_grammar.toml, each with its source; a
table is parsed at the first use. A default is listed from the first version in which it was
verified; for earlier versions it is unknown, and nothing is concluded from it.
"""

import re
from collections.abc import Collection, Mapping
from enum import Enum
from functools import cache, lru_cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple

from ext4audit.facts import MOST_DIGITS, cached_by_identity, read_table
from ext4audit.facts.mount import ATIME_OPTIONS
from ext4audit.facts.superblock import Superblock

Version = tuple[int, ...]


class OptionSpec(NamedTuple):
    """One option: the tokens of its states, other spellings, and its default by version.

    `on` and `off` are the two states as the options file of a current kernel spells them; for an
    option with a value, `on` is its prefix ("commit="). `aliases` maps other spellings to tokens.
    `defaults` are (first version, token) in ascending order: None is "not verified", "" is "not
    listed". `superblock_bits` maps the names in `Default mount options:` to tokens.
    """

    name: str
    on: str
    off: str = ""
    aliases: Mapping[str, str] = MappingProxyType({})
    defaults: tuple[tuple[Version, str | None], ...] = ()
    superblock_bits: Mapping[str, str] = MappingProxyType({})

    @property
    def has_value(self) -> bool:
        """Whether the option has a value."""
        return self.on.endswith("=")

    def default(self, upstream: Version) -> str | None:
        """Return the token of the default in a kernel version, None if it is not verified."""
        known = [token for since, token in self.defaults if upstream >= since]
        return known[-1] if known else None

    def opposite(self, token: str) -> str | None:
        """Return the other state of an option with two states, None if it has a value."""
        if self.has_value:
            return None
        return self.off if token == self.on else self.on

    def recognize(self, token: str) -> str | None:
        """Return the canonical form of a token, or None if it belongs to another option."""
        if token in self.aliases:
            return self.aliases[token]
        if not token:
            return None  # `off` is empty if the option has no second state
        if token in (self.on, self.off) or (self.has_value and token.startswith(self.on)):
            return token
        return None


_SPELLINGS = "option_spellings.toml"
NOT_VERIFIED = "?"
"""The token in the data file for a default that nobody has verified."""


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
    """The options of a table, with a cache of recognized tokens."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.options = {name: _spec(name, entry) for name, entry in table.items()}
        self.every = tuple(self.options.values())
        self.recognize = lru_cache(maxsize=1024)(self._recognize)

    def _recognize(self, token: str) -> tuple[OptionSpec, str] | None:
        plain = self._with_plain_number(token)
        for spec in self.options.values():
            canonical = spec.recognize(plain)
            if canonical is not None:
                return spec, canonical
        return None

    def _with_plain_number(self, token: str) -> str:
        """Return a token with its number as the kernel prints it: "commit=30" for "commit=0x1e".

        Any number except 0 turns on an option with two states: "barrier=1" for "barrier=2".
        """
        key, number = token.partition("=")[0], number_of(token)
        if number is None or number > LARGEST or key not in self.options:
            return token
        plain = f"{key}={number if self.options[key].has_value else min(number, 1)}"
        takes_number = plain != token and ext4_options().get(key, {}).get("value") in NUMBERS
        return plain if takes_number else token


@cached_by_identity
def _of(table: dict[str, Any]) -> _Vocabulary:
    return _Vocabulary(table)


def _vocabulary() -> _Vocabulary:
    """Return the vocabulary of the table in force, which is read at the first use."""
    return _of(read_table(_SPELLINGS))


def all_options() -> tuple[OptionSpec, ...]:
    """Return all options, in the order of the data file."""
    return _vocabulary().every


NOT_EXT4_OPTIONS = frozenset(
    (
        "defaults rw ro suid nosuid dev nodev exec noexec auto noauto user nouser users nousers "
        "group nogroup owner noowner async sync dirsync atime noatime diratime nodiratime "
        "relatime norelatime strictatime nostrictatime lazytime nolazytime iversion noiversion "
        "mand nomand silent loud nofail _netdev bind rbind remount private shared slave "
        "unbindable symfollow nosymfollow rprivate rshared rslave runbindable"
    ).split()
)
"""fstab options that are handled by mount(8), the VFS or systemd, and not passed to ext4."""

NOT_EXT4_OPTIONS_WITH_VALUE = frozenset(
    "defaults rw ro async sync dirsync lazytime nolazytime mand nomand user".split()
)
"""The options in NOT_EXT4_OPTIONS that accept any value; others with a value are passed to ext4,
which refuses them.

Observed with mount 2.38.1 on 6.18; since 2.39 the flags have specific values.
"""
VALUES_OF_FLAGS = frozenset({"", "recursive", "vfs", "fs"})
"""The values that a flag can have in newer versions of mount(8)."""


class FalseToken(NamedTuple):
    """A token that some kernels print in the options file although it is not in force.

    It is trusted only if the mount table shows it too. Versions are [since, before).
    """

    token: str
    since: Version
    before: Version


FALSE_TOKENS: tuple[FalseToken, ...] = (
    # EXT4_MOUNT_DAX is 0 without CONFIG_FS_DAX, so it passes the "all bits set" test.
    FalseToken("dax", (4, 17), (5, 8)),
    # Shares bit 0x10 with errors=continue under CONFIG_EXT4_DEBUG.
    FalseToken("fc_debug_force", (5, 10), (6, 3)),
)

MOUNT_TABLE_WRONG_WITHOUT_JOURNAL: tuple[Version, Version] = ((4, 4), (5, 2))
"""[since, before): without a journal the mount table prints defaults and drops nobarrier
(1e381f60dad9, seen on 4.14.67)."""

FULL_DISPLAY_TOKENS = frozenset({"bsddf", "nogrpid", "nodiscard", "auto_da_alloc", "nobarrier"})
"""Tokens that only the options file of Linux 4.17 and later prints, which lists both states. An
older file lists only options that are on, so a missing `barrier` means off."""

UNLISTED_IS_OFF = tuple(
    "minixdf grpid block_validity dioread_nolock discard delalloc journal_checksum barrier "
    "user_xattr acl".split()
)
"""Options that an options file of Linux 3.4 to 4.16 lists only when they are on. (Its
`noauto_da_alloc` is a set bit: unlisted, auto_da_alloc is on.)"""

DEFAULT_OFF_BELOW_PAGE_SIZE: tuple[Version, Version] = ((5, 7), (6, 8))
"""[since, before): dioread_nolock is not the default if blocks are smaller than pages
(626b035b816b; the default again from 6.8, seen on 6.12)."""

IMPLIED_BY_DATA_JOURNAL: Mapping[str, str] = MappingProxyType(
    {"delalloc": "nodelalloc", "dioread_nolock": "nodioread_nolock"}
)
"""Options that data=journal turns off; the mount table then prints these tokens."""

NOT_EXT4_FSTYPE_DEFAULTS: Mapping[str, str] = MappingProxyType({"delalloc": "nodelalloc"})
"""Defaults that differ if the ext4 driver mounts a superblock as ext2 or ext3."""


def recognize(token: str) -> tuple[OptionSpec, str] | None:
    """Return the option of a token and its canonical spelling, or None if it is unknown."""
    return _vocabulary().recognize(token)


def option_name(token: str) -> str:
    """Return the name of a token's option, "atime" for access times, or the token if unknown."""
    known = recognize(token)
    return known[0].name if known else "atime" if token in ATIME_OPTIONS else token


def canonical(token: str) -> str:
    """Return the canonical spelling of an option, or the access-time flag that it sets."""
    known = recognize(token)
    return known[1] if known else ATIME_OPTIONS.get(token, token)


def spec_named(name: str) -> OptionSpec:
    """Return the option `name`; raises KeyError if it is not in the table."""
    return _vocabulary().options[name]


def sets_option(token: str, name: str) -> bool:
    """Whether a token sets the option `name` to any state."""
    known = recognize(token)
    return known is not None and known[0].name == name


_GRAMMAR = "option_grammar.toml"
NUMBER = r"\+?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)"
"""A number as the kernel parses it: decimal, octal or hexadecimal (kstrtouint with base 0)."""
NUMBERS = frozenset({"int", "optional-int"})
"""The kinds of values in the data file that are numbers."""
LARGEST = 2**32 - 1
"""The highest number that any option accepts, on kernels that parse it as unsigned."""
LARGEST_SIGNED = 2**31 - 1
ONE_STRING_SINCE = (5, 17)  # a refused word in s_mount_opts voids all of it; before, the rest of it
READ_SIGNED_TO, READ_UNSIGNED_FROM = (5, 10), (6, 1)
"""Tested: 5.10 refuses a higher number and 6.1 accepts it; versions in between are unknown."""


class Handling(Enum):
    """How a mount handles an option. NOT_KNOWN means that no kernel near this one was tested."""

    TAKEN = "taken"
    IGNORED = "ignored"
    REFUSED = "refused"
    NOT_KNOWN = "not known"


class OptionHandling(NamedTuple):
    """How an option is handled; `why` is a clause about the option, empty if it is taken."""

    handling: Handling
    why: str = ""


TAKEN = OptionHandling(Handling.TAKEN)
_TOO_LARGE = OptionHandling(Handling.REFUSED, f"it takes at most {LARGEST_SIGNED}")


def ext4_options() -> Mapping[str, Mapping[str, Any]]:
    """Return the options that ext4 accepts or once accepted, by the name before "="."""
    return read_table(_GRAMMAR)


def handling_of(option: str, upstream: Version) -> OptionHandling:
    """Return how ext4 handles one mount option in the kernel with this upstream version."""
    key, equals, value = option.partition("=")
    spec = ext4_options().get(key)
    if spec is None:
        return OptionHandling(Handling.REFUSED, "not an option of upstream ext4")
    wrong = _wrong(spec, value if equals else None)
    if wrong:
        return OptionHandling(Handling.REFUSED, wrong)
    number = number_of(option)
    if key == "stripe" and number == 0:
        return OptionHandling(Handling.IGNORED, "the superblock's stripe remains in force")
    if upstream < READ_UNSIGNED_FROM and number is not None and number > LARGEST_SIGNED:
        is_refused = upstream[:2] <= READ_SIGNED_TO
        return _TOO_LARGE if is_refused else OptionHandling(Handling.NOT_KNOWN)
    bounds = spec.get("with_value", {}) if value else {}
    return _by_version({**spec, **bounds}, upstream)


def is_refused_for(option: str, fstype: str) -> bool:
    """Whether ext4 refuses an option on a filesystem that is mounted as ext2 or ext3."""
    spec = ext4_options().get(option.partition("=")[0], {})
    return bool(spec.get(f"not_{fstype}", False))


def needs_journal(option: str) -> bool:
    """Whether ext4 refuses an option on a filesystem without a journal."""
    key, _, value = option.partition("=")
    needed = ext4_options().get(key, {}).get("needs_journal", False)
    return value in needed if isinstance(needed, list) else bool(needed)


def feature_needed_by(option: str) -> str:
    """Return the feature without which ext4 refuses an option, "" if it needs none."""
    return str(ext4_options().get(option.partition("=")[0], {}).get("needs_feature", ""))


class StringWords(NamedTuple):
    """The words of s_mount_opts that a mount applies, and the first that it refuses, or ""."""

    applied: tuple[str, ...]
    refused: str = ""


def words_of_string(
    superblock: Superblock,
    upstream: Version | None,
    fstype: str | None = None,
    listed: Collection[str] | None = None,
) -> StringWords:
    """Return the words of s_mount_opts; without a version, all count as applied.

    `listed` is the options file, if it is known: it lists the options that a vendor has added.
    """
    words = tuple(filter(None, superblock.mount_option_string.split(",")))
    refuses = partial(_is_refused_in_string, superblock, upstream or (), fstype, listed)
    refused = next(filter(refuses, words), "") if upstream else ""
    before = words[: words.index(refused)] if refused else words
    return StringWords(() if refused and (upstream or ()) >= ONE_STRING_SINCE else before, refused)


def _is_refused_in_string(
    on: Superblock, upstream: Version, fstype: str | None, listed: Collection[str] | None, word: str
) -> bool:
    if word.partition("=")[0] not in ext4_options():
        return word in NOT_EXT4_OPTIONS or (listed is not None and word not in listed)
    of_vendor = listed is not None and canonical(word) in listed
    by_kernel = handling_of(word, upstream).handling is Handling.REFUSED and not of_vendor
    lacks_feature = feature_needed_by(word) not in {"", *on.features}
    return by_kernel or lacks_feature or is_refused_for(word, fstype or "")


def _wrong(spec: Mapping[str, Any], value: str | None) -> str:
    """Return why the value after "=" is invalid, or ""; the value is None if there is no "="."""
    kind = spec.get("value", "none")
    if isinstance(kind, list):
        return "" if (value or "") in kind else f"it takes {', '.join(filter(None, kind))}"
    if kind == "none":
        return "" if value is None else "it takes no value"
    if kind == "text":
        return "it needs a value" if value is None else ""
    return "" if kind == "any" else _wrong_number(spec, value)


def _wrong_number(spec: Mapping[str, Any], value: str | None) -> str:
    if value is None:
        return "" if spec["value"] == "optional-int" else "it needs a number"
    if not re.fullmatch(NUMBER, value):
        return "it takes a number"
    number = _number(value)
    most = spec.get("most", LARGEST)
    if number > most:
        return f"it takes at most {most}"
    if spec.get("power_of_two") and number & (number - 1):
        return "it takes powers of two"
    return ""


def number_of(option: str) -> int | None:
    """Return the number after "=" as the kernel parses it, None if there is no number."""
    value = option.partition("=")[2]
    return _number(value) if re.fullmatch(NUMBER, value) else None


def _number(text: str) -> int:
    digits = text.lstrip("+").lower()
    if digits.startswith("0x"):
        return int(digits, 16)
    if digits.startswith("0"):
        return int(digits, 8)
    return int(digits[: MOST_DIGITS + 1])  # one more digit is already too large


def _by_version(spec: Mapping[str, Any], upstream: Version) -> OptionHandling:
    at = {
        name: numbers_of(bound) for name, bound in spec.items() if name.endswith(("_from", "_to"))
    }
    for handling, start, end in (
        (Handling.REFUSED, "refused_from", "taken_to"),
        (Handling.IGNORED, "ignored_from", "ignored_to"),
    ):
        if start in at and upstream >= at[start]:
            return OptionHandling(handling, f"{handling.value} since {spec[start]}")
        if start in at and end in at and upstream[:2] > at[end]:
            return OptionHandling(Handling.NOT_KNOWN)
    if "taken_from" not in at or upstream >= at["taken_from"]:
        return TAKEN
    if "refused_to" in at and upstream[:2] <= at["refused_to"]:
        return OptionHandling(Handling.REFUSED, f"taken since {spec['taken_from']}")
    return OptionHandling(Handling.NOT_KNOWN)


@cache
def numbers_of(text: str) -> Version:
    """Parse a version such as "6.1.64"; raises ValueError for any other text."""
    return tuple(map(int, text.split(".")))
