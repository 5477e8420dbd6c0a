"""Every fixture host as an archive of each form has the snapshot's report.

Except for missing evidence. All losses of files are tried if EXT4AUDIT_LOSSES is "all", otherwise
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
from support.archives.contents import Files, recognised_capture
from support.archives.formats import FORMATS, ArchiveFormat
from support.archives.of_snapshot import Contents, contents_of
from support.hosts.evidence_loss import Key, better_verdicts, by_device
from support.hosts.fixture_hosts import captured, some_fixture_hosts

K = TypeVar("K")
SAMPLED = None if os.environ.get("EXT4AUDIT_LOSSES") == "all" else 2
WHOLE_WHEREVER_THEY_END = ("etc/fstab", "etc/os-release")
WITHOUT_A_SUPERBLOCK = "CAP003: pass, then not_applicable"
"""It passes because of a feature; without the superblock the size alone excludes the problem."""
every_form = pytest.mark.parametrize("form", FORMATS)


@cache
def contents(fixture: str) -> Contents:
    """Return what a program would have captured from a fixture's host."""
    source, taken_at = captured(fixture)
    return contents_of(source._answers, taken_at)


@cache
def expected(fixture: str) -> Mapping[Key, Verdict]:
    """Return the verdicts of the snapshot."""
    host = assemble_host(*captured(fixture))
    return by_device(audit(ReportSource("snapshot", "x"), host, all_rules()))


def report_of(files: Mapping[str, str], form: ArchiveFormat) -> Report:
    """Audit an archive with all rules."""
    found = recognised_capture(dict(files), form.links)
    host = assemble_host(found.source, found.taken_at)
    return audit(ReportSource(found.kind, "x"), host, all_rules())


@every_form
@some_fixture_hosts(__name__)
def test_an_archive_says_what_the_snapshot_says(fixture: str, form: str) -> None:
    """Outcome and severities are equal unless the archive has less evidence."""
    made = FORMATS[form]
    found = by_device(report_of(made.write(contents(fixture)), made))
    assert found.keys() == expected(fixture).keys()
    differ = {
        key[0]: (expected(fixture)[key].outcome.value, verdict.outcome.value)
        for key, verdict in found.items()
        if verdict.outcome not in {expected(fixture)[key].outcome, Outcome.UNDETERMINED}
        and expected(fixture)[key].outcome is not Outcome.UNDETERMINED
    }
    assert differ == {}


def losses(fixture: str, form: ArchiveFormat, chance: random.Random) -> Iterator[tuple[str, Files]]:
    """Yield the rest after removing one capture, a file, a folder, or the end of a file."""
    files, outputs = contents(fixture)
    for path in files:
        yield f"without {path}", form.write(Contents(_without(files, path), outputs))
    for run in outputs:
        yield f"without {run[1]}", form.write(Contents(files, _without(outputs, run)))
    written = form.write(contents(fixture))
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
@some_fixture_hosts(__name__)
def test_who_gets_less_of_an_archive_is_not_calmer(fixture: str, form: str) -> None:
    """Losing a file, a folder, or the end of a file never removes a finding or an unknown."""
    made, chance = FORMATS[form], random.Random(fixture + form)  # noqa: S311
    before = report_of(made.write(contents(fixture)), made)
    every = dict(losses(fixture, made, chance))
    broken = {}
    for loss in chance.sample(sorted(every), SAMPLED or len(every)):
        if not any(made.mark in name for name in every[loss]):
            continue  # no longer an archive of this form
        calmer = better_verdicts(before, report_of(every[loss], made))
        if shown := [each for each in calmer if each != WITHOUT_A_SUPERBLOCK]:
            broken[loss] = shown
    assert broken == {}
