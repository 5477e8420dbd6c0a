"""Snapshots are written, read, compared and rejected."""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources import (
    Answer,
    Ask,
    CapturedDumpe2fs,
    EffectiveUser,
    FilesystemUuid,
    ListDir,
    ReadBytes,
    ReadFile,
    RealPath,
    ResolvePath,
    RunCommand,
    StatFilesystem,
    TuneSuperblock,
    UdevDatabase,
    Uname,
    VirtualMemory,
    utc_now,
)
from ext4audit.sources import snapshot as snapshot_format
from ext4audit.sources.captured import MapSource, read_snapshot
from ext4audit.sources.live import commands
from ext4audit.sources.snapshot import (
    ANSWER_FILE,
    KINDS,
    LARGEST_ANSWER_BYTES,
    SnapshotError,
    decode,
)
from ext4audit.sources.snapshot.writing import RecordingSource, encode
from support.examples import examples
from support.hosts.snapshots import write_snapshot


def test_every_answer_is_passed_through_and_kept() -> None:
    """Known text, known bytes and unknowns are all answers."""
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
    """A recording holds only the asks of one scan, in their order."""
    source = RecordingSource(MapSource({Uname(): Known("6.1", "uname")}))
    assert dict(source.answers) == {}
    source.fetch(ReadFile("/etc/fstab"))
    assert list(source.answers) == [ReadFile("/etc/fstab")]


def test_each_answer_has_the_time_at_which_it_was_first_given() -> None:
    """A repeated ask keeps its first time, because a source answers each ask once."""
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
    """RFC 3339 to the second, as the snapshot format requires."""
    assert re.fullmatch(r"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\dZ", utc_now())


TAKEN_AT = "2026-01-02T03:04:05Z"
LONG = "line\n" * 100

# Texts of a host, and lone surrogates that join to text that it could have printed.
texts = st.one_of(
    st.binary(max_size=400).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    st.text(st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF), max_size=200),
    st.text(max_size=400),
    st.sampled_from(["", "\n", "a\0", "x" * 161, "\r\n" * 90, "../../etc/passwd"]),
)
text_asks: st.SearchStrategy[Ask] = st.one_of(
    st.builds(ReadFile, texts),
    st.builds(RunCommand, st.lists(texts, min_size=1, max_size=4).map(tuple)),
    st.builds(UdevDatabase, texts),
    st.builds(ResolvePath, texts),
    st.builds(RealPath, texts),
    st.builds(StatFilesystem, texts),
    st.builds(CapturedDumpe2fs, texts),
    st.builds(ListDir, texts),
    st.sampled_from([Uname(), VirtualMemory(), EffectiveUser()]),
)
counts = st.integers(0, 1 << 63)
bytes_asks: st.SearchStrategy[Ask] = st.one_of(
    st.builds(TuneSuperblock, texts),
    st.builds(FilesystemUuid, texts),
    st.builds(ReadBytes, texts, counts, counts, counts),
)
unknowns = st.builds(Unknown, texts, st.sampled_from(list(Why)), texts, texts)
answered = st.dictionaries(
    text_asks, st.one_of(st.builds(Known, texts, texts), unknowns), max_size=8
).flatmap(
    lambda first: st.dictionaries(
        bytes_asks,
        st.one_of(st.builds(Known, st.binary(max_size=300), texts), unknowns),
        max_size=3,
    ).map(lambda second: {**first, **dict(map(with_its_length, second.items()))})
)


def with_its_length(item: tuple[Ask, Answer]) -> tuple[Ask, Answer]:
    """Return an ask for as many bytes as its answer has, as a source returns all or none."""
    ask, answer = item
    if isinstance(ask, ReadBytes) and isinstance(answer, Known):
        return replace(ask, length_bytes=len(answer.value)), answer
    return item


@given(answered)
def test_every_answer_comes_back_exactly(answers: dict[Ask, Answer]) -> None:
    """Texts with surrogates, bytes and unknowns are the same after writing and reading."""
    files = encode(answers, TAKEN_AT)
    assert decode(files["manifest.json"], files.__getitem__) == (answers, TAKEN_AT)


