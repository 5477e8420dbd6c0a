"""The outermost boundary: every way out of the program, and its exit code.

An uncaught Python exception and click's own handling of a closed pipe both exit 1, which here
means "findings": a crash must never read as a verdict (contract: exit codes).
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import click

from ext4audit.cli.app import (
    ASKED_BY_A_SHELL,
    COMMANDS,
    PROGRAM,
    NoCommand,
    OutputFailed,
    app,
    discard,
    lazily,
    say,
    tell,
)

EXIT_USAGE = 2
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130
EXIT_CLOSED_PIPE = 141


def guarded(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code, whatever happens."""
    _open_closed_streams()
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        tell("interrupted")
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        return _refuse(error, arguments)
    except BrokenPipeError:
        discard(sys.stdout)
        return EXIT_CLOSED_PIPE
    except OutputFailed as error:
        tell(str(error))
        discard(sys.stdout)
        return EXIT_INTERNAL
    except Exception:  # noqa: BLE001 - the boundary: a crash has an exit code of its own
        tell("internal error; please report it with this text")
        for line in traceback.format_exc().splitlines():
            tell(line)
        return EXIT_INTERNAL
    return code


def _open_closed_streams() -> None:
    """Stand in for streams that the caller closed (`>&-`): Python makes them None."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def _run(arguments: Sequence[str]) -> int:
    """Run the command; not by click's main(), which exits 1 on a closed pipe in every mode."""
    instruction = os.environ.get(ASKED_BY_A_SHELL)
    # With arguments it is no question: where the variable is exported a scan is still a scan.
    if instruction and not arguments:
        return 0 if lazily("cli.completion", "answer")(instruction) else EXIT_USAGE
    try:
        with app.make_context(PROGRAM, list(arguments)) as context:
            code: int = app.invoke(context)
            return code
    except click.exceptions.Exit as leaving:
        return leaving.exit_code


def _refuse(error: click.ClickException, arguments: Sequence[str]) -> int:
    """Say in one line what is wrong with what was typed."""
    if isinstance(error, NoCommand):
        say(error.message)
        return EXIT_USAGE
    why = lazily("cli.errors", "reason")(error)
    tell(why)
    say(f"Try '{_page(error, arguments)} --help' for help.")
    code: int | None = lazily("cli.errors", "refuse_as_plugin")(why, arguments)
    return EXIT_USAGE if code is None else code


def _page(error: click.ClickException, arguments: Sequence[str]) -> str:
    """Return what has the help: click does not say of which command an option lacks its value."""
    context = getattr(error, "ctx", None)
    if context is not None:
        return str(context.command_path)
    command = [word for word in arguments[:1] if word in COMMANDS]
    return " ".join([PROGRAM, *command])
