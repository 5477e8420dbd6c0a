"""Where option values are visible: mount table, options file, superblock, fstab.

Source: `_ext4_show_options` of fs/ext4/super.c, Linux 3.10 to 7.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ext4audit.evidence import Evidence, Known
from ext4audit.facts.host import Kernel
from ext4audit.facts.mount import Mount
from ext4audit.facts.option_table import (
    FALSE_TOKENS,
    FULL_DISPLAY_TOKENS,
    MOUNT_TABLE_WRONG_WITHOUT_JOURNAL,
    UNLISTED_IS_OFF,
    OptionSpec,
    Version,
    recognize,
    spec_named,
)
from ext4audit.facts.options import Layer, Provenance
from ext4audit.facts.superblock import Superblock

PRINTED_UNLESS_COMPILED_DEFAULT = frozenset(
    (
        "commit min_batch_time max_batch_time stripe inode_readahead_blks max_dir_size_kb "
        "resuid resgid"
    ).split()
)
"""Values that are printed whoever set them: the superblock's string and fields included."""

WITHOUT_A_LAYER = frozenset({"resuid", "resgid"})
"""Values that a superblock field sets too, and no reader of superblocks here shows that field."""

DATA_ORDERED = "data=ordered"
DATA_ORDERED_PRINTED_BEFORE: Version = (4, 17)
"""Until then the data mode that the kernel chose by itself is printed like a given one."""

WORDS_OF_A_LIE = frozenset({"block_validity", "user_xattr", "acl"})
"""Defaults that only a lying table prints, as a rule: stable kernels (4.19.222) have the cure."""


def table_lies(
    shown: Mapping[str, str], upstream: Version | None, *, has_journal: bool | None
) -> bool:
    """Whether the table's switches are those of 4.4 to 5.1 without a journal.

    It then prints what is on and drops what is off, as if every default were off: `barrier` is
    no explicit opposite there, and a missing `nobarrier` proves nothing (1e381f60dad9).
    """
    since, before = MOUNT_TABLE_WRONG_WITHOUT_JOURNAL
    in_range = upstream is None or since <= upstream < before
    return in_range and not has_journal and not WORDS_OF_A_LIE.isdisjoint(shown.values())


def silent_layer(spec: OptionSpec, layers: Sequence[Layer]) -> Layer | None:
    """Return the layer that is in force where the table does not mention an option.

    A switch and the data mode are printed where they differ from what kernel and superblock set
    together; `errors=` where it differs from the superblock's field; other values where they
    differ from the compiled default: `-o commit=5` over a string `commit=30` prints nothing.
    None where silence proves nothing.
    """
    by_setter = {layer.provenance: layer for layer in layers}
    default = by_setter.get(Provenance.KERNEL_DEFAULT)
    if spec.name in PRINTED_UNLESS_COMPILED_DEFAULT:
        return default
    if spec.name == "errors":
        return by_setter.get(Provenance.SUPERBLOCK_FIELD)
    if spec.name == "data" or (not spec.has_value and (spec.off or spec.defaults)):
        return layers[-1] if layers else None
    if default is None or any(layer.token != default.token for layer in layers):
        return None
    return default


def setter_of_shown(
    spec: OptionSpec | None,
    token: str,
    upstream: Version | None,
    *,
    superblock_read: bool,
    is_default: bool,
) -> Provenance:
    """Say who set an option that the table shows and no superblock layer names.

    Not always the mount: data=ordered of the kernel's own choice was printed for years, and a
    value may come from a superblock that could not be read.
    """
    if spec is None or not spec.has_value:
        return Provenance.MOUNT
    if spec.name == "data":
        old = upstream is None or upstream < DATA_ORDERED_PRINTED_BEFORE
        if token != DATA_ORDERED or not old:
            return Provenance.MOUNT
        return Provenance.KERNEL_DEFAULT if is_default else Provenance.UNKNOWN
    seen = superblock_read and spec.name not in WITHOUT_A_LAYER
    return Provenance.MOUNT if seen else Provenance.UNKNOWN


@dataclass(frozen=True, slots=True)
class OptionSources:
    """Everything that says something of one live superblock's options.

    `mount` is any line of a mount table that shows it: super options are the same on all.
    """

    file: Evidence[tuple[str, ...]]
    mount: Evidence[Mount]
    superblock: Evidence[Superblock]
    kernel: Evidence[Kernel]

    @property
    def upstream(self) -> Version | None:
        """The number of the upstream kernel, None where the kernel is not known."""
        return self.kernel.value.upstream if isinstance(self.kernel, Known) else None

    @property
    def mount_table(self) -> tuple[str, ...] | None:
        """The superblock's options as a mount table prints them, None where none shows it."""
        return self.mount.value.super_options if isinstance(self.mount, Known) else None

    @property
    def mount_origin(self) -> str:
        """Where the mount table was read."""
        return self.mount.origin if isinstance(self.mount, Known) else ""

    @property
    def fstype(self) -> str | None:
        """The type it is mounted as: the driver has other defaults for ext2 and ext3."""
        return self.mount.value.fstype if isinstance(self.mount, Known) else None


@dataclass(frozen=True, slots=True)
class Words:
    """The canonical token of each option by place; `listed` is None without the options file.

    `lies` says that the switches of the mount table tell nothing of who set them.
    """

    listed: Mapping[str, str] | None
    shown: Mapping[str, str]
    lies: bool

    @property
    def best(self) -> Mapping[str, str]:
        """The place that shows most: the options file, else the mount table."""
        return self.shown if self.listed is None else self.listed

    def given(self, name: str, spec: OptionSpec | None) -> str | None:
        """Return the token by which the mount table speaks of an option, None where it does not."""
        lied = self.lies and spec is not None and not spec.has_value
        return None if lied else self.shown.get(name)


def read_words(sources: OptionSources) -> Words:
    """Read what the options file and the mount table say of each option."""
    shown = _by_name(sources.mount_table or ())
    listed = None
    if isinstance(sources.file, Known):
        table = frozenset(sources.mount_table or ())
        listed = _listed(sources.file.value, table, sources.upstream)
    journal = _has_journal(listed, shown, sources.superblock)
    return Words(listed, shown, table_lies(shown, sources.upstream, has_journal=journal))


def _has_journal(
    listed: Mapping[str, str] | None, shown: Mapping[str, str], superblock: Evidence[Superblock]
) -> bool:
    """Say whether there is a journal, by the best that is known: without one is no data mode."""
    if listed is None and isinstance(superblock, Known):
        return superblock.value.has_journal
    return "data" in (shown if listed is None else listed)


def _by_name(tokens: Sequence[str]) -> dict[str, str]:
    """Map option names to canonical tokens; a token that no table knows stands for itself."""
    found = {}
    for token in tokens:
        recognized = recognize(token)
        if recognized is not None:
            found[recognized[0].name] = recognized[1]
        elif token not in {"ro", "rw", ""}:
            found[token] = token
    return found


def _listed(
    tokens: Sequence[str], shown: frozenset[str], upstream: Version | None
) -> dict[str, str]:
    """Read the options file: without false tokens, completed where it lists only what is on."""
    false = {
        each.token
        for each in FALSE_TOKENS
        if upstream is not None and each.since <= upstream < each.before
    }
    found = _by_name([token for token in tokens if token not in false or token in shown])
    if not FULL_DISPLAY_TOKENS.intersection(tokens):
        found.setdefault("auto_da_alloc", "auto_da_alloc")
        for name in UNLISTED_IS_OFF:
            found.setdefault(name, spec_named(name).off)
    return found
