"""Kernel bug rules; helpers for findings on bugs of the running kernel."""

from __future__ import annotations

from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.versions import Exposure
from ext4audit.finding import Citation, Finding, Remedy
from ext4audit.rules.shared import cite_kernel, grade, milder_while_read_only


def cite_bug(bug: Exposure) -> Citation:
    """Cite the condition under which the bug occurs, with its source."""
    return Citation("kernel bug requires", bug.condition, bug.source, detail=True)


def bug_finding(
    host: Host,
    bug: Exposure,
    reached: Citation,
    *,
    remedies: tuple[Remedy, ...],
    summary: str,
    message: str = "",
    writes_to: Filesystem | None = None,
) -> Finding:
    """Return the finding on a bug; `reached` cites what is exposed to it.

    `message` defaults to the symptom. Set `writes_to` to the filesystem if only writes do harm.
    """
    severity, confidence = grade(bug)
    message = message or bug.symptom
    if writes_to is not None:
        severity, message = milder_while_read_only(writes_to, severity, message)
    return Finding(
        message=f"{message}.",
        severity=severity,
        confidence=confidence,
        citations=(cite_kernel(host, bug), cite_bug(bug), reached),
        remedies=remedies,
        summary=summary,
    )