@given(answered)
def test_every_file_has_a_name_that_stays_inside(answers: dict[Ask, Answer]) -> None:
    """Whatever a host's names hold, file names are plain and unique even if case is folded."""
    names = [name for name in encode(answers, TAKEN_AT) if name != "manifest.json"]
    assert all(ANSWER_FILE.fullmatch(name) for name in names)
    assert len({name.lower() for name in names}) == len(names)


@examples(20)
@given(answered)
def test_directory_round_trip(answers: dict[Ask, Answer]) -> None:
    """A snapshot on disk replays each answer, and has the time it was taken."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder, "snapshot")
        write_snapshot(directory, answers, taken_at=TAKEN_AT)
        source, taken_at = read_snapshot(directory)
    assert taken_at == TAKEN_AT
    assert {ask: source.fetch(ask) for ask in answers} == answers


def test_snapshot_is_human_readable(tmp_path: Path) -> None:
    """The manifest is sorted and indented; a long text is a separate, readable file."""
    answers: dict[Ask, Answer] = {
        ReadFile("/proc/cmdline"): Known("quiet\n", "/proc/cmdline"),
        RunCommand(("dumpe2fs", "-h", "/dev/md127")): Known(LONG, "dumpe2fs -h /dev/md127"),
        ListDir("/sys/block"): Known("md127\0sda", "/sys/block"),
        FilesystemUuid("/"): Known(bytes(range(16)), "FS_IOC_GETFSUUID on /"),
        EffectiveUser(): Unknown("effective user", Why.DENIED, "no", "run as root"),
    }
    write_snapshot(tmp_path / "host", answers, taken_at=TAKEN_AT)
    assert (
        (tmp_path / "host" / "manifest.json").read_text()
        == """\
{
  "format": "ext4audit-snapshot",
  "version": 1,
  "taken_at": "2026-01-02T03:04:05Z",
  "answers": [
    {
      "ask": "effective_user",
      "unknown": {
        "what": "effective user",
        "why": "denied",
        "detail": "no",
        "hint": "run as root"
      }
    },
    {
      "ask": "filesystem_uuid",
      "mount_point": "/",
      "origin": "FS_IOC_GETFSUUID on /",
      "hex": [
        "000102030405060708090a0b0c0d0e0f"
      ]
    },
    {
      "ask": "list_dir",
      "path": "/sys/block",
      "origin": "/sys/block",
      "names": [
        "md127",
        "sda"
      ]
    },
    {
      "ask": "read_file",
      "path": "/proc/cmdline",
      "origin": "/proc/cmdline",
      "text": "quiet\\n"
    },
    {
      "ask": "run_command",
      "argv": [
        "dumpe2fs",
        "-h",
        "/dev/md127"
      ],
      "origin": "dumpe2fs -h /dev/md127",
      "text_file": "answers/run_command.dumpe2fs_-h_dev_md127"
    }
  ]
}
"""
    )
    text = tmp_path / "host" / "answers" / "run_command.dumpe2fs_-h_dev_md127"
    assert text.read_text() == LONG


def test_snapshot_does_not_depend_on_the_order_of_asks() -> None:
    """Two captures of one host are identical byte by byte."""
    answers: dict[Ask, Answer] = {ReadFile(p): Known(LONG, p) for p in ("/a/b", "/a_b", "/A/b")}
    backwards = dict(reversed(answers.items()))
    assert encode(answers, TAKEN_AT) == encode(backwards, TAKEN_AT)
    assert list(encode(answers, TAKEN_AT)) == [
        "answers/read_file.A_b",
        "answers/read_file.a_b~2",
        "answers/read_file.a_b~3",
        "manifest.json",
    ]


def test_format_supports_every_ask() -> None:
    """A new ask that the format cannot express would end the capture."""
    assert {make for make, _ in KINDS.values()} == set(Ask.__args__)


def test_what_can_be_captured_can_be_read_back() -> None:
    """The longest output of a program is within the size limit of an answer's file."""
    assert LARGEST_ANSWER_BYTES >= commands.LARGEST_OUTPUT_BYTES


