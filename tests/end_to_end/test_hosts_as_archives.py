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
NOT_TRUNCATED = ("etc/fstab", "etc/os-release")
ALLOWED_IMPROVEMENT = "CAP003: pass, then not_applicable"
"""It passes because of a feature; without the superblock the size alone excludes the problem."""
every_archive_format = pytest.mark.parametrize("archive_format", FORMATS)


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


def report_of(files: Mapping[str, str], archive_format: ArchiveFormat) -> Report:
    """Audit an archive with all rules."""
    found = recognised_capture(dict(files), archive_format.links)
    host = assemble_host(found.source, found.taken_at)
    return audit(ReportSource(found.kind, "x"), host, all_rules())


@every_archive_format
@some_fixture_hosts(__name__)
def test_archive_gives_the_verdicts_of_the_snapshot(fixture: str, archive_format: str) -> None:
    """Outcome and severities are equal unless the archive has less evidence."""
    made = FORMATS[archive_format]
    found = by_device(report_of(made.write(contents(fixture)), made))
    assert found.keys() == expected(fixture).keys()
    differ = {
        key[0]: (expected(fixture)[key].outcome.value, verdict.outcome.value)
        for key, verdict in found.items()
        if verdict.outcome not in {expected(fixture)[key].outcome, Outcome.UNDETERMINED}
        and expected(fixture)[key].outcome is not Outcome.UNDETERMINED
    }
    assert differ == {}


def losses(
    fixture: str, archive_format: ArchiveFormat, chance: random.Random
) -> Iterator[tuple[str, Files]]:
    """Yield the rest after removing one capture, a file, a folder, or the end of a file."""
    files, outputs = contents(fixture)
    for path in files:
        yield f"without {path}", archive_format.write(Contents(_without(files, path), outputs))
    for run in outputs:
        yield f"without {run[1]}", archive_format.write(Contents(files, _without(outputs, run)))
    written = archive_format.write(contents(fixture))
    for gone in sorted({*written, *(name.rpartition("/")[0] + "/" for name in written)}):
        left = {name: text for name, text in written.items() if not name.startswith(gone)}
        yield f"without {gone}", left
    for name, text in written.items():
        if archive_format.shows_ends and not name.endswith(NOT_TRUNCATED):
            for end in _ends(text, chance):
                yield f"{name} cut at {end}", {**written, name: text[:end]}


def _without(items: Mapping[K, str], gone: K) -> dict[K, str]:
    return {key: value for key, value in items.items() if key != gone}


def _ends(text: str, chance: random.Random) -> tuple[int, ...]:
    inside = [at for at in range(1, len(text)) if "\n" not in text[at - 1 : at + 1]]
    return (0, *chance.sample(inside, min(len(inside), 2)))


@every_archive_format
@some_fixture_hosts(__name__)
def test_archives_with_fewer_files_give_no_better_verdicts(
    fixture: str, archive_format: str
) -> None:
    """Losing a file, a folder, or the end of a file never removes a finding or an unknown."""
    made, chance = FORMATS[archive_format], random.Random(fixture + archive_format)  # noqa: S311
    before = report_of(made.write(contents(fixture)), made)
    every = dict(losses(fixture, made, chance))
    broken = {}
    for loss in chance.sample(sorted(every), SAMPLED or len(every)):
        if not any(made.mark in name for name in every[loss]):
            continue  # no longer an archive of this form
        improved = better_verdicts(before, report_of(every[loss], made))
        if shown := [each for each in improved if each != ALLOWED_IMPROVEMENT]:
            broken[loss] = shown
    assert broken == {}
