"""Untrusted archives are read in memory; no path leaves them, and nothing is unpacked."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import struct
import subprocess
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.sources import ArchiveError
from ext4audit.sources.captured import open_captured
from ext4audit.sources.containers import ARCHIVE_LIMITS, Archive, Limits, MemoryArchive
from ext4audit.sources.containers.archives import DirectoryArchive
from ext4audit.sources.timeouts import BoundedCalls
from support.archives.tar import read_tar
from support.examples import examples

SMALL = Limits(
    most_entries=50,
    largest_file_bytes=1 << 20,
    largest_kept_bytes=4 << 20,
    largest_stream_bytes=64 << 20,
)


def member(name: str, content: bytes = b"", **changes: object) -> tuple[tarfile.TarInfo, bytes]:
    """Build a tar member and its content."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in changes.items():
        setattr(info, key, value)
    return info, content


def tar(
    *members: tuple[tarfile.TarInfo, bytes], kind: int = tarfile.PAX_FORMAT, mode: str = "w"
) -> bytes:
    """Write a tar with the standard library."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode, format=kind) as written:  # type: ignore[call-overload]
        for info, content in members:
            written.addfile(info, io.BytesIO(content))
    return file.getvalue()


def opened(content: bytes, limits: Limits = SMALL) -> MemoryArchive:
    """Read a tar from memory."""
    return read_tar(io.BytesIO(content), limits=limits)


TREE = [
    member("./top/a", b"content of a"),
    member("top/sub/b", b"b" * 2000),
    member("top/" + "n" * 150, b"long name"),
    member("top/\udcff\u00e9\n[/red]", b"odd name"),
    member("top/to-b", type=tarfile.SYMTYPE, linkname="sub/../sub/b"),
    member("top/hard", type=tarfile.LNKTYPE, linkname="top/a"),
    member("top/up", type=tarfile.SYMTYPE, linkname="sub"),
]
TREE_NAMES = ("top/a", "top/" + "n" * 150, "top/sub/b", "top/\udcff\u00e9\n[/red]")


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_tar_of_any_dialect_is_read(kind: int, mode: str) -> None:
    """Names, directories and contents are read back, and links inside are followed."""
    # ustar has no space for a long name, and no encoding for one that is not ASCII.
    chosen = TREE if kind != tarfile.USTAR_FORMAT else [*TREE[:2], *TREE[4:]]
    archive = opened(tar(*chosen, kind=kind, mode=mode))
    assert archive.read("top/a") == archive.read("top/hard") == b"content of a"
    assert archive.read("top/to-b") == archive.read("top/up/b") == b"b" * 2000
    assert archive.is_directory("top/up")
    assert archive.children("top/up") == ("b",)
    if kind != tarfile.USTAR_FORMAT:
        assert archive.names() == TREE_NAMES
        assert archive.read(TREE_NAMES[3]) == b"odd name"


def test_real_tar_is_read(tmp_path: Path) -> None:
    """A tar made by GNU tar gives the same answers as the directory itself."""
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "file").write_text("text")
    (tree / "link").symlink_to("sub/file")
    (tree / ("x" * 200)).touch()
    os.link(tree / "sub" / "file", tree / "second")
    packing = "tar", "-C", str(tmp_path), "-c", "tree"
    written = subprocess.run(packing, capture_output=True, check=True).stdout
    (tmp_path / "it.tar.xz").write_bytes(lzma.compress(written))
    with (tmp_path / "it.tar.xz").open("rb") as file:
        packed: Archive = read_tar(file)
    plain: Archive = DirectoryArchive(str(tmp_path), ARCHIVE_LIMITS)
    for archive in (packed, plain):
        assert archive.children("tree") == ("link", "second", "sub", "x" * 200)
        assert archive.read("tree/link") == archive.read("tree/second") == b"text"
        assert archive.is_directory("tree/sub")
        assert not archive.is_directory("tree/nothing")


@pytest.mark.parametrize("dialect", ["gnu", "posix"])
def test_members_behind_a_sparse_file_of_many_parts_are_read(dialect: str, tmp_path: Path) -> None:
    """GNU tar writes a map of more than four parts into blocks that the size does not count."""
    with (tmp_path / "a-log").open("wb") as file:
        for part in range(60):
            file.seek(part << 20)
            file.write(b"x" * 4096)
    (tmp_path / "b").write_text("text")
    packing = "tar", "-C", str(tmp_path), f"--format={dialect}", "-Sc", "a-log", "b"
    written = subprocess.run(packing, capture_output=True, check=True).stdout
    archive = read_tar(io.BytesIO(written))
    assert archive.read("b") == b"text"
    with pytest.raises(ArchiveError, match="a sparse file, not a regular file"):
        archive.read(next(iter(archive.specials())))


def test_only_wanted_members_are_in_memory() -> None:
    """The names of all members are known; the content of the others is not in memory."""
    content = tar(member("keep", b"1"), member("drop", b"2"))
    wanted = "keep".__eq__
    archive = read_tar(io.BytesIO(content), wanted=wanted)
    assert archive.names() == ("drop", "keep")
    assert archive.read("keep") == b"1"
    with pytest.raises(ArchiveError, match=r"^it: 'drop': was not kept in memory"):
        archive.read("drop")


def sparse() -> bytes:
    """Return a tar with a file that its pax header marks as sparse."""
    return tar(
        member(
            "s", b"x", pax_headers={"GNU.sparse.major": "1", "GNU.sparse.realsize": "1" + "0" * 15}
        )
    )


def long_header() -> bytes:
    """Return a tar whose pax header claims 8 GiB."""
    block = bytearray(tar(member("x"))[:512])
    block[156:157] = b"x"
    block[124:136] = b"\x80" + (8 << 30).to_bytes(11, "big")
    return with_checksum(block)


def with_checksum(block: bytearray) -> bytes:
    """Return a header with the right checksum, and an end-of-archive block."""
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + bytes(1024)


def sized(field: bytes) -> bytes:
    """Return a tar whose only member has this size field."""
    block = bytearray(tar(member("x"))[:512])
    block[124:136] = field
    return with_checksum(block)


DEVICES = [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"V"]
GOOD = tar(member("a", b"1" * 600))


def xz_of_a_large_dictionary() -> bytes:
    """Return an xz whose header asks for 1 GiB, as that of a real compressor could.

    The header of the first block: its size, flags, filter, size of its properties, size of the
    dictionary, padding, CRC32 (the .xz file format, version 1.2.1, sections 3.1 and 5.3.1).
    """
    content = bytearray(lzma.compress(GOOD))
    assert content[14:16] == b"\x21\x01"
    content[16] = 36
    content[20:24] = struct.pack("<I", zlib.crc32(content[12:20]))
    return bytes(content)


ATTACKS: dict[str, tuple[Callable[[], bytes], str]] = {
    "absolute path": (lambda: tar(member("/etc/passwd")), "an absolute path: '/etc/passwd'"),
    "way up": (lambda: tar(member("a/../../etc/passwd")), "a path that could leave the archive"),
    "two of a name": (lambda: tar(member("a"), member("./a")), "two members are named 'a'"),
    "file in a file": (
        lambda: tar(member("a"), member("a/b")),
        "'a' is a directory and something else",
    ),
    "directory then file": (lambda: tar(member("a/b"), member("a")), "two members are named 'a'"),
    "a long path": (lambda: tar(member("d/" * 3000)), "a path of 6000 characters"),
    "many entries": (lambda: tar(*(member(f"{n}") for n in range(51))), "more than 50 entries"),
    "deep folders": (lambda: tar(member("d/" * 60 + "x")), "more than 50 entries"),
    "a large file": (lambda: tar(member("a", bytes(2 << 20))), "larger than 1048576 bytes"),
    "many large files": (
        lambda: tar(*(member(f"{n}", bytes([n]) * (1 << 20)) for n in range(5))),
        r"larger than \d+ bytes|holds more than 4194304 bytes",
    ),
    "a claimed size": (lambda: sized(b"77777777777\0"), "larger than 1048576 bytes"),
    "a size beyond 64 bits": (lambda: sized(b"\x80" + b"\xff" * 11), "larger than 1048576 bytes"),
    "a negative size": (lambda: sized(b"-0000000001\0"), "not an octal number"),
    "a long header": (long_header, "larger than 1048576 bytes"),
    "cut in a member": (lambda: GOOD[:700], "truncated"),
    "cut in a header": (lambda: GOOD[:2048][:1636], "truncated"),
    "no end": (lambda: GOOD[: 512 + 1024], "truncated"),
    "cut in gzip": (lambda: gzip.compress(GOOD)[:-9], "truncated"),
    "cut in xz": (lambda: lzma.compress(GOOD)[:-9], "truncated"),
    "cut in bzip2": (lambda: bz2.compress(GOOD)[:-9], "truncated"),
    "damaged gzip": (lambda: gzip.compress(GOOD)[:-8] + b"01234567", "damaged"),
    "garbage after gzip": (lambda: gzip.compress(GOOD) + b"garbage", "damaged"),
    "an image of a disk": (
        lambda: bytes(1024) + b"\x01" * 1024,
        "not an archive; audit an image as a TARGET, without --from",
    ),
    "two joined tars": (lambda: GOOD + GOOD, "data follows the end"),
    "garbage": (lambda: b"\x8f\x01" * 600, "not a tar archive"),
    "empty": (lambda: b"", "not a tar archive"),
    "a bomb of gzip": (lambda: gzip.compress(bytes(20 << 20)), "a bomb"),
    "a bomb of xz": (lambda: lzma.compress(bytes(20 << 20), preset=0), "a bomb"),
    "a bomb of bzip2": (lambda: bz2.compress(bytes(20 << 20)), "a bomb"),
    "zstd": (lambda: b"\x28\xb5\x2f\xfd" + bytes(600), "it: compressed by zstd: unpack"),
    "lz4": (lambda: b"\x04\x22\x4d\x18" + bytes(600), "it: compressed by lz4: unpack"),
    "lzip": (lambda: b"LZIP\x01" + bytes(600), "it: compressed by lzip: unpack"),
    "7z": (lambda: b"7z\xbc\xaf\x27\x1c" + bytes(600), "it: a 7z archive: unpack"),
    "zip": (lambda: b"PK\x03\x04" + bytes(600), "it: a zip archive: unpack it first"),
    "xz that wants memory": (
        xz_of_a_large_dictionary,
        "damaged: Memory usage limit",
    ),
    "pax that is none": (
        lambda: tar(member("x", b"nonsense", type=tarfile.XHDTYPE)),
        "damaged: '' is not a number",
    ),
    "pax with no length": (
        lambda: tar(member("x", b"0 a=b\n", type=tarfile.XHDTYPE)),
        "damaged: a pax header is not a list",
    ),
    "many pax headers": (
        lambda: tar(
            *(member("x", b"30 comment=" + b"c" * 18 + b"\n", type=tarfile.XHDTYPE),) * 3000
        ),
        "extension headers of more than 1048576 bytes",
    ),
    "many empty pax headers": (
        lambda: tar(*(member("x", type=tarfile.XHDTYPE),) * 3000),
        "extension headers of more than 1048576 bytes",
    ),
    "a global name": (
        lambda: tar(member("x", b"13 path=evil\n", type=tarfile.XGLTYPE)),
        "a global header gives every member",
    ),
}


@pytest.mark.parametrize(("content", "reason"), ATTACKS.values(), ids=ATTACKS)
def test_malicious_archive_is_an_error_with_its_name(
    content: Callable[[], bytes], reason: str
) -> None:
    """Nothing is read beyond the limits, and no malformed part is skipped."""
    with pytest.raises(ArchiveError, match=reason) as caught:
        opened(content())
    assert str(caught.value).startswith("it: ")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        *((tar(member("x", type=kind)), ", not a regular file") for kind in DEVICES),
        (sparse(), "a sparse file, not a regular file"),
        (tar(member("x", type=tarfile.SYMTYPE, linkname="x")), "more than 40 links"),
        (tar(member("x", type=tarfile.LNKTYPE, linkname="x")), "more than 40 links"),
        (tar(member("x", type=tarfile.SYMTYPE, linkname="/etc/passwd")), "leaves the archive"),
        (tar(member("x", type=tarfile.SYMTYPE, linkname="../passwd")), "leaves the archive"),
        (tar(member("x", type=tarfile.SYMTYPE, linkname="gone")), "not in the archive"),
        (tar(member("y")), "not in the archive"),
        (tar(member("x/")), "not a regular file|not in the archive"),
    ],
)
def test_special_files_are_not_read(content: bytes, reason: str) -> None:
    """Devices, FIFOs, sparse files, link loops and links to the outside are errors when read."""
    archive = opened(content)
    with pytest.raises(ArchiveError, match=reason):
        archive.read("s" if "s" in archive.specials() else "x")


LONG_NAMES = {
    "names": [member(f"{n}/" + f"{'e' * 90}/" * 30 + "x") for n in range(300)],
    "directories that are not members": [member(f"{n}/" + "d/" * 1000) for n in range(20)],
    "targets": [member(f"{n}", type=tarfile.SYMTYPE, linkname="t" * 3000) for n in range(2000)],
    "names of four bytes a character": [member(f"{n}" + "\U0001f4be" * 900) for n in range(900)],
}


@pytest.mark.parametrize("members", LONG_NAMES.values(), ids=LONG_NAMES)
def test_names_count_towards_the_limits(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    """Names of implied directories count: 1,884 bytes of tar.gz once took 1.6 GiB."""
    limits = SMALL._replace(most_entries=200_000)
    content = gzip.compress(tar(*members))
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveError, match="holds more than 4194304 bytes"):
            opened(content, limits)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 3 * limits.largest_kept_bytes


def test_equal_contents_are_stored_once() -> None:
    """A sosreport has the mount table of each process: hundreds of MiB on a node of Kubernetes."""
    table = bytes(1 << 20)
    archive = opened(tar(*(member(f"{n}", table) for n in range(40))))
    assert archive.read("39") == table
    assert archive.read("0") is archive.read("39")


def test_highly_compressible_content_is_allowed_up_to_a_size() -> None:
    """On such a node, the output of `sos report -o filesys` is compressed 1,700 times."""
    content = lzma.compress(tar(*(member(f"{n}", bytes(1 << 20)) for n in range(40))), preset=0)
    archive = opened(content, SMALL._replace(free_stream_bytes=48 << 20))
    assert len(archive.names()) == 40
    with pytest.raises(ArchiveError, match=r"more than 200 times its size \(a bomb\)"):
        opened(content, SMALL._replace(free_stream_bytes=32 << 20))


def test_unused_pax_values_are_not_kept() -> None:
    """A million one-byte records before a member must not fill a dictionary."""
    records = b"".join(b"%d %d=\n" % (len(str(n)) + 5, n) for n in range(10_000, 50_000))
    headers = [member("x", records, type=tarfile.XHDTYPE)] * 2
    content = tar(*headers, member("a", b"1"))
    tracemalloc.start()
    try:
        assert opened(content).read("a") == b"1"
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 5 << 20


def test_a_directory_of_long_names_is_refused(tmp_path: Path) -> None:
    """The limit is that of a tar, and a directory listing ends at the limit of entries."""
    for number in range(40):
        (tmp_path / f"{number}{'n' * 200}").write_bytes(b"")
    limits = SMALL._replace(largest_kept_bytes=10_000)
    with pytest.raises(ArchiveError, match="names of more than 10000 bytes"):
        DirectoryArchive(str(tmp_path), limits).names()
    with pytest.raises(ArchiveError, match="more than 39 entries"):
        DirectoryArchive(str(tmp_path), SMALL._replace(most_entries=39)).children("")


def test_reader_stops_at_the_limit_of_entries() -> None:
    """The reader stops at the limit and does not read the rest."""
    block = tar(member("a/0000000"))[:512]

    class Endless(io.RawIOBase):
        made = 0

        def read(self, _count: int = -1) -> bytes:
            header = bytearray(block)
            header[2:9] = b"%07d" % self.made
            self.made += 1
            return with_checksum(header)[:512]

    endless = Endless()
    with pytest.raises(ArchiveError, match="more than 50 entries"):
        read_tar(endless, limits=SMALL)  # type: ignore[arg-type]
    assert endless.made < 200


R = TypeVar("R")


class CountedCalls(BoundedCalls):
    """Bounded calls that count how many were made."""

    count = 0

    def __call__(self, call: Callable[[], R], timeout_seconds: float | None = None) -> R:
        """Count and make a call."""
        self.count += 1
        return super().__call__(call, timeout_seconds)


def test_missing_directories_are_looked_up_once(tmp_path: Path) -> None:
    """1,000 devices have forty attributes each, all below directories that do not exist."""
    (tmp_path / "sys").mkdir()
    calls = CountedCalls()
    archive = DirectoryArchive(str(tmp_path), SMALL, calls)
    for attribute in range(40):
        with pytest.raises(ArchiveError, match="not in the archive"):
            archive.read(f"sys/block/sda/queue/{attribute}")
    assert calls.count == 2  # sys, and block in it


def test_a_link_that_appears_later_is_not_followed(tmp_path: Path) -> None:
    """The name was checked before and is opened without following links."""
    (tmp_path / "secret").write_text("secret")
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "file").write_text("text")
    archive = DirectoryArchive(str(tree), SMALL)
    assert archive.read("sub/file") == b"text"
    (tree / "sub" / "file").unlink()
    (tree / "sub" / "file").symlink_to(tmp_path / "secret")
    with pytest.raises(ArchiveError):
        archive.read("sub/file")


def test_links_cannot_leave_the_directory(tmp_path: Path) -> None:
    """Links to the outside, FIFOs and large files are errors, and inside links are followed."""
    (tmp_path / "secret").write_text("secret")
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "file").write_text("text")
    (tree / "inside").symlink_to("sub")
    (tree / "absolute").symlink_to(tmp_path / "secret")
    (tree / "up").symlink_to("../secret")
    (tree / "loop").symlink_to("loop")
    os.mkfifo(tree / "fifo")
    os.truncate(os.open(tree / "large", os.O_CREAT | os.O_RDWR), 1 << 40)
    archive = DirectoryArchive(str(tree), SMALL)
    assert archive.read("inside/file") == b"text"
    assert archive.names() == ("large", "sub/file")
    for name, reason in {
        "absolute": "leaves the archive",
        "up": "leaves the archive",
        "loop": "more than 40 links",
        "fifo": "not a regular file",
        "large": "larger than 1048576 bytes",
        "../secret": "leaves the archive",
        "gone": "not in the archive",
    }.items():
        with pytest.raises(ArchiveError, match=reason):
            archive.read(name)
    with pytest.raises(ArchiveError, match="not a directory"):
        archive.children("sub/file")


def test_directory_beyond_the_limits_is_refused(tmp_path: Path) -> None:
    """The limits for a tar also apply to a directory tree."""
    for number in range(51):
        (tmp_path / str(number)).write_bytes(bytes(1 << 18))
    archive = DirectoryArchive(str(tmp_path), SMALL)
    with pytest.raises(ArchiveError, match="more than 50 entries"):
        archive.names()
    with pytest.raises(ArchiveError, match="more than 4194304 bytes"):
        [archive.read(str(number)) for number in range(51)]


def test_unreadable_archive_error_has_the_path(tmp_path: Path) -> None:
    """The error begins with the path."""
    with pytest.raises(ArchiveError, match=f"^{tmp_path}/gone: No such file"):
        open_captured(f"{tmp_path}/gone")


def test_padding_is_accepted() -> None:
    """Tapes and block devices pad with zeros, before and after compression."""
    padded = gzip.compress(GOOD + bytes(5000)) + bytes(3000)
    assert opened(padded).read("a") == b"1" * 600


@examples(200)
@given(st.data())
def test_damage_raises_only_archive_errors(data: st.DataObject) -> None:
    """Changed or lost bytes cause no other exception."""
    packers: list[Callable[[bytes], bytes]] = [bytes, gzip.compress, lzma.compress, bz2.compress]
    pack = data.draw(st.sampled_from(packers))
    content = bytearray(tar(*TREE))
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=6)):
        content[at] = data.draw(st.integers(0, 255))
    packed = bytearray(pack(bytes(content)))
    for at in data.draw(st.lists(st.integers(0, len(packed) - 1), max_size=2)):
        packed[at] ^= data.draw(st.integers(0, 255))
    read_all(bytes(packed[: data.draw(st.integers(0, len(packed)))]))


@given(st.binary(max_size=3000))
def test_any_member_header_raises_only_archive_errors(content: bytes) -> None:
    """Headers with a correct checksum and any content reach every part of the reader."""
    block = bytearray((content + bytes(512))[:512])
    block[156:157] = struct.pack("B", b"0x1gL25K"[len(content) % 8])
    read_all(with_checksum(block)[:512] + content + bytes(2048))


def read_all(content: bytes) -> None:
    """Read every file of an archive, ignoring ArchiveError only."""
    try:
        archive = opened(content)
    except ArchiveError:
        return
    for name in archive.names():
        with suppress(ArchiveError):
            archive.read(name)


@pytest.mark.parametrize("name", ["a\0", "\ud800"])
def test_path_with_nul_is_not_in_a_directory(name: str, tmp_path: Path) -> None:
    """A zeroed mount table after a crash names such a path, which must not end the scan."""
    archive = DirectoryArchive(str(tmp_path), SMALL)
    assert not archive.is_directory(name)
    with pytest.raises(ArchiveError, match="not in the archive"):
        archive.read(name)
