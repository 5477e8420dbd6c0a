"""For tests of rules of one's own: load a file, judge a captured host, take evidence away.

    from ext4audit.testing import load_rules, problems, verdicts

    (rule,) = load_rules("xac001_data_label.py")
    assert not problems(rule)
    assert [each.outcome.value for each in verdicts(rule, "db1.snapshot")] == ["pass", "fail"]
    assert not unheeded(rule, "db1.snapshot")

Nothing here reads the machine that runs the tests, but for the files that are named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import audit
from ext4audit.evidence import Unknown, Why
from ext4audit.facts.host import Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.policy.site_rules import SiteRuleError, declared_wrong, rules_of_text
from ext4audit.report import Outcome, ReportSource, Verdict
from ext4audit.rule import Rule
from ext4audit.sources import Answer, Ask, describe
from ext4audit.sources.captured import MapSource, open_captured
from ext4audit.sources.snapshot.writing import RecordingSource

__all__ = ["SiteRuleError", "host_of", "load_rules", "problems", "unheeded", "verdicts"]
HEADINGS = ("What it checks", "Why it matters", "Remedy", "When to ignore")
"""The headings of the page of every built-in rule."""
CALM = frozenset({Outcome.PASS, Outcome.NOT_APPLICABLE})
StrPath = str | os.PathLike[str]


def load_rules(path: StrPath) -> tuple[Rule, ...]:
    """Return the rules of a file, as a policy loads them; raises SiteRuleError, OSError."""
    return rules_of_text(Path(path).read_text(encoding="utf-8"), os.fspath(path))


def problems(rule: Rule) -> tuple[str, ...]:
    """Return what is wrong or missing in the declaration of a rule and in its page."""
    found = re.findall(r"^## (.*)$", rule.page, re.MULTILINE)
    missing = [f"its page has no heading {head!r}" for head in HEADINGS if head not in found]
    unsourced = [] if rule.references else ["it has no references"]
    return (*declared_wrong(rule), *missing, *unsourced)


def host_of(snapshot: StrPath, *, without: Collection[str] = ()) -> Host:
    """Return the facts of a captured host; raises ArchiveError.

    `without` are answers that are refused: paths of files and lines of commands, as reports cite
    them ("/proc/fs/ext4/sda1/options", "dumpe2fs -h /dev/sda1").
    """
    answers = _answers(snapshot)
    left = {ask: answer for ask, answer in answers.items() if describe(ask) not in without}
    refused = {ask: _refused(ask) for ask in answers.keys() - left.keys()}
    return assemble_host(MapSource({**left, **refused}), TAKEN_AT)


def verdicts(
    rule: Rule, snapshot: StrPath, *, without: Collection[str] = ()
) -> tuple[Verdict, ...]:
    """Return the verdicts of a rule on a captured host; raises ArchiveError."""
    return _judged(rule, host_of(snapshot, without=without))


def unheeded(rule: Rule, snapshot: StrPath) -> tuple[str, ...]:
    """Return the answers without which a rule judges more calmly: there should be none.

    Each answer of the host is refused once. A rule that then passes, or does not apply, and said
    otherwise before, takes the lack of evidence for good news. Raises ArchiveError.
    """
    answers = _answers(snapshot)
    before = _outcomes(rule, MapSource(answers))
    found = []
    for ask in answers:
        after = _outcomes(rule, MapSource({**answers, ask: _refused(ask)}))
        if any(after[key] in CALM and after[key] is not before.get(key) for key in after):
            found.append(describe(ask))
    return tuple(found)


TAKEN_AT = "2026-01-01T00:00:00Z"
Key = DeviceNumber | None


def _answers(snapshot: StrPath) -> dict[Ask, Answer]:
    """Return all answers that an audit of a captured host uses."""
    recording = RecordingSource(open_captured(os.fspath(snapshot)).source)
    assemble_host(recording, TAKEN_AT)
    return dict(recording.answers)


def _refused(ask: Ask) -> Unknown:
    return Unknown(describe(ask), Why.DENIED, "permission denied", "run as root")


def _judged(rule: Rule, host: Host) -> tuple[Verdict, ...]:
    return audit(ReportSource("snapshot", "test"), host, (rule,)).verdicts


def _outcomes(rule: Rule, source: MapSource) -> dict[Key, Outcome]:
    """Return the outcomes by the number of the device: without a superblock, the id is another."""
    host = assemble_host(source, TAKEN_AT)
    numbers = {fs.id: fs.device_number for fs in host.filesystems}
    return {numbers.get(each.filesystem_id or ""): each.outcome for each in _judged(rule, host)}
