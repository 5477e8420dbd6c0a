"""The forms of a snapshot other than a directory: tar, single file, text and shell output."""

from __future__ import annotations

import base64
import gzip
import io
import json
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources import (
    SYSTEM_PATH,
    Answer,
    ArchiveError,
    Ask,
    ReadBytes,
    ReadFile,
    RunCommand,
    TuneSuperblock,
)
from ext4audit.sources.captured import BEGIN, END, Captured, open_captured, read_snapshot, unwrap
from ext4audit.sources.snapshot import SnapshotError, decode
from ext4audit.sources.snapshot.writing import encode, wrap, write_snapshot_tar
from support.examples import examples
from support.hosts.snapshots import write_snapshot

TAKEN_AT = "2026-01-02T03:04:05Z"
LONG = ReadBytes("/dev/sda", 4096, 70_000)
ANSWERS: dict[Ask, Answer] = {
    ReadFile("/proc/self/mountinfo"): Known("a long text\n" * 100, "/proc/self/mountinfo"),
    ReadFile("/proc/cmdline"): Known("quiet \udcff\n", "/proc/cmdline"),
    LONG: Known(bytes(range(250)) * 280, "70000 bytes at 4096 of /dev/sda"),
    TuneSuperblock("/"): Unknown("EXT4_IOC_GET_TUNE_SB_PARAM on /", Why.UNSUPPORTED, "no", ""),
}


