"""The interface to files and command outputs in another program's archive, and name mangling.

sos and Insights mangle command lines to file names in the same way (sos 3.0 to 4.10; insights-core
3). Mangling is lossy: `/dev/vg/lv` and `/dev/vg.lv` become the same name. sos appends a number to
distinguish files of the same name, including those of a command that ran twice.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ext4audit.evidence import CaptureHint, Evidence, Known, Unknown, Why
from ext4audit.sources import DENIED, PACKAGES, first_cause

LONGEST_NAME = 255
"""NAME_MAX of Linux filesystems, to which sos truncates names."""
_PROGRAM_FOLDER = re.compile(r"/(?:usr/)?s?bin/")
_REPLACED = re.compile(r"[^\w./-]+")
_ENDS = " ._-"
_NOT_FOUND = re.compile(
    r"command not found|not found or not executable|failed to run command", re.IGNORECASE
)
_DENIED = re.compile(DENIED, re.IGNORECASE)
_TIMED_OUT = re.compile(r"timed out|within the timeout period", re.IGNORECASE)
NO_COMPLAINT = re.compile(
    rf"\A(?!.*(?:{_NOT_FOUND.pattern}|{_DENIED.pattern}|{_TIMED_OUT.pattern}))",
    re.IGNORECASE | re.DOTALL,
)
"""The proof of success for outputs that have no more specific one: no known error message."""
_STATUS = {124: Why.TIMED_OUT, 137: Why.TIMED_OUT, 126: Why.ABSENT, 127: Why.ABSENT}
"""Exit statuses of timeout(1), with which sos and Insights run each command."""
STOPPED = frozenset({124, 137})
"""Exit statuses of commands that were stopped, whose output may therefore be incomplete."""
CAPTURE_IT_AGAIN = CaptureHint("capture it again")
_HINTS = {
    Why.NOT_CAPTURED: CaptureHint("capture again with a larger --log-size"),
    Why.UNPARSABLE: CAPTURE_IT_AGAIN,
    Why.DENIED: CaptureHint("capture again as root, outside containers"),
    Why.TIMED_OUT: CaptureHint("capture again with a longer timeout"),
    Why.ABSENT: CaptureHint("install the program and capture again"),
}


class Output(NamedTuple):
    """The output of a command, including stderr; `status` is its exit status if recorded.

    `why` is the reason if the archive lacks the output; `text` is then a message.
    """

    text: str
    origin: str
    status: int | None = None
    why: Why | None = None


def cut_off(origin: str) -> Output:
    """Return the output that stands for one whose end is missing."""
    return Output("it is cut off: its last line has no end", origin, 1, Why.UNPARSABLE)


def tailed(origin: str) -> Output:
    """Return the output that stands for one whose beginning is missing."""
    message = "only its end was kept: it is larger than --log-size"
    return Output(message, origin, 1, Why.NOT_CAPTURED)


class Capture(Protocol):
    """Files and command outputs of one host, by path and command line on that host."""

    @property
    def kind(self) -> str:
        """The kind of archive: "sosreport", "insights" or "supportconfig"."""
        ...

    def read(self, path: str) -> Evidence[str] | None:
        """Return the text of a file, or None if the archive does not contain it.

        A truncated file of /proc or /sys is Unknown.
        """
        ...

    def children(self, path: str) -> tuple[str, ...] | None:
        """Return the names in a directory, or None if the archive does not contain it."""
        ...

    def run(self, line: str) -> Sequence[Output]:
        """Return the possible outputs of a command line, several if file names are ambiguous."""
        ...

    def outputs(self, program: str) -> Sequence[Output]:
        """Return all outputs of a program, with any arguments."""
        ...


def text_of(capture: Capture, path: str) -> str:
    """Return the text of a file, or "" if it is unavailable; for optional facts."""
    found = capture.read(path)
    return found.value if isinstance(found, Known) else ""


def output_of(capture: Capture, *lines: str) -> Output:
    """Return the first output of the first command line that has one, or else an empty output.

    For optional facts only: failures are not detected, but error messages match no pattern.
    """
    for line in lines:
        for output in capture.run(line):
            return output
    return Output("", "")


def judge(output: Output, proof: re.Pattern[str], program: str, what: str) -> Evidence[str]:
    """Return the output of a program that succeeded, or an unknown with the reason for failure.

    The exit status decides if it was recorded. Otherwise `proof` does, which matches only output
    of a success: sos stores "Operation not permitted" like any other output.
    """
    good = output.status == 0 if output.status is not None else proof.search(output.text)
    if good:
        return Known(output.text, output.origin)
    cause = first_cause(output.text) or "no output"
    why = output.why or _STATUS.get(output.status or 0) or _why(output.text)
    package = PACKAGES.get(program) if why is Why.ABSENT else None
    named = CaptureHint(f"install {package} and capture again" if package else "")
    return Unknown(what, why, f"{output.origin}: {cause[:200]}", named or _HINTS.get(why, ""))


def mangle(line: str) -> str:
    """Return the file name of a command line, such as "dumpe2fs_-h_.dev.vda1"."""
    folder = _PROGRAM_FOLDER.match(line)
    bare = line[folder.end() :] if folder else line
    return _REPLACED.sub("_", bare).replace("/", ".").strip(_ENDS)[:LONGEST_NAME]


def numbered(name: str, count: int) -> str:
    """Return the name that sos gives to the file with index `count` among files of one name."""
    if count == 0:
        return name
    number = f".{count}"
    return name[: LONGEST_NAME - len(number)] + number


def _why(text: str) -> Why:
    for pattern, why in (
        (_NOT_FOUND, Why.ABSENT),
        (_DENIED, Why.DENIED),
        (_TIMED_OUT, Why.TIMED_OUT),
    ):
        if pattern.search(text):
            return why
    return Why.FAILED
