"""The effective mount options of a mounted superblock, and the provenance of each.

The kernel applies options in layers: its defaults, the bit field of the superblock, the option
string of the superblock, the options of mount(2). The options file lists the options in effect.
The mount table lists a switch only if it differs from the result of the first three layers
(`_ext4_show_options`, fs/ext4/super.c 3.10 to 7.2), so it hides options set in the superblock.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ext4audit.assemble.options.listings import (
    WITHOUT_A_LAYER,
    OptionSources,
    OptionTokens,
    provenance_of_listed,
    read_tokens,
    unlisted_layer,
)
from ext4audit.evidence import OUTSIDE, Evidence, Known, Unknown, derive, origin_of
from ext4audit.facts.host import Kernel
from ext4audit.facts.layout import stripe_at_mount
from ext4audit.facts.mount import EffectiveOption, EffectiveOptions, Layer, Provenance
from ext4audit.facts.options import (
    DEFAULT_OFF_BELOW_PAGE_SIZE,
    IMPLIED_BY_DATA_JOURNAL,
    NOT_EXT4_FSTYPE_DEFAULTS,
    OptionSpec,
    all_options,
    recognize,
    spec_named,
    words_of_string,
)
from ext4audit.facts.superblock import Superblock

DATA_JOURNAL = "data=journal"
SUPERBLOCK_PROVENANCE = (
    Provenance.SUPERBLOCK_BITS,
    Provenance.SUPERBLOCK_STRING,
    Provenance.SUPERBLOCK_FIELD,
    Provenance.SUPERBLOCK,
)
LISTED_SINCE = (3, 4)
"""The first Linux version with an options file (docs/options.md)."""
X86_PAGE_BYTES = 4096
PAGES_OF_4_KIB = "x86_64|i[3-6]86|s390x|riscv64|armv[67]l"
"""Machines (`uname -m`) whose kernels always have 4 KiB pages; others may use 16 or 64 KiB."""
OTHER_PAGES = "aarch64|arm64|ppc64|loong|[^0-9](16|64)k|r(as)?pi"
"""Parts of a release (`uname -r`) that name another machine, or larger pages: 6.6.31+rpt-rpi-2712
of a Raspberry Pi 5 has 16 KiB."""


def resolve_options(sources: OptionSources) -> Evidence[EffectiveOptions]:
    """Return the effective options, Unknown if no source of options could be read."""
    gap = _gap(sources)
    if gap is not None and sources.mount_table is None and isinstance(sources.superblock, Unknown):
        return gap
    tokens = read_tokens(sources)
    specs = {spec.name: spec for spec in all_options()}
    names = dict.fromkeys([*specs, *tokens.best])
    resolved = [_resolver(name, specs.get(name), tokens, sources).resolve() for name in names]
    read_elsewhere = (sources.mount_origin, origin_of(sources.superblock))
    origin = origin_of(sources.file) or ", ".join(filter(None, read_elsewhere))
    found = sources.superblock
    lacks_journal = isinstance(found, Known) and not found.value.has_journal
    return Known(
        EffectiveOptions(
            source=origin,
            complete=gap is None,
            options=tuple(option for option in resolved if option is not None),
            mount_table=sources.mount_table,
            gap=gap,
            inapplicable=frozenset({"data"} if lacks_journal else ()),
        ),
        origin,
    )


def _gap(sources: OptionSources) -> Unknown | None:
    """Return why the options file is unknown, with another source's hint if it has no hint."""
    if isinstance(sources.file, Known):
        return None
    other = sources.superblock.hint if isinstance(sources.superblock, Unknown) else ""
    old = sources.upstream is not None and sources.upstream < LISTED_SINCE
    missing = "Linux lists all options since 3.4" if old else OUTSIDE
    return replace(sources.file, hint=sources.file.hint or other or missing)


def _resolver(
    name: str, spec: OptionSpec | None, tokens: OptionTokens, sources: OptionSources
) -> "_OptionResolver":
    layers = option_layers(spec, sources) if spec else ()
    return _OptionResolver(name, spec, layers, tokens, sources)