OPTIONS = ReadFile("/proc/fs/ext4/sda/options")


def converted(path: Path) -> None:
    """Convert the line ends of a file, as git does with core.autocrlf."""
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def test_a_snapshot_with_converted_line_ends_is_refused(tmp_path: Path) -> None:
    """The option `nobarrier` with a carriage return would be another option than `nobarrier`."""
    write_snapshot(tmp_path, {OPTIONS: Known("rw\nnobarrier\n" * 20, "options")}, taken_at=TAKEN_AT)
    for path in (tmp_path / "manifest.json", *(tmp_path / "answers").iterdir()):
        converted(path)
    with pytest.raises(SnapshotError, match=r"answers/\S+ has the line ends of Windows \(CRLF\)"):
        read_snapshot(tmp_path)


@pytest.mark.parametrize("content", ["rw\nnobarrier\n" * 20, "rw\r\nnobarrier\n" * 20])
def test_a_converted_manifest_alone_changes_nothing(tmp_path: Path, content: str) -> None:
    """JSON has the same values with either line ends; a text is judged by its own."""
    write_snapshot(tmp_path, {OPTIONS: Known(content, "options")}, taken_at=TAKEN_AT)
    converted(tmp_path / "manifest.json")
    source, _ = read_snapshot(tmp_path)
    assert source.fetch(OPTIONS) == Known(content, "options")


def test_a_file_with_line_ends_of_windows_is_kept(tmp_path: Path) -> None:
    """An fstab can have them on the host itself."""
    fstab, answer = ReadFile("/etc/fstab"), Known("/dev/sda / ext4 ro 0 1\r\n" * 20, "fstab")
    write_snapshot(tmp_path, {fstab: answer}, taken_at=TAKEN_AT)
    assert read_snapshot(tmp_path)[0].fetch(fstab) == answer


def test_ask_that_was_not_captured_is_unknown() -> None:
    """An ask without an answer is unknown, and never an empty text."""
    hint = "capture again with ext4audit collect"
    answer = MapSource({}).fetch(ReadFile("/etc/fstab"))
    assert answer == Unknown("/etc/fstab", Why.NOT_CAPTURED, "", hint)


def test_a_recorded_gap_is_replayed_as_that_gap() -> None:
    """A capture without root is replayed with its gaps."""
    recorded = Unknown("dumpe2fs -h /dev/sda", Why.DENIED, "Permission denied", "run as root")
    ask = RunCommand(("dumpe2fs", "-h", "/dev/sda"))
    assert MapSource({ask: recorded}).fetch(ask) == recorded


GOOD: dict[str, Any] = {
    "ask": "read_file",
    "path": "/x",
    "origin": "/x",
    "text_file": "answers/x",
}
GAP = {"what": "x", "why": "denied", "detail": "", "hint": ""}


def manifest(*entries: object, **changes: object) -> dict[str, object]:
    """Build the content of a manifest."""
    top = {"format": "ext4audit-snapshot", "version": 1, "taken_at": TAKEN_AT}
    return {**top, "answers": list(entries), **changes}


def without(entry: dict[str, Any], *keys: str, **changes: object) -> dict[str, Any]:
    """Build an entry that lacks these keys, or has others."""
    return {key: value for key, value in entry.items() if key not in keys} | changes


def snapshot(directory: Path, content: object) -> Path:
    """Write a snapshot by hand, with one answer file."""
    (directory / "answers").mkdir()
    (directory / "answers" / "x").write_text("text")
    text = content if isinstance(content, str) else json.dumps(content)
    (directory / "manifest.json").write_text(text, encoding="utf-8")
    return directory


