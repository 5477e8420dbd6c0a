"""Credentials in fstab and in the kernel's command line, which no snapshot may hold."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ext4audit.evidence import Known
from ext4audit.sources import Answer, Ask, ReadFile

MASKED_FILES = frozenset({"/etc/fstab", "/proc/cmdline"})
MASK = "***"
# The collector's awk program has the same expression. mount.cifs(8) doubles a comma in a password.
_CREDENTIAL = re.compile(
    r"""
      ( [\x20]" [^="\n]* (?:pass|secret|token) [^="\n]* = ) [^"\n]+         # "key=some words"
    | ( (?:pass|secret|token) [^=,\x01-\x20]* = ) (?: "[^"]*" | ,, | [^,\x01-\x20] )+
    | ( user(?:name)?= [^%,\x01-\x20]* % ) (?: ,, | [^,\x01-\x20] )+       # user=name%word
    | ( : ) [^/,\x01-\x20]+ (?=@)                                           # user:word@host
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)


def masked_text(text: str) -> str:
    """Return a text with the mask in the place of each value that looks like a credential."""
    return _CREDENTIAL.sub(lambda found: f"{found[found.lastindex or 0]}{MASK}", text)


def mask(answers: Mapping[Ask, Answer]) -> tuple[dict[Ask, Answer], list[str]]:
    """Return the answers without credentials, and the paths of the files that held some."""
    made, paths = dict(answers), []
    for ask, answer in answers.items():
        if not isinstance(ask, ReadFile) or ask.path not in MASKED_FILES:
            continue
        if isinstance(answer, Known) and (text := masked_text(str(answer.value))) != answer.value:
            made[ask] = Known(text, answer.origin)
            paths.append(ask.path)
    return made, sorted(paths)
