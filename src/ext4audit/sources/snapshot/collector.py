"""The collector for hosts without Python: one POSIX sh file, which writes a snapshot."""

from __future__ import annotations

import re
from importlib import resources

_VERSION_MARK = "@VERSION@"
_COMMENT = "# "
_LATE_COMMENT = " # "
_AWK = re.compile(r"(awk (?:-v \S+ )?')([^']*)")
# No string of the script holds one of these.
_SHELL_BLANKS = re.compile(r" (&&|\|\||;;) ")
# Not before "(", where a concatenation would become a call.
_OPERATORS = "-+*=<>!?:,;{}&|~"
_STRING_OR_BLANK = re.compile(
    rf'("(?:[^"\\\n]|\\.)*")|(?<=[)({_OPERATORS}]) | (?=[){_OPERATORS}])|(?<={{)\n|\n(?=}})'
)


def collect_script(version: str) -> str:
    """Return the script as it is sent: its first comment describes it and its usage.

    Indentation, the other comments, and most blanks that the shell and awk do not need are
    removed: some run-command services of clouds take 16 KiB of base64 and no more, which is 12 KB
    of script.
    """
    text = resources.files(__package__).joinpath("collect.sh").read_text(encoding="utf-8")
    lines = [line.lstrip("\t").partition(_LATE_COMMENT)[0] for line in text.splitlines()]
    end_of_head = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    code = [line for line in lines[end_of_head:] if line and not line.startswith(_COMMENT)]
    sent = _AWK.sub(_squeezed, "\n".join([*lines[:end_of_head], *code, ""]))
    sent = _SHELL_BLANKS.sub(r"\1", sent)
    return sent.replace(_VERSION_MARK, version)


def _squeezed(program: re.Match[str]) -> str:
    return program[1] + _STRING_OR_BLANK.sub(lambda found: found[1] or "", program[2])
