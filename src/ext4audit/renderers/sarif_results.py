"""SARIF: findings as results, and the fixed ones of a baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding
from ext4audit.renderers.escape import visible
from ext4audit.renderers.page import Audited
from ext4audit.renderers.places import (
    Place,
    digest,
    fingerprints,
    place_of,
    place_of_subject,
    superblock,
)
from ext4audit.renderers.plain_finding import evidence_lines, remedy_lines, suppression_words
from ext4audit.renderers.rows import Row, host_names, rank, rows, where
from ext4audit.renderers.sarif_rules import LEVELS
from ext4audit.report import GoneFinding, Report

_Result = dict[str, Any]
_Indexes = Mapping[str, int]
_HASH = "primaryLocationLineHash"
"""The only fingerprint that GitHub reads; a number behind the colon, as CodeQL writes it."""


def results(hosts: Sequence[Audited], indexes: _Indexes) -> list[_Result]:
    """Return all results: what counts, the worst first, then what does not, then what is fixed.

    `indexes` are the places of the rules by code. The order decides what a limit leaves out.
    """
    named = [
        (name, host.report)
        for name, host in zip(host_names(hosts), hosts, strict=True)
        if host.report is not None
    ]
    present = [pair for name, report in named for pair in _present(name, report, indexes)]
    present.sort(key=lambda pair: (not pair[0].finding.counts, rank(pair[0])))
    fixed = [gone for name, report in named for gone in _fixed(name, report, indexes)]
    return [*(result for _, result in present), *fixed]


def _present(name: str, report: Report, indexes: _Indexes) -> Iterator[tuple[Row, _Result]]:
    found = rows(name, report)
    for row, known_by in zip(found, fingerprints(found), strict=True):
        place, fs = place_of(row, report), row.filesystem
        result = {
            **_rule(row.rule.code, indexes),
            "level": LEVELS[row.finding.severity],
            "message": {"text": message_text(_message(row))},
            "locations": [_location(place, name, fs)],
            "partialFingerprints": {_HASH: f"{known_by}:1"},
            "properties": _properties(row.finding),
        }
        if row.finding.suppression is not None:
            said = suppression_words(row.finding.suppression)
            kind = {"kind": "external", "status": "accepted", "justification": said}
            result["suppressions"] = [kind]
        if report.fixed is not None:
            result["baselineState"] = "unchanged" if row.finding.known else "new"
        yield row, result


def _rule(code: str, indexes: _Indexes) -> _Result:
    index = indexes.get(code)
    return {"ruleId": code} if index is None else {"ruleId": code, "ruleIndex": index}


def message_text(text: str) -> str:
    r"""Return text that holds neither placeholders nor links (SARIF 2.1.0, 3.11.5 and 3.11.6).

    A name may read `[click](http://…)`: its bracket is spelled `\x28`.
    """
    return text.replace("{", "{{").replace("}", "}}").replace("](", r"]\x28")


def _message(row: Row) -> str:
    """Return the sentence, the subject, the evidence, and the remedies without their commands.

    Commands are among the properties: braces are doubled in a message, which would break them.
    """
    subject = visible(f"Found on {row.host}, {row.where}.")
    evidence = "\n".join(f"- {line}" for line in evidence_lines(row.finding))
    remedies = "\n".join(remedy_lines(row.finding, commands=False))
    cited = f"Evidence:\n{evidence}" if evidence else ""
    blocks = (visible(row.finding.message), subject, cited, remedies)
    return "\n\n".join(block for block in blocks if block)


def _properties(finding: Finding) -> _Result:
    return {
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "fact": visible(finding.fact),
        "remedies": list(remedy_lines(finding, commands=True)),
    }


def _location(place: Place, host: str, fs: Filesystem | None) -> _Result:
    """Return the line of a file, of which the text is not known, and the superblock."""
    region = {"startLine": place.line, "startColumn": 1, "endLine": place.line, "endColumn": 1}
    return {
        "physicalLocation": {"artifactLocation": {"uri": place.path}, "region": region},
        "logicalLocations": [{"fullyQualifiedName": _qualified(host, fs), "kind": "resource"}],
    }


def _qualified(host: str, fs: Filesystem | None) -> str:
    """Return host, device and mount point: "db1//dev/md127//data"."""
    subject = () if fs is None else (fs.device, *fs.mount_points[:1])
    return visible("/".join((host, *subject)))


def _fixed(name: str, report: Report, indexes: _Indexes) -> Iterator[_Result]:
    """Yield the fixed findings; kind and level say that they are none any more (3.27.9, 3.27.10).

    A baseline tells what their filesystem was called: where one is called so still, it is that.
    """
    called = {where(fs): fs for fs in report.host.filesystems}
    for gone in report.fixed or ():
        fs = called.get(gone.subject)
        known_by = digest(name, gone.rule, _known_by(gone, fs), gone.fact)
        yield {
            **_rule(gone.rule, indexes),
            "kind": "pass",
            "level": "none",
            "message": {"text": message_text(visible(f"Fixed: {gone.message}"))},
            "locations": [_location(place_of_subject(name, fs, report), name, fs)],
            "partialFingerprints": {_HASH: f"{known_by}:1"},
            "baselineState": "absent",
        }


def _known_by(gone: GoneFinding, fs: Filesystem | None) -> str:
    if fs is not None:
        return superblock(fs)
    return "" if gone.subject == where(None) else gone.subject
