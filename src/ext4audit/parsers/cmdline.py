"""/proc/cmdline: the arguments that the kernel was started with."""

from __future__ import annotations

import re

# A quote that is never closed protects the rest, as next_arg() of lib/cmdline.c has it.
_ARGUMENT = re.compile(r'(?:[^\s"]|"[^"]*(?:"|$))+', re.ASCII)


def parse_kernel_arguments(text: str) -> tuple[str, ...]:
    """Parse the kernel's command line; double quotes protect blanks.

    Quotes round a whole argument or round its value are dropped, as next_arg() of
    lib/cmdline.c drops them: root="LABEL=a b" is `root=LABEL=a b`. "--" and what follows it
    (for init) are kept.
    """
    return tuple(_unquote(argument) for argument in _ARGUMENT.findall(text))


def _unquote(argument: str) -> str:
    """Drop the quotes round an argument or round its value."""
    if argument.startswith('"'):
        return argument[1:].removesuffix('"')
    name, separator, value = argument.partition("=")
    if value.startswith('"'):
        value = value[1:].removesuffix('"')
    return name + separator + value
