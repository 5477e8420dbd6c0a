from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.superblock import Superblock
from ext4audit.parsers.dumpe2fs import parse_journal_errno, parse_superblock
from ext4audit.parsers.superblock import (
    parse_journal_superblock,
    parse_tune_superblock,
)
from support.hosts.evidence_host import dumpe2fs_text

Stored = Callable[[str], str]
GET_TUNE_SB_PARAM = 2 << 30 | 232 << 16 | ord("f") << 8 | 45
MANY_FEATURES = (
    "encrypt,verity,inline_data,large_dir,ea_inode,metadata_csum_seed,stable_inodes,"
    "orphan_file,fast_commit"
)
SHARED = (
    "default_mount_options",
    "mount_option_string",
    "features",
    "errors",
    "stride_blocks",
    "stripe_width_blocks",
    "size_blocks",
)


def answer(**words: int) -> bytes:
    """Return an answer with 32-bit words at these offsets, for a filesystem of 4096 blocks."""
    data = bytearray(232)
    offsets = {"errors": 8, "blocks": 32, "options": 40, "compat": 64, "incompat": 68, "ro": 72}
    for name, word in {"blocks": 4096, **words}.items():
        data[offsets[name] : offsets[name] + 4] = word.to_bytes(4, "little")
    return bytes(data)


@pytest.mark.parametrize("name", ["features", "ext2"])
def test_the_ioctl_and_dumpe2fs_agree(stored: Stored, name: str) -> None:
    """Both readers, used at the same time on one mounted filesystem, give the same superblock."""
    ioctl = parse_tune_superblock(bytes.fromhex(stored(f"tune-superblock/6.18-{name}.hex")))
    dumpe2fs = parse_superblock(stored(f"dumpe2fs/1.47.0-tune-superblock-{name}.txt"))
    for field in SHARED:
        assert getattr(ioctl, field) == getattr(dumpe2fs, field)


def test_a_filesystem_with_many_features_is_read_in_every_field(stored: Stored) -> None:
    """The expected numbers are literal, so that both readers cannot be wrong in the same way."""
    superblock = parse_tune_superblock(bytes.fromhex(stored("tune-superblock/6.18-features.hex")))
    assert superblock == Superblock(
        default_mount_options=(
            "journal_data_writeback",
            "user_xattr",
            "acl",
            "nobarrier",
            "block_validity",
            "discard",
            "nodelalloc",
        ),
        mount_option_string="commit=30,noauto_da_alloc",
        features=frozenset(
            "has_journal ext_attr dir_index sparse_super2 fast_commit stable_inodes orphan_file "
            "filetype needs_recovery extent 64bit mmp flex_bg ea_inode metadata_csum_seed "
            "large_dir inline_data encrypt sparse_super large_file huge_file dir_nlink "
            "extra_isize metadata_csum verity orphan_present".split()
        ),
        errors="remount-ro",
        stride_blocks=128,
        stripe_width_blocks=1536,
        size_blocks=131072,
    )


@pytest.mark.parametrize(
    ("kind", "word", "names"),
    [
        ("compat", 1 << 2, {"has_journal"}),
        ("compat", 1 << 12 | 1 << 13, {"orphan_file", "FEATURE_C13"}),
        ("incompat", 1 << 2 | 1 << 17 | 1 << 31, {"needs_recovery", "casefold", "FEATURE_I31"}),
        ("incompat", 1 << 5 | 1 << 11, {"FEATURE_I5", "FEATURE_I11"}),
        ("ro", 1 << 9 | 1 << 12, {"bigalloc", "read-only"}),
        ("ro", 1 << 2 | 1 << 20, {"FEATURE_R2", "FEATURE_R20"}),
        ("ro", 0, set()),
    ],
)
def test_features_have_the_names_of_dumpe2fs(kind: str, word: int, names: set[str]) -> None:
    """A known bit has its name, an unknown one the name that dumpe2fs would print."""
    assert parse_tune_superblock(answer(**{kind: word})).features == names


@pytest.mark.parametrize(
    ("word", "words"),
    [
        (0x00, ()),
        (0x0C, ("user_xattr", "acl")),
        (0x20, ("journal_data",)),
        (0x40, ("journal_data_ordered",)),
        (0x60, ("journal_data_writeback",)),
        (0x13, ("debug", "bsdgroups", "uid16")),
        (
            0xF01001FF,
            tuple(
                "journal_data_writeback debug bsdgroups user_xattr acl uid16 MNTOPT_7 nobarrier "
                "MNTOPT_20 MNTOPT_28 MNTOPT_29 MNTOPT_30 MNTOPT_31".split()
            ),
        ),
    ],
)
def test_default_mount_options_have_the_words_of_dumpe2fs(
    word: int, words: tuple[str, ...]
) -> None:
    """The journal mode comes first and has two bits (last case: as dumpe2fs printed it)."""
    assert parse_tune_superblock(answer(options=word)).default_mount_options == words


@pytest.mark.parametrize(
    ("value", "errors"), [(1, "continue"), (2, "remount-ro"), (3, "panic"), (0, "remount-ro")]
)
def test_the_errors_number_is_read_as_by_the_kernel(value: int, errors: str) -> None:
    """The kernel treats an unknown number as remount-ro (seen on 6.18)."""
    assert parse_tune_superblock(answer(errors=value)).errors == errors


