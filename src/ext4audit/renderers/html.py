"""The HTML report: one file for people, without scripts, and nothing is fetched for it.

A content security policy allows the one style by its hash and nothing else, so that a name that
became markup after all would still load and run nothing. Every finding is in it: those that are
suppressed or in a baseline are folded, and do not count. Verbosity changes nothing.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256

from ext4audit.renderers.html_fleet import Entry, fleet_part, worst_first
from ext4audit.renderers.html_host import finding_chips, host_part
from ext4audit.renderers.html_markup import NEWLINE, NOTHING, Html, joined, lines, tag, void
from ext4audit.renderers.html_parts import badge
from ext4audit.renderers.html_style import STYLE
from ext4audit.renderers.shared.page import Audited, Page
from ext4audit.renderers.shared.words import counted


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return the page: one host in full, or a fleet with each host to unfold."""
    entries = worst_first(hosts)
    alone = len(entries) == 1
    title = f"ext4audit: {_alone_name(entries[0]) if alone else counted(len(entries), 'host')}"
    body = lines(_body(entries, page, title, alone=alone))
    language = tag("html", NEWLINE, lines((_head(title), tag("body", NEWLINE, body))), lang="en")
    return f"<!DOCTYPE html>\n{language}\n"


def _head(title: str) -> Html:
    parts = (
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=_policy()),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        Html(f"<style>{STYLE}</style>"),
    )
    return tag("head", NEWLINE, lines(parts))


def _policy() -> str:
    """Return a policy that lets the page show itself and do nothing else (CSP level 3)."""
    digest = b64encode(sha256(STYLE.encode()).digest()).decode("ascii")
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _body(entries: Sequence[Entry], page: Page, title: str, *, alone: bool) -> Iterator[Html]:
    yield tag("a", "Skip to the findings", href="#findings", class_="skip")
    yield tag("header", tag("h1", title), class_="page")
    parts = _alone(entries[0], page) if alone else _fleet(entries, page)
    yield tag("main", NEWLINE, parts, id="findings", tabindex="-1")
    seconds = f" in {page.seconds:.1f} s" if page.seconds else ""
    made = f"Made by ext4audit {page.tool_version} at {page.taken_at}{seconds}."
    yield tag("footer", made)


def _fleet(entries: Sequence[Entry], page: Page) -> Html:
    return lines(
        (tag("h2", "All hosts"), fleet_part(entries), *(_folded(entry, page) for entry in entries))
    )


def _alone_name(entry: Entry) -> str:
    return entry.name if entry.host.report is None else entry.host.report.host.name


def _alone(entry: Entry, page: Page) -> Html:
    report = entry.host.report
    found = NOTHING if report is None else finding_chips(report)
    return lines((tag("h2", "Summary"), found, _whole(entry, page)))


def _whole(entry: Entry, page: Page) -> Html:
    if entry.host.report is None:
        return _unread(entry)
    return host_part(entry.host.report, page, entry.anchor)


def _folded(entry: Entry, page: Page) -> Html:
    """Return a host of a fleet, folded; on paper those are open that fail the audit."""
    report = entry.host.report
    if report is None:
        unread = tag("span", badge("could not be read", "open"), class_="chips")
        summary = tag("summary", tag("h2", entry.name), unread)
        return tag("details", summary, _unread(entry), class_="host printed")
    summary = joined((tag("summary", tag("h2", entry.name), finding_chips(report)), NEWLINE))
    worst = page.threshold
    fails = worst is not None and any(f.severity.at_least(worst) for f in report.counted)
    look = "host printed" if fails else "host"
    return tag("details", summary, _whole(entry, page), class_=look)


def _unread(entry: Entry) -> Html:
    words = f" This host could not be read: {entry.host.error}. Nothing of it was audited."
    return tag("div", tag("p", badge("NOT KNOWN", "open"), words), id=entry.anchor)