def top(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Build a manifest."""
    head = {"format": "ext4audit-snapshot", "version": 1, "taken_at": TAKEN_AT}
    return {**head, **more, "answers": list(entries)}


def one(entry: dict[str, Any], **more: Any) -> Answer:
    """Return the answer to the only entry of a manifest."""
    answers, _ = decode(
        json.dumps(top(entry, **more)).encode(), lambda name: b"of " + name.encode()
    )
    (answer,) = answers.values()
    return answer


def captured(path: Path, content: bytes) -> Captured:
    """Write a file and open it."""
    path.write_bytes(content)
    return open_captured(str(path))


def packed(**parts: bytes) -> bytes:
    """Return a plain tar of files; "__" in a name is a slash, "_json" is ".json"."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as written:
        for name, content in parts.items():
            info = tarfile.TarInfo(name.replace("__", "/").replace("_json", ".json"))
            info.size = len(content)
            written.addfile(info, io.BytesIO(content))
    return file.getvalue()


SINGLE = json.dumps(
    top(
        {"ask": "read_file", "path": "/x", "origin": "/x", "text": "text"}, host="db1", tool="sh 1"
    ),
    indent=1,
).encode()
TAR = io.BytesIO()
write_snapshot_tar(TAR, ANSWERS, taken_at=TAKEN_AT)
NOISY = (
    f"Last login: today\r\n$ {BEGIN}\r\n"
    + wrap(gzip.compress(SINGLE)).split("\n", 1)[1].replace("\n", "\r\n").replace("a", "a\r\n")
    + "logout\r\n"
)


@pytest.mark.parametrize(
    "content",
    [
        SINGLE,
        b"\n" + SINGLE + b"\n",
        gzip.compress(SINGLE),
        wrap(SINGLE).encode(),
        wrap(gzip.compress(SINGLE)).encode(),
        NOISY.encode(),
        NOISY.encode("utf-16"),
        b"\xfe\xff" + NOISY.encode("utf-16-be"),
        NOISY.encode("utf-8-sig"),
        b"\xef\xbb\xbf" + SINGLE,
        packed(manifest_json=SINGLE),
        packed(host__manifest_json=SINGLE),
    ],
    ids=(
        "plain spaced gzip text text-of-gzip noisy utf-16 utf-16-be mark mark-plain tar "
        "tar-with-top".split()
    ),
)
def test_a_snapshot_of_one_file_is_read_in_every_wrapping(tmp_path: Path, content: bytes) -> None:
    """Every wrapping gives the same answers."""
    found = captured(tmp_path / "it", content)
    assert (found.kind, found.label, found.taken_at) == ("snapshot", f"{tmp_path}/it", TAKEN_AT)
    assert found.source.fetch(ReadFile("/x")) == Known("text", "/x")


def test_tar_round_trip(tmp_path: Path) -> None:
    """Long texts, bytes that are not UTF-8, long bytes and unknowns are read back from a tar."""
    found = captured(tmp_path / "it.tgz", TAR.getvalue())
    assert {ask: found.source.fetch(ask) for ask in ANSWERS} == ANSWERS


def test_the_same_answers_make_the_same_tar() -> None:
    """It depends on no time, owner or order of asking; all files are in one directory."""
    again = io.BytesIO()
    write_snapshot_tar(again, dict(reversed(ANSWERS.items())), taken_at=TAKEN_AT)
    assert again.getvalue() == TAR.getvalue()
    with tarfile.open(fileobj=io.BytesIO(TAR.getvalue())) as tar:
        members = tar.getmembers()
    assert {member.name.partition("/")[0] for member in members} == {"ext4audit-snapshot"}
    assert {(member.uid, member.mtime, member.mode) for member in members} == {(0, 0, 0o600)}


def test_long_bytes_are_a_file_of_their_own(tmp_path: Path) -> None:
    """Group descriptors of a large filesystem are not written in hexadecimal."""
    write_snapshot(tmp_path / "it", ANSWERS, taken_at=TAKEN_AT)
    file = tmp_path / "it" / "answers" / "read_bytes.dev_sda_4096_70000_0"
    assert file.read_bytes() == bytes(range(250)) * 280
    assert read_snapshot(tmp_path / "it")[0].fetch(LONG) == ANSWERS[LONG]


def test_the_manifest_says_whose_it_is_and_when_each_answer_was_given() -> None:
    """Host, tool and the times of the answers are written if they are known, and read back."""
    ask = ReadFile("/proc/cmdline")
    files = encode(
        {ask: Known("quiet\n", "/proc/cmdline")},
        TAKEN_AT,
        times={ask: "2026-01-02T03:04:06Z"},
        about={"host": "db1", "tool": "ext4audit 1"},
    )
    manifest = json.loads(files["manifest.json"])
    assert (manifest["host"], manifest["tool"]) == ("db1", "ext4audit 1")
    assert manifest["answers"][0]["taken_at"] == "2026-01-02T03:04:06Z"
    assert decode(files["manifest.json"], files.__getitem__)[0][ask] == Known(
        "quiet\n", "/proc/cmdline"
    )


def test_raw_bytes_in_a_string_round_trip() -> None:
    """The shell collector cannot escape a byte that is not UTF-8 and writes it unchanged."""
    manifest = json.dumps(
        top({"ask": "read_file", "path": "/x@", "origin": "/x", "text": "@"})
    ).encode()
    answers, _ = decode(manifest.replace(b"@", b"\xff\xc3\xa9"), lambda _: b"")
    assert answers == {ReadFile("/x\udcff\u00e9"): Known("\udcff\u00e9", "/x")}


TUNE = {"ask": "tune_superblock", "mount_point": "/", "origin": "o"}


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ({"hex": ["6f66", "20"]}, b"of "),
        ({"base64": base64.b64encode(b"of \0").decode()}, b"of \0"),
        ({"bytes_file": "answers/b"}, b"of answers/b"),
    ],
)
def test_bytes_have_three_forms(form: dict[str, Any], value: bytes) -> None:
    """Bytes are written as hexadecimal lines, as base64, or as a file."""
    assert one(TUNE | form) == Known(value, "o")


