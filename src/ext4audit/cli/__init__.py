"""The command line: the lazy command group, the entry point and the exit codes.

Each command has its own file. Python exits 1 on an uncaught exception, and click on a closed
pipe. Here 1 means "findings", so a crash must have another code (contract: exit codes).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TextIO

import click

from ext4audit import __version__, lazily, shortage_of


def print_diagnostic(message: str, *, color: str = "yellow") -> None:
    """Print one line to standard error; newlines, which come from hostile names, are escaped.

    `color` is the colour of the program's name on a terminal: red for errors, yellow for notices.
    """
    visible = lazily("renderers", "visible")
    head = f"{PROGRAM}:"
    if lazily("cli.terminal", "has_color")(sys.stderr):
        head = click.style(head, fg=color, bold=True)
    print_error(f"{head} {visible(message)}")


def print_error(text: str) -> None:
    """Write text to standard error unchanged; a failed write does not change the exit code.

    A full disk or a closed pipe on standard error once made a usage error exit 1.
    """
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Discard buffered output; otherwise a failed flush at exit changes the exit code to 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


PROGRAM = "ext4audit"
ASKED_BY_A_SHELL = "_EXT4AUDIT_COMPLETE"
"""The variable in which click's completion scripts pass their instruction ("bash_complete")."""
COMMANDS = {
    "scan": "Audit the ext4 filesystems of this host.",
    "fix": "Print a script that applies remedies and can undo them.",
    "fleet": "Audit the hosts of an Ansible inventory.",
    "collect": "Capture a snapshot of this host for an audit on another machine.",
    "layout": "Show which disks of an array hold the metadata.",
    "plan": "Audit a filesystem before it is created.",
    "probe": "Measure stalls, flushes and layout on a mounted filesystem.",
    "diff": "Compare two reports.",
    "rules": "List the rules.",
    "explain": "Print the page of a rule.",
    "knowledge": "Print the dates and sources of the data that rules judge by.",
    "schema": "Print the JSON Schema of `scan --format json`.",
    "completion": "Print a shell completion script.",
}


BELOW_FLEET = {"fix": "Apply remedies to the hosts of an inventory, one host at a time."}
"""The subcommands of `fleet`, with their summaries."""


class OutputFailed(Exception):  # noqa: N818 - the message is printed as it is
    """Raised if output cannot be written; the message names the destination and the reason."""


class NoCommand(click.UsageError):
    """Raised for an empty command line; the message is the complete help."""


NO_PAGER = "EXT4AUDIT_NO_PAGER"
"""The environment variable for --no-pager, and the key of the setting in `Context.meta`."""


class Context(click.Context):
    """A context whose help is always coloured; the printing code strips colours if necessary."""

    def make_formatter(self) -> click.HelpFormatter:
        """Return the formatter of help pages."""
        formatter: click.HelpFormatter = lazily("cli.terminal", "Formatter")(
            width=self.terminal_width, max_width=self.max_content_width
        )
        return formatter


def _help(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    """Print the help if --help is given; click calls this for every command."""
    if wanted:
        lazily("cli.terminal", "print_help")(context, option, wanted)


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"{PROGRAM} {__version__}")
        ctx.exit()


_flag = partial(click.Option, is_flag=True, expose_value=False, is_eager=True)
_HELP = _flag(["-h", "--help"], help="Print this help.", callback=_help)
_NO_PAGER = _flag(
    ["--no-pager"], help="Do not show long text in a pager (PAGER, or less).", envvar=NO_PAGER
)
# Not click.version_option(), which looks for a translation of its help at each start.
_VERSION = _flag(["-V", "--version"], help="Show the version and exit.", callback=_version)
SHARED = frozenset({"color", "config", "fail-on", "knowledge"})
"""Options that mean the same in all commands, so one variable sets them for all."""
WITH_REPORTS = frozenset({"scan", "fleet", "plan"})
"""The commands whose --format EXT4AUDIT_FORMAT sets; other commands have other formats."""


def variables(command: str, option: str) -> list[str]:
    """Return the variables for an option of a command; the first that is set takes effect."""
    is_shared = option in SHARED or (option == "format" and command in WITH_REPORTS)
    names = (f"{command}_{option}", *((option,) if is_shared else ()))
    return [f"{PROGRAM}_{name}".upper().replace("-", "_") for name in names]


