"""The collector for hosts without Python: a single POSIX sh script that writes a snapshot."""

from __future__ import annotations

import re
from importlib import resources

_VERSION_MARK = "@VERSION@"
_COMMENT = "# "
_LATE_COMMENT = " # "
_AWK = re.compile(r"(\bawk (?:-v \S+ )?')([^']*)'")
# No string in the script contains these, except the trap handler with "; ", which is code itself.
_SHELL_BLANKS = re.compile(
    r"[ \n](;;) ?| (&&|\|\||\|) |(?<=;) (?=[^;])|(?<=[\w'\"})]) (?=[<>][^ ])"
)
_ARITHMETIC = re.compile(r"\$\(\([^()]+\)\)")
# Excludes "(": without the blank before it, a concatenation would become a function call.
_OPERATORS = "+*=<>!?:,;{}&|~-"
_AWK_NAMES = dict(
    pair.split("=")
    for pair in (
        "what=W ask=K out=O masked=M json=J content=C mask=Q list=L key=Y groups=G size=S block=B "
        "best=T"
    ).split()
)
"""The short names that replace variables and functions in the awk programs."""
_STRING_NAME_OR_BLANK = re.compile(
    rf' ?("(?:[^"\\\n]|\\.)*") ?|\b({"|".join(_AWK_NAMES)})\b'
    rf"|(?<=[)({_OPERATORS}]) | (?=[){_OPERATORS}])|(?<={{)\n|\n(?=}})"
    r"|\\\n|(?<=\bif) |(?<=\bfor) |(?<=\bwhile) "
)
_VARIABLES = dict(
    pair.split("=")
    for pair in (
        "below=B child=C detail=D hint=H late=L lean=M line=I major=V minor=Z next=X node=K "
        "number=E output=A path=F raw=W rest=R status=S text=G timer=Q todo=J type=U why=Y"
    ).split()
)
"""The short names that replace frequent shell variables."""
_FUNCTIONS = {"exists": "X", "resolve": "R", "short": "S", "where": "W"}
"""The short names that replace shell functions whose names occur nowhere else in the script."""
_FUNCTION = re.compile(rf"\b({'|'.join(_FUNCTIONS)})\b")
_NAMES = "|".join(_VARIABLES)
_VARIABLE = re.compile(rf"(?:\$\{{?|(?<![^\s;&|])(?=\w+=))({_NAMES})\b")
_READ = re.compile(r"(?<=\bread -r )[\w ]+")
_NAME = re.compile(rf"\b({_NAMES})\b")


def collect_script(version: str) -> str:
    """Return the minified script; its leading comment with the description and usage is kept.

    Indentation, other comments, and most blanks that the shell and awk do not need are removed, and
    long names of variables and functions are shortened: the run-command services of some clouds
    accept at most 16 KiB of base64, which is 12 KB of script.
    """
    text = resources.files(__package__).joinpath("collect.sh").read_text(encoding="utf-8")
    lines = [line.lstrip("\t").partition(_LATE_COMMENT)[0] for line in text.splitlines()]
    end_of_head = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    code = [line for line in lines[end_of_head:] if line and not line.startswith(_COMMENT)]
    script = "\n".join([*lines[:end_of_head], _minified("\n".join(code)), ""])
    return script.replace(_VERSION_MARK, version)


def _minified(code: str) -> str:
    """Return minified shell code, including the awk programs in it."""
    minified, end = "", 0
    for program in _AWK.finditer(code):
        awk = _STRING_NAME_OR_BLANK.sub(_in_awk, program[2])
        minified += _shell(code[end : program.start(2)]) + f"{awk}'"
        end = program.end()
    return minified + _shell(code[end:])


def _in_awk(found: re.Match[str]) -> str:
    """Return the replacement of a match: the same for a string, a short name, or "" for a blank."""
    return found[1] or (_AWK_NAMES[found[2]] if found[2] else "")


def _shell(code: str) -> str:
    code = _ARITHMETIC.sub(lambda found: found[0].replace(" ", ""), code)
    code = _SHELL_BLANKS.sub(lambda found: found[1] or found[2] or "", code)
    code = _FUNCTION.sub(lambda found: _FUNCTIONS[found[0]], code)
    code = _READ.sub(lambda found: _NAME.sub(_short_name, found[0]), code)
    return _VARIABLE.sub(lambda found: _NAME.sub(_short_name, found[0]), code)


def _short_name(found: re.Match[str]) -> str:
    return _VARIABLES[found[0]]
