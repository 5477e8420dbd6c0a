"""A source that remembers."""

from __future__ import annotations

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources.ask import Answer, Ask, ReadFile, TuneSuperblock, Uname
from ext4audit.sources.recording import RecordingSource
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