def test_a_snapshot_made_by_hand_is_read(tmp_path: Path) -> None:
    """It is valid, so the entries below fail for their changes only."""
    source, _ = read_snapshot(snapshot(tmp_path, manifest(GOOD)))
    assert source.fetch(ReadFile("/x")) == Known("text", "/x")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON: it is nested too deep"),
        ('{"version": ' + "9" * 5000 + "}", "not JSON: a number has thousands of digits"),
        ('{"format": 1, "format": 2}', "duplicate key"),
        ([], "not a manifest of the format ext4audit-snapshot"),
        (manifest(format="other"), "not a manifest of the format ext4audit-snapshot"),
        ({"schema_version": "1.0"}, "ext4audit-snapshot, but a report, which diff and --baseline"),
        (manifest(version=2), "version 2 of the format; this program reads 1"),
        (manifest(version=True), "version True of the format"),
        (manifest(version=1.0), "version 1.0 of the format"),
        (manifest(extra=1), "manifest: not an object of answers, format, taken_at, version"),
        (manifest(taken_at=None), "taken_at: not a string"),
        (manifest(answers={}), "answers: not a list"),
        (manifest(answers=[0] * 100_001), "answers: not a list of at most 100000"),
        (manifest(GOOD, 7), r"answers\[1\]: not an object"),
        (manifest(without(GOOD, "ask")), "ask: not a string"),
        (manifest(without(GOOD, ask="rm_rf")), "no such ask: 'rm_rf'"),
        (manifest(without(GOOD, "path")), "path: not a string"),
        (manifest(without(GOOD, "origin")), "not an object of origin, text_file"),
        (manifest(without(GOOD, more="x")), "not an object of origin, text_file"),
        (manifest(without(GOOD, text="x")), "not an object of origin, text_file"),
        (manifest(without(GOOD, "text_file")), "not an object of origin, text"),
        (manifest(without(GOOD, "text_file", text=["x"])), "text: not a string"),
        (manifest(without(GOOD, "text_file", names=[])), "not an object of origin, text"),
        (manifest(without(GOOD, "text_file", hex=[])), "not an object of origin, text"),
        (manifest(without(GOOD, ask="list_dir")), "not an object of names, origin"),
        (manifest(GOOD, without(GOOD, path="/y")), r"answers\[1\]: .* another answer's too"),
        (
            manifest(GOOD, without(GOOD, "text_file", text="")),
            r"answers\[1\]: duplicate ask",
        ),
        (manifest(without(GOOD, unknown=GAP)), "not an object of unknown"),
        (manifest({"ask": "uname", "unknown": 5}), "not an object of detail, hint, what, why"),
        (manifest({"ask": "uname", "unknown": {**GAP, "why": "bored"}}), "'bored' is not a"),
        (manifest({"ask": "uname", "unknown": {**GAP, "hint": 5}}), "hint: not a string"),
        (manifest({"ask": "run_command", "argv": [], "unknown": GAP}), "argv: empty"),
        (manifest({"ask": "run_command", "argv": [1], "unknown": GAP}), "argv: not a list of"),
        (
            manifest({"ask": "tune_superblock", "mount_point": "/", "origin": "", "hex": ["0g"]}),
            "hex: not pairs of hexadecimal digits",
        ),
        (
            manifest({"ask": "tune_superblock", "mount_point": "/", "origin": "", "text": ""}),
            "not an object of hex, origin",
        ),
    ],
)
def test_a_malformed_manifest_is_refused_with_its_reason(
    tmp_path: Path, content: object, reason: str
) -> None:
    """The error names the directory and the cause; no malformed entry is skipped."""
    with pytest.raises(SnapshotError, match=reason) as caught:
        read_snapshot(snapshot(tmp_path, content))
    assert str(caught.value).startswith(f"{tmp_path}: ")


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../x",
        "answers/../../x",
        "answers/..",
        "answers/.",
        "answers/",
        "answers/a/b",
        "answers/.hidden",
        "answers\\x",
        "answers/x\n",
        "answers/x\0",
        "answers/" + "x" * 201,
        "manifest.json",
        "",
    ],
)
def test_a_name_that_could_leave_the_directory_is_refused(tmp_path: Path, name: str) -> None:
    """Only plain names directly under `answers` are opened."""
    entry = without(GOOD, text_file=name)
    with pytest.raises(SnapshotError, match="not the name of an answer file"):
        read_snapshot(snapshot(tmp_path, manifest(entry)))


