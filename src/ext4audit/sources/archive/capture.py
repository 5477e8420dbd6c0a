"""What the archive of another program holds of a host: files, outputs, and their mangled names.

Both make the name of the command line in the same way (sos 3.0 to 4.10; insights-core 3), and the
way is lossy: `/dev/vg/lv` and `/dev/vg.lv` become one name. sos tells a second file of one name
apart by a number at its end; a command that ran twice gets one too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ext4audit.evidence import Evidence, Known, Unknown, Why

LONGEST_NAME = 255
"""NAME_MAX of Linux filesystems: sos cuts the name there."""

_PROGRAM_FOLDER = re.compile(r"/(?:usr/)?s?bin/")
_REPLACED = re.compile(r"[^\w./-]+")
_ENDS = " ._-"


def mangle(line: str) -> str:
    """Return the file name of a command line: "dumpe2fs_-h_.dev.vda1"."""
    folder = _PROGRAM_FOLDER.match(line)
    bare = line[folder.end() :] if folder else line
    return _REPLACED.sub("_", bare).replace("/", ".").strip(_ENDS)[:LONGEST_NAME]


def numbered(name: str, count: int) -> str:
    """Return the name that sos gives to the file number `count` of one name; 0 is the first."""
    if count == 0:
        return name
    number = f".{count}"
    return name[: LONGEST_NAME - len(number)] + number


_BANNER = re.compile(r"\S+ [0-9.]+\S* \([0-9]{1,2}-\w{3}-[0-9]{4}\)")
_NOT_FOUND = re.compile(
    r"command not found|not found or not executable|failed to run command", re.IGNORECASE
)
_DENIED = re.compile(
    r"permission denied|operation not permitted|must be (?:super-?user|root)|only root",
    re.IGNORECASE,
)
_TIMED_OUT = re.compile(r"timed out|within the timeout period", re.IGNORECASE)
NO_COMPLAINT = re.compile(
    rf"\A(?!.*(?:{_NOT_FOUND.pattern}|{_DENIED.pattern}|{_TIMED_OUT.pattern}))",
    re.IGNORECASE | re.DOTALL,
)
"""The proof of an output of which nothing better is known."""
_STATUS = {124: Why.TIMED_OUT, 137: Why.TIMED_OUT, 126: Why.ABSENT, 127: Why.ABSENT}
"""Exit statuses of timeout(1), under which sos and Insights run each command."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a command printed, stderr in it; `status` is its exit status where that was kept."""

    text: str
    origin: str
    status: int | None = None


class Capture(Protocol):
    """Files and command outputs of one host, asked for by the names they had there."""

    @property
    def kind(self) -> str:
        """Name the program that made it: "sosreport", "insights", "supportconfig"."""
        ...

    def read(self, path: str) -> Evidence[str] | None:
        """Return a file's text, None where the archive does not hold it."""
        ...

    def children(self, path: str) -> tuple[str, ...] | None:
        """Return the names in a directory, None where the archive does not hold it."""
        ...

    def run(self, line: str) -> Sequence[Output]:
        """Return what may be the output of a command line; several where names are ambiguous."""
        ...

    def outputs(self, program: str) -> Sequence[Output]:
        """Return all outputs of a program, whatever its arguments were."""
        ...


def text_of(capture: Capture, path: str) -> str:
    """Return a file's text, "" where there is none: for what only enriches."""
    found = capture.read(path)
    return found.value if isinstance(found, Known) else ""


def output_of(capture: Capture, *lines: str) -> Output:
    """Return the first output of the first of some command lines that has any, else an empty one.

    For what only enriches: an error message matches no pattern of what is looked for.
    """
    for line in lines:
        for output in capture.run(line):
            return output
    return Output("", "")


def judge(output: Output, proof: re.Pattern[str], what: str) -> Evidence[str]:
    """Return an output that did its work; else say why it did not.

    The exit status decides where it was kept. Elsewhere `proof` does, which only a good output
    matches: sos stores "Operation not permitted" like any other output.
    """
    good = output.status == 0 if output.status is not None else proof.search(output.text)
    if good:
        return Known(output.text, output.origin)
    lines = [line.strip() for line in output.text.split("\n")]
    cause = next((line for line in lines if line and not _BANNER.fullmatch(line)), "no output")
    why = _STATUS.get(output.status or 0) or _why(output.text)
    return Unknown(what, why, f"{output.origin}: {cause[:200]}", _HINTS.get(why, ""))


_HINTS = {
    Why.DENIED: "capture again as root, on the host itself",
    Why.TIMED_OUT: "capture again, with more time or less load",
    Why.ABSENT: "install the program there, and capture again",
}


def _why(text: str) -> Why:
    for pattern, why in (
        (_NOT_FOUND, Why.ABSENT),
        (_DENIED, Why.DENIED),
        (_TIMED_OUT, Why.TIMED_OUT),
    ):
        if pattern.search(text):
            return why
    return Why.FAILED
