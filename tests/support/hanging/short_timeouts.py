"""Short timeouts of the program for calls that hang; slow calls get the timeout of a test.

On a busy machine, a path that does not hang can take a second, too.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ext4audit.cli import layout, run_program
from ext4audit.sources import timeouts
from support.timing import PATIENCE_SECONDS

Receive = Callable[[timeouts._Helper, int, float, float], bytes]
POLL_MILLISECONDS = 10


def receive_with_short_timeout(
    hangs: Callable[[], bool], receive: Receive = timeouts._Helper._receive
) -> Receive:
    """Return a `_receive` whose timeout starts once `hangs` is true and the helper sleeps."""

    def receive_when_hung(
        helper: timeouts._Helper, count: int, _ends_at: float, seconds: float
    ) -> bytes:
        began = hung_since = time.monotonic()
        answers = select.poll()
        answers.register(helper._answers, select.POLLIN)
        while not answers.poll(POLL_MILLISECONDS):
            now = time.monotonic()
            if not (hangs() and _sleeps(helper._pid)):
                hung_since = now
            if now - hung_since >= seconds or now - began >= PATIENCE_SECONDS:
                raise TimeoutError(f"no answer within {seconds:.3g} s")
        return receive(helper, count, time.monotonic() + PATIENCE_SECONDS, seconds)

    return receive_when_hung


def _sleeps(pid: int) -> bool:
    """Return whether a process sleeps (S, D); one that waits for a processor is runnable (R)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "SD"


def main(seconds: str, mark: str, *arguments: str) -> int:
    """Run the program with short timeouts as soon as the file `mark` shows the start of a hang."""
    timeouts.LONGEST_WAIT_SECONDS = layout.TIMEOUT_SECONDS = float(seconds)
    timeouts._Helper._receive = receive_with_short_timeout(Path(mark).exists)  # type: ignore[method-assign, assignment]
    return run_program(list(arguments))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
