"""How changes are made: each module knows one kind of change, its checks and its rollback.

A rule imports this package and calls, for example, `remedies.options.change_option(fs, …)`. A
module is imported when the first finding needs it (PEP 562): a healthy host loads none.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from ext4audit.finding import Phase, Step

if TYPE_CHECKING:
    from ext4audit.remedies import features as features
    from ext4audit.remedies import flags as flags
    from ext4audit.remedies import fstab as fstab
    from ext4audit.remedies import holders as holders
    from ext4audit.remedies import kernel_settings as kernel_settings
    from ext4audit.remedies import mkfs as mkfs
    from ext4audit.remedies import mounting as mounting
    from ext4audit.remedies import options as options
    from ext4audit.remedies import remount as remount
    from ext4audit.remedies import superblock_fields as superblock_fields


def __getattr__(name: str) -> ModuleType:
    """Import a module of this package when it is first used."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error


ASCII_LETTERS_AND_DIGITS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
"""Spelled out: importing `string` compiles the expressions of its templates."""
PLAIN = frozenset((ASCII_LETTERS_AND_DIGITS + "/._-").encode())
"""Bytes that `printf` prints as themselves when they are part of its format."""


def quote(name: str) -> str | None:
    r"""Return one shell word that expands to exactly the bytes of `name`, or None.

    The word itself is printable ASCII only, whatever the name holds: a raw newline or escape
    character in a command would be run, or shown, as something else than the reader sees. What
    is not printable is spelled `"$(printf '\NNN')"`, which dash, bash and busybox ash expand
    alike. None where that is impossible: a NUL byte, a character that no bytes stand for, or a
    newline at the end, which `$()` strips.
    """
    if all(" " <= character <= "~" for character in name):
        return shlex.quote(name)
    if "\0" in name or name.endswith("\n"):
        return None
    try:
        encoded = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None
    return f"\"$(printf '{_format(encoded)}')\""


def in_phase(phase: Phase, commands: Iterable[str]) -> tuple[Step, ...]:
    """Return the commands as steps of one phase."""
    return tuple(Step(phase, command) for command in commands)


def _format(name: bytes) -> str:
    """Spell bytes as a format of printf(1), which takes a leading dash for an option."""
    return "".join(
        chr(byte) if byte in PLAIN and not (index == 0 and byte == ord("-")) else f"\\{byte:03o}"
        for index, byte in enumerate(name)
    )
