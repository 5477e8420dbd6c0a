"""The HTML report: one self-contained file without scripts, from Jinja2 templates.

The modules of this package compute plain values; all markup is in `templates/`. Every value
that a template prints passes through `visible` and is then escaped. A content security policy
allows only the style sheet, by its hash, so injected markup cannot load or run anything.
The report has every finding; suppressed and known ones are folded. Verbosity has no effect.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256

from jinja2 import Environment, PackageLoader, StrictUndefined

from ext4audit.evidence import Unknown
from ext4audit.renderers.html.fleet import fleet_table, folded_host, worst_first
from ext4audit.renderers.html.host import finding_chips, host_section
from ext4audit.renderers.shared import Audited, Page, visible
from ext4audit.renderers.shared.terms import PHASE_TEXT, counted, why_text

_TEXTS_KEPT = 1 << 16
"""Texts whose visible form is cached; the hosts of a fleet share a few thousand texts."""

_visible = lru_cache(maxsize=_TEXTS_KEPT)(visible)


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return the report: one host in full, or a fleet with a folded section for each host."""
    entries = worst_first(hosts)
    if len(entries) != 1:
        return ENVIRONMENT.get_template("fleet.html.j2").render(
            page=page,
            style_digest=_style_digest(),
            title=f"ext4audit: {counted(len(entries), 'host')}",
            fleet=fleet_table(entries),
            hosts=(folded_host(entry, page) for entry in entries),
        )
    (entry,) = entries
    report = entry.host.report
    return ENVIRONMENT.get_template("single_host.html.j2").render(
        page=page,
        style_digest=_style_digest(),
        title=f"ext4audit: {entry.name}",
        entry=entry,
        chips=() if report is None else finding_chips(report),
        section=None if report is None else host_section(report, page, entry.anchor),
    )


def _style_digest() -> str:
    """Return the hash of the style for the content security policy (CSP level 3)."""
    style = ENVIRONMENT.get_template("style.css").render()
    return b64encode(sha256(style.encode()).digest()).decode("ascii")


def _printed(value: object) -> object:
    """Return the text that a template prints for a value, before it is escaped.

    The output of a macro is left as it is. None is an error in a template, like an undefined
    name.
    """
    if value is None:
        raise TypeError("a template prints None")
    return value if hasattr(value, "__html__") else _visible(str(value))


def _is_unknown(value: object) -> bool:
    return isinstance(value, Unknown)


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
    made.filters.update(counted=counted, phase_text=PHASE_TEXT.__getitem__, why_text=why_text)
    made.tests["unknown"] = _is_unknown
    return made


ENVIRONMENT = _environment()
