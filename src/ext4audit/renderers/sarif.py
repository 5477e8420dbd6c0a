"""SARIF 2.1.0 (OASIS, with errata 01): one run for all hosts, as GitHub's code scanning takes it.

GitHub refuses a whole file for one result without a physical location, so every result has one
(places.py); only the first counts there. It makes an alert of a result whatever `kind` and
`suppressions` say (microsoft/PSRule#955, github/codeql-action#1230): accepted findings stay,
marked for readers that look, and the action advanced-security/dismiss-alerts closes them there.
GitHub compares runs itself: what is uploaded to it is better made without a baseline, whose
fixed findings are results too.

What could not be judged is a notification of the invocation: a result would be an alert, and
nothing at all would look like a pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding, Severity
from ext4audit.renderers.shared.escape import visible
from ext4audit.renderers.shared.page import Audited, Page
from ext4audit.renderers.shared.places import (
    Place,
    digest,
    fingerprints,
    place_of,
    place_of_subject,
    segment,
    superblock,
)
from ext4audit.renderers.shared.rows import Row, host_names, rank, rows, where
from ext4audit.renderers.shared.subjects import (
    blind_groups,
    evidence_lines,
    remedy_lines,
    suppression_words,
)
from ext4audit.report import FixedFinding, Report
from ext4audit.rule import Rule

LEVELS = MappingProxyType(
    {
        Severity.CRITICAL: "error",
        Severity.HIGH: "error",
        Severity.MEDIUM: "warning",
        Severity.LOW: "note",
        Severity.INFO: "note",
    }
)
_PROBLEM_SEVERITIES = MappingProxyType(
    {"error": "error", "warning": "warning", "note": "recommendation"}
)
"""How GitHub sorts rules that are not about security (docs: SARIF support, reportingDescriptor)."""
_SECURITY_SCORES = MappingProxyType(
    {
        Severity.CRITICAL: "9.5",
        Severity.HIGH: "8.0",
        Severity.MEDIUM: "5.0",
        Severity.LOW: "2.0",
        Severity.INFO: "0.1",
    }
)
"""The middle of what GitHub calls by these names: beyond 9.0, from 7.0, from 4.0, from 0.1."""
_FAMILIES = MappingProxyType(
    {
        "CAP": "capacity",
        "CMP": "compatibility",
        "DRF": "configuration-drift",
        "DUR": "durability",
        "HLT": "health",
        "KRN": "kernel",
        "LAY": "layout",
        "PRF": "performance",
        "SEC": "security",
    }
)
_LONGEST_DESCRIPTION = 1024
"""Characters that GitHub takes of `fullDescription.text`."""


def judging(hosts: Sequence[Audited]) -> tuple[Rule, ...]:
    """Return the rules that judged anything, by code."""
    reports = [host.report for host in hosts if host.report is not None]
    met = {verdict.rule.code: verdict.rule for report in reports for verdict in report.verdicts}
    return tuple(met[code] for code in sorted(met))


def descriptor(rule: Rule) -> dict[str, Any]:
    """Return a rule's descriptor; its help is the rule's page, as `explain` prints it."""
    page = rule_page(rule)
    told: dict[str, Any] = {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary or rule.name},
        "fullDescription": {"text": _description(rule)},
        "help": {"text": page, "markdown": page},
        "defaultConfiguration": {"enabled": rule.default, "level": LEVELS[rule.severity]},
        "properties": _rule_properties(rule),
    }
    pages = [reference for reference in rule.references if reference.startswith("https://")]
    return {**told, "helpUri": pages[0]} if pages else told


def rule_page(rule: Rule) -> str:
    """Return a rule's page with its references, in Markdown."""
    references = "\n".join(f"- {reference}" for reference in rule.references)
    tail = f"\n\n## References\n\n{references}" if references else ""
    return f"{rule.summary or rule.name}\n\n{rule.page}{tail}\n"


def _description(rule: Rule) -> str:
    """Return what a rule checks in one paragraph, cut between two words where it is too long."""
    first = rule.page.partition("\n## Why")[0].removeprefix("## What it checks")
    text = " ".join(first.split()) or rule.summary or rule.name
    if len(text) <= _LONGEST_DESCRIPTION:
        return text
    return f"{text[: _LONGEST_DESCRIPTION - 1].rpartition(' ')[0]}…"


def _rule_properties(rule: Rule) -> dict[str, Any]:
    level = LEVELS[rule.severity]
    family = _FAMILIES.get(rule.family, rule.family.lower())
    told: dict[str, Any] = {
        "tags": ["ext4", family],
        "problem.severity": _PROBLEM_SEVERITIES[level],
    }
    if rule.family == "SEC":
        told["security-severity"] = _SECURITY_SCORES[rule.severity]
    return told


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
            "properties": _result_properties(row.finding),
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


def _result_properties(finding: Finding) -> _Result:
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


def _known_by(gone: FixedFinding, fs: Filesystem | None) -> str:
    if fs is not None:
        return superblock(fs)
    return "" if gone.subject == where(None) else gone.subject


SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
MOST_RESULTS = 25_000
"""GitHub refuses a file with a run of more (docs: SARIF limits)."""


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return one log with one run; the text is ASCII."""
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(hosts, page)]}
    return json.dumps(log, ensure_ascii=True, indent=2) + "\n"


def _run(hosts: Sequence[Audited], page: Page) -> dict[str, Any]:
    rules = judging(hosts)
    found = results(hosts, {rule.code: index for index, rule in enumerate(rules)})
    driver = {
        "name": "ext4audit",
        "version": page.tool_version,
        "rules": [descriptor(rule) for rule in rules],
    }
    return {
        "tool": {"driver": driver},
        "automationDetails": {"id": _category(hosts)},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(hosts, page, len(found) - MOST_RESULTS)],
        "results": found[:MOST_RESULTS],
    }


def _category(hosts: Sequence[Audited]) -> str:
    """Return the category of the run, ended by "/": that of its only host, or of the fleet."""
    names = host_names(hosts)
    return f"ext4audit/{segment(names[0])}/" if len(names) == 1 else "ext4audit/"


def _invocation(hosts: Sequence[Audited], page: Page, left_out: int) -> dict[str, Any]:
    blind = list(_blind(hosts))
    if left_out > 0:
        sentence = f"{left_out} findings, the mildest ones, are left out: split the fleet."
        blind.append(_notification("left-out", "error", sentence))
    told: dict[str, Any] = {
        "executionSuccessful": all(each["level"] != "error" for each in blind),
        "toolExecutionNotifications": blind,
        "toolConfigurationNotifications": list(_notices(hosts)),
    }
    return {**told, "endTimeUtc": page.taken_at} if page.taken_at else told


def _blind(hosts: Sequence[Audited]) -> Iterator[dict[str, Any]]:
    for name, host in zip(host_names(hosts), hosts, strict=True):
        for group in blind_groups(host, name):
            kind = ("failed", "error") if group.is_error else ("not-determined", "warning")
            yield _notification(*kind, group.sentence)


def _notices(hosts: Sequence[Audited]) -> Iterator[dict[str, Any]]:
    for host in hosts:
        for notice in host.report.notices if host.report else ():
            yield _notification("policy", "warning", visible(notice))


def _notification(name: str, level: str, sentence: str) -> dict[str, Any]:
    return {
        "descriptor": {"id": name},
        "level": level,
        "message": {"text": message_text(sentence)},
    }
