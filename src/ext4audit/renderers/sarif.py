"""SARIF 2.1.0 (OASIS, with errata 01): one run for all hosts, for GitHub code scanning.

GitHub rejects the whole file if one result has no physical location, so every result has one
(`shared.rows`); GitHub reads only the first. It turns every result into an alert, regardless of
`kind` and `suppressions` (microsoft/PSRule#955, github/codeql-action#1230). Accepted findings are
included, marked as suppressed for readers that evaluate this, and the action
advanced-security/dismiss-alerts closes them on GitHub. GitHub compares runs itself, so it is
better to upload results without a baseline: fixed findings are results too.

A gap is a notification of the invocation. A result would be an alert, and an omission would look
like a pass. The commands that a plan recommends are notifications, and properties of the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any, TypeAlias
from urllib.parse import quote

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding, Severity
from ext4audit.renderers import (
    Audited,
    Page,
    in_force,
    json_text,
    named_reports,
    visible,
)
from ext4audit.renderers.shared import evidence_lines, suppression_text
from ext4audit.renderers.shared.commands import remedy_lines
from ext4audit.renderers.shared.rows import (
    Location,
    Row,
    digest,
    fingerprints,
    fixed_findings,
    folder,
    gap_groups,
    location_of,
    location_of_subject,
    rank,
    rows,
    superblock,
)
from ext4audit.report import PlanAdvice, Report
from ext4audit.rule import Rule

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
MOST_RESULTS = 25_000
"""GitHub rejects a file with a larger run (docs: SARIF limits)."""
LEVELS: Mapping[Severity, str] = {
    Severity.CRITICAL: "error",
    Severity.HIGH: "error",
    Severity.MEDIUM: "warning",
    Severity.LOW: "note",
    Severity.INFO: "note",
}
_PROBLEM_SEVERITIES: Mapping[str, str] = {
    "error": "error",
    "warning": "warning",
    "note": "recommendation",
}
"""GitHub's severities of non-security rules (docs: SARIF support, reportingDescriptor)."""
_SECURITY_SCORES: Mapping[Severity, str] = {
    Severity.CRITICAL: "9.5",
    Severity.HIGH: "8.0",
    Severity.MEDIUM: "5.0",
    Severity.LOW: "2.0",
    Severity.INFO: "0.1",
}
"""Scores within GitHub's ranges for these names: above 9.0, from 7.0, from 4.0, from 0.1.

Every rule has a score, because a level does not distinguish critical from high.
"""
_FAMILIES: Mapping[str, str] = {
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
_IN_FORCE = {
    "policy": ("policy-file", "the policy in force is {}"),
    "knowledge": ("data-files", "newer data in force: {}"),
}
_MANUAL = re.compile(r"([a-z0-9_.-]+)\(([1-8])\)")
_MANUAL_URI = "https://man7.org/linux/man-pages/man{1}/{0}.{1}.html"
_LONGEST_DESCRIPTION = 1024
"""GitHub's limit for each description of a rule, in characters."""
_HASH = "primaryLocationLineHash"
"""The only fingerprint that GitHub reads; its value ends with ":1", in CodeQL's notation."""

_Result: TypeAlias = dict[str, Any]
_Indexes: TypeAlias = Mapping[str, int]


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return one log with one run; the text is ASCII."""
    return _log(_run(hosts, page))


def render_plan(report: Report, advice: PlanAdvice, page: Page) -> str:
    """Return the log of a plan, whose run has the recommended commands."""
    run = _run([Audited(report.source.label, report)], page)
    notified = run["invocations"][0]["toolExecutionNotifications"]
    for line in advice.lines:
        text = visible(f"Command to use: {line.purpose}: {line.command}")
        notified.append(_notification("plan", "note", text))
    commands = {line.key: line.command for line in advice.lines}
    return _log({**run, "properties": {"linesToUse": commands, "changes": list(advice.changes)}})


def _log(run: dict[str, Any]) -> str:
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _run(hosts: Sequence[Audited], page: Page) -> dict[str, Any]:
    rules = judging(hosts)
    found = results(hosts, {rule.code: index for index, rule in enumerate(rules)})
    driver = {
        "name": "ext4audit",
        "version": page.tool_version,
        **_information(),
        "rules": [descriptor(rule) for rule in rules],
    }
    return {
        "tool": {"driver": driver},
        "automationDetails": {"id": _category(hosts)},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(hosts, page, len(found) - MOST_RESULTS)],
        "results": found[:MOST_RESULTS],
    }


def _information() -> dict[str, str]:
    """Return the home page as `informationUri`, if the package metadata has it."""
    try:
        urls = metadata("ext4audit").get_all("Project-URL") or []
    except PackageNotFoundError:  # run from a source tree that is not installed
        return {}
    pages = dict(url.split(", ", 1) for url in urls)
    return {"informationUri": pages["Homepage"]} if "Homepage" in pages else {}


def _category(hosts: Sequence[Audited]) -> str:
    """Return the category of the run with a final "/", for the only host or the whole fleet."""
    return f"ext4audit/{quote(folder(hosts[0].name))}/" if len(hosts) == 1 else "ext4audit/"


def _invocation(hosts: Sequence[Audited], page: Page, left_out: int) -> dict[str, Any]:
    found = list(_gaps(hosts))
    if left_out > 0:
        sentence = f"{left_out} findings of the lowest severities are omitted: split the fleet."
        found.append(_notification("left-out", "error", sentence))
    invocation: dict[str, Any] = {
        "executionSuccessful": all(each["level"] != "error" for each in found),
        "toolExecutionNotifications": found,
        "toolConfigurationNotifications": list(_notices(hosts)),
    }
    return {**invocation, "endTimeUtc": page.taken_at} if page.taken_at else invocation


def _gaps(hosts: Sequence[Audited]) -> Iterator[dict[str, Any]]:
    for host in hosts:
        for group in gap_groups(host):
            kind = ("failed", "error") if group.is_error else ("not-determined", "warning")
            yield _notification(*kind, group.sentence)


def _notices(hosts: Sequence[Audited]) -> Iterator[dict[str, Any]]:
    for what, names in in_force(hosts).items():
        name, text = _IN_FORCE[what]
        yield _notification(name, "note", visible(text.format(names)))
    for host in hosts:
        for notice in host.report.notices if host.report else ():
            yield _notification("policy", "warning", visible(notice))


def _notification(name: str, level: str, sentence: str) -> dict[str, Any]:
    return {
        "descriptor": {"id": name},
        "level": level,
        "message": {"text": message_text(sentence)},
    }


def judging(hosts: Sequence[Audited]) -> tuple[Rule, ...]:
    """Return the rules that have a verdict, sorted by code."""
    reports = [host.report for host in hosts if host.report is not None]
    met = {verdict.rule.code: verdict.rule for report in reports for verdict in report.verdicts}
    return tuple(met[code] for code in sorted(met))


def descriptor(rule: Rule) -> dict[str, Any]:
    """Return a rule's descriptor; its help is the page that `explain` prints."""
    page = rule_page(rule)
    described: dict[str, Any] = {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": _cut(rule.summary or rule.name)},
        "fullDescription": {"text": _description(rule)},
        "help": {"text": page, "markdown": page},
        "defaultConfiguration": {"enabled": rule.default, "level": LEVELS[rule.severity]},
        "properties": _rule_properties(rule),
    }
    uri = _help_uri(rule)
    return {**described, "helpUri": uri} if uri else described


def _help_uri(rule: Rule) -> str | None:
    """Return the first URL among the references, otherwise that of the first manual page."""
    pages = [reference for reference in rule.references if reference.startswith("https://")]
    manuals = filter(None, map(_MANUAL.fullmatch, rule.references))
    found = (*pages, *(_MANUAL_URI.format(*manual.groups()) for manual in manuals))
    return next(iter(found), None)


def rule_page(rule: Rule) -> str:
    """Return a rule's page with its references, in Markdown."""
    references = "\n".join(f"- {reference}" for reference in rule.references)
    tail = f"\n\n## References\n\n{references}" if references else ""
    return f"{rule.summary or rule.name}\n\n{rule.page}{tail}\n"


def _description(rule: Rule) -> str:
    """Return what a rule checks, as one paragraph."""
    first = rule.page.partition("\n## Why")[0].removeprefix("## What it checks")
    return _cut(" ".join(first.split()) or rule.summary or rule.name)


def _cut(text: str) -> str:
    """Shorten a description to GitHub's limit, between two words if possible."""
    if len(text) <= _LONGEST_DESCRIPTION:
        return text
    kept = text[: _LONGEST_DESCRIPTION - 1]
    return f"{kept.rpartition(' ')[0] or kept}…"


def _family(rule: Rule) -> str:
    return "site" if rule.is_of_site else _FAMILIES.get(rule.family, rule.family.lower())


def _rule_properties(rule: Rule) -> dict[str, Any]:
    return {
        "tags": ["ext4", _family(rule)],
        "problem.severity": _PROBLEM_SEVERITIES[LEVELS[rule.severity]],
        "security-severity": _SECURITY_SCORES[rule.severity],
    }


def results(hosts: Sequence[Audited], indexes: _Indexes) -> list[_Result]:
    """Return all results: active findings, worst first, then those set aside, then fixed ones.

    `indexes` has the positions of the rules by code. MOST_RESULTS omits results from the end.
    """
    named = named_reports(hosts)
    present = [pair for name, report in named for pair in _present(name, report, indexes)]
    present.sort(key=lambda pair: (not pair[0].finding.counts, rank(pair[0])))
    fixed = [gone for name, report in named for gone in _fixed(name, report, indexes)]
    return [*(result for _, result in present), *fixed]


def _present(name: str, report: Report, indexes: _Indexes) -> Iterator[tuple[Row, _Result]]:
    found = rows(name, report)
    for row, fingerprint in zip(found, fingerprints(found), strict=True):
        result = {
            **_rule(row.rule.code, indexes),
            "level": LEVELS[row.finding.severity],
            "message": {"text": message_text(_message(row))},
            "locations": [_location(location_of(row, report), name, row.filesystem)],
            "partialFingerprints": {_HASH: f"{fingerprint}:1"},
            "properties": _result_properties(row.finding),
        }
        if row.finding.suppression is not None:
            reason = suppression_text(row.finding.suppression)
            accepted = {"kind": "external", "status": "accepted", "justification": reason}
            result["suppressions"] = [accepted]
        if report.fixed is not None:
            result["baselineState"] = "unchanged" if row.finding.known else "new"
        yield row, result


def _rule(code: str, indexes: _Indexes) -> _Result:
    index = indexes.get(code)
    return {"ruleId": code} if index is None else {"ruleId": code, "ruleIndex": index}


def message_text(text: str) -> str:
    r"""Escape placeholders and links in text (SARIF 2.1.0, 3.11.5 and 3.11.6).

    A name can contain `[click](http://…)`: the parenthesis becomes `\x28`.
    """
    return text.replace("{", "{{").replace("}", "}}").replace("](", r"]\x28")


def _message(row: Row) -> str:
    """Return the message, the subject, the evidence, and the remedies without their commands.

    The commands are in the properties, because the doubled braces of a message would break them.
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
        "fact": visible(finding.numbered_fact),
        "remedies": list(remedy_lines(finding, commands=True)),
    }


def _location(at: Location, host: str, fs: Filesystem | None) -> _Result:
    """Return the line in a file as physical location, and the filesystem as logical location."""
    region = {"startLine": at.line, "startColumn": 1, "endLine": at.line, "endColumn": 1}
    return {
        "physicalLocation": {"artifactLocation": {"uri": quote(at.path)}, "region": region},
        "logicalLocations": [{"fullyQualifiedName": _qualified(host, fs), "kind": "resource"}],
    }


def _qualified(host: str, fs: Filesystem | None) -> str:
    """Return host, device and mount point: "db1//dev/md127//data"."""
    subject = () if fs is None else (fs.device, *fs.mount_points[:1])
    return visible("/".join((host, *subject)))


def _fixed(name: str, report: Report, indexes: _Indexes) -> Iterator[_Result]:
    """Yield the fixed findings, which `kind` and `level` mark as passed (3.27.9, 3.27.10)."""
    for gone, fs in fixed_findings(report):
        subject = superblock(fs) if fs else gone.superblock
        fingerprint = digest(name, gone.rule, subject, gone.fact)
        yield {
            **_rule(gone.rule, indexes),
            "kind": "pass",
            "level": "none",
            "message": {"text": message_text(visible(f"Fixed: {gone.message}"))},
            "locations": [_location(location_of_subject(name, fs, report), name, fs)],
            "partialFingerprints": {_HASH: f"{fingerprint}:1"},
            "baselineState": "absent",
        }
