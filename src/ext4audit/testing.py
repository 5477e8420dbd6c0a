"""Helpers for tests of site rules: load a file, judge a captured host, withhold evidence.

    from ext4audit.testing import load_rules, problems, verdicts

    (rule,) = load_rules("xac001_data_label.py")
    assert not problems(rule)
    assert [each.outcome.value for each in verdicts(rule, "db1.snapshot")] == ["pass", "fail"]
    assert not unheeded(rule, "db1.snapshot")

Nothing here reads the machine that runs the tests, apart from the given files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import audit
from ext4audit.evidence import Unknown, Why
from ext4audit.facts import decoded
from ext4audit.facts.host import Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.policy.site_rules import SiteRuleError, declaration_errors, rules_of_text
from ext4audit.report import Outcome, ReportSource, Verdict
from ext4audit.rule import Rule
from ext4audit.sources import Answer, Ask, describe
from ext4audit.sources.captured import MapSource, open_captured
from ext4audit.sources.snapshot.writing import RecordingSource

__all__ = ["SiteRuleError", "host_of", "load_rules", "problems", "unheeded", "verdicts"]
HEADINGS = ("What it checks", "Why it matters", "Remedy", "When to ignore")
"""The headings that the page of every built-in rule has."""
CALM = frozenset({Outcome.PASS, Outcome.NOT_APPLICABLE})
StrPath = str | os.PathLike[str]


def load_rules(path: StrPath) -> tuple[Rule, ...]:
    """Return the rules of a file as a policy loads them. Raises SiteRuleError or OSError."""
    raw = Path(path).read_bytes()
    try:
        text = decoded(raw)
    except ValueError as error:
        raise SiteRuleError(f"{path}: {error}") from None
    return rules_of_text(text, os.fspath(path))


def problems(rule: Rule) -> tuple[str, ...]:
    """Return what is wrong or missing in a rule's declaration and page, as one text each."""
    found = re.findall(r"^## (.*)$", rule.page, re.MULTILINE)
    missing = [f"its page has no heading {head!r}" for head in HEADINGS if head not in found]
    unsourced = [] if rule.references else ["it has no references"]
    return (*declaration_errors(rule), *missing, *unsourced)


def host_of(snapshot: StrPath, *, without: Collection[str] = ()) -> Host:
    """Return the facts of a captured host. Raises ArchiveError if it cannot be read.

    `without` names evidence to deny: paths of files and command lines, as reports cite them
    ("/proc/fs/ext4/sda1/options", "dumpe2fs -h /dev/sda1"). Raises ValueError for a name that the
    capture does not have, because the test would then judge the host with all its evidence.
    """
    answers = _answers(snapshot)
    known = {describe(ask) for ask in answers}
    for each in without:
        if each not in known:
            near = "".join(f" (did you mean {one}?)" for one in get_close_matches(each, known, 1))
            raise ValueError(f"{os.fspath(snapshot)}: no answer is called {each!r}{near}")
    left = {ask: answer for ask, answer in answers.items() if describe(ask) not in without}
    refused = {ask: _refused(ask) for ask in answers.keys() - left.keys()}
    return assemble_host(MapSource({**left, **refused}), TAKEN_AT)


def verdicts(
    rule: Rule, snapshot: StrPath, *, without: Collection[str] = ()
) -> tuple[Verdict, ...]:
    """Return the verdicts of a rule on a captured host; raises the errors of `host_of`."""
    return _judged(rule, host_of(snapshot, without=without))


def unheeded(rule: Rule, snapshot: StrPath) -> tuple[str, ...]:
    """Return the evidence without which a rule judges more mildly; it should be none.

    Each item of the host's evidence is denied once. The rule misjudges missing evidence if its
    verdict then changes to a pass or to not applicable, or if it has fewer or milder findings and
    reports no unknown. Raises ArchiveError.
    """
    answers = _answers(snapshot)
    before = _by_number(rule, MapSource(answers))
    found = []
    for ask in answers:
        after = _by_number(rule, MapSource({**answers, ask: _refused(ask)}))
        if any(_is_calmer(after[key], before.get(key)) for key in after):
            found.append(describe(ask))
    return tuple(found)


def _is_calmer(after: Verdict, before: Verdict | None) -> bool:
    """Whether a verdict is milder than the one with more evidence and reports no unknown."""
    if after.outcome in CALM:
        return before is None or after.outcome is not before.outcome
    if before is None or after.unknowns or after.outcome is not Outcome.FAIL:
        return False
    left = {each.numbered_fact: each.severity for each in after.findings}
    return any(
        each.numbered_fact not in left or not left[each.numbered_fact].at_least(each.severity)
        for each in before.findings
    )


TAKEN_AT = "2026-01-01T00:00:00Z"
Key = DeviceNumber | None


def _answers(snapshot: StrPath) -> dict[Ask, Answer]:
    """Return all recorded answers that an audit of a captured host uses."""
    recording = RecordingSource(open_captured(os.fspath(snapshot)).source)
    assemble_host(recording, TAKEN_AT)
    return dict(recording.answers)


def _refused(ask: Ask) -> Unknown:
    return Unknown(describe(ask), Why.DENIED, "permission denied", "run as root")


def _judged(rule: Rule, host: Host) -> tuple[Verdict, ...]:
    return audit(ReportSource("snapshot", "test"), host, (rule,)).verdicts


def _by_number(rule: Rule, source: MapSource) -> dict[Key, Verdict]:
    """Return the verdicts by device number: the id changes if the superblock is denied."""
    host = assemble_host(source, TAKEN_AT)
    numbers = {fs.id: fs.device_number for fs in host.filesystems}
    return {numbers.get(each.filesystem_id or ""): each for each in _judged(rule, host)}
