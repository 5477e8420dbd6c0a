"""What each kernel shows of a filesystem that refuses writes although it is listed as rw."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from ext4audit.evidence import Known
from ext4audit.sources import describe
from ext4audit.sources.captured import read_snapshot
from lab.conftest import Guest
from lab.support.scenario import JsonObject

HOSTS = Path(__file__).parents[3] / "fixtures" / "hosts"
HONEST, HIDDEN = ("ro", True), ("rw", False)


@dataclass(frozen=True, slots=True)
class Told:
    """What a kernel shows of a filesystem that it forced read-only.

    `claim` is the first option in the mount table, and ST_RDONLY; `words` are the options that
    the error adds; `refusal` is the error of a write.
    """

    claim: tuple[str, bool]
    words: frozenset[str]
    journal_errno: str | None
    refusal: str
    remount_exit_code: int


KERNELS = {
    "5.10": Told(HONEST, frozenset(), "-5", "EROFS", 32),
    "6.1": Told(HIDDEN, frozenset(), "-5", "EROFS", 0),
    "6.12": Told(HIDDEN, frozenset(), "-5", "EIO", 0),
    # The journal is no longer aborted, so its superblock does not record the error.
    "newest": Told(HIDDEN, frozenset({"emergency_ro"}), None, "EROFS", 0),
}


def shown(reported: JsonObject) -> tuple[str, bool]:
    """Return what the mount table and statvfs report; the options file must agree."""
    word = reported["mount_table"][0]
    assert reported["options_file"][0] == word
    return word, reported["statvfs_read_only"]


@pytest.fixture
def found(any_guest: Guest) -> JsonObject:
    """Return the result of the scenario."""
    return any_guest["forced_readonly"]


def print_measurement(found: JsonObject) -> None:
    """Print the result, for readers of pytest -s."""
    print(f"\n{found['release']}:")
    for moment in ("before", "forced", "remount"):
        reported = found[moment]
        print(
            f"  {moment:7} mount table {','.join(reported['mount_table'])}; ST_RDONLY "
            f"{reported['statvfs_read_only']}; errors_count {reported['errors_count']}; "
            f"journal errno {reported['journal_errno']}; a write: {reported['write']}"
        )


def test_before_the_error_it_is_written(found: JsonObject) -> None:
    """A filesystem with errors=remount-ro is writable until an error occurs."""
    before = found["before"]
    assert (shown(before), before["write"]) == (HIDDEN, "done")
    assert (before["errors_count"], before["journal_errno"]) == (0, None)


def test_what_an_error_leaves_in_each_place(found: JsonObject, any_guest: Guest) -> None:
    """Writes are refused, but only 5.10 shows ro: 6.1 and 6.12 keep showing rw.

    On 6.1 and 6.12 only errors_count and the journal's errno reveal it. The newest kernel
    shows emergency_ro beside rw, and has no errno in the journal.
    """
    print_measurement(found)
    expected = KERNELS[any_guest.era]
    forced = found["forced"]
    assert (shown(forced), forced["write"]) == (expected.claim, expected.refusal)
    # More than one if background work runs into the aborted journal in the meantime (6.1).
    assert forced["errors_count"] >= 1
    assert forced["journal_errno"] == expected.journal_errno
    assert forced["state"] == "clean with errors"
    for place in ("mount_table", "options_file"):
        assert set(forced[place]) - set(found["before"][place]) - {"ro"} == expected.words


def test_a_remount_repairs_nothing(found: JsonObject, any_guest: Guest) -> None:
    """`mount -o remount,rw` succeeds on kernels that hide the state, but writes still fail."""
    expected = KERNELS[any_guest.era]
    remount = found["remount"]
    assert remount["exit_code"] == expected.remount_exit_code
    assert (shown(remount), remount["write"]) == (expected.claim, expected.refusal)
    assert expected.words <= set(remount["mount_table"])
    assert remount["journal_errno"] == expected.journal_errno


def test_the_state_is_kept_as_a_snapshot(found: JsonObject, any_guest: Guest) -> None:
    """The snapshot holds the evidence of HLT002; UPDATE_FIXTURES=1 replaces the kept snapshot."""
    fixture = f"forced-readonly-{'.'.join(found['release'].split('.')[:2])}"
    new = any_guest.machine.results / "fixtures" / fixture
    kept = HOSTS / fixture / "snapshot"
    if os.environ.get("UPDATE_FIXTURES") == "1":
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(new, kept)
        kept.chmod(0o755)
    expected = KERNELS[any_guest.era]
    for place in (new, kept):
        answers = answers_of(place)
        (header,) = [text for name, text in answers.items() if name.startswith("dumpe2fs -h")]
        (count,) = [text for name, text in answers.items() if name.endswith("/errors_count")]
        assert ("Journal errno:            -5\n" in header) == (expected.journal_errno is not None)
        assert int(count) >= 1
        assert ("emergency_ro" in answers["/proc/self/mountinfo"]) == bool(expected.words)


def answers_of(snapshot: Path) -> dict[str, str]:
    """Return the texts of a snapshot, keyed by the description of their ask."""
    source, _ = read_snapshot(snapshot)
    known = {describe(ask): source._answers[ask] for ask in source._answers}
    return {name: str(answer.value) for name, answer in known.items() if isinstance(answer, Known)}
