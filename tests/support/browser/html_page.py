"""Read an HTML report back with html5lib, which refuses whatever the standard calls an error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

from ext4audit.finding import Suppression
from ext4audit.renderers import Audited, Page, html
from ext4audit.report import Report

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import html5lib

PAGE = Page("0.2.0", "2026-11-22T09:00:00Z")


def markup(*hosts: Report | Audited, page: Page = PAGE) -> str:
    """Render hosts; a report stands for a host that could be read."""
    given = [h if isinstance(h, Audited) else Audited(h.source.label, h) for h in hosts]
    return html.render(given, page)


def read(*hosts: Report | Audited, page: Page = PAGE) -> Element:
    """Render hosts and read the page back strictly."""
    return parsed(markup(*hosts, page=page))


def parsed(text: str) -> Element:
    """Return the root of a page; raises on any error of syntax."""
    # What cannot be written to a file would be replaced there, behind the renderer's back.
    text.encode("utf-8")
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    root: Element = parser.parse(text)
    return root


def words(element: Element) -> str:
    """Return the text of an element, with single blanks."""
    return " ".join("".join(element.itertext()).split())


def with_class(root: Element, name: str) -> list[Element]:
    """Return the elements that have a class, in the order of the page."""
    return [each for each in root.iter() if name in each.get("class", "").split()]


def only(elements: Sequence[Element]) -> Element:
    """Return the one element."""
    (element,) = elements
    return element


def tags(root: Element) -> Iterator[str]:
    """Yield the name of each element, without the namespace of SVG."""
    for element in root.iter():
        yield element.tag.rpartition("}")[2]


def attributes(root: Element) -> Iterator[tuple[str, str]]:
    """Yield each attribute's name and value."""
    for element in root.iter():
        yield from element.attrib.items()


def fold(root: Element, beginning: str) -> Element:
    """Return the one fold whose summary begins with these words."""
    found = [each for each in root.iter("details") if words(each[0]).startswith(beginning)]
    return only(found)


def suppressed(of: Report, code: str) -> Report:
    """Suppress the findings of one rule."""
    why = Suppression("Replaced in spring", "dba@example", "2027-03-31")
    verdicts = [
        v._replace(findings=tuple(f._replace(suppression=why) for f in v.findings))
        if v.rule.code == code
        else v
        for v in of.verdicts
    ]
    return of._replace(verdicts=tuple(verdicts))


def known_before(of: Report) -> Report:
    """Say that a baseline has every finding."""
    verdicts = [
        v._replace(findings=tuple(f._replace(known=True) for f in v.findings)) for v in of.verdicts
    ]
    return of._replace(verdicts=tuple(verdicts), fixed=())
