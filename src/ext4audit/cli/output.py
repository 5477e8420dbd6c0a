"""Output destinations: files that are written atomically, and the capabilities of streams.

A report can also be appended to the step summary of GitHub Actions.
"""

import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TextIO

import click

from ext4audit import lazily, shortage_of
from ext4audit.cli import Choice, OutputFailed, path_option
from ext4audit.renderers import formats


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Convert errors about a file or a value to UsageError, with `what` as a prefix."""
    try:
        yield
    except click.UsageError as error:
        raise click.UsageError(f"{what}: {error.message}") from None
    except OSError as error:
        raise click.UsageError(f"{what}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:  # bad content, TOML, YAML or UTF-8
        raise click.UsageError(f"{what}: {error}") from None


def check_destination(path: str) -> None:
    """Raise UsageError, before the audit, for a destination that cannot be written."""
    with refused(f"--output {path}"):
        reason = lazily("cli.files", "why_not_writable")(path)
        if reason:
            raise click.UsageError(reason)


@contextmanager
def written_to(place: str) -> Iterator[None]:
    """Convert OSError to OutputFailed, which names the place; BrokenPipeError is passed on.

    The block often also creates its content, and opens other files for that.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputFailed(shortage_of(error) or f"cannot write to {place}: {reason}") from error


STANDARD_OUTPUT = "standard output"


def write(
    text: str, path: str | None, *, linked: bool = False, encoding: str | None = None
) -> None:
    """Write to `path`, or to standard output if None; a terminal shows long text in the pager.

    With `linked`, rule codes become links on a terminal that supports links. `encoding` is for
    standard output that is a file or pipe, by default the locale's. Raises OutputFailed, or
    BrokenPipeError if the reader has gone.
    """
    with writing(path) as put:
        if path is None and sys.stdout.isatty():
            text = lazily("cli.terminal.screen", "linked")(text) if linked else text
            if lazily("cli.terminal.screen", "page")(text):
                return
        elif path is None and encoding:
            sys.stdout.reconfigure(encoding=encoding)  # type: ignore[union-attr]
        put(text)


