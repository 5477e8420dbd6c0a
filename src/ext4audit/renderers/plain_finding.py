"""A finding in lines of plain text that are safe to show, for formats that hold such a text."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.finding import Finding, Remedy, Suppression
from ext4audit.renderers.escape import visible
from ext4audit.renderers.words import PHASE_WORDS, disruption_words


def evidence_lines(finding: Finding) -> Iterator[str]:
    """Yield what a finding rests on, a line for each citation."""
    for cited in finding.citations:
        yield visible(f"{cited.label}: {cited.value} ({cited.origin})")


def remedy_lines(finding: Finding, *, commands: bool) -> Iterator[str]:
    """Yield each way to cure it, with its commands if wanted."""
    for number, remedy in enumerate(finding.remedies):
        label = "Or" if number else "Remedy"
        yield visible(f"{label} ({disruption_words(remedy)}): {remedy.summary}")
        if commands:
            yield from _commands(remedy)


def _commands(remedy: Remedy) -> Iterator[str]:
    for step in remedy.steps:
        yield visible(f"  {PHASE_WORDS[step.phase]}: {step.command}")
    if remedy.trade_off is not None:
        yield visible(f"  Trade-off: {remedy.trade_off}")


def suppression_words(suppression: Suppression) -> str:
    """Say why a finding is accepted, by whom and until when."""
    owner = f", says {suppression.owner}" if suppression.owner else ""
    expires = f", until {suppression.expires}" if suppression.expires else ""
    return visible(f"{suppression.reason}{owner}{expires}")
