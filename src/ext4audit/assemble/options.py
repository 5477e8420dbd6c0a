"""Resolve the options in force, and who set each, from every place that shows them.

The kernel builds the option word in layers: its defaults, the superblock's bit field, the
superblock's string, what mount(2) was given. The mount table prints a boolean only where it
differs from the first three together (`_ext4_show_options`, fs/ext4/super.c 3.10 to 7.2), so
what a superblock sets is invisible there; the options file prints what is in force.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ext4audit.assemble.option_layers import option_layers
from ext4audit.evidence import Evidence, Known, Unknown
from ext4audit.facts.kernel import Kernel
from ext4audit.facts.mount import Mount
from ext4audit.facts.option_table import (
    FALSE_TOKENS,
    FULL_DISPLAY_WORDS,
    IMPLIED_BY_DATA_JOURNAL,
    MOUNT_TABLE_LIES_WITHOUT_JOURNAL,
    OPTIONS,
    UNLISTED_IS_OFF,
    OptionSpec,
    Version,
    recognize,
    spec_named,
)
from ext4audit.facts.options import EffectiveOption, EffectiveOptions, Layer, Setter
from ext4audit.facts.superblock import Superblock

SUPERBLOCK_SETTERS = (
    Setter.SUPERBLOCK_BITS,
    Setter.SUPERBLOCK_STRING,
    Setter.SUPERBLOCK_FIELD,
    Setter.SUPERBLOCK,
)


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
class _Words:
    """The canonical token of each option by place; `listed` is None without the options file."""

    listed: Mapping[str, str] | None
    shown: Mapping[str, str]

    @property
    def best(self) -> Mapping[str, str]:
        return self.shown if self.listed is None else self.listed


def resolve_options(sources: OptionSources) -> Evidence[EffectiveOptions]:
    """Return the effective options; Unknown when no place that shows any could be read."""
    hole = sources.file if isinstance(sources.file, Unknown) else None
    if hole is not None and sources.mount_table is None and isinstance(sources.superblock, Unknown):
        return hole
    words = _words(sources)
    names = dict.fromkeys([*(spec.name for spec in OPTIONS), *words.best])
    resolved = [_resolve(name, words, sources) for name in names]
    origin = sources.file.origin if isinstance(sources.file, Known) else _best_origin(sources)
    return Known(
        EffectiveOptions(
            source=origin,
            complete=hole is None,
            options=tuple(option for option in resolved if option is not None),
            mount_table=sources.mount_table,
            hole=hole,
        ),
        origin,
    )


def _best_origin(sources: OptionSources) -> str:
    superblock = sources.superblock.origin if isinstance(sources.superblock, Known) else ""
    return ", ".join(place for place in (sources.mount_origin, superblock) if place)


def _words(sources: OptionSources) -> _Words:
    upstream = sources.kernel.value.upstream if isinstance(sources.kernel, Known) else None
    shown = _by_name(sources.mount_table or ())
    if isinstance(sources.file, Unknown):
        return _Words(None, shown)
    listed = _listed(sources.file.value, frozenset(sources.mount_table or ()), upstream)
    since, before = MOUNT_TABLE_LIES_WITHOUT_JOURNAL
    if "data" not in listed and upstream is not None and since <= upstream < before:
        shown = {}
    return _Words(listed, shown)


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


def _resolve(name: str, words: _Words, sources: OptionSources) -> EffectiveOption | None:
    """Resolve one option, or None when no place establishes it."""
    spec = next((each for each in OPTIONS if each.name == name), None)
    layers = option_layers(spec, sources.kernel, sources.superblock, sources.fstype) if spec else ()
    given = words.shown.get(name)
    in_force = _in_force(name, words, layers, sources)
    if in_force is None:
        return None
    token, origin = in_force
    setter = _setter(name, token, given=given, layers=layers, words=words, sources=sources)
    return EffectiveOption(
        name=name,
        token=token,
        origin=origin,
        set_by=setter,
        hidden=_hidden(token, given, layers=layers, setter=setter, sources=sources),
        baseline=_baseline(spec, token, given, layers=layers, sources=sources),
        layers=layers + ((Layer(Setter.MOUNT, given, sources.mount_origin),) if given else ()),
    )


def _in_force(
    name: str, words: _Words, layers: Sequence[Layer], sources: OptionSources
) -> tuple[str, str] | None:
    """Return the token in force and the place that proves it."""
    if words.listed is not None and isinstance(sources.file, Known):
        return (words.listed[name], sources.file.origin) if words.listed.get(name) else None
    if name in words.shown:
        return words.shown[name], sources.mount_origin
    # The kernel's default alone proves nothing: an unread superblock may hide the opposite.
    if not isinstance(sources.superblock, Known) or sources.mount_table is None or not layers:
        return None
    return (layers[-1].token, layers[-1].origin) if layers[-1].token else None


def _setter(
    name: str,
    token: str,
    *,
    given: str | None,
    layers: Sequence[Layer],
    words: _Words,
    sources: OptionSources,
) -> Setter:
    """Say who set the token in force."""
    if words.best.get("data") == "data=journal" and IMPLIED_BY_DATA_JOURNAL.get(name) == token:
        return Setter.IMPLIED
    said = [layer.setter for layer in layers if layer.token == token]
    stored = [setter for setter in said if setter in SUPERBLOCK_SETTERS]
    if stored:
        return stored[-1]
    if given == token:
        return Setter.MOUNT
    if said:
        return Setter.KERNEL_DEFAULT
    seen = bool(layers) and sources.mount_table is not None
    return Setter.SUPERBLOCK if seen and isinstance(sources.superblock, Unknown) else Setter.UNKNOWN


def _hidden(
    token: str,
    given: str | None,
    *,
    layers: Sequence[Layer],
    setter: Setter,
    sources: OptionSources,
) -> bool:
    """Whether the option differs from the kernel's default and the mount table is silent."""
    default = next((e.token for e in layers if e.setter is Setter.KERNEL_DEFAULT), None)
    if given is not None or default in {None, token} or setter is Setter.IMPLIED:
        return False
    return sources.mount_table is not None or setter in SUPERBLOCK_SETTERS


def _baseline(
    spec: OptionSpec | None,
    token: str,
    given: str | None,
    *,
    layers: Sequence[Layer],
    sources: OptionSources,
) -> str | None:
    """Return the token that a mount without options would have, None where it is not known.

    Without the superblock the mount table tells: a switch that it prints is the opposite of
    what the superblock and the kernel would have set.
    """
    if spec is None:
        return None
    if isinstance(sources.superblock, Known) and layers:
        return layers[-1].token
    if sources.mount_table is None:
        return None
    return token if given is None else spec.opposite(token)
