"""JUnit XML, in the part that GitLab, Jenkins and Bamboo have in common: there is no standard.

A suite is a host, a case is a rule on a mount point. A finding is a failure where it fails the
audit (`--fail-on`; of "never" all but information), because a reader of tests takes one failure
for a broken build. All others are skipped, with the reason: milder ones, those that the policy
accepts, and those that the baseline has. What could not be judged is skipped and says so; a rule
that broke and a host that could not be read are errors. Rules that do not apply are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ext4audit.renderers.escape import visible
from ext4audit.renderers.junit_cases import ERROR, FAILURE, SKIPPED, Case, cases
from ext4audit.renderers.page import Audited, Page
from ext4audit.renderers.rows import host_names

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
