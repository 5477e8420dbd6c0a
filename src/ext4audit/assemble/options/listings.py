"""The listings of mount options, and what it means if a listing lacks an option.

`OptionSources` has the evidence about one superblock: the options file, the mount table and the
superblock. `read_tokens` reads the first two. Source of the rules: `_ext4_show_options` of
fs/ext4/super.c, Linux 3.10 to 7.2.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ext4audit.evidence import Evidence, Known, for_wording, origin_of
from ext4audit.facts.host import Kernel
from ext4audit.facts.mount import SECURITY_OPTIONS, SUPERBLOCK_FLAGS, Layer, Mount, Provenance
from ext4audit.facts.options import (
    FALSE_TOKENS,
    FULL_DISPLAY_TOKENS,
    MOUNT_TABLE_WRONG_WITHOUT_JOURNAL,
    UNLISTED_IS_OFF,
    OptionSpec,
    Version,
    recognize,
    spec_named,
)
from ext4audit.facts.superblock import Superblock

NOT_OF_EXT4 = {"ro", "rw", ""} | SUPERBLOCK_FLAGS | SECURITY_OPTIONS
PRINTED_UNLESS_COMPILED_DEFAULT = frozenset(
    (
        "commit min_batch_time max_batch_time stripe inode_readahead_blks max_dir_size_kb "
        "resuid resgid"
    ).split()
)
"""Values that the table lists unless they are the compiled default, regardless of provenance."""

WITHOUT_A_LAYER = frozenset({"resuid", "resgid"})
"""Values of superblock fields without a layer: Linux 6.18 takes resgid from the field of resuid."""

PRINTED_BEFORE: Mapping[str, Version] = {"data=ordered": (4, 17), "barrier": (3, 4)}
"""Defaults that kernels before this version list like explicit options; barrier as `barrier=1`."""

UNRELIABLE_TABLE_TOKENS = frozenset({"block_validity", "user_xattr", "acl"})
"""Defaults that only an unreliable table lists. Stable kernels such as 4.19.222 are fixed."""


def table_is_unreliable(
    shown: Mapping[str, str], upstream: Version | None, *, has_journal: bool | None
) -> bool:
    """Return whether the switches of the table are those of Linux 4.4 to 5.1 without a journal.

    Such a table lists every enabled switch and no disabled one, as if all defaults were off: a
    listed `barrier` is not explicit, and a missing `nobarrier` proves nothing (1e381f60dad9).
    """
    since, before = MOUNT_TABLE_WRONG_WITHOUT_JOURNAL
    in_range = upstream is None or since <= upstream < before
    return in_range and not has_journal and not UNRELIABLE_TABLE_TOKENS.isdisjoint(shown.values())


def unlisted_layer(spec: OptionSpec, layers: Sequence[Layer]) -> Layer | None:
    """Return the layer that is in effect if the table does not list an option, None if unclear.

    The table lists a switch or the data mode if it differs from the defaults of the kernel and the
    superblock together, `errors=` if it differs from the superblock field, and other values if
    they differ from the compiled default: `-o commit=5` over `commit=30` in the superblock's
    string is not listed.
    """
    by_provenance = {layer.provenance: layer for layer in layers}
    default = by_provenance.get(Provenance.KERNEL_DEFAULT)
    if spec.name in PRINTED_UNLESS_COMPILED_DEFAULT:
        return default
    if spec.name == "errors":
        return by_provenance.get(Provenance.SUPERBLOCK_FIELD)
    if spec.name == "data" or (not spec.has_value and (spec.off or spec.defaults)):
        return layers[-1] if layers else None
    if default is None or any(layer.token != default.token for layer in layers):
        return None
    return default


def provenance_of_listed(
    spec: OptionSpec | None,
    token: str,
    upstream: Version | None,
    *,
    superblock_read: bool,
    is_default: bool,
) -> Provenance:
    """Return the provenance of an option that the table lists and no superblock layer sets.

    It is not always mount(2): older kernels list the defaults data=ordered and barrier=1, and an
    unread superblock can have set a value.
    """
    printed_before = PRINTED_BEFORE.get(token)
    if printed_before and (upstream is None or upstream < printed_before):
        return Provenance.KERNEL_DEFAULT if is_default else Provenance.UNKNOWN
    if spec is None or not spec.has_value or spec.name == "data":
        return Provenance.MOUNT
    seen = superblock_read and spec.name not in WITHOUT_A_LAYER
    return Provenance.MOUNT if seen else Provenance.UNKNOWN


class OptionSources(NamedTuple):
    """The evidence about the options of one mounted superblock.

    `mount` is any of its lines in a mount table: all lines list the same super options.
    """

    file: Evidence[tuple[str, ...]]
    mount: Evidence[Mount]
    superblock: Evidence[Superblock]
    kernel: Evidence[Kernel]

    @property
    def upstream(self) -> Version | None:
        """The upstream version of the kernel, None if the kernel is unknown."""
        kernel = for_wording(self.kernel, None)
        return kernel.upstream if kernel else None

    @property
    def listed(self) -> tuple[str, ...] | None:
        """The tokens of the options file, None if it is unknown."""
        return for_wording(self.file, None)

    @property
    def mount_table(self) -> tuple[str, ...] | None:
        """The options that the mount table lists, None without a mount table."""
        mount = for_wording(self.mount, None)
        return mount.super_options if mount else None

    @property
    def mount_origin(self) -> str:
        """The origin of the mount table."""
        return origin_of(self.mount)

    @property
    def fstype(self) -> str | None:
        """The filesystem type of the mount; the driver has other defaults for ext2 and ext3."""
        mount = for_wording(self.mount, None)
        return mount.fstype if mount else None


class OptionTokens(NamedTuple):
    """The canonical token of each option in the options file, if known, and in the mount table.

    If the table is `unreliable`, its switches do not show the provenance.
    """

    in_file: Mapping[str, str] | None
    in_table: Mapping[str, str]
    unreliable: bool

    @property
    def best(self) -> Mapping[str, str]:
        """The tokens of the more complete listing: the options file, else the mount table."""
        return self.in_table if self.in_file is None else self.in_file

    def listed(self, name: str, spec: OptionSpec | None) -> str | None:
        """Return the token of an option in the mount table, None if it is unreliable or missing."""
        ignored = self.unreliable and spec is not None and not spec.has_value
        return None if ignored else self.in_table.get(name)


def read_tokens(sources: OptionSources) -> OptionTokens:
    """Read the tokens of each option from the options file and the mount table."""
    in_table = _by_name(sources.mount_table or ())
    in_file = None
    if isinstance(sources.file, Known):
        table = frozenset(sources.mount_table or ())
        in_file = _tokens_of_file(sources.file.value, table, sources.upstream)
    journal = _has_journal(in_file, in_table, sources.superblock)
    unreliable = table_is_unreliable(in_table, sources.upstream, has_journal=journal)
    return OptionTokens(in_file, in_table, unreliable)


def _has_journal(
    in_file: Mapping[str, str] | None, in_table: Mapping[str, str], superblock: Evidence[Superblock]
) -> bool:
    """Return whether there is a journal; a filesystem without a journal has no data mode."""
    if in_file is None and isinstance(superblock, Known):
        return superblock.value.has_journal
    return "data" in (in_table if in_file is None else in_file)


def _by_name(tokens: Sequence[str]) -> dict[str, str]:
    """Map option names to canonical tokens; an unrecognized token is its own name.

    The mount table also lists options that are not ext4's; the options file never does.
    """
    found = {}
    for token in tokens:
        recognized = recognize(token)
        if recognized is not None:
            found[recognized[0].name] = recognized[1]
        elif token.partition("=")[0] not in NOT_OF_EXT4:
            found[token] = token
    return found


def _tokens_of_file(
    tokens: Sequence[str], table: frozenset[str], upstream: Version | None
) -> dict[str, str]:
    """Map the tokens of the options file, without false ones and with unlisted off switches."""
    false = {
        each.token
        for each in FALSE_TOKENS
        if upstream is not None and each.since <= upstream < each.before
    }
    found = _by_name([token for token in tokens if token not in false or token in table])
    if not FULL_DISPLAY_TOKENS.intersection(tokens):
        found.setdefault("auto_da_alloc", "auto_da_alloc")
        for name in UNLISTED_IS_OFF:
            found.setdefault(name, spec_named(name).off)
    return found
