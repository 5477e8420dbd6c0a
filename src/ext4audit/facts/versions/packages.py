"""Version ordering of packages, as rpm and as dpkg define it.

- rpm: rpm-version(7) and the examples of rpm's test suite; the test's cases and 300,000 random
  pairs were compared with librpm 4.18.0. Other tools order the kernels of Alibaba Cloud Linux
  wrongly: `sort -V` and `dpkg --compare-versions` put 26.6.al7 before 26.al7.
- dpkg: deb-version(7); the test's cases and random pairs are compared with `dpkg
  --compare-versions`. The two differ: rpm has no `~bpo12+1` below a release, and ignores `+`.
"""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import TypeAlias

SEGMENT = re.compile(r"~|\^|[0-9]+|[A-Za-z]+")
"""The compared parts of an rpm version; all other characters only separate."""
ARCHITECTURE = re.compile(r"\.(x86_64|aarch64|i[3-6]86|ppc64le|s390x|loongarch64|riscv64|noarch)$")


def compare_rpm(left: str, right: str) -> int:
    """Return -1, 0 or 1 as `left` is older than, equal to or newer than `right`.

    Runs of digits compare as numbers and runs of letters as text; a number is newer than
    letters; the longer is newer, except that `~` sorts before everything, even the end, and
    `^` after the end but before anything else.
    """
    for one, other in zip_longest(SEGMENT.findall(left), SEGMENT.findall(right), fillvalue=""):
        if _key(one) != _key(other):
            return -1 if _key(one) < _key(other) else 1
    return 0


def split_release(kernel_release: str) -> tuple[str, str]:
    """Split "4.19.91-25.6.al7.x86_64" into version "4.19.91" and release "25.6.al7".

    The architecture is taken off first: with it, the fixed kernel 26.al7 reads as older than
    the bound 26.al7.x86_64.
    """
    version, _, release = ARCHITECTURE.sub("", kernel_release).partition("-")
    return version, release


def _key(segment: str) -> tuple[int, int, str]:
    """Return the sort key of a segment: ~, end, ^, letters, numbers."""
    if segment.isdigit():
        # By length, then by digit, as rpm does it: int() refuses numbers of thousands of digits.
        digits = segment.lstrip("0")
        return 4, len(digits), digits
    special = {"~": 0, "": 1, "^": 2}
    return special.get(segment, 3), 0, segment


PIECE = re.compile(r"([^0-9]*)([0-9]*)")
"""The compared parts of a dpkg version: characters that are no digits, then a number."""
END = 0
PieceKey: TypeAlias = tuple[tuple[int, ...], int, str]


def compare_dpkg(left: str, right: str) -> int:
    """Return -1, 0 or 1 as `left` is older than, equal to or newer than `right`.

    The epoch ("1:") counts first, then the upstream version, then the revision behind the last
    dash. `~` sorts before everything, even the end; letters before all other characters.
    """
    for one, other in zip(_parts(left), _parts(right), strict=True):
        for a, b in zip_longest(_keys(one), _keys(other), fillvalue=((END,), 0, "")):
            if a != b:
                return -1 if a < b else 1
    return 0


def _parts(version: str) -> tuple[str, str, str]:
    """Split a version into epoch, upstream version and revision."""
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "", version
    upstream, dash, revision = rest.rpartition("-")
    return (epoch, upstream, revision) if dash else (epoch, rest, "")


def _keys(part: str) -> list[PieceKey]:
    """Return the sort key of each piece; numbers by length first, as they may have many digits."""
    keys: list[PieceKey] = []
    for text, number in PIECE.findall(part):
        digits = number.lstrip("0")
        keys.append(((*(_order(c) for c in text), END), len(digits), digits))
    return keys


def _order(character: str) -> int:
    """Return the weight of a character that is no digit; the end weighs 0."""
    if character == "~":
        return -1
    is_letter = character.isascii() and character.isalpha()
    return ord(character) + (0 if is_letter else 256)