def completed(command: click.Command, name: str) -> click.Command:
    """Add what all commands share: coloured help, --no-pager and variables for the options."""
    if _HELP in command.params:
        return command
    command.context_class = Context
    for option in command.params:
        if isinstance(option, click.Option) and option.envvar is None:
            option.envvar = variables(name, max(option.opts, key=len).lstrip("-"))
    command.params += [_NO_PAGER, _HELP]
    return command


class LazyGroup(click.Group):
    """A group that imports only the module of the command that runs, so `--version` is fast."""

    context_class = Context

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Raise NoCommand for an empty command line; click 8.1 would exit 0, "clean"."""
        if not args and not ctx.resilient_parsing:
            raise NoCommand(ctx.get_help(), ctx)
        # Also finds the option after the command, and is set before click handles --help.
        refused = "--no-pager" in args or os.environ.get(NO_PAGER, "0") not in {"", "0"}
        ctx.meta[NO_PAGER] = refused
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands in the order in which a new user needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return a command, None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"ext4audit.cli.{cmd_name}")
        return completed(module.command, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete the commands without importing them."""
        return [
            *lazily("cli.completion", "starting")(incomplete, COMMANDS),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command or `fleet fix`; the error for a misspelling suggests a command."""
        word = args[0]
        if word not in COMMANDS and not word.startswith("-"):
            ctx.fail(f"no such command: {word}{did_you_mean(word, COMMANDS)}")
        if word == "fleet" and args[1:] and args[1] in BELOW_FLEET:
            return f"fleet {args[1]}", lazily("cli.fleet", "subcommand")(args[1]), args[2:]
        return super().resolve_command(ctx, args)


def completer(name: str) -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    """Return a completion function of `cli.completion` by name; it is imported when called."""
    return lazily("cli.completion", name)


def path_option(
    *names: str,
    metavar: str = "FILE",
    **given: Any,  # noqa: ANN401 - what click.option takes
) -> Callable[[Any], Any]:
    """Return an option for a path, with file name completion."""
    return click.option(*names, metavar=metavar, shell_complete=completer("files"), **given)


knowledge_option = path_option(
    "--knowledge",
    multiple=True,
    help="Data file whose entries replace built-in ones (see `ext4audit knowledge`); repeatable.",
)
"""The --knowledge option, for commands that use or print the data tables."""


def knowledge_of(paths: Sequence[str]) -> tuple[Any, ...]:
    """Load the data files of --knowledge, or the built-in data; raises UsageError."""
    if paths:
        files: tuple[Any, ...] = lazily("cli.policy.trusted", "use_newer")(paths)
        return files
    lazily("facts", "put_in_force")({})
    return ()


NAME = "ext4audit.toml"
OF_THE_HOST = "/etc/ext4audit.toml"


def nearest_policy() -> str | None:
    """Return the policy file nearest to the working directory, upwards, or the host's, or None."""
    paths = (*(f"{folder.rstrip('/')}/{NAME}" for folder in _upwards()), OF_THE_HOST)
    return next(filter(os.path.isfile, paths), None)


def _upwards() -> Iterator[str]:
    """Yield the working directory and its parents; yield nothing if it was removed."""
    try:
        here = os.getcwd()  # noqa: PTH109 - pathlib slows down each start
    except FileNotFoundError:
        return
    while here != "/":
        yield here
        here = os.path.dirname(here)  # noqa: PTH120 - the same
    yield here


def did_you_mean(word: str, candidates: Iterable[str], cutoff: float = 0.5) -> str:
    """Return " (did you mean …?)" with the closest candidate, or "" if all are below `cutoff`."""
    from difflib import get_close_matches  # noqa: PLC0415 - needed for a misspelling only

    near = get_close_matches(word, list(candidates), n=1, cutoff=cutoff)
    return f" (did you mean {near[0]}?)" if near else ""


_ALIKE = 0.6
"""Minimum similarity of a suggestion; "html" is not suggested for "xml"."""


class Choice(click.Choice):  # type: ignore[type-arg] # generic from click 8.2 on, at run time too
    """click's Choice, with the nearest value in the error message."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the value unchanged; raises BadParameter if it is not a choice."""
        words = [str(each) for each in self.choices]
        if value in words:
            return str(value)
        near = (
            did_you_mean(str(value).lower(), words, _ALIKE) or f" (choose from {', '.join(words)})"
        )
        raise click.BadParameter(f"invalid value {str(value)!r}{near}", ctx, param)


@click.group(
    cls=LazyGroup,
    params=[_NO_PAGER, _HELP, _VERSION],
    context_settings={"max_content_width": 100},
)
def app() -> None:
    """Audit the ext4 filesystems of a Linux host by the settings that are in force.

    Findings come with commands that fix them. ext4audit itself changes nothing, but for two
    commands: `probe` writes files of its own, which it removes, and `fleet fix --apply` applies
    remedies to the hosts of an inventory.

    Environment variables set options: EXT4AUDIT_SCAN_SELECT is --select of scan. Without the
    name of a command, EXT4AUDIT_FORMAT (scan, fleet and plan), EXT4AUDIT_FAIL_ON,
    EXT4AUDIT_CONFIG, EXT4AUDIT_KNOWLEDGE, EXT4AUDIT_COLOR and EXT4AUDIT_NO_PAGER apply to all
    commands. The command line overrides both.

    \b
    Examples:
      ext4audit scan                      audit this host
      ext4audit scan /var/lib/mysql       audit the filesystem of a directory
      ext4audit scan --from host.tar.gz   audit a snapshot of another host
      ext4audit scan -f json -o out.json  write a report in JSON
      ext4audit fix -o fix.sh             write a script that applies remedies
      ext4audit layout /srv               show which disks hold the metadata
      ext4audit plan --raid0 12 --chunk 512K --size 1200G
      ext4audit explain DUR001            print what a rule checks, and why
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines


RED = "red"
EXIT_USAGE = 2
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130
EXIT_CLOSED_PIPE = 141
_code_of_failure = lazily("cli.terminal.errors", "code_of_failure")


def run_program(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code; raises only what is a shortage."""
    _open_closed_streams()
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        print_diagnostic("interrupted", color=RED)
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        return _refuse(error, arguments)
    except BrokenPipeError:
        discard(sys.stdout)
        return EXIT_CLOSED_PIPE
    except OutputFailed as error:
        print_diagnostic(str(error), color=RED)
        discard(sys.stdout)
        return int(_code_of_failure(str(error), arguments, EXIT_INTERNAL))
    except BaseException as error:  # a crash has its own exit code
        if shortage_of(error):
            raise  # reported by __main__, which imports and opens nothing
        import traceback  # noqa: PLC0415 - takes 5 ms and is needed for crashes only

        print_diagnostic("internal error; please report it with this text", color=RED)
        for line in traceback.format_exc().splitlines():
            print_diagnostic(line, color=RED)
        return int(_code_of_failure("internal error", arguments, EXIT_INTERNAL))
    return code


def _open_closed_streams() -> None:
    """Replace standard streams that the caller closed (`>&-`), which Python sets to None.

    A write to standard output then fails, as on a full disk; output to standard error is lost.
    Files that are opened later cannot get the descriptors 0 to 2: a program started with such a
    file would take it for a standard stream.
    """
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)
    for name, access in (("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, access), "w"))


def _run(arguments: Sequence[str]) -> int:
    """Run the command without click's main(), which always exits 1 on a closed pipe."""
    instruction = os.environ.get(ASKED_BY_A_SHELL)
    # Completion scripts pass no arguments; an exported variable must not prevent a scan.
    if instruction and not arguments:
        return 0 if lazily("cli.completion", "answer")(instruction) else EXIT_USAGE
    try:
        with _context(arguments) as context:
            code: int = app.invoke(context)
            return code
    except click.exceptions.Exit as leaving:
        return leaving.exit_code


def _context(arguments: Sequence[str]) -> click.Context:
    """Parse the options before the command, which includes printing --version."""
    try:
        return app.make_context(PROGRAM, list(arguments))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(f"cannot write to standard output: {error.strerror}") from error


def _refuse(error: click.ClickException, arguments: Sequence[str]) -> int:
    """Print a usage error on one line, and return the exit code."""
    if isinstance(error, NoCommand):
        print_error(lazily("cli.terminal", "for_stream")(error.message, sys.stderr))
        return EXIT_USAGE
    why = lazily("cli.terminal.errors", "usage_error_text")(error, arguments)
    print_diagnostic(why, color=RED)
    print_error(f"Try '{_page(error, arguments)} --help' for help.")
    return int(_code_of_failure(why, arguments, EXIT_USAGE))


def _page(error: click.ClickException, arguments: Sequence[str]) -> str:
    """Return the command whose help applies; for a missing value, click does not provide it."""
    context = getattr(error, "ctx", None)
    if context is not None:
        return str(context.command_path)
    command = [word for word in arguments[:1] if word in COMMANDS]
    return " ".join([PROGRAM, *command])
