"""`ext4audit collect`: capture a snapshot of this host for an audit on another machine."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping

import click

from ext4audit import __version__
from ext4audit.api import DEFAULT_TIMEOUT_SECONDS
from ext4audit.assemble.host import assemble_host
from ext4audit.cli import completer, print_diagnostic
from ext4audit.cli.files import belongs_to_another, open_destination
from ext4audit.cli.options import deadline_option, timeout_option
from ext4audit.cli.output import STANDARD_OUTPUT, output_option, progress, write, written_to
from ext4audit.cli.targets import resolve_targets
from ext4audit.evidence import Unknown, Why
from ext4audit.facts.host import Host
from ext4audit.finding import listed
from ext4audit.sources import Answer, Ask, ReadBytes, RunCommand, UdevDatabase, utc_now
from ext4audit.sources.live import LiveSource
from ext4audit.sources.snapshot.collector import collect_script
from ext4audit.sources.snapshot.writing import RecordingSource, mask, wrap, write_snapshot_tar

SUPERBLOCK_BYTES = 1024
NOT_SEEN = frozenset({Why.DENIED, Why.TIMED_OUT})
"""Reasons that more privileges or more time can remove; other unknowns are not reported."""


@click.command("collect")
@click.argument("targets", nargs=-1, metavar="[TARGET]...", shell_complete=completer("files"))
@output_option("Write FILE atomically; only its owner can read it.")
@click.option("--lean", is_flag=True, help="Omit group descriptors and the udev database.")
@click.option(
    "--text",
    "as_text",
    is_flag=True,
    help="Write base64 between marker lines, for terminals and mail.",
)
@click.option("--script", is_flag=True, help="Print the collector for hosts without Python.")
@timeout_option(DEFAULT_TIMEOUT_SECONDS)
@deadline_option
def command(
    *,
    targets: tuple[str, ...],
    output: str | None,
    lean: bool,
    as_text: bool,
    script: bool,
    timeout_seconds: float,
    deadline_seconds: float,
) -> int:
    """Capture the evidence that an audit needs, of this host or of the TARGETs' filesystems.

    The snapshot is a tar.gz. It contains /etc/fstab and the kernel command line. Values that look
    like passwords are masked; standard error and the snapshot list the masked files. Run it as
    root to capture superblocks.

    `--script` prints a POSIX sh script that captures the same evidence on a host without Python.
    The script has the options --text, --lean and -o FILE:

    \b
      ssh HOST sudo sh -s < collect.sh | ext4audit scan --from -

    Exit codes: 0 captured (standard error lists what could not be read), 2 usage error,
    70 internal error.

    \b
    Examples:
      ext4audit collect -o host.tar.gz
      ext4audit collect --script > collect.sh
      ext4audit collect --text /var/lib/mysql
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    if script and (targets or lean or as_text):
        raise click.UsageError(
            "--script excludes TARGET, --lean and --text: pass them to the script"
        )
    if output is None and sys.stdout.isatty() and not (script or as_text):
        raise click.UsageError("a snapshot is binary: use -o FILE, a pipe, or --text")
    if output is None and sys.__stdout__ is None:
        raise click.UsageError("standard output is closed: use -o FILE")
    if script:
        write(collect_script(__version__), output)
        return 0
    if output is not None and belongs_to_another(output):
        raise click.UsageError(
            f"--output {output}: belongs to another user, who could read the snapshot"
        )
    host, content = _capture(
        targets, LiveSource(timeout_seconds, deadline_seconds=deadline_seconds), lean=lean
    )
    _write(wrap(content).encode("ascii") if as_text else content, output)
    if output is not None:
        count = len(host.filesystems)
        print_diagnostic(
            f"{output}: {count} filesystem{'' if count == 1 else 's'}, {len(content)} bytes"
        )
    return 0


def _capture(targets: tuple[str, ...], source: LiveSource, *, lean: bool) -> tuple[Host, bytes]:
    """Return the host, and the evidence that was read to assemble it as a tar.gz."""
    taken_at = utc_now()
    recorder = RecordingSource(source)
    # Not recorded, because the contents of files named as targets are not evidence.
    only = resolve_targets(source, targets) if targets else None
    with progress(quiet=False) as show:
        host = assemble_host(recorder, taken_at, only=only, progress=show)
    answers = {
        ask: recorder.answers[ask]
        for ask in recorder.answers
        if not (lean and _is_dispensable(ask))
    }
    _report_gaps(answers, host.gaps)
    file = io.BytesIO()
    about = {"host": host.name, "tool": f"ext4audit {__version__}"}
    shared, masked = mask(answers)
    for path in masked:
        print_diagnostic(f"masked: {path}: values that look like passwords")
    write_snapshot_tar(
        file, shared, taken_at=taken_at, times=recorder.times, about=about, masked=masked
    )
    return host, file.getvalue()


def _is_dispensable(ask: Ask) -> bool:
    """Return whether an answer is large and an audit is still useful without it."""
    match ask:
        case UdevDatabase():
            return True
        case ReadBytes(_, _, length_bytes):
            return length_bytes > SUPERBLOCK_BYTES
        case RunCommand(argv):
            return argv[:2] == ("dumpe2fs", "-g")
    return False


def _report_gaps(answers: Mapping[Ask, Answer], gaps: Iterable[Unknown]) -> None:
    """Print to standard error what the snapshot lacks, one line for each cause."""
    unknown = [answer for answer in answers.values() if isinstance(answer, Unknown)]
    causes: dict[tuple[str, str], list[str]] = {}
    for gap in [*(each for each in unknown if each.why in NOT_SEEN), *gaps]:
        causes.setdefault((gap.detail, gap.hint), []).append(gap.what)
    for (detail, hint), what in causes.items():
        print_diagnostic(f"not read: {listed(what, 1)}: {detail}{f' ({hint})' if hint else ''}")


def _write(content: bytes, path: str | None) -> None:
    """Write a snapshot; a file is written atomically. Raises OutputFailed or BrokenPipeError."""
    with written_to(STANDARD_OUTPUT if path is None else path):
        if path is None:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        else:
            with open_destination(path, is_private=True) as put:  # fstab can hold passwords
                put(content)
