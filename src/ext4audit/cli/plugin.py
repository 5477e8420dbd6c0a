"""What a plugin of Nagios says when it could not run: 2 of the shell would be CRITICAL to it."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from ext4audit.cli.diagnostics import discard
from ext4audit.cli.output import OutputFailed, write
from ext4audit.cli.sinks import NAGIOS
from ext4audit.policy.exit_codes import NAGIOS_UNKNOWN
from ext4audit.renderers.nagios import unknown

FORMAT = re.compile("--format(?:=(?P<long>.*))?|-[qv]*f(?P<short>.*)", re.DOTALL)
"""The option that names a format, alone or with its value."""


def is_plugin(arguments: Sequence[str]) -> bool:
    """Whether the first format of a command line is that of Nagios, whose codes then hold.

    The command line may be one that cannot be parsed.
    """
    for word, following in zip(arguments, (*arguments[1:], ""), strict=True):
        found = FORMAT.fullmatch(word)
        if found:
            return (found["long"] or found["short"] or following) == NAGIOS
    return False


def refuse_as_plugin(why: str) -> int:
    """Print the status line of a plugin that was called wrongly, and return its exit code.

    It is UNKNOWN (Monitoring Plugins Development Guidelines, "Plugin Return Codes": invalid
    command line arguments).
    """
    try:
        write(unknown(why), None)
    except (OutputFailed, BrokenPipeError):
        discard(sys.stdout)
    return NAGIOS_UNKNOWN
