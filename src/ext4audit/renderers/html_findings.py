"""The HTML report: findings with their evidence, and remedies with commands to copy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from ext4audit.finding import Finding, Remedy, Suppression
from ext4audit.renderers.html_markup import NEWLINE, NOTHING, Html, joined, lines, tag
from ext4audit.renderers.html_parts import badge, evidence_table, severity_badge
from ext4audit.renderers.shared.words import PHASE_WORDS, disruption_words
from ext4audit.rule import Rule


def finding_part(rule: Rule, finding: Finding, *, shown: bool) -> Html:
    """Return a finding that can be folded away; its title and consequence always show."""
    title = joined(
        (
            severity_badge(finding.severity),
            " ",
            tag("strong", rule.code),
            f" {rule.name} ",
            tag("span", f"({finding.confidence.value})", class_="faint"),
        )
    )
    return tag(
        "details",
        NEWLINE,
        tag("summary", tag("h4", title), " ", tag("span", finding.message, class_="message")),
        NEWLINE,
        lines(_inside(finding)),
        class_=f"finding on-{finding.severity.value} printed",
        open="" if shown else None,
    )


def _inside(finding: Finding) -> Iterator[Html]:
    yield _set_aside(finding)
    yield evidence_table(finding.citations)
    for number, remedy in enumerate(finding.remedies):
        yield _remedy(remedy, "Or" if number else "Remedy")


def _set_aside(finding: Finding) -> Html:
    """Say why a finding does not count."""
    if finding.suppression is not None:
        return tag("p", tag("strong", "Suppressed: "), _reason(finding.suppression))
    return tag("p", tag("strong", "In the baseline.")) if finding.known else NOTHING


def _reason(suppression: Suppression) -> str:
    owner = f" (answered for by {suppression.owner})" if suppression.owner else ""
    until = f", until {suppression.expires}" if suppression.expires else ""
    return f"{suppression.reason}{owner}{until}"


def _remedy(remedy: Remedy, label: str) -> Html:
    """Return a remedy; its steps keep their order, because a later one may need an earlier."""
    words = disruption_words(remedy)
    how = badge(words.upper(), "critical") if remedy.destructive else badge(words, "info")
    return tag("div", NEWLINE, lines(_parts(remedy, label, how)), class_="remedy")


def _parts(remedy: Remedy, label: str, how: Html) -> Iterator[Html]:
    yield tag("p", tag("strong", label), " ", how, f" {remedy.summary}")
    for phase, steps in groupby(remedy.steps, key=lambda step: step.phase):
        yield tag("p", f"{PHASE_WORDS[phase].capitalize()}:", class_="faint small")
        yield from (command(step.command) for step in steps)
    if remedy.trade_off is not None:
        yield tag("p", tag("strong", "Trade-off: "), remedy.trade_off)


def command(words: str) -> Html:
    """Return one command, which a click marks whole."""
    return tag("pre", tag("code", words), class_="command")
