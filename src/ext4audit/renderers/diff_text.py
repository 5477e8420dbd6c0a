"""The difference of two reports, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ext4audit.policy.baseline import KnownFinding
from ext4audit.policy.difference import Difference
from ext4audit.renderers.escape import visible

UNCHECKED = "not checked again"


def render_text(differences: Mapping[str, Difference]) -> str:
    """Return what is new, fixed, and not checked again, each a line; the sums of each host last."""
    lines = [line for host, found in differences.items() for line in _host(host, found)]
    return "".join(f"{visible(line)}\n" for line in lines)


def _host(host: str, found: Difference) -> Iterator[str]:
    kinds = {"new": found.new, "fixed": found.fixed, UNCHECKED: found.unchecked}
    for word, findings in kinds.items():
        for finding in findings:
            yield f"{word}: {_words(finding)}"
    sums = {**{word: len(each) for word, each in kinds.items()}, "unchanged": len(found.unchanged)}
    yield f"host {host}: {', '.join(f'{count} {word}' for word, count in sums.items())}"


def _words(finding: KnownFinding) -> str:
    severity = finding.severity.value.upper()
    return f"{severity} {finding.rule} on {finding.subject}: {finding.message}"
