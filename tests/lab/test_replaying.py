"""A snapshot replays exactly: auditing a capture gives the same report as auditing the stack."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ext4audit.evidence import Unknown, Why
from ext4audit.sources import Answer, Ask, ListDir, ReadBytes, RunCommand
from ext4audit.sources.captured import MapSource, open_captured, read_snapshot
from lab.conftest import Guest
from lab.support.capturing import COLLECTED, NOT_ROOT, SENT
from lab.support.replaying import live, replayed
from lab.support.stack_audit import TAKEN_AT
from lab.test_stacks import HOSTS, captures, every_stack
from support.hosts.snapshots import write_snapshot
from support.shells.collector import differences

UNPRIVILEGED = pytest.mark.parametrize("name", ["md_raid0", "lvm_striped"])


def answers(snapshot: Path) -> dict[Ask, Answer]:
    """Return the answers of a capture, without the processes that ran at the time."""
    source = open_captured(str(snapshot)).source
    assert isinstance(source, MapSource)
    recorded = source._answers
    return {ask: recorded[ask] for ask in recorded if not _is_of_processes(ask)}


def _is_of_a_superblock(ask: Ask) -> bool:
    return isinstance(ask, ReadBytes) or (isinstance(ask, RunCommand) and ask.argv[0] == "dumpe2fs")


def _is_of_processes(ask: Ask) -> bool:
    path = str(getattr(ask, "path", ""))
    return ask == ListDir("/proc") or (path.startswith("/proc/") and path[6].isdigit())


@every_stack
@pytest.mark.parametrize("capture", [COLLECTED, SENT])
def test_a_capture_gives_the_report_of_the_live_scan(
    guest: Guest, name: str, capture: str, tmp_path: Path
) -> None:
    """The report of a capture by `collect` or its script differs in source and time only."""
    place = captures(guest, name)
    code, report = live(place)
    assert (len(report["filesystems"]), report["complete"]) == (1, True)
    assert replayed(place / capture, tmp_path) == (code, report)


@every_stack
def test_the_script_captures_what_the_live_source_sees(guest: Guest, name: str) -> None:
    """Each answer is equal, but for a superblock that the kernel may write in between."""
    seen, sent = (answers(captures(guest, name) / capture) for capture in (COLLECTED, SENT))
    assert {ask for ask in differences(seen, sent, seen) if not _is_of_a_superblock(ask)} == set()


@UNPRIVILEGED
def test_what_nobody_could_not_see_is_replayed_as_not_seen(
    guest: Guest, name: str, tmp_path: Path
) -> None:
    """As nobody the audit is incomplete; the replay's report is identical, including the gaps."""
    place = captures(guest, name, NOT_ROOT)
    code, report = live(place)
    assert (code, report["complete"]) == (3, False)
    assert {verdict["rule"]: verdict["outcome"] for verdict in report["verdicts"]}["LAY001"] == (
        "undetermined"
    )
    assert replayed(place / COLLECTED, tmp_path) == (code, report)


@UNPRIVILEGED
def test_the_fixture_of_nobody_answers_all_that_is_asked(guest: Guest, name: str) -> None:
    """The kept snapshot has the same asks as a new one; UPDATE_FIXTURES=1 replaces it.

    test_fixture_hosts.py judges the kept snapshot without the lab.
    """
    place = captures(guest, name, NOT_ROOT)
    new = answers(place / COLLECTED)
    kept = HOSTS / place.name / "snapshot"
    if os.environ.get("UPDATE_FIXTURES") == "1":
        shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(exist_ok=True)
        write_snapshot(kept, new, taken_at=TAKEN_AT)
        kept.chmod(0o755)
    former = read_snapshot(kept)[0]._answers
    assert former.keys() == new.keys()
    assert refused(former) == refused(new) != set()


def refused(answered: dict[Ask, Answer]) -> set[Ask]:
    """Return the asks that only root may read."""
    return {
        ask
        for ask, answer in answered.items()
        if isinstance(answer, Unknown) and answer.why is Why.DENIED
    }
