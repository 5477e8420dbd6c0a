"""Every fixture host as an archive of each form has the snapshot's report.

Except for missing evidence. All losses of files are tried if EXT4AUDIT_LAW is "all", otherwise
the same sample in each run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TypeVar

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import audit
from ext4audit.report import Outcome, Report, ReportSource, Verdict
from ext4audit.rules import all_rules
from support.archives.contents import Files, recognised
from support.archives.forms import FORMS, Form
from support.archives.of_snapshot import Contents, contents_of
from support.hosts.law import Key, by_device, changes
from support.hosts.stories import captured, some_stories

K = TypeVar("K")
SAMPLED = None if os.environ.get("EXT4AUDIT_LAW") == "all" else 2
WHOLE_WHEREVER_THEY_END = ("etc/fstab", "etc/os-release")
WITHOUT_A_SUPERBLOCK = "CAP003: pass, then not_applicable"
"""It passes because of a feature; without the superblock the size alone excludes the problem."""
every_form = pytest.mark.parametrize("form", FORMS)


@cache
def contents(story: str) -> Contents:
    """Return what a program would have captured from a story's host."""
    source, taken_at = captured(story)
    return contents_of(source._answers, taken_at)


@cache
def expected(story: str) -> Mapping[Key, Verdict]:
    """Return the verdicts of the snapshot."""
    host = assemble_host(*captured(story))
    return by_device(audit(ReportSource("snapshot", "x"), host, all_rules()))


def report_of(files: Mapping[str, str], form: Form) -> Report:
    """Audit an archive with all rules."""
    found = recognised(dict(files), form.links)
    host = assemble_host(found.source, found.taken_at)
    return audit(ReportSource(found.kind, "x"), host, all_rules())


@every_form
@some_stories(__name__)
def test_an_archive_says_what_the_snapshot_says(story: str, form: str) -> None:
    """Outcome and severities are equal unless the archive has less evidence."""
    made = FORMS[form]
    found = by_device(report_of(made.write(contents(story)), made))
    assert found.keys() == expected(story).keys()
    differ = {
        key[0]: (expected(story)[key].outcome.value, verdict.outcome.value)
        for key, verdict in found.items()
        if verdict.outcome not in {expected(story)[key].outcome, Outcome.UNDETERMINED}
        and expected(story)[key].outcome is not Outcome.UNDETERMINED
    }
    assert differ == {}


def losses(story: str, form: Form, chance: random.Random) -> Iterator[tuple[str, Files]]:
    """Yield the rest after removing one capture, a file, a folder, or the end of a file."""
    files, outputs = contents(story)
    for path in files:
        yield f"without {path}", form.write(Contents(_without(files, path), outputs))
    for run in outputs:
        yield f"without {run[1]}", form.write(Contents(files, _without(outputs, run)))
    written = form.write(contents(story))
    for gone in sorted({*written, *(name.rpartition("/")[0] + "/" for name in written)}):
        left = {name: text for name, text in written.items() if not name.startswith(gone)}
        yield f"without {gone}", left
    for name, text in written.items():
        if form.shows_ends and not name.endswith(WHOLE_WHEREVER_THEY_END):
            for end in _ends(text, chance):
                yield f"{name} cut at {end}", {**written, name: text[:end]}


def _without(items: Mapping[K, str], gone: K) -> dict[K, str]:
    return {key: value for key, value in items.items() if key != gone}


def _ends(text: str, chance: random.Random) -> tuple[int, ...]:
    inside = [at for at in range(1, len(text)) if "\n" not in text[at - 1 : at + 1]]
    return (0, *chance.sample(inside, min(len(inside), 2)))


@every_form
@some_stories(__name__)
def test_who_gets_less_of_an_archive_is_not_calmer(story: str, form: str) -> None:
    """Losing a file, a folder, or the end of a file never removes a finding or an unknown."""
    made, chance = FORMS[form], random.Random(story + form)  # noqa: S311
    before = report_of(made.write(contents(story)), made)
    every = dict(losses(story, made, chance))
    broken = {}
    for loss in chance.sample(sorted(every), SAMPLED or len(every)):
        if not any(made.mark in name for name in every[loss]):
            continue  # no longer an archive of this form
        calmer = changes(before, report_of(every[loss], made))
        if shown := [each for each in calmer if each != WITHOUT_A_SUPERBLOCK]:
            broken[loss] = shown
    assert broken == {}
