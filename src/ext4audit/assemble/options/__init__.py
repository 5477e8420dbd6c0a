"""Resolve the options in force, and their provenance, from every place that shows them.

The kernel builds the option word in layers: its defaults, the superblock's bit field, the
superblock's string, what mount(2) was given. The mount table prints a boolean only where it
differs from the first three together (`_ext4_show_options`, fs/ext4/super.c 3.10 to 7.2), so
what a superblock sets is invisible there; the options file prints what is in force.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ext4audit.assemble.options.places import (
    OptionSources,
    Words,
    read_words,
    setter_of_shown,
    silent_layer,
)
from ext4audit.evidence import Evidence, Known, Unknown
from ext4audit.facts.host import Kernel
from ext4audit.facts.option_table import (
    DEFAULT_OFF_BELOW_PAGE_SIZE,
    IMPLIED_BY_DATA_JOURNAL,
    NOT_EXT4_FSTYPE_DEFAULTS,
    OPTIONS,
    OptionSpec,
)
from ext4audit.facts.options import EffectiveOption, EffectiveOptions, Layer, Provenance
from ext4audit.facts.superblock import Superblock

X86_PAGE_BYTES = 4096


def option_layers(
    spec: OptionSpec,
    kernel: Evidence[Kernel],
    superblock: Evidence[Superblock],
    fstype: str | None,
) -> tuple[Layer, ...]:
    """Return what each source below mount(2) says of an option, in the order of application."""
    if spec.name == "data" and isinstance(superblock, Known) and not superblock.value.has_journal:
        # Whatever the bits say, ext4_fill_super() then clears the data mode.
        return ()
    layers = []
    default = kernel_default(spec, kernel, superblock, fstype)
    if default is not None and isinstance(kernel, Known):
        layers.append(Layer(Provenance.KERNEL_DEFAULT, default, f"Linux {kernel.value.release}"))
    if isinstance(superblock, Known):
        layers += _superblock_layers(spec, superblock.value, superblock.origin)
    return tuple(layers)


def kernel_default(
    spec: OptionSpec,
    kernel: Evidence[Kernel],
    superblock: Evidence[Superblock],
    fstype: str | None,
) -> str | None:
    """Return the kernel's default token for this superblock, None where it is not verified."""
    if not isinstance(kernel, Known):
        return None
    if fstype not in {"ext4", None} and spec.name in NOT_EXT4_FSTYPE_DEFAULTS:
        return NOT_EXT4_FSTYPE_DEFAULTS[spec.name]
    if spec.name == "dioread_nolock" and not _default_holds(kernel.value, superblock):
        return None
    return spec.default(kernel.value.upstream)


def _default_holds(kernel: Kernel, superblock: Evidence[Superblock]) -> bool:
    """Whether dioread_nolock's default is certain: for some years small blocks had another."""
    since, before = DEFAULT_OFF_BELOW_PAGE_SIZE
    if not since <= kernel.upstream < before:
        return True
    known = isinstance(superblock, Known) and superblock.value.block_bytes == X86_PAGE_BYTES
    return known and not any(word in kernel.release for word in ("aarch64", "arm64", "ppc64"))


def _stripe(superblock: Superblock) -> str | None:
    """Return the stripe that the kernel takes from the fields (ext4_get_stripe_size).

    One block is no stripe, and mke2fs writes stride 1 and width 1 for disks that report 4 KiB
    as their optimal I/O size; a stripe wider than a block group is passed over.
    """
    most = superblock.blocks_per_group
    fields = (superblock.stripe_width_blocks, superblock.stride_blocks)
    taken = next((blocks for blocks in fields if blocks and (most is None or blocks <= most)), 0)
    return f"stripe={taken}" if taken > 1 else None


def _superblock_layers(spec: OptionSpec, superblock: Superblock, origin: str) -> list[Layer]:
    layers = []
    bits = [
        spec.superblock_bits[word]
        for word in superblock.default_mount_options
        if word in spec.superblock_bits
    ]
    if bits:
        layers.append(Layer(Provenance.SUPERBLOCK_BITS, bits[-1], origin))
    field = {
        "errors": f"errors={superblock.errors}",
        "stripe": _stripe(superblock),
    }.get(spec.name)
    if field is not None:
        layers.append(Layer(Provenance.SUPERBLOCK_FIELD, field, origin))
    words = [spec.recognize(word) for word in superblock.mount_option_string.split(",")]
    in_string = [word for word in words if word]
    if in_string:
        layers.append(Layer(Provenance.SUPERBLOCK_STRING, in_string[-1], origin))
    return layers


DATA_JOURNAL = "data=journal"
HINT = "run on the host, where /proc/fs/ext4 shows every option in force"
SUPERBLOCK_SETTERS = (
    Provenance.SUPERBLOCK_BITS,
    Provenance.SUPERBLOCK_STRING,
    Provenance.SUPERBLOCK_FIELD,
    Provenance.SUPERBLOCK,
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
            gap=hole,
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
        shown = (Layer(Provenance.MOUNT, given, self.sources.mount_origin),) if given else ()
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

    def _setter(self, token: str) -> Provenance:
        """Say who set the token in force."""
        if IMPLIED_BY_DATA_JOURNAL.get(self.name) == token and self._journals_data():
            return Provenance.IMPLIED
        said = [layer.provenance for layer in self.layers if layer.token == token]
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
            return said[-1] if below_mount else Provenance.MOUNT
        inferred = bool(self.layers) and self._silence_tells and not superblock_read
        return Provenance.SUPERBLOCK if inferred else Provenance.UNKNOWN

    def _journals_data(self) -> bool:
        """Whether data=journal is in force: a superblock hides it, and not what it implies."""
        data = _question("data", self.words, self.sources).in_force()
        return data is not None and data[0] == DATA_JOURNAL

    def _hidden(self, token: str, setter: Provenance) -> bool:
        """Whether the option differs from the kernel's default and the mount table is silent."""
        default = next(
            (e.token for e in self.layers if e.provenance is Provenance.KERNEL_DEFAULT), None
        )
        if self.given is not None or default in {None, token} or setter is Provenance.IMPLIED:
            return False
        return self._silence_tells or setter in SUPERBLOCK_SETTERS

    def _baseline(self, token: str, setter: Provenance) -> str | None:
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
        stays = self.given is None or (setter is Provenance.IMPLIED and data.given is None)
        return token if stays else self.spec.opposite(token)