@contextmanager
def writing(path: str | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes a piece of text to `path`, or to standard output if None.

    Raises OutputFailed, or BrokenPipeError if the reader has gone.
    """
    with written_to(STANDARD_OUTPUT if path is None else path):
        if path is None:
            yield _print
        else:
            with lazily("cli.files", "open_destination")(path) as put:
                yield lambda text: put(text.encode("utf-8", "backslashreplace"))


def _print(text: str) -> None:
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stdout.write(text)
    sys.stdout.flush()


DEFAULT = "text"
DASH = "-"
"""The file name that means standard output."""
_STREAM = "/dev/stdout"


NAGIOS = "nagios"
MACHINE_ENCODING = "utf-8"
FORMATS = formats()
"""The module in `renderers` for each format."""
ONE_BY_ONE = frozenset({"text", "ndjson"})
"""Formats that are written host by host, so that memory use does not grow with the fleet."""


class Output(NamedTuple):
    """A format and its destination file; None is standard output."""

    fmt: str
    path: str | None

    @property
    def encoding(self) -> str | None:
        """UTF-8 for machine-readable formats (HTML and Prometheus require it), else None."""
        return None if self.fmt in {DEFAULT, NAGIOS} else MACHINE_ENCODING

    @property
    def module(self) -> str:
        """The module in `renderers` for the format."""
        return FORMATS[self.fmt]


def outputs_of(formats: Sequence[str], outputs: Sequence[str]) -> tuple[Output, ...]:
    """Pair each -f with the -o at the same position; raises UsageError.

    Each of several formats needs its own -o ("-" for standard output), because the format of FILE
    is ambiguous in "-f text -f json -o FILE".
    """
    named = formats or (DEFAULT,)
    if len(outputs) != len(named) and (outputs or len(named) > 1):
        raise click.UsageError(
            f"--format is given {counted(len(formats))} and --output {counted(len(outputs))}: "
            "with several formats each needs its --output (- for standard output)"
        )
    paths = [None if path == DASH else path for path in outputs] or [None]
    if len(paths) > 1 and len({_place(path) for path in paths}) < len(paths):
        raise click.UsageError("two formats are written to the same --output")
    return tuple(Output(fmt, path) for fmt, path in zip(named, paths, strict=True))


def counted(times: int) -> str:
    """Return a count in words, such as "once" or "3 times"."""
    return {0: "never", 1: "once", 2: "twice"}.get(times, f"{times} times")


def _place(path: str | None) -> str | int:
    """Return the identity of a destination: equal for "a" and "./a", for "-" and /dev/stdout.

    Standard output and the file that it is redirected to are equal, too: -o would replace it.
    """
    try:
        place: str | int = lazily("cli.files", "destination_identity")(path or _STREAM)
    except OSError:  # removed working directory; the destination is refused later
        return path or _STREAM
    return place


def wants_color(choice: str, stream: TextIO) -> bool:
    """Return whether to use colour: by --color, NO_COLOR, then CLICOLOR_FORCE or FORCE_COLOR.

    If none is set, a terminal gets colour unless it is dumb (no-color.org, bixense.com).
    """
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if any(
        os.environ.get(name, "0") not in {"", "0"} for name in ("CLICOLOR_FORCE", "FORCE_COLOR")
    ):
        return True
    return stream.isatty() and os.environ.get("TERM", "") not in {"", "dumb"}


def is_drawn(choice: str) -> bool:
    """Return whether text is laid out for people: on a terminal, or if colour is forced."""
    return sys.stdout.isatty() or wants_color(choice, sys.stdout)


color_option = click.option(
    "--color",
    type=Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="When to colour text; auto follows NO_COLOR, CLICOLOR_FORCE and FORCE_COLOR.",
)


def format_option(
    words: Collection[str], text: str, metavar: str | None = None
) -> Callable[[Any], Any]:
    """Return the option --format, as parameter `fmt`; the first of `words` is the default."""
    return click.option(
        "-f",
        "--format",
        "fmt",
        type=Choice(tuple(words)),
        default=next(iter(words)),
        show_default=True,
        metavar=metavar,
        help=text,
    )


def output_option(text: str = "Write FILE atomically.") -> Callable[[Any], Any]:
    """Return the option --output, as parameter `output`: a writable path, None for "-"."""
    return path_option("-o", "--output", callback=_destination, help=text)


def _destination(_context: click.Context, _option: click.Parameter, path: str | None) -> str | None:
    if path in {None, DASH}:
        return None
    check_destination(path)
    return path


def width(stream: TextIO) -> int | None:
    """Return the columns of a terminal, None for a pipe or file, where text is not wrapped."""
    if not stream.isatty():
        return None
    import shutil  # noqa: PLC0415 - takes 3 ms, needed on terminals only

    return shutil.get_terminal_size().columns


def is_ascii_only(stream: TextIO) -> bool:
    """Return whether the encoding of the stream lacks the glyphs of the report."""
    try:
        "●✓─▏█".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def look(color: str, *, to_file: bool) -> dict[str, Any]:
    """Return the arguments `color`, `width` and `ascii_only` of text renderers.

    A file gets no colour unless `color` is "always", no width, and full Unicode.
    """
    return {
        "color": color == "always" or (not to_file and wants_color(color, sys.stdout)),
        "width": None if to_file else width(sys.stdout),
        "ascii_only": not to_file and is_ascii_only(sys.stdout),
    }


@contextmanager
def progress(*, quiet: bool, doing: str = "looking for ext4") -> Iterator[Callable[[str], None]]:
    """Show `doing` on a terminal, and yield a function that shows what is being read."""
    if quiet or not sys.stderr.isatty():
        yield lambda _doing: None
        return
    from rich.console import Console  # noqa: PLC0415 - slow, needed on terminals only
    from rich.text import Text  # noqa: PLC0415

    from ext4audit.renderers import visible  # noqa: PLC0415

    spinner = "line" if is_ascii_only(sys.stderr) else "dots"
    with Console(stderr=True).status(Text(visible(doing)), spinner=spinner) as status:
        yield lambda what: status.update(Text(f"reading {visible(what)}"))


VARIABLE = "GITHUB_STEP_SUMMARY"
LARGEST_BYTES = 1 << 20
"""GitHub refuses a step summary larger than 1 MiB (docs: workflow commands, job summaries)."""
MORE = b"\n**Cut here: the whole report does not fit into a step's summary.**\n"
LONGEST_END = 1024
"""Bytes that are reserved for `MORE` and a closing fence."""


def append_summary(markdown: Callable[[], str]) -> None:
    """Append a report to the step summary, if GitHub Actions has one; raises OutputFailed."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    with written_to(path), open(path, "ab") as file:  # noqa: PTH123 - pathlib slows down each start
        room = LARGEST_BYTES - file.tell()
        file.write(_cut(markdown(), room))


def _cut(text: str, room_bytes: int) -> bytes:
    """Return the lines that fit, followed by a note if lines were cut."""
    whole = text.encode("utf-8", "backslashreplace")
    if len(whole) <= room_bytes:
        return whole
    kept = whole[: max(room_bytes - LONGEST_END, 0)].rpartition(b"\n")[0]
    return b"\n".join((kept, _open_fence(kept), MORE)) if kept else b""


def _open_fence(text: bytes) -> bytes:
    """Return the line that closes a code block left open at the end of the text, else b""."""
    fence = b""
    for line in text.split(b"\n"):
        marks = line[: len(line) - len(line.lstrip(b"`"))]
        if fence and line == fence:
            fence = b""
        elif not fence and len(marks) >= len(b"```"):
            fence = marks
    return fence
