"""Parse an HTML report with html5lib, which rejects everything that the standard calls an error."""

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
    """Return the HTML page of hosts; a report is a host that could be read."""
    given = [h if isinstance(h, Audited) else Audited(h.source.label, h) for h in hosts]
    return html.render(given, page)


def rendered(*hosts: Report | Audited, page: Page = PAGE) -> Element:
    """Render hosts, and return the root of the strictly parsed page."""
    return parsed(markup(*hosts, page=page))


def parsed(text: str) -> Element:
    """Return the root of a page; raises an error for invalid syntax."""
    # Characters that cannot be encoded would be replaced when a file is written.
    text.encode("utf-8")
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    root: Element = parser.parse(text)
    return root


def text_of(element: Element) -> str:
    """Return the text of an element with normalized whitespace."""
    return " ".join("".join(element.itertext()).split())


def with_class(root: Element, name: str) -> list[Element]:
    """Return the elements with a class, in document order."""
    return [each for each in root.iter() if name in each.get("class", "").split()]


def only(elements: Sequence[Element]) -> Element:
    """Return the only element of a sequence; fail if there are more or none."""
    (element,) = elements
    return element


def tag_names(root: Element) -> Iterator[str]:
    """Yield the name of each element, without the namespace of SVG."""
    for element in root.iter():
        yield element.tag.rpartition("}")[2]


def attributes(root: Element) -> Iterator[tuple[str, str]]:
    """Yield each attribute's name and value."""
    for element in root.iter():
        yield from element.attrib.items()


def details_element(root: Element, beginning: str) -> Element:
    """Return the only <details> element whose summary begins with these words."""
    found = [each for each in root.iter("details") if text_of(each[0]).startswith(beginning)]
    return only(found)


def with_suppressed_rule(of: Report, code: str) -> Report:
    """Return a report with the findings of one rule suppressed."""
    why = Suppression("Replaced in spring", "dba@example", "2027-03-31")
    verdicts = [
        v._replace(findings=tuple(f._replace(suppression=why) for f in v.findings))
        if v.rule.code == code
        else v
        for v in of.verdicts
    ]
    return of._replace(verdicts=tuple(verdicts))


def with_known_findings(of: Report) -> Report:
    """Return a report with every finding marked as known from a baseline."""
    verdicts = [
        v._replace(findings=tuple(f._replace(known=True) for f in v.findings)) for v in of.verdicts
    ]
    return of._replace(verdicts=tuple(verdicts), fixed=())
