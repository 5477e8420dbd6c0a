"""The HTML report: how much metadata lies on each member of a stripe, as bars in a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit.evidence import Unknown
from ext4audit.facts.host import Filesystem
from ext4audit.facts.layout import MemberLoad, MetadataLayout
from ext4audit.renderers.html_markup import NEWLINE, NOTHING, Html, lines, tag
from ext4audit.renderers.html_parts import fold, hole_words
from ext4audit.renderers.layout.text import groups_words, rows_of, spread_words
from ext4audit.renderers.shared.words import counted

_SERIES = (("bitmaps", "bitmaps"), ("inode tables", "tables"), ("descriptors", "descriptors"))
"""What the parts of a bar are, and their looks."""
_BASIS = {
    "descriptors": "read from the group descriptors",
    "computed": "computed",
    "simulated": "simulated",
}
_UNEVEN = 1.25
"""From this many times the mean on the chart is unfolded."""


def members_part(fs: Filesystem) -> Html:
    """Return the load of each member, unfolded where it is uneven; nothing without a stripe."""
    if fs.layout is None:
        return NOTHING
    if isinstance(fs.layout, Unknown):
        return tag("p", hole_words(fs.layout))
    layout = fs.layout.value
    uneven = max(layout.skew, layout.touches.skew) >= _UNEVEN
    members = counted(len(layout.members), "member")
    summary = f"Metadata on {members}: the busiest has {layout.skew:.2f} times the mean of bitmaps"
    return fold(summary, *_chart(layout), shown=uneven, printed=uneven)


def _chart(layout: MetadataLayout) -> Iterator[Html]:
    rows = rows_of(layout.members)
    yield tag("p", *_legend(), class_="legend small")
    yield tag("div", _table(layout, rows.shown), class_="scroll")
    if rows.folded:
        yield tag("p", rows.folded)
    yield tag("p", spread_words(layout), class_="small")
    words = f"{groups_words(layout)}; the places of the metadata are {_BASIS[layout.basis]}."
    yield tag("p", words, class_="small faint")
    yield from (tag("p", hole_words(doubt)) for doubt in layout.doubts)


def _legend() -> Iterator[Html]:
    for name, look in _SERIES:
        square = tag("rect", width="10", height="10", class_=look)
        key = tag("svg", square, viewBox="0 0 10 10", class_="key", aria_hidden="true")
        yield tag("span", key, f" {name}")
    yield tag("span", "in blocks touched when one file is made in each group")


def _table(layout: MetadataLayout, members: Sequence[MemberLoad]) -> Html:
    heads = ("Bitmap writes", "Tables", "Descriptors", "Touches")
    head = tag(
        "tr",
        tag("th", "Member", scope="col"),
        *(tag("th", each, scope="col", class_="number") for each in heads),
        tag("th", "Share of the busiest", scope="col"),
    )
    most = max(layout.touches.loads)
    rows = lines(_row(member, most) for member in members)
    body = tag("tbody", NEWLINE, rows)
    return tag("table", tag("thead", head), NEWLINE, body, aria_label="Metadata on each member")


def _row(member: MemberLoad, most: int) -> Html:
    numbers = (
        member.bitmap_writes,
        member.inode_tables,
        member.described_groups,
        member.touches,
    )
    return tag(
        "tr",
        tag("th", member.name, scope="row"),
        *(tag("td", str(number), class_="number") for number in numbers),
        tag("td", _bar(member, most), class_="bars"),
    )


def _bar(member: MemberLoad, most: int) -> Html:
    """Return a bar whose parts are those of the touches; parity counts with the bitmaps."""
    tables, described = member.inode_tables, member.described_groups
    parts, left = [], 0.0
    for amount, (_, look) in zip(
        (member.touches - tables - described, tables, described), _SERIES, strict=True
    ):
        width = 100 * amount / most if most else 0.0
        if width:
            shape = {"x": f"{left:.2f}", "width": f"{width:.2f}", "height": "10"}
            parts.append(tag("rect", class_=look, **shape))
        left += width
    shape = {"viewBox": "0 0 100 10", "preserveAspectRatio": "none"}
    return tag("svg", *parts, class_="bar", aria_hidden="true", **shape)
