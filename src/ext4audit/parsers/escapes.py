r"""Octal escapes of mountinfo and fstab, and the lists of options that hold them."""

from __future__ import annotations

import re

_OCTAL = re.compile(rb"\\([0-7]{3})")
_OPTION = re.compile(r'[^,="]*="[^"]*"(?=,|$)|[^,]*')


def decode_octal(text: str) -> str:
    r"""Undo the escapes that the kernel and fstab(5) write for blanks in names ("\040").

    The escapes stand for bytes, not characters: "\303\244" is one character of UTF-8, so the
    text becomes bytes for a moment. Bytes that are not UTF-8 come back as they came in, as
    surrogates. What is not three octal digits stays as it is (util-linux does the same).
    ValueError: a surrogate that no byte stands for. Source: mangle_path() in fs/seq_file.c,
    fstab(5).
    """
    if "\\" not in text:
        return text
    raw = text.encode("utf-8", "surrogateescape")
    decoded = _OCTAL.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), raw)
    return decoded.decode("utf-8", "surrogateescape")


def split_options(text: str) -> tuple[str, ...]:
    """Split an option list at its commas, but not inside the quotes of an SELinux context.

    `context="system_u:object_r:container_file_t:s0:c498,c574"` is one option, printed so by
    security/selinux/hooks.c on every container host with MCS labels.
    """
    found: list[str] = []
    position = 0
    while position <= len(text):
        match = _OPTION.match(text, position)
        end = match.end() if match else position
        found.append(text[position:end])
        position = end + 1
    return tuple(option for option in found if option)
