"""A call that may never return, given a bounded time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from ext4audit.evidence import Known
from ext4audit.sources.unanswered import Unanswered

R = TypeVar("R")


def bounded(call: Callable[[], R], timeout_seconds: float) -> R:
    """Return what `call` returns, raise the OSError or Unanswered it raises, or TimeoutError.

    A path on a dead NFS server blocks open(2) itself, O_NONBLOCK or not: one loop device over
    such a file would hang the whole audit. The thread is left behind; it is a daemon, so it
    does not keep the process alive.
    """
    done: list[Known[R] | OSError | Unanswered] = []

    def run() -> None:
        try:
            done.append(Known(call(), ""))
        except (OSError, Unanswered) as error:
            done.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout_seconds)
    if not done:
        raise TimeoutError(f"no answer within {timeout_seconds:g} s")
    if isinstance(done[0], Known):
        return done[0].value
    raise done[0]
