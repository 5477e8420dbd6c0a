"""Resolve the options in force, and who set each, from every place that shows them.

The kernel builds the option word in layers: its defaults, the superblock's bit field, the
superblock's string, what mount(2) was given. The mount table prints a boolean only where it
differs from the first three together (`_ext4_show_options`, fs/ext4/super.c 3.10 to 7.2), so
what a superblock sets is invisible there; the options file prints what is in force.
"""

from __future__ import annotations

from ext4audit.assemble.mount_table import setter_of_shown, silent_layer
from ext4audit.assemble.option_layers import option_layers
from ext4audit.assemble.option_places import OptionSources, Words, read_words
from ext4audit.evidence import Evidence, Known, Unknown
from ext4audit.facts.option_table import (
    IMPLIED_BY_DATA_JOURNAL,
    OPTIONS,
    OptionSpec,
)
from ext4audit.facts.options import EffectiveOption, EffectiveOptions, Layer, Setter
from ext4audit.records import dataclass, replace

DATA_JOURNAL = "data=journal"
HINT = "run on the host, where /proc/fs/ext4 shows every option in force"
SUPERBLOCK_SETTERS = (
    Setter.SUPERBLOCK_BITS,
    Setter.SUPERBLOCK_STRING,
    Setter.SUPERBLOCK_FIELD,
    Setter.SUPERBLOCK,
)


def resolve_options(sources: OptionSources) -> Evidence[EffectiveOptions]:
    """Return the effective options; Unknown when no place that shows any could be read."""
    hole = _hole(sources)
    if hole is not None and sources.mount_table is None and isinstance(sources.superblock, Unknown):
        return hole
    words = read_words(sources)
    names = dict.fromkeys([*(spec.name for spec in OPTIONS), *words.best])
    resolved = [_question(name, words, sources).answer() for name in names]
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


def _hole(sources: OptionSources) -> Unknown | None:
    """Return why the options file is not known; one that is not there needs another way in."""
    if isinstance(sources.file, Known):
        return None
    other = sources.superblock.hint if isinstance(sources.superblock, Unknown) else ""
    return replace(sources.file, hint=sources.file.hint or other or HINT)


def _best_origin(sources: OptionSources) -> str:
    superblock = sources.superblock.origin if isinstance(sources.superblock, Known) else ""
    return ", ".join(place for place in (sources.mount_origin, superblock) if place)


def _question(name: str, words: Words, sources: OptionSources) -> _Question:
    spec = next((each for each in OPTIONS if each.name == name), None)
    layers = option_layers(spec, sources.kernel, sources.superblock, sources.fstype) if spec else ()
    return _Question(name, spec, layers, words, sources)


@dataclass(frozen=True, slots=True)
class _Question:
    """One option, and all that speaks of it; `spec` is None for a word that no table knows."""

    name: str
    spec: OptionSpec | None
    layers: tuple[Layer, ...]
    words: Words
    sources: OptionSources

    def answer(self) -> EffectiveOption | None:
        """Resolve the option, or return None when no place establishes it."""
        found = self.in_force()
        if found is None:
            return None
        token, origin = found
        given = self.given
        shown = (Layer(Setter.MOUNT, given, self.sources.mount_origin),) if given else ()
        setter = self._setter(token)
        return EffectiveOption(
            name=self.name,
            token=token,
            origin=origin,
            set_by=setter,
            hidden=self._hidden(token, setter),
            baseline=self._baseline(token, setter),
            layers=self.layers + shown,
        )

    @property
    def given(self) -> str | None:
        """The token by which the mount table speaks of it."""
        return self.words.given(self.name, self.spec)

    @property
    def _silence_tells(self) -> bool:
        """Whether there is a mount table, and its silence about a switch means something."""
        return self.sources.mount_table is not None and not self.words.lies

    def in_force(self) -> tuple[str, str] | None:
        """Return the token in force and the place that proves it."""
        listed, file = self.words.listed, self.sources.file
        if listed is not None and isinstance(file, Known):
            return (listed[self.name], file.origin) if listed.get(self.name) else None
        if self.name in self.words.shown:
            return self.words.shown[self.name], self.sources.mount_origin
        layer = self._in_silence()
        return (layer.token, layer.origin) if layer is not None and layer.token else None

    def _in_silence(self) -> Layer | None:
        """Return the layer that is in force where the mount table does not speak of it.

        The kernel's default alone proves nothing: an unread superblock may hide the opposite.
        """
        if self.sources.mount_table is None or not isinstance(self.sources.superblock, Known):
            return None
        if self.spec is None or (self.words.lies and not self.spec.has_value):
            return None
        return silent_layer(self.spec, self.layers)

    def _setter(self, token: str) -> Setter:
        """Say who set the token in force."""
        if IMPLIED_BY_DATA_JOURNAL.get(self.name) == token and self._journals_data():
            return Setter.IMPLIED
        said = [layer.setter for layer in self.layers if layer.token == token]
        below_mount = bool(said) and self.layers[-1].token == token
        if below_mount and said[-1] in SUPERBLOCK_SETTERS:
            return said[-1]
        superblock_read = isinstance(self.sources.superblock, Known)
        if self.given == token:
            return setter_of_shown(
                self.spec,
                token,
                self.sources.upstream,
                superblock_read=superblock_read,
                is_default=bool(said),
            )
        if said:
            # What a later layer had changed only mount(2) can have brought back.
            return said[-1] if below_mount else Setter.MOUNT
        inferred = bool(self.layers) and self._silence_tells and not superblock_read
        return Setter.SUPERBLOCK if inferred else Setter.UNKNOWN

    def _journals_data(self) -> bool:
        """Whether data=journal is in force: a superblock hides it, and not what it implies."""
        data = _question("data", self.words, self.sources).in_force()
        return data is not None and data[0] == DATA_JOURNAL

    def _hidden(self, token: str, setter: Setter) -> bool:
        """Whether the option differs from the kernel's default and the mount table is silent."""
        default = next((e.token for e in self.layers if e.setter is Setter.KERNEL_DEFAULT), None)
        if self.given is not None or default in {None, token} or setter is Setter.IMPLIED:
            return False
        return self._silence_tells or setter in SUPERBLOCK_SETTERS

    def _baseline(self, token: str, setter: Setter) -> str | None:
        """Return the token that a mount without options would have, None where it is not known.

        Without the superblock the mount table tells: a switch that it prints is the opposite of
        what the superblock and the kernel would have set.
        """
        if self.spec is None:
            return None
        data = _question("data", self.words, self.sources)
        if isinstance(self.sources.superblock, Known) and self.layers:
            journals = bool(data.layers) and data.layers[-1].token == DATA_JOURNAL
            implied = IMPLIED_BY_DATA_JOURNAL.get(self.name) if journals else None
            return implied or self.layers[-1].token
        compared = self.name == "data" or not self.spec.has_value
        if not (self._silence_tells and compared):
            return None
        # A data=journal that the table does not show is the superblock's, with its effects.
        stays = self.given is None or (setter is Setter.IMPLIED and data.given is None)
        return token if stays else self.spec.opposite(token)
