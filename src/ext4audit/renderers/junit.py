"""JUnit XML, limited to what GitLab, Jenkins and Bamboo all accept: there is no standard.

The strictest schema is that of Jenkins' xUnit plugin (junit-10.xsd in jenkinsci/xunit-plugin),
which rejects a file with an unknown attribute.

A suite is a host, a case is a rule on a mount point. A finding is a failure only if it fails the
audit (`--fail-on`; with "never", if its severity is above info), because readers of test reports
treat a failure as a broken build. Findings that are milder, suppressed or in the baseline are
skipped cases with the reason. So are verdicts that could not be determined. A rule that raised
an exception and a host that could not be read are errors. Rules that do not apply have no case.
A baseline finding that is fixed is a passed case, with the finding as its output. The commands
that a plan recommends are the output of its suite.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding, Severity
from ext4audit.renderers import Audited, Page, in_force, visible
from ext4audit.renderers.shared import (
    evidence_lines,
    suppression_text,
    why_text,
)
from ext4audit.renderers.shared.commands import remedy_lines
from ext4audit.renderers.shared.subjects import traceback_lines
from ext4audit.report import FixedFinding, Outcome, PlanAdvice, Report, Verdict

FAILURE, SKIPPED, ERROR = "failure", "skipped", "error"
EVIDENCE = "evidence of the host"
"""The name of the case that shows whether the host could be read at all."""
_HOST = "host"
_FIXED = "fixed since the baseline"
_OUTPUT = "system-out"
_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>'
_COUNTS: Mapping[str, str] = {"failures": FAILURE, "errors": ERROR}
"""Counters of the root and the suites; only suites have an attribute for skipped cases."""


class Case(NamedTuple):
    """A test case; `kind` is its result element, None for a pass. Texts are safe to display.

    `category` is the severity of a failure, otherwise the type of the skip or error.
    """

    classname: str
    name: str
    kind: str | None = None
    category: str = ""
    message: str = ""
    lines: tuple[str, ...] = ()
    """The text of the result, or the output of a case that passed."""


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return the test suites; the text is ASCII, which any output can encode."""
    return _text(_suites(hosts, page))


def render_plan(report: Report, advice: PlanAdvice, page: Page) -> str:
    """Return the test suite of a plan, with the recommended commands as its output."""
    root = _suites([Audited(report.source.label, report)], page)
    lines = [visible(f"{line.purpose}: {line.command}") for line in advice.lines]
    SubElement(root[0], _OUTPUT).text = "\n".join(lines)
    return _text(root)


def _text(root: Element) -> str:
    indent(root)
    text = tostring(root, encoding="us-ascii", xml_declaration=False).decode()
    return f"{_DECLARATION}\n{text}\n"


def _suites(hosts: Sequence[Audited], page: Page) -> Element:
    root = Element("testsuites", name="ext4audit", time=f"{page.seconds:.3f}")
    every: list[Case] = []
    for host in hosts:
        found = cases(host, page.threshold)
        _add_suite(root, host, page.taken_at, found)
        every += found
    root.attrib.update(_counts(every))
    return root


def _add_suite(root: Element, host: Audited, taken_at: str, found: Sequence[Case]) -> None:
    name = visible(host.name)
    suite = SubElement(root, "testsuite", name=name, hostname=name)
    suite.attrib.update(_counts(found))
    suite.set("skipped", str(sum(case.kind == SKIPPED for case in found)))
    if taken_at:
        # The schema of Ant's task has no time zone; the time is UTC.
        suite.set("timestamp", taken_at.removesuffix("Z"))
    named = in_force([host])
    if named:
        # The schema of Ant's task requires the properties before the cases.
        properties = SubElement(suite, "properties")
        for what, names in named.items():
            SubElement(properties, "property", name=what, value=visible(names))
    for case in found:
        _add_case(suite, case)


def _counts(found: Sequence[Case]) -> dict[str, str]:
    kinds = Counter(case.kind for case in found)
    numbers = {key: str(kinds[kind]) for key, kind in _COUNTS.items()}
    return {"tests": str(len(found)), **numbers}


def _add_case(suite: Element, case: Case) -> None:
    element = SubElement(suite, "testcase", classname=case.classname, name=case.name)
    if case.kind is not None:
        child = SubElement(element, case.kind, message=case.message, type=case.category)
        child.text = "\n".join(case.lines)
    elif case.lines:
        SubElement(element, _OUTPUT).text = "\n".join(case.lines)