RUN = {
    "ask": "run_command",
    "argv": ["dumpe2fs", "-h", "/dev/sda"],
    "status": 0,
    "timed_out": False,
    "stdout": "out",
    "stderr": "",
}
WHAT = "dumpe2fs -h /dev/sda"
USER = {"ask": "effective_user", "origin": "id", "text": "0"}
ROOT_HINT = "run on the host, outside containers"
PATH = ":".join(SYSTEM_PATH)
REFUSED = {"status": 1, "stderr": "dumpe2fs: Permission denied while trying\n"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Known("out", WHAT)),
        ({"taken_at": TAKEN_AT}, Known("out", WHAT)),
        (
            {"status": 127, "stderr": "sh: dumpe2fs: not found"},
            Unknown(WHAT, Why.ABSENT, f"no dumpe2fs in {PATH}", "install e2fsprogs"),
        ),
        (
            {"status": 1, "stderr": "dumpe2fs 1.47.0 (5-Feb-2023)\ncannot open\n"},
            Unknown(WHAT, Why.FAILED, "cannot open (exit status 1)"),
        ),
        (
            REFUSED,
            Unknown(
                WHAT,
                Why.DENIED,
                "dumpe2fs: Permission denied while trying (exit status 1)",
                "run as root",
            ),
        ),
        ({"status": -9}, Unknown(WHAT, Why.FAILED, "out (killed by signal 9)")),
        (
            {"status": None, "timed_out": True},
            Unknown(
                WHAT,
                Why.TIMED_OUT,
                "no answer in time",
                "capture again with a longer timeout",
            ),
        ),
        ({"status": None}, Unknown(WHAT, Why.FAILED, "its exit status was not recorded")),
    ],
    ids="good timed absent failed denied killed late unwaited".split(),
)
def test_a_raw_run_is_judged_as_a_live_one(changes: dict[str, Any], expected: Answer) -> None:
    """The collector records how a program ended; the interpretation is in one place, here."""
    assert one(RUN | changes) == expected


def test_refusal_as_root_has_no_root_hint() -> None:
    """The hint is about the user who captured, wherever the manifest records it, not the reader."""
    manifest = json.dumps(top(RUN | REFUSED, USER)).encode()
    answer = decode(manifest, lambda _: b"")[0][RunCommand(("dumpe2fs", "-h", "/dev/sda"))]
    assert isinstance(answer, Unknown)
    assert answer.hint == ROOT_HINT


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (RUN | {"status": "0"}, "status: neither a number nor null"),
        (RUN | {"status": True}, "status: neither a number nor null"),
        (RUN | {"timed_out": 0}, "timed_out: neither true nor false"),
        (RUN | {"stdout": None}, "stdout: not a string"),
        (RUN | {"origin": "x"}, "not an object of status, stderr, stdout, timed_out"),
        *(
            (RUN | {"taken_at": time}, "taken_at: not a time as 2026-01-02T03:04:05Z")
            for time in ("2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-02T24:61:00Z")
        ),
        (RUN | {"taken_at": "yesterday"}, "taken_at: not a time as 2026-01-02T03:04:05Z"),
        (TUNE | {"base64": "a"}, "base64: "),
        (TUNE | {"base64": "\u00e9"}, "base64: "),
        (TUNE | {"base64": "", "hex": []}, "not an object of base64, origin"),
        (TUNE | {"bytes_file": "../x"}, "bytes_file: not the name of an answer file"),
    ],
)
def test_a_malformed_entry_is_refused(entry: dict[str, Any], reason: str) -> None:
    """The new forms are checked as strictly as the old ones."""
    with pytest.raises(SnapshotError, match=reason):
        one(entry)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"host": 1}, "host: not a string"),
        ({"tool": None}, "tool: not a string"),
        ({"taken_at": "2026-01-02 03:04:05"}, "taken_at: not a time"),
    ],
)
def test_a_malformed_head_is_refused(more: dict[str, Any], reason: str) -> None:
    """Host and tool must be strings, and the time must have the right format."""
    with pytest.raises(SnapshotError, match=reason):
        one(USER, **more)


