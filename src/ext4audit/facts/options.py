"""Effective mount options: what is in force, its provenance, and what each kernel takes.

The options are data, in option_grammar.toml, which is parsed at the first use.
"""

import re
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts import read_table


class Provenance(Enum):
    """Where an option was set, in the order in which the kernel applies them (fs/ext4/super.c).

    SUPERBLOCK is the bit field or the string where it is not known which; IMPLIED is what
    another option forces (data=journal turns delalloc off).
    """

    KERNEL_DEFAULT = "kernel_default"
    SUPERBLOCK_BITS = "superblock_default_mount_options"
    SUPERBLOCK_STRING = "superblock_mount_options"
    SUPERBLOCK_FIELD = "superblock_field"
    SUPERBLOCK = "superblock"
    MOUNT = "mount"
    IMPLIED = "implied"
    UNKNOWN = "unknown"


class Layer(NamedTuple):
    """One source's setting of an option: its token there, and where that was read."""

    provenance: Provenance
    token: str
    origin: str


class EffectiveOption(NamedTuple):
    """One option in force.

    `name` is the option ("barrier", "data"); `token` how the options file spells its state
    ("nobarrier", "data=writeback"); `origin` the file that proves it is in force; `set_by` its
    provenance; `hidden` whether it differs from the kernel's default and the mount table does not
    show it; `baseline` the token that a mount without options would have, where it is known;
    `layers` the setting of each source, in the kernel's order of application.
    """

    name: str
    token: str
    origin: str
    set_by: Provenance
    hidden: bool
    baseline: str | None
    layers: tuple[Layer, ...] = ()


class EffectiveOptions(NamedTuple):
    """The options in force on one live superblock, resolved from every place that shows them.

    `source` is the best place that could be read; `complete` means that it shows every option
    (the options file does, the mount table never). `mount_table` are the superblock's options
    as the mount table prints them, or None where no mount of it is in our namespace.
    `gap` is the unknown, with its hint, when `complete` is false.
    """

    source: str
    complete: bool
    options: tuple[EffectiveOption, ...]
    mount_table: tuple[str, ...] | None
    gap: Unknown | None = None

    def find(self, name: str) -> EffectiveOption | None:
        """Return the option called `name` ("barrier"), or None when it is not established."""
        return next((option for option in self.options if option.name == name), None)

    def token(self, name: str) -> Evidence[str]:
        """Return the token in force of the option `name`, or why it is unknown.

        With a complete source, an option that it does not list is Unknown(ABSENT): this
        kernel does not have it, or it does not apply (no `data=` without a journal).
        """
        option = self.find(name)
        if option is not None:
            return Known(option.token, option.origin)
        if self.gap is not None:
            return Unknown(f"option {name}", self.gap.why, self.gap.detail, self.gap.hint)
        return Unknown(f"option {name}", Why.ABSENT, f"{self.source} does not list it")

    @property
    def hidden(self) -> tuple[EffectiveOption, ...]:
        """The options in force that the mount table does not show."""
        return tuple(option for option in self.options if option.hidden)


TABLE = "option_grammar.toml"
NUMBER = r"\+?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)"
"""A number as the kernel parses it: decimal, octal or hexadecimal (kstrtouint with base 0)."""
LARGEST = 2**32 - 1
"""The highest number that any option takes, on kernels that read it unsigned."""
LARGEST_SIGNED = 2**31 - 1
READ_SIGNED_TO, READ_UNSIGNED_FROM = (5, 10), (6, 1)
"""As tested: 5.10 refuses a higher number, 6.1 takes it; the versions between are not known."""
TOO_LARGE = f"it takes at most {LARGEST_SIGNED}"
Upstream = tuple[int, ...]


class Handling(Enum):
    """How a mount handles an option. NOT_KNOWN: no kernel near this version was tested."""

    TAKEN = "taken"
    IGNORED = "ignored"
    REFUSED = "refused"
    NOT_KNOWN = "not known"


class OptionHandling(NamedTuple):
    """How an option is handled, and why: a clause about the option."""

    handling: Handling
    why: str = ""


TAKEN = OptionHandling(Handling.TAKEN)


def ext4_options() -> Mapping[str, Mapping[str, Any]]:
    """Return the options that ext4 takes or once took, by their names before "="."""
    return read_table(TABLE)


def handling_of(option: str, upstream: Upstream) -> OptionHandling:
    """Return how the ext4 of a kernel, by its upstream number, handles one option of a mount."""
    key, equals, value = option.partition("=")
    spec = ext4_options().get(key)
    if spec is None:
        return OptionHandling(Handling.REFUSED, "not an option of upstream ext4")
    wrong = _wrong(spec, value if equals else None)
    if wrong:
        return OptionHandling(Handling.REFUSED, wrong)
    if option == "stripe=0":
        return OptionHandling(Handling.IGNORED, "the superblock's stripe remains in force")
    if upstream < READ_UNSIGNED_FROM and re.fullmatch(NUMBER, value) and _is_unsigned(value):
        known = upstream[:2] <= READ_SIGNED_TO
        return (
            OptionHandling(Handling.REFUSED, TOO_LARGE)
            if known
            else OptionHandling(Handling.NOT_KNOWN)
        )
    return _by_version(spec, upstream)


def _is_unsigned(value: str) -> bool:
    """Whether a number needs all 32 bits."""
    return _number(value) > LARGEST_SIGNED


def is_refused_for(option: str, fstype: str) -> bool:
    """Whether ext4 refuses an option on a filesystem that is mounted as ext2 or ext3."""
    spec = ext4_options().get(option.partition("=")[0], {})
    return bool(spec.get(f"not_{fstype}", False))


def needs_journal(option: str) -> bool:
    """Whether ext4 refuses an option on a filesystem without a journal."""
    key, _, value = option.partition("=")
    needed = ext4_options().get(key, {}).get("needs_journal", False)
    return value in needed if isinstance(needed, list) else bool(needed)


def _wrong(spec: Mapping[str, Any], value: str | None) -> str:
    """Return what is wrong with the value behind "=" (None: no "="); empty if nothing."""
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


def _number(text: str) -> int:
    digits = text.lstrip("+").lower()
    if digits.startswith("0x"):
        return int(digits, 16)
    return int(digits, 8 if digits.startswith("0") else 10)


def _by_version(spec: Mapping[str, Any], upstream: Upstream) -> OptionHandling:
    at = {name: _version(bound) for name, bound in spec.items() if name.endswith(("_from", "_to"))}
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
def _version(text: str) -> Upstream:
    return tuple(map(int, text.split(".")))