def test_no_symbolic_link_is_followed(tmp_path: Path) -> None:
    """An answer, `answers` itself and the manifest must not be links."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("secret")
    directory = tmp_path / "snapshot"
    directory.mkdir()
    snapshot(directory, manifest(GOOD))
    (directory / "answers" / "x").unlink()
    (directory / "answers" / "x").symlink_to(outside / "x")
    with pytest.raises(SnapshotError, match="x: not a regular file"):
        read_snapshot(directory)
    (directory / "answers" / "x").unlink()
    (directory / "answers").rmdir()
    (directory / "answers").symlink_to(outside)
    with pytest.raises(SnapshotError, match="answers: not a directory"):
        read_snapshot(directory)
    (directory / "manifest.json").rename(outside / "manifest.json")
    (directory / "manifest.json").symlink_to(outside / "manifest.json")
    with pytest.raises(SnapshotError, match=r"manifest\.json: not a regular file"):
        read_snapshot(directory)


def test_a_fifo_does_not_hang_the_reader(tmp_path: Path) -> None:
    """A FIFO in place of an answer is refused at once."""
    snapshot(tmp_path, manifest(GOOD))
    (tmp_path / "answers" / "x").unlink()
    os.mkfifo(tmp_path / "answers" / "x")
    with pytest.raises(SnapshotError, match="x: not a regular file"):
        read_snapshot(tmp_path)


def test_a_sparse_bomb_is_refused_by_its_size(tmp_path: Path) -> None:
    """A file beyond the limit is not read at all."""
    snapshot(tmp_path, manifest(GOOD))
    os.truncate(tmp_path / "answers" / "x", 1 << 40)
    with pytest.raises(SnapshotError, match="x: larger than 67108864 bytes"):
        read_snapshot(tmp_path)


def test_many_files_are_bounded_in_total(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files within the limit for one can exceed the limit for all."""
    monkeypatch.setattr(snapshot_format, "LARGEST_TOTAL_BYTES", 20)
    entries = [without(GOOD, path=str(n), text_file=f"answers/{n}") for n in range(3)]
    two, three = (json.dumps(manifest(*entries[:n])).encode() for n in (2, 3))
    assert len(decode(two, lambda _: b"ten bytes.")[0]) == 2
    with pytest.raises(SnapshotError, match="larger than 20 bytes"):
        decode(three, lambda _: b"ten bytes.")


@pytest.mark.parametrize(
    ("missing", "reason"),
    [("manifest.json", "manifest.json: No such file"), ("answers/x", "x: No such file")],
)
def test_a_missing_file_is_named(tmp_path: Path, missing: str, reason: str) -> None:
    """A missing file is named, and an empty directory is not a snapshot."""
    (snapshot(tmp_path, manifest(GOOD)) / missing).unlink()
    with pytest.raises(SnapshotError, match=reason):
        read_snapshot(tmp_path)


def test_a_part_of_captured_bytes_is_captured_too() -> None:
    """The part must be of the same reading of the same path, up to the last byte."""
    whole = ReadBytes("/dev/sda", 4096, 16)
    replay = MapSource({whole: Known(bytes(range(16)), "sda")})
    assert replay.fetch(ReadBytes("/dev/sda", 4100, 12)) == Known(bytes(range(4, 16)), "sda")
    for other in (
        ReadBytes("/dev/sda", 4100, 13),
        ReadBytes("/dev/sda", 4095, 2),
        ReadBytes("/dev/sdb", 4100, 4),
        ReadBytes("/dev/sda", 4100, 4, reading=1),
    ):
        assert isinstance(replay.fetch(other), Unknown)


def test_part_of_unknown_bytes_is_unknown() -> None:
    """A part of bytes that could not be read is unknown as well."""
    replay = MapSource({ReadBytes("/dev/sda", 0, 16): Unknown("16 bytes", Why.DENIED)})
    found = replay.fetch(ReadBytes("/dev/sda", 0, 4))
    assert isinstance(found, Unknown)
    assert found.why is Why.NOT_CAPTURED
