"""The reasons that errno values stand for."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.evidence import Why
from ext4audit.sources import decode, denied_hint, encode, from_os_error, read_most


@given(st.binary().filter(lambda raw: b"\0" not in raw))
def test_every_name_survives_decoding(raw: bytes) -> None:
    """A name of any bytes comes back as the same bytes."""
    assert encode(decode(raw)) == raw


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_name_with_nul_is_einval(text: str) -> None:
    """NUL, and surrogates that no byte decodes to, give EINVAL and no exception."""
    with pytest.raises(OSError, match="name") as caught:
        encode(text)
    assert caught.value.errno == errno.EINVAL


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.ENOENT, Why.ABSENT),
        (errno.ENOTDIR, Why.ABSENT),
        (errno.ENODEV, Why.ABSENT),
        (errno.ENXIO, Why.ABSENT),
        (errno.EACCES, Why.DENIED),
        (errno.EPERM, Why.DENIED),
        (errno.EIO, Why.FAILED),
        (errno.ELOOP, Why.FAILED),
        (errno.EAGAIN, Why.FAILED),
        (errno.ETIMEDOUT, Why.TIMED_OUT),
    ],
)
def test_an_errno_has_a_reason(number: int, why: Why) -> None:
    """Each errno has one reason, and the detail is the kernel's message."""
    unanswered = from_os_error(OSError(number, os.strerror(number)))
    assert (unanswered.why, unanswered.detail) == (why, os.strerror(number))


def test_an_error_without_a_number_is_a_failure() -> None:
    """An OSError that Python raised itself keeps its message."""
    unanswered = from_os_error(OSError("older than Linux 3.15"))
    assert (unanswered.why, unanswered.detail, unanswered.hint) == (
        Why.FAILED,
        "older than Linux 3.15",
        "",
    )


@pytest.mark.parametrize(
    ("is_root", "hint"),
    [
        (True, "run on the host, outside containers"),
        (False, "run as root"),
    ],
)
def test_refusal_as_root_has_no_root_hint(is_root: bool, hint: str) -> None:
    """A recorded refusal is about the user who captured, not the one who reads."""
    assert denied_hint(is_root=is_root) == hint


@pytest.mark.parametrize(("most_bytes", "length"), [(1 << 62, 5000), (5000, 5000), (40, 40)])
def test_a_short_file_takes_no_memory_for_the_longest(
    tmp_path: Path, most_bytes: int, length: int
) -> None:
    """A manifest may have 128 MiB: a process with little memory read none."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 5000)
    with path.open("rb") as file:
        assert len(read_most(file, most_bytes)) == length


def test_a_pipe_has_no_size_and_is_read() -> None:
    """Up to the limit."""
    reader, writer = os.pipe()
    os.write(writer, b"abc")
    os.close(writer)
    with open(reader, "rb") as file:  # noqa: PTH123 - a descriptor
        assert read_most(file, 100) == b"abc"
