"""`ext4audit probe`: measure problems of a filesystem that rules can only suspect."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ext4audit import __version__, lazily, probing
from ext4audit.api import DEFAULT_TIMEOUT_SECONDS
from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.inventory import take_inventory
from ext4audit.cli import Choice, completer, print_diagnostic
from ext4audit.cli.files import read_bytes
from ext4audit.cli.options import Number, timeout_option, utf8
from ext4audit.cli.output import color_option, format_option, look, output_option, refused, write
from ext4audit.cli.plans.values import size_of
from ext4audit.cli.targets import resolve_one
from ext4audit.facts import decoded
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.measurement import ProbeRun, ProbeVerdict
from ext4audit.parsers.probe_run import parse_probe_run
from ext4audit.probing.bench import Limits
from ext4audit.probing.workspace import Refused, leftovers, opened_directory
from ext4audit.report import EXIT_CLEAN, EXIT_FINDINGS, EXIT_INCOMPLETE
from ext4audit.sources import Unanswered, utc_now
from ext4audit.sources.live import LiveSource
from ext4audit.sources.timeouts import BoundedCalls, WaitBudget

LONGEST_SECONDS = 3600
LARGEST_BYTES = 16 << 20
"""Maximum size of a file for `scan --probe`; a run on an array of 4096 members is 1 MiB."""
_WRITE_OPTIONS = frozenset({"only", "size", "seconds", "rate"})
"""The options that control writing and have no effect with --observe."""
LONGEST_STAT_SECONDS = 0.2
"""How long an observation waits for the path of a task that waits."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def _size(_context: click.Context, _option: click.Parameter, text: str) -> int:
    try:
        return size_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _names(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[str, ...]:
    """Return the chosen probes in the order in which they run, without duplicates."""
    words = [word.strip() for word in text.split(",")] if text is not None else list(probing.PROBES)
    choice = Choice(list(probing.PROBES))
    chosen = {choice.convert(word, None, None) for word in words}
    return tuple(name for name in probing.PROBES if name in chosen)


@click.command("probe")
@click.argument("directory", metavar="DIR", shell_complete=completer("files"))
@click.option(
    "--only",
    callback=_names,
    metavar="PROBES",
    shell_complete=completer("probe_list"),
    help=f"Run only these probes (comma-separated): {', '.join(probing.PROBES)}.",
)
@click.option(
    "--observe",
    type=Number(1, LONGEST_SECONDS),
    metavar="SECONDS",
    help="Write nothing; observe counters and waits under the current load.",
)
@click.option(
    "--size",
    callback=_size,
    default="256M",
    show_default=True,
    metavar="SIZE",
    help="Maximum amount of data to write; never more than 5 % of the free space.",
)
@click.option(
    "--time",
    "seconds",
    type=Number(1, LONGEST_SECONDS),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Start no write after this time.",
)
@click.option(
    "--rate",
    callback=_size,
    default="200M",
    show_default=True,
    metavar="SIZE",
    help="Maximum amount of data to write per second.",
)
@format_option(("text", "json"), "Format of the results; `scan --probe` reads json.")
@output_option("Write FILE atomically.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
@color_option
@timeout_option(DEFAULT_TIMEOUT_SECONDS)
def command(*, directory: str, output: str | None, **given: Any) -> int:  # noqa: ANN401 - options
    """Measure what rules can only suspect, on the filesystem that holds DIR.

    It writes to a private directory of its own below DIR and removes it at the end, also after
    an interruption. It measures flushes and latencies of fsync (DUR001), how long a rename over
    a file blocks (PRF002), the extents of a buffered write (PRF001), and on arrays how evenly the
    members are written while small files are created (LAY001). With --observe it writes nothing.

    Exit codes: 0 all healthy, 1 something is affected, 2 usage error or refused, 3 something is
    inconclusive and nothing is affected, 70 internal error, 130 interrupted.

    \b
    Examples:
      ext4audit probe /srv
      ext4audit probe /srv --observe 30
      ext4audit probe /srv --only fsync,rename --size 64M
      ext4audit probe /srv -f json -o probe.json
      ext4audit scan --probe probe.json /srv
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    if given["observe"]:
        _refuse_limits(click.get_current_context())
    try:
        run = _run(directory, given)
    except Refused as reason:
        raise click.UsageError(f"{directory}: {reason}") from None
    write(_rendered(run, given["fmt"], given["color"], to_file=output is not None), output)
    return exit_code(run)


def _refuse_limits(context: click.Context) -> None:
    """Raise UsageError for options without effect; environment variables are accepted."""
    for option in context.command.params:
        given = context.get_parameter_source(f"{option.name}")
        if option.name in _WRITE_OPTIONS and given is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--observe writes nothing, so {option.opts[0]} has no effect")


def exit_code(run: ProbeRun) -> int:
    """Return 1 if anything is affected, 3 if anything is inconclusive or nothing ran, else 0."""
    verdicts = {result.verdict for result in run.results}
    if ProbeVerdict.AFFECTED in verdicts:
        return EXIT_FINDINGS
    if ProbeVerdict.INCONCLUSIVE in verdicts or not verdicts:
        return EXIT_INCOMPLETE
    return EXIT_CLEAN


def _run(directory: str, given: dict[str, Any]) -> ProbeRun:
    """Measure or observe the filesystem of a directory; raises Refused or UsageError."""
    host, fs = _subject_of(directory, given["timeout_seconds"])
    started = time.monotonic()
    taken_at = utc_now()
    with opened_directory(directory) as descriptor, progress(quiet=given["quiet"]) as show:
        for name in leftovers(descriptor):
            print_diagnostic(
                f"{directory}/{name}: left by a run that was killed, or that is still running"
            )
        subject = probing.ProbeTarget(descriptor, fs, host)
        if given["observe"]:
            outcome = _observed(subject, given["observe"], show)
        else:
            limits = Limits(given["size"], given["seconds"], given["rate"], 0)
            outcome = probing.probe(subject, given["only"], limits, show)
    return ProbeRun(
        mode="observe" if given["observe"] else "probe",
        taken_at=taken_at,
        host=host.name,
        boot_id=_boot_id(),
        directory=utf8(directory),
        filesystem=probing.measured_filesystem(fs, host),
        seconds=time.monotonic() - started,
        written_bytes=outcome.written_bytes,
        results=outcome.results,
        skipped=outcome.skipped,
    )


def _observed(
    subject: probing.ProbeTarget, seconds: float, show: probing.Progress
) -> probing.ProbeResults:
    """Observe; a path of a waiting task that does not answer in time is of unknown device."""
    budget = WaitBudget(LONGEST_STAT_SECONDS)

    def device_of(path: str) -> int | None:
        try:
            limit = budget.seconds("stat", path)
            return bounded(partial(_st_dev, path), limit)
        except TimeoutError as error:
            budget.lost("stat", path, limit, str(error))
        except (Unanswered, OSError):
            pass
        return None

    with closing(BoundedCalls()) as bounded:
        results: probing.ProbeResults = lazily("probing.observing", "observe")(
            subject, seconds, show, device_of
        )
    return results


def _st_dev(path: str) -> int:
    return os.stat(path).st_dev  # noqa: PTH116 - pathlib drops a trailing slash


def _boot_id() -> str:
    try:
        return BOOT_ID.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _subject_of(directory: str, timeout_seconds: float) -> tuple[Host, Filesystem]:
    """Return the host and the filesystem of a directory; raises UsageError if it is not ext4."""
    path = utf8(directory)
    source = LiveSource(timeout_seconds)
    found = resolve_one(source, take_inventory(source), path)
    host = assemble_host(source, utc_now(), only=found.device_numbers)
    if len(host.filesystems) != 1:
        raise click.UsageError(f"{path}: not a directory of a mounted ext4 filesystem")
    return host, host.filesystems[0]


@contextmanager
def progress(*, quiet: bool) -> Iterator[probing.Progress]:
    """Yield a function that shows a bar for each probe; it does nothing without a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda _name, _part: None
        return
    from rich.console import Console  # noqa: PLC0415 - slow, needed on terminals only
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def show(name: str, part: float) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=1.0)
            bars.update(tasks[name], completed=part)

        yield show


def _rendered(run: ProbeRun, fmt: str, color: str, *, to_file: bool) -> str:
    """Render in one format; only the renderer that is used is imported."""
    if fmt == "json":
        text = lazily("renderers.probe", "render_json")(run, tool_version=__version__)
    else:
        text = lazily("renderers.probe", "render_text")(run, **look(color, to_file=to_file))
    return str(text)


def read_runs(paths: Sequence[str]) -> tuple[ProbeRun, ...]:
    """Return the probe runs in the files of `scan --probe`; raises UsageError."""
    return tuple(_read_run(path) for path in paths)


def _read_run(path: str) -> ProbeRun:
    with refused(path):
        try:
            return parse_probe_run(decoded(read_bytes(path, LARGEST_BYTES)))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not the output of `ext4audit probe -f json`: {error}") from None