class _OptionResolver(NamedTuple):
    """Resolver of one option from layers and listings; `spec` is None for an unrecognized token."""

    name: str
    spec: OptionSpec | None
    layers: tuple[Layer, ...]
    tokens: OptionTokens
    sources: OptionSources

    def resolve(self) -> EffectiveOption | None:
        """Return the effective option, None if neither a listing nor a layer determines it."""
        found = self.in_force()
        if found is None:
            return None
        token, origin = found
        listed = self.listed
        shown = (Layer(Provenance.MOUNT, listed, self.sources.mount_origin),) if listed else ()
        set_by = self._set_by(token)
        return EffectiveOption(
            name=self.name,
            token=token,
            origin=origin,
            set_by=set_by,
            hidden=self._hidden(token, set_by),
            baseline=self._baseline(token, set_by),
            layers=self.layers + shown,
        )

    @property
    def listed(self) -> str | None:
        """The token of the option in the mount table, None if it is not (reliably) listed."""
        return self.tokens.listed(self.name, self.spec)

    @property
    def _table_is_reliable(self) -> bool:
        """Whether a switch that the mount table does not list is known to have its default."""
        return self.sources.mount_table is not None and not self.tokens.unreliable

    @property
    def _absence_has_meaning(self) -> bool:
        """Whether the table lists the option if it differs: only switches are unreliable."""
        has_value = self.spec is not None and self.spec.has_value
        return self._table_is_reliable or (self.sources.mount_table is not None and has_value)

    def in_force(self) -> tuple[str, str] | None:
        """Return the token in effect and its origin, None if it is unknown."""
        in_file, file = self.tokens.in_file, self.sources.file
        if in_file is not None and isinstance(file, Known):
            return (in_file[self.name], file.origin) if in_file.get(self.name) else None
        if self.name in self.tokens.in_table:
            return self.tokens.in_table[self.name], self.sources.mount_origin
        layer = self._unlisted_layer()
        return (layer.token, layer.origin) if layer is not None and layer.token else None

    def _unlisted_layer(self) -> Layer | None:
        """Return the layer that is in effect if the mount table does not list the option.

        None without the superblock, which can set the opposite of the kernel's default, and if the
        kernel, which may refuse the superblock's string, is unknown.
        """
        if not self._absence_has_meaning or not isinstance(self.sources.superblock, Known):
            return None
        in_string = any(each.provenance is Provenance.SUPERBLOCK_STRING for each in self.layers)
        if self.spec is None or (in_string and isinstance(self.sources.kernel, Unknown)):
            return None
        return unlisted_layer(self.spec, self.layers)

    def _set_by(self, token: str) -> Provenance:
        """Return the provenance of the token in effect."""
        implied = IMPLIED_BY_DATA_JOURNAL.get(self.name)
        if implied and self._journals_data():
            return Provenance.IMPLIED if token == implied else Provenance.MOUNT
        provenances = [layer.provenance for layer in self.layers if layer.token == token]
        below_mount = bool(provenances) and self.layers[-1].token == token
        if below_mount and provenances[-1] in SUPERBLOCK_PROVENANCE:
            return provenances[-1]
        superblock_read = isinstance(self.sources.superblock, Known)
        if self.listed == token:
            return provenance_of_listed(
                self.spec,
                token,
                self.sources.upstream,
                superblock_read=superblock_read,
                is_default=bool(provenances),
            )
        if provenances:
            # Only mount(2) can restore a token after a later layer has changed it.
            return provenances[-1] if below_mount else Provenance.MOUNT
        inferred = bool(self.layers) and self._table_is_reliable and not superblock_read
        return Provenance.SUPERBLOCK if inferred else Provenance.UNKNOWN

    def _journals_data(self) -> bool:
        """Return whether data=journal is in effect; the table hides it if set by the superblock.

        Without a journal, the kernel forgets a mode of the superblock after it has obeyed it.
        """
        data = self._data().in_force()
        return data[0] == DATA_JOURNAL if data else self._superblock_journals_data()

    def _superblock_journals_data(self) -> bool:
        """Return whether the superblock sets data=journal, with or without a journal."""
        found, layers = self.sources.superblock, list[Layer]()
        if isinstance(found, Known):
            layers += _superblock_layers(spec_named("data"), found, self.sources)
        return any(layer.token == DATA_JOURNAL for layer in layers[-1:])

    def _data(self) -> "_OptionResolver":
        """Return the resolver of the option `data`, which implies the states of other options."""
        return _resolver("data", spec_named("data"), self.tokens, self.sources)

    def _may_be_in_field(self, superblock: Superblock) -> bool:
        """Return whether a field of the superblock that is no layer may set the option.

        The table lists it if a field or a mount does.
        """
        owners = (superblock.reserved_uid, superblock.reserved_gid)
        is_listed = self.listed is not None or self.sources.mount_table is None
        by_kernel = self.layers[-1].provenance is Provenance.KERNEL_DEFAULT
        return self.name in WITHOUT_A_LAYER and is_listed and by_kernel and owners != (0, 0)

    def _hidden(self, token: str, set_by: Provenance) -> bool:
        """Return whether the option differs from the kernel's default and the table hides it."""
        default = next(
            (e.token for e in self.layers if e.provenance is Provenance.KERNEL_DEFAULT), None
        )
        if self.listed is not None or default in {None, token} or set_by is Provenance.IMPLIED:
            return False
        return self._absence_has_meaning or set_by in SUPERBLOCK_PROVENANCE

    def _baseline(self, token: str, set_by: Provenance) -> str | None:
        """Return the token of a mount without options, None if it is unknown.

        Without the superblock, it is derived from the mount table: a listed switch is the opposite
        of the default that results from the superblock and the kernel.
        """
        if self.spec is None:
            return None
        found = self.sources.superblock
        if isinstance(found, Known) and self.layers:
            implied = IMPLIED_BY_DATA_JOURNAL.get(self.name)
            if implied and self._superblock_journals_data():
                return implied
            return None if self._may_be_in_field(found.value) else self.layers[-1].token
        compared = self.name == "data" or not self.spec.has_value
        # Without a journal, journal_data of an unread superblock may imply the token.
        may_imply = IMPLIED_BY_DATA_JOURNAL.get(self.name) == token and not self._data().in_force()
        if not (self._table_is_reliable and compared) or (may_imply and self.listed):
            return None
        # An unlisted data=journal comes from the superblock, and so do the options it implies.
        is_implied = set_by is Provenance.IMPLIED
        stays = self.listed is None or (is_implied and self._data().listed is None)
        return token if stays else self.spec.opposite(token)


