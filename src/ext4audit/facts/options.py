"""Effective mount options: what is in force, its provenance, and what the mount table shows."""

from enum import Enum
from typing import NamedTuple

from ext4audit.evidence import Evidence, Known, Unknown, Why


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
