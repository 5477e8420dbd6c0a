"""The difference of two reports, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit.policy.difference import Difference
from ext4audit.policy.earlier import KnownFinding
from ext4audit.renderers.escape import visible


def render_text(differences: Sequence[tuple[str, Difference]]) -> str:
    """Return a line for each finding by its kind, what is new first; each host's sums last."""
    lines = [line for host, found in differences for line in _host(host, found)]
    return "".join(f"{visible(line)}\n" for line in lines)


def _host(host: str, found: Difference) -> Iterator[str]:
    kinds = {
        "new": found.new,
        "fixed": found.fixed,
        "not checked again": found.unchecked,
        "unchanged": found.unchanged,
    }
    for word, findings in kinds.items():
        for finding in findings:
            yield f"{word}: {_words(finding)}"
    sums = ", ".join(f"{len(findings)} {word}" for word, findings in kinds.items())
    yield f"host {host}: {sums}"


def _words(finding: KnownFinding) -> str:
    severity = finding.severity.value.upper()
    accepted = " (suppressed)" if finding.suppressed else ""
    return f"{severity} {finding.rule} on {finding.subject}{accepted}: {finding.message}"