def option_layers(spec: OptionSpec, sources: OptionSources) -> tuple[Layer, ...]:
    """Return the layers of an option below mount(2), in the order of application."""
    kernel, superblock = sources.kernel, sources.superblock
    if spec.name == "data" and isinstance(superblock, Known) and not superblock.value.has_journal:
        # Without a journal, ext4_fill_super() clears the data mode that the bits set.
        return ()
    layers = []
    default = kernel_default(spec, kernel, superblock, sources.fstype)
    if default is not None and isinstance(kernel, Known):
        layers.append(Layer(Provenance.KERNEL_DEFAULT, default, f"Linux {kernel.value.release}"))
    if isinstance(superblock, Known):
        layers += _superblock_layers(spec, superblock, sources)
    return tuple(layers)


def kernel_default(
    spec: OptionSpec, kernel: Evidence[Kernel], superblock: Evidence[Superblock], fstype: str | None
) -> str | None:
    """Return the kernel's default for this superblock, None if it is not verified."""
    if not isinstance(kernel, Known):
        return None
    if fstype not in {"ext4", None} and spec.name in NOT_EXT4_FSTYPE_DEFAULTS:
        return NOT_EXT4_FSTYPE_DEFAULTS[spec.name]
    if spec.name == "dioread_nolock" and not _default_holds(kernel.value, superblock):
        return None
    return spec.default(kernel.value.upstream)


def _default_holds(kernel: Kernel, superblock: Evidence[Superblock]) -> bool:
    """Return whether dioread_nolock's default is certain: it has depended on the block size."""
    since, before = DEFAULT_OFF_BELOW_PAGE_SIZE
    if not since <= kernel.upstream < before:
        return True
    known = isinstance(superblock, Known) and superblock.value.block_bytes == X86_PAGE_BYTES
    return known and _has_pages_of_4_kib(kernel)


def _has_pages_of_4_kib(kernel: Kernel) -> bool:
    """Return whether pages are 4 KiB, by the release where the machine is unknown."""
    if kernel.machine:
        return re.fullmatch(PAGES_OF_4_KIB, kernel.machine) is not None
    return re.search(OTHER_PAGES, kernel.release) is None


def stripe_of(superblock: Superblock, kernel: Evidence[Kernel]) -> str | None:
    """Return the stripe that the kernel takes from the superblock fields, None if there is none.

    None also if that depends on an unknown kernel; rules ask `stripe_at_mount` about it.
    """
    linux = derive("version of Linux", lambda known: known.upstream, kernel)
    blocks = stripe_at_mount(superblock, linux)
    if isinstance(blocks, Unknown) or not blocks.value:
        return None
    return f"stripe={blocks.value}"


def _field(option: str, superblock: Superblock, kernel: Evidence[Kernel]) -> str | None:
    """Return the token of an option that a superblock field sets, else None."""
    if option == "errors":
        return f"errors={superblock.errors}"
    return stripe_of(superblock, kernel) if option == "stripe" else None


def _superblock_layers(
    spec: OptionSpec, superblock: Known[Superblock], sources: OptionSources
) -> Iterator[Layer]:
    """Yield the layers of the superblock; without a journal, the kernel drops those of `data`."""
    found, origin = superblock.value, superblock.origin
    bits = [
        spec.superblock_bits[name]
        for name in found.default_mount_options
        if name in spec.superblock_bits
    ]
    if bits:
        yield Layer(Provenance.SUPERBLOCK_BITS, bits[-1], origin)
    field = _field(spec.name, found, sources.kernel)
    if field is not None:
        yield Layer(Provenance.SUPERBLOCK_FIELD, field, origin)
    if found.mount_option_string:
        words = words_of_string(found, sources.upstream, sources.fstype, sources.listed).applied
        in_string = [token for named, token in filter(None, map(recognize, words)) if named == spec]
        if in_string:
            yield Layer(Provenance.SUPERBLOCK_STRING, in_string[-1], origin)