TEXT_FILE = json.dumps(
    top({"ask": "read_file", "path": "/x", "origin": "/x", "text_file": "answers/x"})
).encode()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"garbage", "neither a snapshot nor an archive"),
        (b"{}", "not a manifest"),
        (SINGLE[:-20], "not JSON"),
        (gzip.compress(SINGLE)[:-9], "truncated"),
        (TAR.getvalue()[:-300], "truncated"),
        (f"{BEGIN}\nabc".encode(), "truncated, or mixed with other text"),
        (f"{BEGIN}\n!\n{END}\n".encode(), "truncated, or mixed with other text"),
        (f"{BEGIN}\nabc\n{END}\n".encode(), "damaged base64"),
        (wrap(SINGLE).encode() * 2, "2 snapshots in one text"),
        (TEXT_FILE, "answers/x: not here, in a snapshot that is one file"),
        (packed(other=b""), "neither a snapshot nor a known kind of archive"),
        (packed(a__manifest_json=SINGLE, b__manifest_json=SINGLE), "holds 2 snapshots"),
        (
            packed(a__manifest_json=SINGLE, b__answers__x=b"of another host"),
            "contains other files: 'b/answers/x'",
        ),
        (packed(a__manifest_json=TEXT_FILE), "'a/answers/x': not in the archive"),
    ],
    ids=(
        "empty garbage no-manifest cut-json cut-gzip cut-tar no-end no-base64 damaged-base64 "
        "two-texts missing-file unknown-tar two-manifests two-hosts missing-member"
    ).split(),
)
def test_invalid_snapshot_error_has_the_path(tmp_path: Path, content: bytes, reason: str) -> None:
    """Truncated, garbage, two hosts mixed: each error names the file and the reason."""
    with pytest.raises(ArchiveError, match=reason) as caught:
        captured(tmp_path / "it", content)
    assert str(caught.value).startswith(f"{tmp_path}/it: ")


@pytest.mark.parametrize("path", ["{}", "{}/", "{}//", "{}/."])
def test_a_directory_is_named_once_as_it_was_given(tmp_path: Path, path: str) -> None:
    """The shell completes a directory with a slash."""
    (tmp_path / "manifest.json").write_text("{}")
    given = path.format(tmp_path)
    with pytest.raises(ArchiveError) as caught:
        open_captured(given)
    assert str(caught.value) == f"{given}: not a manifest of the format ext4audit-snapshot"


def test_device_as_snapshot_is_refused() -> None:
    """`--from /dev/sda` is a typing mistake, and nothing is read."""
    with pytest.raises(ArchiveError, match=r"^/dev/zero: a device; audit it as a TARGET"):
        open_captured("/dev/zero")


@given(st.binary(max_size=5000))
def test_wrapped_bytes_come_back(content: bytes) -> None:
    """Text is read back despite CR LF, folding and noise around it."""
    noisy = f"$ motd\r\n{wrap(content)}exit".replace("\n", "\r\n\r\n").encode()
    assert unwrap(noisy) == content
    assert max(map(len, wrap(content).split("\n"))) <= 76


@examples(150)
@given(st.data())
def test_damage_raises_only_archive_errors(data: st.DataObject) -> None:
    """Changed or lost bytes cause no other exception."""
    whole = data.draw(st.sampled_from([SINGLE, TAR.getvalue(), NOISY.encode(), TEXT_FILE]))
    content = bytearray(whole)
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=5)):
        content[at] = data.draw(st.integers(0, 255))
    _opens_or_is_an_archive_error(bytes(content[: data.draw(st.integers(0, len(content)))]))


json_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner)),
    max_leaves=6,
)


@given(st.data())
def test_any_manifest_value_is_refused_or_read(data: st.DataObject) -> None:
    """No type in any place causes another exception."""
    entries = [dict(data.draw(st.sampled_from([RUN, USER, TUNE | {"hex": []}]))) for _ in "ab"]
    entry = data.draw(st.sampled_from(entries))
    entry[data.draw(st.sampled_from([*entry, "hex", "unknown", "base64"]))] = data.draw(json_values)
    _opens_or_is_an_archive_error(json.dumps(top(*entries)).encode())


def _opens_or_is_an_archive_error(content: bytes) -> None:
    from tempfile import NamedTemporaryFile  # noqa: PLC0415 - a path, as users have it

    with NamedTemporaryFile() as file:
        Path(file.name).write_bytes(content)
        with suppress(ArchiveError):
            assert open_captured(file.name).kind == "snapshot"
