"""A source that remembers."""

from __future__ import annotations

import re

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources.ask import Answer, Ask, ReadFile, TuneSuperblock, Uname
from ext4audit.sources.recording import RecordingSource, utc_now
from ext4audit.sources.snapshot import MapSource


def test_every_answer_is_passed_through_and_kept() -> None:
    """Known text, known bytes and holes are all answers."""
    answers: dict[Ask, Answer] = {
        ReadFile("/etc/fstab"): Known("# empty\n", "/etc/fstab"),
        TuneSuperblock("/"): Known(b"\0" * 232, "EXT4_IOC_GET_TUNE_SB_PARAM on /"),
        Uname(): Unknown("uname", Why.FAILED, "odd", "none"),
    }
    source = RecordingSource(MapSource(answers))
    for ask, answer in answers.items():
        assert source.fetch(ask) == answer
    assert dict(source.answers) == answers


def test_what_was_not_asked_is_not_an_answer() -> None:
    """A recording holds the asks of one scan, in their order, and nothing else."""
    source = RecordingSource(MapSource({Uname(): Known("6.1", "uname")}))
    assert dict(source.answers) == {}
    source.fetch(ReadFile("/etc/fstab"))
    assert list(source.answers) == [ReadFile("/etc/fstab")]


def test_each_answer_has_the_time_at_which_it_was_first_given() -> None:
    """Asked again, an answer keeps its time: a source answers an ask once."""
    clock = iter(["2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"])
    source = RecordingSource(MapSource({Uname(): Known("6.1", "uname")}), lambda: next(clock))
    source.fetch(Uname())
    source.fetch(ReadFile("/etc/fstab"))
    source.fetch(Uname())
    assert dict(source.times) == {
        Uname(): "2026-01-02T03:04:05Z",
        ReadFile("/etc/fstab"): "2026-01-02T03:04:06Z",
    }


def test_the_clock_is_in_utc() -> None:
    """RFC 3339 to the second, as the snapshot format asks for."""
    assert re.fullmatch(r"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\dZ", utc_now())
