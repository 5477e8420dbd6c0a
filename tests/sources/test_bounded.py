"""A call that may never return."""

from __future__ import annotations

import threading

import pytest

from ext4audit.evidence import Why
from ext4audit.sources.bounded import bounded
from ext4audit.sources.unanswered import Unanswered


def test_the_value_comes_through() -> None:
    """What the call returns is returned, None included."""
    assert bounded(lambda: None, 5) is None


@pytest.mark.parametrize("error", [FileNotFoundError(2, "gone"), Unanswered(Why.ABSENT, "gone")])
def test_the_error_comes_through(error: Exception) -> None:
    """What the host lacks is raised in the caller's thread."""

    def call() -> None:
        raise error

    with pytest.raises(type(error), match="gone"):
        bounded(call, 5)


def test_a_call_that_hangs_is_left_behind() -> None:
    """After the time given, the caller goes on."""
    release = threading.Event()
    with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"):
        bounded(release.wait, 0.05)
    release.set()