def cases(host: Audited, threshold: Severity | None) -> tuple[Case, ...]:
    """Return a host's cases; class and name are unique, since GitLab drops later duplicates."""
    prefix = f"ext4audit.{visible(host.name)}"
    if host.report is None:
        message = f"could not be read: {visible(host.error or 'no reason is known')}"
        return (Case(f"{prefix}.{_HOST}", EVIDENCE, ERROR, "unread", message, (message,)),)
    classes = _classes(host.report)
    found = [_evidence(f"{prefix}.{_HOST}", host.report)]
    for verdict in host.report.verdicts:
        if verdict.outcome is not Outcome.NOT_APPLICABLE:
            where = classes[verdict.filesystem_id]
            found.append(_case(f"{prefix}.{where}", verdict, threshold or Severity.LOW))
    found += [_fixed(f"{prefix}.{_FIXED}", gone) for gone in host.report.fixed or ()]
    return tuple(_unique(found))


def _fixed(classname: str, gone: FixedFinding) -> Case:
    """Return the passed case of a fixed finding."""
    fact = f" ({gone.fact})" if gone.fact else ""
    name = visible(f"{gone.rule} on {gone.subject}{fact}")
    return Case(classname, name, lines=(visible(f"Fixed: {gone.message}"),))


def _classes(report: Report) -> dict[str | None, str]:
    """Return the name of each subject: its mount point, plus its device if two share the name."""
    names = {fs.id: _name(fs) for fs in report.host.filesystems}
    often = Counter(names.values())
    classes: dict[str | None, str] = {None: _HOST}
    for fs in report.host.filesystems:
        name = names[fs.id]
        classes[fs.id] = name if often[name] == 1 else f"{name} ({visible(fs.device)})"
    return classes


def _name(fs: Filesystem) -> str:
    return visible(fs.mount_points[0] if fs.mount_points else fs.device)


def _unique(found: Sequence[Case]) -> Iterator[Case]:
    met: Counter[tuple[str, str]] = Counter()
    for case in found:
        met[case[:2]] += 1
        number = met[case[:2]]
        yield case if number == 1 else case._replace(name=f"{case.name} #{number}")


def _evidence(classname: str, report: Report) -> Case:
    """Return the case of the host itself, which is skipped if the host has gaps."""
    gaps = tuple(visible(f"{gap.what}: {why_text(gap)}") for gap in report.host.gaps)
    if not gaps:
        return Case(classname, EVIDENCE)
    message = f"not determined: {'; '.join(gaps)}"
    return Case(classname, EVIDENCE, SKIPPED, "undetermined", message, gaps)


def _case(classname: str, verdict: Verdict, least: Severity) -> Case:
    case = Case(classname, verdict.rule.title, lines=_lines(verdict))
    if verdict.outcome is Outcome.ERROR:
        error = visible(traceback_lines(verdict)[-1])
        return case._replace(
            kind=ERROR, category="internal", message=f"the rule stopped with an error: {error}"
        )
    failing = [f for f in verdict.findings if f.counts and f.severity.at_least(least)]
    if failing:
        return _failure(case, failing)
    reasons = [*_gaps(verdict), *(_set_aside(finding) for finding in verdict.findings)]
    if reasons:
        category = "set aside" if verdict.findings else "undetermined"
        return case._replace(kind=SKIPPED, category=category, message="; ".join(reasons))
    return case


def _failure(case: Case, failing: Sequence[Finding]) -> Case:
    worst = min(failing, key=lambda finding: finding.severity.rank)
    more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
    message = f"{visible(worst.message)}{more}"
    return case._replace(kind=FAILURE, category=worst.severity.value, message=message)


def _gaps(verdict: Verdict) -> Iterator[str]:
    """Yield why a verdict is partly or wholly undetermined."""
    for unknown in dict.fromkeys(verdict.unknowns):
        yield visible(f"not determined: {unknown.what} ({why_text(unknown)})")
    if verdict.outcome is Outcome.UNDETERMINED and not verdict.unknowns:
        yield "not determined"


def _set_aside(finding: Finding) -> str:
    """Return the message of a finding and why it is not a failure."""
    why = f"{finding.severity.value}: below the threshold"
    if finding.suppression is not None:
        why = f"suppressed: {suppression_text(finding.suppression)}"
    elif finding.known:
        why = "in the baseline"
    return f"{visible(finding.message)} ({why})"


def _lines(verdict: Verdict) -> tuple[str, ...]:
    """Return the body of a case: findings with their remedies, gaps, and a traceback."""
    lines = []
    for finding in verdict.findings:
        lines.append(f"{finding.severity.value.upper()}: {visible(finding.message)}")
        lines += [f"  {line}" for line in evidence_lines(finding)]
        lines += [f"  {line}" for line in remedy_lines(finding, commands=True)]
    lines += [*_gaps(verdict), *dict.fromkeys(visible(u.hint) for u in verdict.unknowns if u.hint)]
    if verdict.outcome is Outcome.ERROR:
        lines += [visible(line) for line in traceback_lines(verdict)]
    return tuple(lines)
