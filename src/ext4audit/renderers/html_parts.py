"""Pieces of the HTML report that every section has: badges, facts, tables, folds, holes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ext4audit.evidence import Unknown
from ext4audit.finding import Citation, Severity
from ext4audit.renderers.html_markup import NEWLINE, NOTHING, Html, joined, lines, tag
from ext4audit.renderers.shared.words import why_words


def badge(words: str, look: str) -> Html:
    """Return words on the colour of a look: a severity, "open" (a blind spot) or "fine"."""
    return tag("span", words, class_=f"badge {look}")


def severity_badge(severity: Severity) -> Html:
    """Return a severity by its name, on its colour."""
    return badge(severity.value.upper(), severity.value)


def chips(badges: Iterable[Html]) -> Html:
    """Return badges in a row."""
    return tag("span", *apart(badges), class_="chips")


def apart(badges: Iterable[Html]) -> Iterator[Html]:
    """Yield badges with blanks between, for those who hear or copy them."""
    for each in badges:
        yield each
        yield joined((" ",))


def facts(pairs: Iterable[tuple[str, str]]) -> Html:
    """Return names and what they are; those without a value are left out."""
    rows = [joined((tag("dt", name), tag("dd", value), NEWLINE)) for name, value in pairs if value]
    return tag("dl", *rows, class_="facts") if rows else NOTHING


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> Html:
    """Return a table; the first cell of each row names it. `caption` is for those who hear it."""
    return tag(
        "table",
        tag("thead", tag("tr", *(tag("th", head, scope="col") for head in heads))),
        NEWLINE,
        tag("tbody", NEWLINE, lines(_row(row) for row in rows)),
        aria_label=caption,
    )


def _row(cells: Sequence[str]) -> Html:
    first, *others = cells
    return tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in others))


def evidence_table(citations: Sequence[Citation]) -> Html:
    """Return what was seen, and where it was read."""
    if not citations:
        return NOTHING
    rows = [(each.label, tag("code", each.value), each.origin) for each in citations]
    return tag("div", table(("Evidence", "Value", "Read from"), rows, "Evidence"), class_="scroll")


def fold(summary: str, *content: str, shown: bool = False, printed: bool = False) -> Html:
    """Return content below a summary that opens it; `printed` is open on paper in any case."""
    look = "fold printed" if printed else "fold"
    inside = joined((NEWLINE, tag("summary", summary), NEWLINE, lines(content)))
    return tag("details", inside, class_=look, open="" if shown else None)


def hole_words(unknown: Unknown) -> Html:
    """Return one hole in a sentence: what, why, and how to make it known."""
    hint = f" To know it: {unknown.hint}." if unknown.hint else ""
    return joined((badge("NOT KNOWN", "open"), f" {unknown.what}: {why_words(unknown)}.{hint}"))
