"""Snapshots in the results of Ansible tasks, and texts without a snapshot."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from ext4audit.sources import ArchiveError
from ext4audit.sources.captured import open_captured
from ext4audit.sources.captured_files import EMPTY, open_file, unwrap_task, why_no_snapshot
from ext4audit.sources.snapshot import SnapshotError
from support.hosts.fixture_hosts import HOSTS


def test_what_the_task_printed_is_the_text() -> None:
    """The same text is repeated in `stdout_lines`."""
    result = {"changed": True, "rc": 0, "stdout": "a\r\nb\udcff", "stdout_lines": ["a", "b"]}
    assert unwrap_task(json.dumps(result).encode()) == b"a\r\nb\xed\xb3\xbf"


@pytest.mark.parametrize(
    "text",
    [
        b"no object",
        b'{"stdout": ',
        b'{"format": "x", "answers": [{"stdout": "a"}], "stdout": "b"}',
        b'{"msg": "of another program"}',
        b'{"format": "x"}',
    ],
)
def test_other_texts_stay(text: bytes) -> None:
    """A snapshot may contain any word, and a damaged file is judged by its reader."""
    assert unwrap_task(text) == text


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"unreachable": True, "msg": "Failed\n to connect"}, "unreachable: Failed to connect$"),
        ({"failed": True, "rc": 1, "stdout": "", "stderr": "sudo: no"}, "nothing: sudo: no$"),
        ({"changed": False, "stdout": "", "msg": 3}, "the task printed nothing$"),
        ({"unreachable": True, "msg": "x" * 1000}, "unreachable: x{200}$"),
    ],
)
def test_a_task_that_printed_nothing_has_a_reason(result: dict[str, object], reason: str) -> None:
    """The reason is that of Ansible."""
    with pytest.raises(SnapshotError, match=reason):
        unwrap_task(json.dumps(result).encode())


@pytest.mark.parametrize(
    "start", [b"-----BEGIN PGP MESSAGE-----\n\nx", b"\x85\x02\x0c\x1f\x8b\x08"]
)
def test_an_encrypted_archive_is_called_so(start: bytes) -> None:
    """In secured-sosreport-….gpg the magic bytes of other formats can occur anywhere."""
    with pytest.raises(ArchiveError, match=r"decrypt it first \(gpg -d\)"):
        open_file(io.BytesIO(start + bytes(2000)), "x.gpg")


REFUSAL = "neither a snapshot nor an archive, but the message of a command that failed"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", EMPTY),
        (b" \r\n", EMPTY),
        (b"sudo: a password is required\n", f"{REFUSAL}; it begins with 'sudo: a password is"),
        (b"ssh: connect to host x: Connection refused", REFUSAL),
        (
            b"Welcome\n" + gzip.compress(b"x", mtime=0),
            "other output precedes the snapshot, such as a login",
        ),
        (b"Welcome\n" + b"x" * 249 + b"ustar\x0000", "other output precedes the snapshot"),
        (b"Hello\nyou", "neither a snapshot nor an archive; it begins with 'Hello'"),
        (b"y" * 1000, f"neither a snapshot nor an archive; it begins with '{'y' * 80}'"),
        (b"\x1b[31mHello", "neither a snapshot nor an archive"),
        (b"\xff\xfe", "neither a snapshot nor an archive"),
        (b"\x1f", "neither a snapshot nor an archive"),
        (gzip.compress(b"x", mtime=0), "compressed twice, or by a program that is not read"),
        (b"x" + bytes(256) + b"ustar\x0000", "a tar whose first header is cut off or damaged"),
    ],
)
def test_a_text_without_a_snapshot_has_a_cause(text: bytes, why: str) -> None:
    """The texts are those of usual mistakes with pipes; bytes that are not text are not shown."""
    found = why_no_snapshot(text)
    assert found.startswith(why)
    assert found.isprintable()
    has_line = text.strip()[:1].isalpha() and not text.startswith(b"x\0")
    assert ("it begins with" in found) is has_line


@pytest.mark.parametrize(
    ("mark", "kind"),
    [
        ("sos_commands/host/hostname", "sosreport"),
        ("insights_commands/hostname", "insights"),
        ("basic-environment.txt", "supportconfig"),
    ],
)
def test_a_manifest_of_another_program_makes_no_snapshot(mark: str, kind: str) -> None:
    """`tar -C sosreport-x .` omits the folder, and sos has a manifest one level below it."""
    packed = tar_of("./sos_reports/manifest.json", f"./{mark}", "./environment")
    assert open_file(packed, "x.tar").kind == kind


def tar_of(*names: str) -> io.BytesIO:
    """Return a tar of empty files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(name))
    packed.seek(0)
    return packed


@pytest.mark.parametrize(
    ("names", "held"),
    [
        (("db1.tar.gz", "db2.tgz"), "'db1.tar.gz', 'db2.tgz'"),
        (("hosts/db1/ext4audit-snapshot/manifest.json",), "'hosts/db1/ext4audit-snapshot'"),
        (("a/b/c/sos_commands/x/y", "a/b/c/sos_reports/manifest.json", "a/b/d"), "'a/b/c'"),
        (("a/b/c/basic-environment.txt",), "'a/b/c'"),
    ],
)
def test_a_tar_of_more_than_one_host_is_to_be_unpacked(names: tuple[str, ...], held: str) -> None:
    """A fleet is a directory, so the error for such a tar names its content."""
    with pytest.raises(ArchiveError, match=f"it holds {held}: unpack it, and audit the directory"):
        open_file(tar_of(*names), "x.tar")


def test_a_tar_without_evidence_is_called_so() -> None:
    """An example is a tar of /etc."""
    with pytest.raises(ArchiveError, match=r"a known kind of archive$"):
        open_file(tar_of("etc/fstab", "etc/targets/x"), "x.tar")


def test_a_path_is_named_although_the_reason_begins_like_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key of a manifest may be the name of its file."""
    manifest = json.loads((HOSTS / "healthy-debian-12" / "snapshot" / "manifest.json").read_text())
    (tmp_path / "taken_at").write_text(json.dumps({**manifest, "taken_at": "1"}))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArchiveError, match=r"^taken_at: taken_at: not a time") as raised:
        open_captured("taken_at")
    assert raised.value.path == "taken_at"
