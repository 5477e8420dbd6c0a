"""JUnit XML, in the part that GitLab, Jenkins and Bamboo have in common: there is no standard.

A suite is a host, a case is a rule on a mount point. A finding is a failure where it fails the
audit (`--fail-on`; of "never" all but information), because a reader of tests takes one failure
for a broken build. All others are skipped, with the reason: milder ones, those that the policy
accepts, and those that the baseline has. What could not be judged is skipped and says so; a rule
that broke and a host that could not be read are errors. Rules that do not apply are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding, Severity
from ext4audit.renderers.shared.escape import visible
from ext4audit.renderers.shared.page import Audited, Page
from ext4audit.renderers.shared.rows import host_names
from ext4audit.renderers.shared.subjects import evidence_lines, remedy_lines, suppression_words
from ext4audit.renderers.shared.words import why_words
from ext4audit.report import Outcome, Report, Verdict

FAILURE, SKIPPED, ERROR = "failure", "skipped", "error"
EVIDENCE = "evidence of the host"
"""The name of the case that tells whether the host could be seen at all."""
_HOST = "host"


class Case(NamedTuple):
    """A test case; `kind` is its one child element, None for a pass. Texts are safe to show.

    `category` is the severity of a failure, else what kind of trouble it is.
    """

    classname: str
    name: str
    kind: str | None = None
    category: str = ""
    message: str = ""
    lines: tuple[str, ...] = ()


def cases(name: str, host: Audited, threshold: Severity | None) -> tuple[Case, ...]:
    """Return a host's cases, no two with the same class and name: GitLab keeps the first only."""
    prefix = f"ext4audit.{visible(name)}"
    if host.report is None:
        said = visible(host.error or "no reason is known")
        message = f"could not be read: {said}"
        return (Case(f"{prefix}.{_HOST}", EVIDENCE, ERROR, "unread", message, (message,)),)
    classes = _classes(host.report)
    found = [_evidence(f"{prefix}.{_HOST}", host.report)]
    for verdict in host.report.verdicts:
        if verdict.outcome is not Outcome.NOT_APPLICABLE:
            where = classes[verdict.filesystem_id]
            found.append(_case(f"{prefix}.{where}", verdict, threshold or Severity.LOW))
    return tuple(_apart(found))


def _classes(report: Report) -> dict[str | None, str]:
    """Return what the subjects are called: mount points, with the device where two share one."""
    names = {fs.id: _name(fs) for fs in report.host.filesystems}
    often = Counter(names.values())
    told: dict[str | None, str] = {None: _HOST}
    for fs in report.host.filesystems:
        name = names[fs.id]
        told[fs.id] = name if often[name] == 1 else f"{name} ({visible(fs.device)})"
    return told


def _name(fs: Filesystem) -> str:
    return visible(fs.mount_points[0] if fs.mount_points else fs.device)


def _apart(found: Sequence[Case]) -> Iterator[Case]:
    met: Counter[tuple[str, str]] = Counter()
    for case in found:
        met[case[:2]] += 1
        number = met[case[:2]]
        yield case if number == 1 else case._replace(name=f"{case.name} #{number}")


def _evidence(classname: str, report: Report) -> Case:
    """Return whether the view of the host has gaps."""
    gaps = tuple(visible(f"{gap.what}: {why_words(gap)}") for gap in report.host.gaps)
    if not gaps:
        return Case(classname, EVIDENCE)
    message = f"not determined: {'; '.join(gaps)}"
    return Case(classname, EVIDENCE, SKIPPED, "undetermined", message, gaps)


def _case(classname: str, verdict: Verdict, least: Severity) -> Case:
    case = Case(classname, f"{verdict.rule.code} {verdict.rule.name}", lines=_lines(verdict))
    if verdict.outcome is Outcome.ERROR:
        said = visible((verdict.note or "").strip().rpartition("\n")[2])
        return case._replace(kind=ERROR, category="internal", message=f"the rule broke: {said}")
    failing = [f for f in verdict.findings if f.counts and f.severity.at_least(least)]
    if failing:
        return _failure(case, failing)
    reasons = [*_holes(verdict), *(_set_aside(finding) for finding in verdict.findings)]
    if reasons:
        category = "set aside" if verdict.findings else "undetermined"
        return case._replace(kind=SKIPPED, category=category, message="; ".join(reasons))
    return case


def _failure(case: Case, failing: Sequence[Finding]) -> Case:
    worst = min(failing, key=lambda finding: finding.severity.rank)
    more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
    message = f"{visible(worst.message)}{more}"
    return case._replace(kind=FAILURE, category=worst.severity.value, message=message)


def _holes(verdict: Verdict) -> Iterator[str]:
    """Yield why a verdict was not reached, or not wholly."""
    for unknown in dict.fromkeys(verdict.unknowns):
        yield visible(f"not determined: {unknown.what} ({why_words(unknown)})")
    if verdict.outcome is Outcome.UNDETERMINED and not verdict.unknowns:
        yield "not determined"


def _set_aside(finding: Finding) -> str:
    """Say why a finding is no failure."""
    why = f"{finding.severity.value}, which fails no audit here"
    if finding.suppression is not None:
        why = f"suppressed: {suppression_words(finding.suppression)}"
    elif finding.known:
        why = "in the baseline"
    return f"{visible(finding.message)} ({why})"


def _lines(verdict: Verdict) -> tuple[str, ...]:
    """Return all that a verdict says: findings with their remedies, holes, a traceback."""
    told = []
    for finding in verdict.findings:
        told.append(f"{finding.severity.value.upper()}: {visible(finding.message)}")
        told += [f"  {line}" for line in evidence_lines(finding)]
        told += [f"  {line}" for line in remedy_lines(finding, commands=True)]
    told += [*_holes(verdict), *dict.fromkeys(visible(u.hint) for u in verdict.unknowns if u.hint)]
    if verdict.outcome is Outcome.ERROR:
        told += [visible(line) for line in (verdict.note or "").strip().split("\n")]
    return tuple(told)


_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>'
_COUNTS = {"failures": FAILURE, "errors": ERROR, "skipped": SKIPPED}


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return the test suites; the text is ASCII, whatever the output can encode."""
    root = Element("testsuites", name="ext4audit", time=f"{page.seconds:.3f}")
    every: list[Case] = []
    for name, host in zip(host_names(hosts), hosts, strict=True):
        found = cases(name, host, page.threshold)
        _suite(root, name, page.taken_at, found)
        every += found
    root.attrib.update(_counts(every))
    indent(root)
    return (
        f"{_DECLARATION}\n{tostring(root, encoding='us-ascii', xml_declaration=False).decode()}\n"
    )


def _suite(root: Element, name: str, taken_at: str, found: Sequence[Case]) -> None:
    suite = SubElement(root, "testsuite", name=visible(name), hostname=visible(name))
    suite.attrib.update(_counts(found))
    if taken_at:
        # The schema of Ant's task knows no zone; the time is UTC.
        suite.set("timestamp", taken_at.removesuffix("Z"))
    for case in found:
        _add(suite, case)


def _counts(found: Sequence[Case]) -> dict[str, str]:
    met = Counter(case.kind for case in found)
    numbers = {key: str(met[kind]) for key, kind in _COUNTS.items()}
    return {"tests": str(len(found)), **numbers}


def _add(suite: Element, case: Case) -> None:
    element = SubElement(suite, "testcase", classname=case.classname, name=case.name)
    if case.kind is not None:
        child = SubElement(element, case.kind, message=case.message, type=case.category)
        child.text = "\n".join(case.lines)
