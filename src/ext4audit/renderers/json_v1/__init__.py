"""JSON, version 1: the report as one object of a stable shape, described by schema-1.1.json.

Additive changes raise the minor version, all others the major version. New keys are added at the
end of their object, so the order of the older ones never changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pkgutil import get_data
from typing import Any

from ext4audit.evidence import for_wording
from ext4audit.facts.host import Host
from ext4audit.finding import Severity
from ext4audit.renderers import Audited, Page, json_text
from ext4audit.renderers.json_v1.objects import filesystem_object, unknown_object, verdict_object
from ext4audit.report import FixedFinding, Outcome, PlanAdvice, Report, filesystems_by_fact

SCHEMA_VERSION = "1.1"


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return the only host's report as ASCII JSON; raises ValueError if it has none."""
    (host,) = hosts
    if host.report is None:
        raise ValueError(f"{host.label} has no report")
    return render_report(host.report, tool_version=page.tool_version)


def render_report(report: Report, *, tool_version: str) -> str:
    """Return a report as one JSON object and a newline; the text is ASCII."""
    return json_text(report_object(report, tool_version=tool_version))


def render_plan(report: Report, advice: PlanAdvice, page: Page) -> str:
    """Return the report of a plan as one JSON object and a newline; the text is ASCII."""
    return json_text(plan_object(report, advice, page))


def plan_object(report: Report, advice: PlanAdvice, page: Page) -> dict[str, Any]:
    """Return the report of a plan as JSON values."""
    document = report_object(report, tool_version=page.tool_version)
    return {**document, "plan": _plan(advice)}


def schema_text(name: str = "schema-1.1.json") -> str:
    """Return the JSON Schema (2020-12) to which every rendered report conforms.

    "schema-unread-1.0.json" is that of the line of NDJSON for a source without a report. Raises
    FileNotFoundError without data.
    """
    # get_data also reads from a zip archive, at half the start-up cost of importlib.resources.
    data = get_data(__name__, name)
    if data is None:
        raise FileNotFoundError(name)
    return data.decode("utf-8")


def report_object(report: Report, *, tool_version: str) -> dict[str, Any]:
    """Return the report as JSON values, in which text that is not UTF-8 still has surrogates."""
    by_fact = filesystems_by_fact(report.host)
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "ext4audit", "version": tool_version},
        "source": {
            "kind": report.source.kind,
            "label": report.source.label,
            "taken_at": report.host.taken_at,
            "key": report.key,
            "groups": list(report.source.groups),
        },
        "host": _host(report.host),
        "complete": report.complete,
        "summary": _summary(report),
        "filesystems": [filesystem_object(fs) for fs in report.host.filesystems],
        "verdicts": [verdict_object(each, fs, by_fact) for each, fs in report.judged],
        "gaps": [unknown_object(gap) for gap in report.host.gaps],
        "fixed": None if report.fixed is None else [_fixed(each) for each in report.fixed],
        "notices": list(report.notices),
        "profiles": [
            {"name": active.profile.name, "mount_points": active.place}
            for active in report.host.profiles
        ],
        "policy": report.policy,
        "knowledge": [
            {"path": each.path, "table": each.table, "date": each.dated}
            for each in report.knowledge
        ],
    }


def _fixed(fixed: FixedFinding) -> dict[str, Any]:
    return {
        "rule": fixed.rule,
        "subject": fixed.subject,
        "fact": fixed.fact,
        "message": fixed.message,
    }


def _host(host: Host) -> dict[str, Any]:
    kernel = for_wording(host.kernel, None)
    system = for_wording(host.os, None)
    return {
        "name": host.name,
        "kernel_release": kernel.release if kernel else None,
        "os_id": (system.id or None) if system else None,
        "os_version": (system.version_id or None) if system else None,
        "virtualization": for_wording(host.virtualization, None),
        "container": for_wording(host.container, None),
        "os_name": (system.pretty_name or None) if system else None,
    }


def _summary(report: Report) -> dict[str, Any]:
    outcomes = Counter(verdict.outcome for verdict in report.verdicts)
    severities = Counter(f.severity for f in report.findings if f.suppression is None)
    return {
        **{outcome.value: outcomes[outcome] for outcome in Outcome},
        "suppressed": report.suppressed,
        "findings": {severity.value: severities[severity] for severity in Severity},
        "known": sum(finding.known for finding in report.findings),
        "fixed": None if report.fixed is None else len(report.fixed),
    }


def _plan(advice: PlanAdvice) -> dict[str, Any]:
    """Return the commands of a plan by key, with its changes and assumptions."""
    return {
        "basis": advice.basis,
        "assumed": list(advice.assumed),
        "corrected": bool(advice.changes),
        "changes": list(advice.changes),
        "clean": advice.clean,
        "left": list(advice.left),
        "lines": {line.key: line.command for line in advice.lines},
    }
