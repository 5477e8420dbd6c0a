from __future__ import annotations

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources.foreign_capture import NO_COMPLAINT, Output, judge
from ext4audit.sources.foreign_dumpe2fs import HEADER
from foreign_archives import DATA_UUID, header

BANNER = "dumpe2fs 1.47.0 (5-Feb-2023)\n"


@pytest.mark.parametrize(
    ("text", "status", "why", "hint"),
    [
        (
            BANNER + "dumpe2fs: Operation not permitted while trying to open /dev/vda\n",
            None,
            Why.DENIED,
            "capture again as root, on the host itself",
        ),
        (
            BANNER + "dumpe2fs: Permission denied while trying to open /dev/vda\n",
            1,
            Why.DENIED,
            "capture again as root, on the host itself",
        ),
        (
            "/bin/bash: dumpe2fs: command not found\n",
            None,
            Why.ABSENT,
            "install the program there, and capture again",
        ),
        (
            "timeout: failed to run command 'dumpe2fs': No such file or directory\n",
            None,
            Why.ABSENT,
            "install the program there, and capture again",
        ),
        (
            "ERROR: Command not found or not executable\n",
            None,
            Why.ABSENT,
            "install the program there, and capture again",
        ),
        ("", 127, Why.ABSENT, "install the program there, and capture again"),
        ("", 124, Why.TIMED_OUT, "capture again, with more time or less load"),
        (
            "# ERROR: Command did not complete within the timeout period.\n",
            None,
            Why.TIMED_OUT,
            "capture again, with more time or less load",
        ),
        (BANNER + "dumpe2fs: Bad magic number in super-block\n", None, Why.FAILED, ""),
        ("", None, Why.FAILED, ""),
        (header(DATA_UUID), 1, Why.FAILED, ""),
    ],
)
def test_a_stored_error_message_is_the_reason_that_it_states(
    text: str, status: int | None, why: Why, hint: str
) -> None:
    """An archive stores "Operation not permitted" like any other output."""
    found = judge(Output(text, "member", status), HEADER, "superblock")
    assert isinstance(found, Unknown)
    assert (found.what, found.why, found.hint) == ("superblock", why, hint)


def test_the_detail_names_the_file_and_the_line_below_the_banner() -> None:
    """The banner of dumpe2fs says nothing of the cause."""
    text = BANNER + "dumpe2fs: Bad magic number\nmore\n"
    found = judge(Output(text, "member"), HEADER, "x")
    assert isinstance(found, Unknown)
    assert found.detail == "member: dumpe2fs: Bad magic number"


@pytest.mark.parametrize("status", [0, None])
def test_a_good_output_is_known_by_its_file(status: int | None) -> None:
    """Where no status was kept, the text proves itself."""
    text = header(DATA_UUID)
    assert judge(Output(text, "member", status), HEADER, "x") == Known(text, "member")


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("vm\n", True),
        ("", True),
        ("sh: hostname: command not found", False),
        ("a\nb: Permission denied\n", False),
    ],
)
def test_an_output_without_a_proof_is_good_unless_it_complains(text: str, *, good: bool) -> None:
    """For commands of which nothing better is known."""
    assert isinstance(judge(Output(text, "m"), NO_COMPLAINT, "x"), Known) is good
