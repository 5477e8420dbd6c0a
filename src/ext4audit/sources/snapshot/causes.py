"""Why a text is no snapshot: what the usual mistakes of a pipe look like."""

import re

from ext4audit.sources import decode

_LONGEST = 80
_TAR_MAGIC = re.compile(rb"ustar(?:\x0000|  \x00)")
_GZIP_MAGIC = b"\x1f\x8b\x08"
_REFUSED = re.compile(
    rb"password is required|\[sudo\]|a terminal is required|askpass|Permission denied|"
    rb"not in the sudoers file|command not found|: not found|"
    rb"Connection (?:refused|closed|timed out)"
)
EMPTY = (
    "empty: the command that captures printed nothing; did ssh fail, or sudo ask for a password "
    "(sudo -n)?"
)
NOISE = "other output precedes the snapshot, such as a login message: capture with --text"


def why_no_snapshot(text: bytes) -> str:
    """Return what is wrong with a text without a snapshot, and the probable cause."""
    if not text.strip():
        return EMPTY
    begin = _first_line(text)
    if _TAR_MAGIC.search(text) or _GZIP_MAGIC in text:
        return f"{NOISE}{begin}"
    if _REFUSED.search(text):
        return f"neither a snapshot nor an archive, but the message of a command that failed{begin}"
    return f"neither a snapshot nor an archive{begin}"


def _first_line(text: bytes) -> str:
    """Return the first line of a text in words; nothing where it is binary."""
    line = decode(text.strip().partition(b"\n")[0]).strip()
    if not line.isprintable():
        return ""
    return f"; it begins with {line[:_LONGEST]!r}"
