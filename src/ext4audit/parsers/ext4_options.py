"""/proc/fs/ext4/<device>/options: every option in force on one superblock."""

from __future__ import annotations

from ext4audit.parsers.escapes import decode_octal, split_options


def parse_options_file(text: str) -> tuple[str, ...]:
    """Parse the options file: one option a line, "rw" or "ro" first.

    The quota words hang on the last line, glued with commas, in every kernel from 3.4 to 7.2
    (ext4_show_quota_options() of fs/ext4/super.c). Words that no mainline kernel prints are
    kept: vendor kernels add their own. ValueError for a text that does not begin with the
    state; stat(2) says 0 bytes of the real file, so an empty text means that nothing was read.
    """
    tokens = tuple(
        decode_octal(token.strip()) for line in text.split("\n") for token in split_options(line)
    )
    tokens = tuple(token for token in tokens if token)
    if not tokens or tokens[0] not in {"rw", "ro"}:
        raise ValueError(f"{text[:40]!r} does not begin with rw or ro")
    return tokens
