"""A snapshot inside the result of an Ansible task: what `ansible -t DIR` writes for each host."""

import json
from collections.abc import Mapping

from ext4audit.sources.snapshot.format import SnapshotError

_RESULT_MARKS = (b'"stdout"', b'"unreachable"', b'"failed"', b'"msg"')
_SHOWN = 200


def unwrap_task(text: bytes) -> bytes:
    """Return what the task printed, or the text itself where it is no result of a task.

    `stdout_lines` repeats `stdout` and is not read. Raises SnapshotError for a task that printed
    nothing, with Ansible's reason.
    """
    if not text.lstrip().startswith(b"{") or not any(mark in text for mark in _RESULT_MARKS):
        return text
    try:
        result = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(result, dict) or "answers" in result:
        return text
    printed = result.get("stdout")
    if isinstance(printed, str) and printed:
        return printed.encode("utf-8", "surrogatepass")
    reason = _reason(result)
    if reason is None:
        return text
    raise SnapshotError(f"Ansible has no snapshot: {reason}")


def _reason(result: Mapping[str, object]) -> str | None:
    """Return why a task printed nothing; None where the object is no result of a task."""
    if not result.keys() & {"stdout", "unreachable", "failed", "rc", "changed"}:
        return None
    texts = (result.get(key) for key in ("msg", "stderr"))
    message = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    what = "the host is unreachable" if result.get("unreachable") else "the task printed nothing"
    return f"{what}: {' '.join(message.split())[:_SHOWN]}" if message else what
