"""The HTML report: one self-contained file, from Jinja2 templates.

The modules of this package compute plain values; all markup is in `templates/`. Every value
that a template prints passes through `visible` and is then escaped. A content security policy
allows only the style sheet and the script, by their hashes, so injected markup cannot load or
run anything. The script filters hosts and copies commands; without it, the page has no controls.
The report has every finding; suppressed and known ones are folded. Verbosity has no effect.
The page of several hosts omits evidence and commands of findings below the threshold, and
the evidence of rules that passed.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256

from jinja2 import Environment, PackageLoader, StrictUndefined

from ext4audit.evidence import Unknown
from ext4audit.finding import Severity
from ext4audit.renderers import Audited, Page, visible
from ext4audit.renderers.html.fleet import (
    Entry,
    fleet_summary,
    folded_host,
    matrix,
    rule_entries,
    unread_groups,
    worst_first,
)
from ext4audit.renderers.html.host import finding_chips, host_section
from ext4audit.renderers.shared import PHASE_TEXT, counted, why_text
from ext4audit.report import PlanAdvice, Report

_TEXTS_KEPT = 1 << 16
"""Number of texts whose visible form is cached; the hosts of a fleet share a few thousand."""

_visible = lru_cache(maxsize=_TEXTS_KEPT)(visible)


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return the report: one host in full, or a fleet with a folded section for each host."""
    entries = worst_first(hosts)
    if len(entries) != 1:
        return _rendered("fleet.html.j2", page, **_fleet(entries, page))
    return _one(entries[0], page, entries[0].host.name)


def render_plan(report: Report, advice: PlanAdvice, page: Page) -> str:
    """Return the report of a plan with the recommended commands."""
    (entry,) = worst_first([Audited(report.source.label, report)])
    return _one(entry, page, f"plan for {report.source.label}", advice)


def _one(entry: Entry, page: Page, name: str, plan: PlanAdvice | None = None) -> str:
    """Return the page of one host in full."""
    report = entry.host.report
    return _rendered(
        "single_host.html.j2",
        page,
        title=f"ext4audit: {name}",
        entry=entry,
        chips=() if report is None else finding_chips(report, page),
        section=None if report is None else host_section(report, page, entry.anchor),
        plan=plan,
    )


def _fleet(entries: Sequence[Entry], page: Page) -> dict[str, object]:
    """Return the template values for the page of several hosts."""
    return {
        "title": f"ext4audit: {counted(len(entries), 'host')}",
        "summary": fleet_summary(entries, page),
        "rules": rule_entries(entries, page),
        "unread_groups": unread_groups(entries, page),
        "matrix": matrix(entries),
        "hosts": (folded_host(entry, page) for entry in entries),
        "severities": [*enumerate(each.value for each in Severity)],
    }


def _rendered(template: str, page: Page, **values: object) -> str:
    return ENVIRONMENT.get_template(template).render(
        page=page,
        style_digest=_digest("style.css"),
        script_digest=_digest("script.js"),
        **values,
    )


def _digest(template: str) -> str:
    """Return the hash of the style or script for the content security policy (CSP level 3)."""
    text = ENVIRONMENT.get_template(template).render()
    return b64encode(sha256(text.encode()).digest()).decode("ascii")


def _printed(value: object) -> object:
    """Return the text that a template prints for a value, before it is escaped.

    The output of a macro is returned unchanged. Raises TypeError for None, which is a template
    error like an undefined name.
    """
    if value is None:
        raise TypeError("a template prints None")
    return value if hasattr(value, "__html__") else _visible(str(value))


def _capitalized(text: str) -> str:
    """Return the text with its first letter in upper case and the others unchanged."""
    return text[:1].upper() + text[1:]


def _environment() -> Environment:
    made = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=PackageLoader("ext4audit.renderers.html"),
        finalize=_printed,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(
        capitalized=_capitalized,
        counted=counted,
        phase_text=PHASE_TEXT.__getitem__,
        why_text=why_text,
    )
    made.tests["unknown"] = lambda value: isinstance(value, Unknown)
    return made


ENVIRONMENT = _environment()