@pytest.mark.parametrize("data", [b"", bytes(228), bytes(233)])
def test_another_length_is_refused(data: bytes) -> None:
    """Another length means another layout."""
    with pytest.raises(ValueError, match="bytes instead of 232"):
        parse_tune_superblock(data)


def test_a_filesystem_without_blocks_is_refused() -> None:
    """An answer of zeros is not a superblock."""
    with pytest.raises(ValueError, match="without blocks"):
        parse_tune_superblock(bytes(232))


@given(st.binary(min_size=232, max_size=232))
def test_any_answer_is_parsed_or_refused(data: bytes) -> None:
    """The parser raises nothing but ValueError."""
    try:
        superblock = parse_tune_superblock(data)
    except ValueError:
        assert data[32:40] == bytes(8)
    else:
        assert superblock.errors in {"continue", "remount-ro", "panic"}


def tune_parameters(mount_point: Path) -> bytes:
    """Return the kernel's answer; skip the test if the kernel lacks the ioctl."""
    descriptor = os.open(mount_point, os.O_RDONLY | os.O_DIRECTORY)
    try:
        buffer = bytearray(232)
        fcntl.ioctl(descriptor, GET_TUNE_SB_PARAM, buffer)
    except OSError as error:
        pytest.skip(f"EXT4_IOC_GET_TUNE_SB_PARAM: {error.strerror}")
    finally:
        os.close(descriptor)
    return bytes(buffer)


@pytest.mark.kernel
@pytest.mark.usefixtures("private_mounts")
@pytest.mark.parametrize(
    ("fstype", "make", "tune"),
    [
        ("ext4", [], []),
        ("ext2", ["-b", "1024"], []),
        ("ext3", [], ["-o", "journal_data_ordered,debug", "-e", "panic"]),
        ("ext4", ["-O", "bigalloc,sparse_super2,^resize_inode"], ["-o", "^acl,^user_xattr,uid16"]),
        (
            "ext4",
            [
                "-O",
                MANY_FEATURES,
                "-E",
                "stride=16,stripe_width=64",
            ],
            ["-o", "nobarrier,block_validity,discard,nodelalloc,bsdgroups", "-e", "remount-ro"],
        ),
        ("ext4", [], ["-E", "mount_opts=nobarrier"]),
    ],
)
def test_the_running_kernel_and_dumpe2fs_agree(
    tmp_path: Path, fstype: str, make: list[str], tune: list[str]
) -> None:
    """On a filesystem mounted now, every field of the ioctl has the value that dumpe2fs reads."""
    from support.filesystems.scratch import Scratch, run  # noqa: PLC0415 - needs the rooms above parsers

    scratch = Scratch(tmp_path / "image", tmp_path / "mnt").make(*make, fstype=fstype)
    if tune:
        scratch.tune(*tune)
    scratch.mount(fstype=fstype)
    try:
        ioctl = parse_tune_superblock(tune_parameters(scratch.mount_point))
        run("sync")
        dumpe2fs = parse_superblock(run("dumpe2fs", "-h", scratch.device))
    finally:
        scratch.unmount()
    for field in SHARED:
        assert getattr(ioctl, field) == getattr(dumpe2fs, field)


def superblock(errno: int = 0, *, magic: int = 0xC03B3998, kind: int = 4) -> bytes:
    """Return a journal's superblock as big-endian words."""
    words = [magic, kind, 0, 4096, 16384, 1, 2, 1, errno & 0xFFFFFFFF]
    return b"".join(word.to_bytes(4, "big") for word in words).ljust(1024, b"\0")


@pytest.mark.parametrize("errno", [0, -5, -117])
def test_the_error_is_a_signed_number(errno: int) -> None:
    """Versions 1 (3) and 2 (4) have it at the same place."""
    assert parse_journal_superblock(superblock(errno)) == errno
    assert parse_journal_superblock(superblock(errno, kind=3)) == errno


@pytest.mark.parametrize(
    "data", [b"", superblock(magic=0xEF53), superblock(kind=1), superblock() + b"\0"]
)
def test_other_bytes_are_not_a_journal_superblock(data: bytes) -> None:
    """One example is a commit block, which begins alike."""
    with pytest.raises(ValueError, match="not the superblock of a journal"):
        parse_journal_superblock(data)


def test_dumpe2fs_prints_no_line_without_an_error() -> None:
    """The line is printed for an error only."""
    assert parse_journal_errno(dumpe2fs_text()) == 0
    assert parse_journal_errno(dumpe2fs_text() + "Journal errno:            -5\n") == -5


def test_a_journal_that_dumpe2fs_did_not_read_has_no_answer() -> None:
    """For a journal on another device, for example, a missing line does not mean 0."""
    text = dumpe2fs_text().partition("Total journal size")[0]
    with pytest.raises(ValueError, match="does not describe"):
        parse_journal_errno(text)


def test_a_label_cannot_forge_the_error() -> None:
    """Strings of the superblock are ignored."""
    assert parse_journal_errno(dumpe2fs_text(label="a\nJournal errno:")) == 0
