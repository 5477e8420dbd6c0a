"""One filesystem in the HTML report: its facts, its options, and the metadata of each member."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ext4audit.evidence import Known, Unknown, for_wording
from ext4audit.facts.host import Filesystem
from ext4audit.facts.layout import MemberLoad, MetadataLayout
from ext4audit.facts.mount import EffectiveOption, EffectiveOptions, Provenance
from ext4audit.finding import listed
from ext4audit.renderers.html.stack import StackPart, stack_part
from ext4audit.renderers.json_v1.objects import options_object
from ext4audit.renderers.shared import counted, held_text, rounded_size, stack_text, type_text
from ext4audit.renderers.shared.layout_text import (
    groups_text,
    member_rows,
    spread_text,
    touch_parts,
)
from ext4audit.renderers.shared.subjects import is_shut_down

_BASIS = {
    "descriptors": "read from the group descriptors",
    "computed": "computed",
    "simulated": "simulated",
}
_UNEVEN = 1.25
"""The chart of the members is unfolded if the busiest has at least this ratio to the mean."""


class OptionRow(NamedTuple):
    """An option that is not the kernel's default; `layers` are (provenance, token, origin).

    `in_mount_table` is true if the mount table shows its token.
    """

    option: EffectiveOption
    set_by: str
    in_mount_table: bool
    layers: tuple[tuple[str, str, str], ...]


class OptionsPart(NamedTuple):
    """The effective options: explicit ones, with hidden ones first, and the defaults."""

    options: EffectiveOptions
    chosen: tuple[OptionRow, ...]
    defaults: tuple[str, ...]

    @property
    def hidden(self) -> str:
        """The effective tokens that the mount table does not show."""
        return ", ".join(option.token for option in self.options.hidden)


class Segment(NamedTuple):
    """A segment of a bar, in percent of the busiest member; `look` is its CSS class."""

    look: str
    left: float
    width: float


class MemberRow(NamedTuple):
    """A member device and its bar."""

    member: MemberLoad
    bar: tuple[Segment, ...]


class MembersPart(NamedTuple):
    """The metadata on each member of a stripe; `folded` is a sentence about further members."""

    layout: MetadataLayout
    uneven: bool
    rows: tuple[MemberRow, ...]
    folded: str
    spread: str
    groups: str
    basis: str


class FilesystemPart(NamedTuple):
    """One filesystem; `members` is None if there is no stripe below it.

    `locations` has the tokens of the mount table, the superblock and fstab.
    """

    fs: Filesystem
    fstype: str
    state: str
    size: str
    stack: StackPart | Unknown
    options: OptionsPart | Unknown
    locations: tuple[tuple[str, tuple[str, ...]], ...]
    members: MembersPart | Unknown | None


class FilesystemLine(NamedTuple):
    """One filesystem in one line, and the options that the mount table hides."""

    text: str
    hidden: str


def filesystem_line(fs: Filesystem) -> FilesystemLine:
    """Return the type, state, size and devices of a filesystem in one line."""
    facts = (type_text(fs), _state(fs), _size(fs), stack_text(fs))
    options = for_wording(fs.options, None)
    hidden = listed([option.token for option in options.hidden]) if options else ""
    return FilesystemLine("; ".join(each for each in facts if each), hidden)


def filesystem_part(fs: Filesystem) -> FilesystemPart:
    """Return everything that the report shows of one filesystem."""
    return FilesystemPart(
        fs=fs,
        fstype=type_text(fs),
        state=_state(fs),
        size=_size(fs),
        stack=fs.stack if isinstance(fs.stack, Unknown) else stack_part(fs, fs.stack.value),
        options=fs.options if isinstance(fs.options, Unknown) else _options(fs.options.value),
        locations=_locations(fs),
        members=fs.layout if not isinstance(fs.layout, Known) else _members(fs.layout.value),
    )


def _state(fs: Filesystem) -> str:
    """Return whether a filesystem is mounted and writable; either can be unknown."""
    if not fs.alive:
        return "not mounted"
    mode = for_wording(fs.read_only, None)
    text = {True: "read-only", False: "writable", None: "read-only or not: not known"}[mode]
    if is_shut_down(fs):
        text = "shut down after an error: it refuses all writes"
    if fs.unlisted:
        return f"{text}; where it is mounted is not known"
    return text if fs.mounts else f"{text}; {held_text(fs)}"


def _size(fs: Filesystem) -> str:
    """Return the size and usage from statfs(2), or else the size in the superblock."""
    if not isinstance(fs.usage, Known):
        return _size_in_superblock(fs)
    usage = fs.usage.value
    size, free = usage.size_blocks * usage.block_bytes, usage.free_blocks * usage.block_bytes
    inodes = counted(usage.inodes - usage.free_inodes, "inode")
    share = f"{1 - free / size:.0%} of it in use, " if size else ""
    return f"{rounded_size(size)}, {share}{inodes} of {usage.inodes}"


def _size_in_superblock(fs: Filesystem) -> str:
    superblock = for_wording(fs.superblock, None)
    block_bytes = superblock.block_bytes if superblock else None
    return rounded_size(superblock.size_blocks * block_bytes) if superblock and block_bytes else ""


def _options(options: EffectiveOptions) -> OptionsPart:
    chosen = [option for option in options.options if not _is_default(option)]
    ordered = sorted(chosen, key=lambda each: not each.hidden)
    return OptionsPart(
        options=options,
        chosen=tuple(_option_row(option, options) for option in ordered),
        defaults=tuple(option.token for option in options.options if _is_default(option)),
    )


def _is_default(option: EffectiveOption) -> bool:
    return option.set_by is Provenance.KERNEL_DEFAULT and not option.hidden


def _option_row(option: EffectiveOption, options: EffectiveOptions) -> OptionRow:
    return OptionRow(
        option=option,
        set_by=_provenance_text(option.set_by),
        in_mount_table=option.token in (options.mount_table or ()),
        layers=tuple(
            (_provenance_text(each.provenance), each.token, each.origin) for each in option.layers
        ),
    )


def _provenance_text(provenance: Provenance) -> str:
    return provenance.value.replace("_", " ")


def _locations(fs: Filesystem) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the option tokens of each location that has any."""
    tokens = options_object(fs)
    names = (
        ("Mount table", "mount_table"),
        ("Superblock defaults", "superblock_defaults"),
        ("fstab", "fstab"),
    )
    return tuple((name, tuple(tokens[key])) for name, key in names if tokens[key])


def _members(layout: MetadataLayout) -> MembersPart:
    rows = member_rows(layout.members)
    most = max(layout.touches.loads)
    return MembersPart(
        layout=layout,
        uneven=max(layout.skew, layout.touches.skew) >= _UNEVEN,
        rows=tuple(MemberRow(member, tuple(_bar(member, most))) for member in rows.shown),
        folded=rows.folded,
        spread=spread_text(layout),
        groups=groups_text(layout),
        basis=_BASIS[layout.basis],
    )


def _bar(member: MemberLoad, most: int) -> Iterator[Segment]:
    """Yield the segments of the member's touches by kind of metadata."""
    left = 0.0
    for look, amount in touch_parts(member)._asdict().items():
        width = 100 * amount / most if most else 0.0
        if width:
            yield Segment(look, left, width)
        left += width
