"""Every fixture host as a sosreport: its report is that of the snapshot, but for what is missing.

All losses of files are tried where EXT4AUDIT_LAW is "all", else the same sample in each run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from functools import cache

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import audit
from ext4audit.report import Outcome, Report, ReportSource
from ext4audit.rules import all_rules
from support.archives.contents import Files, recognised
from support.archives.of_snapshot import LINKS, sosreport_of
from support.examples import number
from support.hosts.law import by_device, changes
from support.hosts.stories import captured, some_stories

SAMPLED = None if os.environ.get("EXT4AUDIT_LAW") == "all" else number(5)
WHOLE_WHEREVER_THEY_END = ("etc/fstab", "etc/os-release")
WITHOUT_A_SUPERBLOCK = "CAP003: pass, then not_applicable"
"""It passes because of a feature; without the superblock the size alone says the same."""


@cache
def files_of(story: str) -> Files:
    """Return the files of the sosreport of a story."""
    source, taken_at = captured(story)
    return sosreport_of(source._answers, taken_at)


def report_of(files: Mapping[str, str]) -> Report:
    """Audit a sosreport with all rules."""
    found = recognised(dict(files), LINKS)
    return audit(
        ReportSource("sosreport", "x"), assemble_host(found.source, found.taken_at), all_rules()
    )


@some_stories(__name__)
def test_an_archive_says_what_the_snapshot_says(story: str) -> None:
    """Where it does not know less, the outcome and the severities are the same."""
    source, taken_at = captured(story)
    host = assemble_host(source, taken_at)
    expected = by_device(audit(ReportSource("snapshot", "x"), host, all_rules()))
    found = by_device(report_of(files_of(story)))
    assert found.keys() == expected.keys()
    differ = {
        key[0]: (expected[key].outcome.value, verdict.outcome.value)
        for key, verdict in found.items()
        if verdict.outcome not in {expected[key].outcome, Outcome.UNDETERMINED}
        and expected[key].outcome is not Outcome.UNDETERMINED
    }
    assert differ == {}


def losses(files: Mapping[str, str], chance: random.Random) -> dict[str, Files]:
    """Return what is left of an archive without a file, a folder, or a part of a file."""
    folders = {name.rpartition("/")[0] + "/" for name in files}
    left = {
        f"without {gone}": {name: text for name, text in files.items() if not name.startswith(gone)}
        for gone in sorted((*files, *folders))
    }
    for name, text in files.items():
        if name.endswith(WHOLE_WHEREVER_THEY_END):
            continue
        inside = [at for at in range(1, len(text)) if "\n" not in text[at - 1 : at + 1]]
        ends = (0, *chance.sample(inside, min(len(inside), 2)))
        left |= {f"{name} cut at {end}": {**files, name: text[:end]} for end in ends}
    return left


@some_stories(__name__)
def test_who_gets_less_of_a_sosreport_is_not_calmer(story: str) -> None:
    """No finding and no doubt is lost with a file, a folder, or the end of a file."""
    files, chance = files_of(story), random.Random(story)  # noqa: S311
    before = report_of(files)
    every = losses(files, chance)
    tried = chance.sample(sorted(every), SAMPLED or len(every))
    broken = {}
    for loss in tried:
        if not any(name.startswith("sos_commands/") for name in every[loss]):
            continue  # no sosreport any more
        calmer = changes(before, report_of(every[loss]))
        if shown := [each for each in calmer if each != WITHOUT_A_SUPERBLOCK]:
            broken[loss] = shown
    assert broken == {}
