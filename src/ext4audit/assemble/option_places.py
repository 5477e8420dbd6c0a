"""The places that say something of ext4's options, read into one canonical token an option."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ext4audit.assemble.mount_table import table_lies
from ext4audit.evidence import Evidence, Known
from ext4audit.facts.kernel import Kernel
from ext4audit.facts.mount import Mount
from ext4audit.facts.option_table import (
    FALSE_TOKENS,
    FULL_DISPLAY_WORDS,
    UNLISTED_IS_OFF,
    OptionSpec,
    Version,
    recognize,
    spec_named,
)
from ext4audit.facts.superblock import Superblock
from ext4audit.records import dataclass


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
    if not FULL_DISPLAY_WORDS.intersection(tokens):
        found.setdefault("auto_da_alloc", "auto_da_alloc")
        for name in UNLISTED_IS_OFF:
            found.setdefault(name, spec_named(name).off)
    return found
