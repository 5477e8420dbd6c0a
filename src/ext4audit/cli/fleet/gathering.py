"""Hosts of an inventory, gathered and audited as they arrive; the run that Ctrl-C ends early."""

from __future__ import annotations

import hashlib
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import click

from ext4audit import __version__
from ext4audit.cli import RED, OutputFailed, print_diagnostic, print_error
from ext4audit.cli.captured import Place
from ext4audit.cli.fleet.auditing import audit_arriving, print_lines, worst_of
from ext4audit.cli.options import ReportOptions
from ext4audit.cli.output import written_to
from ext4audit.renderers import visible
from ext4audit.renderers.shared.fleet import HostLine
from ext4audit.report import EXIT_FINDINGS
from ext4audit.sources.ansible import AnsibleError, Answer
from ext4audit.sources.ansible.gathering import Gathering
from ext4audit.sources.captured import EXTENSION, key_of

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_REPAINT_SECONDS = 0.1
_LINE_SECONDS = 30.0
_MOST_NOTES = 20
_LONGEST_NAME = 255
_KEPT_OF_LONG_NAME = 100
EARLIER = ".earlier"
"""The folder in DIR of --keep for snapshots of hosts that did not answer again, which `scan --from
DIR` does not read: names that begin with a dot are no hosts."""
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,][A-Za-z0-9_@+=:,. -]*")


class GatherOptions(NamedTuple):
    """How the hosts are gathered: options and passwords for Ansible, and where snapshots stay."""

    options: tuple[str, ...]
    passwords: dict[str, str]
    host_seconds: int
    keep: str | None
    quiet: bool


class Stop:
    """Whether a signal asked for the end of the run; a second one ends the program."""

    def __init__(self) -> None:
        self.number: int | None = None

    def __call__(self) -> bool:
        """Return whether the run shall end."""
        return self.number is not None


@contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Yield what tells of Ctrl-C and the like, instead of an exception."""
    stop = Stop()
    before = {number: signal.getsignal(number) for number in STOPPING}

    def note(number: int, _frame: object) -> None:
        stop.number = number
        _restore(before)

    for number in STOPPING:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield stop
    finally:
        _restore(before)


def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


@contextmanager
def gathering(wanted: GatherOptions) -> Iterator[Gathering]:
    """Yield the run, and remove whatever it made, also where Ctrl-C comes again meanwhile."""
    made = Gathering(__version__, wanted.host_seconds)
    try:
        yield made
    finally:
        before = {number: signal.signal(number, signal.SIG_IGN) for number in STOPPING}
        made.close()
        _restore(before)


def answered_places(made: Gathering, wanted: GatherOptions, stop: Stop) -> Iterator[Place | None]:
    """Yield the place of each host as it answers; raises UsageError where Ansible does not run.

    Raises Abort where the run was stopped before any host was known: a report of no host would
    look clean.
    """
    keep = None if wanted.keep is None else _folder(wanted.keep)
    notes: set[str] = set()

    def note(text: str) -> None:
        if text not in notes and len(notes) < _MOST_NOTES and not wanted.quiet:
            notes.add(text)
            print_diagnostic(text)

    def of_ansible(text: str) -> None:
        note(f"ansible: {text}")

    try:
        for answer in made.answers(wanted.options, wanted.passwords, stop, of_ansible):
            if keep is not None and answer is not None and answer.reason:
                _set_aside(keep / file_name(answer.name), note)
            yield None if answer is None else _place(answer, keep)
    except AnsibleError as error:
        raise click.UsageError(str(error)) from None
    if stop() and not made.members:
        raise click.Abort


def _folder(path: str) -> Path:
    folder = Path(path)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"--keep {path}: {error.strerror}") from None
    return folder


def _place(answer: Answer, keep: Path | None) -> Place:
    name = answer.name
    if answer.reason:
        return Place(name, True, name, answer.reason, label=name, groups=answer.groups)
    path = answer.path
    if keep is not None:
        path = str(keep / file_name(name))
        _move(answer.path, path)
    return Place(path, True, name, label=name, groups=answer.groups)


def _set_aside(kept: Path, note: Callable[[str], None]) -> None:
    """Move the snapshot of an earlier run to where no scan takes it for one of this run.

    Its time is in the new place, and a number where that time is taken: none is replaced. Raises
    OutputFailed.
    """
    try:
        taken = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(kept.lstat().st_mtime))
        names = chain([taken], (f"{taken}-{number}" for number in count(2)))
        places = (kept.parent / EARLIER / name / kept.name for name in names)
        place = next(place for place in places if not place.exists())
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept.rename(place)
    except FileNotFoundError:
        return
    except OSError as error:
        raise OutputFailed(f"cannot move {kept}: {error.strerror or error}") from error
    note(f"earlier snapshots of hosts that did not answer are now in {kept.parent / EARLIER}")


def _move(source: str, destination: str) -> None:
    """Move a snapshot, which is copied where DIR is another filesystem; raises OutputFailed.

    It is complete before it has its name, and a link of that name is replaced and not followed.
    """
    import shutil  # noqa: PLC0415 - for --keep only
    from tempfile import TemporaryDirectory  # noqa: PLC0415 - see above

    parent = Path(destination).parent
    with written_to(destination), TemporaryDirectory(prefix=".", dir=parent) as folder:
        Path(shutil.move(source, folder)).replace(destination)


def file_name(name: str) -> str:
    """Return the name of the file that keeps a host's snapshot.

    It is the host's name where `scan --from` finds that name again, else quoted as in URLs; a
    hidden file would not be found, one that begins with "-" is an option to other programs, and an
    extension of snapshots is no part of a key. What is too long for a file ends in a hash.
    """
    plain = f"{name}.txt"
    if _PLAIN.fullmatch(name) and key_of(plain) == name and len(plain) <= _LONGEST_NAME:
        return plain
    first = f"%{ord(name[0]):02X}" if name[:1] in {".", "-", "~"} else ""
    quoted = quote(name[1:] if first else name, safe="", errors="surrogateescape")
    quoted = EXTENSION.sub(lambda found: found[0].replace(".", "%2E"), quoted)
    file = f"{first}{quoted}.txt"
    if len(file) <= _LONGEST_NAME:
        return file
    hashed = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{file[:_KEPT_OF_LONG_NAME]}-{hashed}.txt"


def with_snapshots_removed(lines: Iterator[HostLine], made: Gathering) -> Iterator[HostLine]:
    """Pass the lines on, and remove each host's snapshot when it is audited."""
    for line in lines:
        made.forget(line.name)
        yield line


def with_progress(lines: Iterator[HostLine], made: Gathering, *, quiet: bool) -> Iterator[HostLine]:
    """Pass the lines on, and show how many hosts are done, fail, and do not answer."""
    show = _progress(made) if not quiet else None
    failing = unread = 0
    for done, line in enumerate(lines, start=1):
        failing += line.code == EXIT_FINDINGS
        unread += line.error is not None
        if show is not None:
            show(done, failing, unread)
        yield line


def _progress(made: Gathering) -> Callable[[int, int, int], None]:
    """Return what shows the progress: repainted on a terminal, else a line now and then."""
    started = painted = time.monotonic()
    terminal = sys.stderr.isatty()
    pause = _REPAINT_SECONDS if terminal else _LINE_SECONDS

    def show(done: int, failing: int, unread: int) -> None:
        nonlocal painted
        now = time.monotonic()
        last = done == len(made.members)
        if now - painted < pause and not (terminal and last):
            return
        painted = now
        text = progress_text(done, len(made.members), failing, unread, now - started)
        if not terminal:
            print_error(visible(text))
            return
        sys.stderr.write(f"\r\x1b[K{'' if last else text}")
        sys.stderr.flush()

    return show


def progress_text(done: int, hosts: int, failing: int, unread: int, seconds: float) -> str:
    """Return one line: hosts done, failing, unreachable, and the rate."""
    rate = done / seconds if seconds else 0.0
    return f"{done} of {hosts} hosts: {failing} failing, {unread} unread, {rate:.1f} hosts/s"


def audit_inventory(wanted: GatherOptions, asked: ReportOptions) -> int:
    """Audit every host of the inventory, and return the exit code."""
    with stopped_by_signals() as stop, gathering(wanted) as made:
        lines = audit_arriving(answered_places(made, wanted, stop), asked)
        lines = with_progress(with_snapshots_removed(lines, made), made, quiet=wanted.quiet)
        _, codes = print_lines(lines, (), asked, by_key=True)
    if stop.number is not None:
        print_diagnostic("interrupted: the report has the hosts that answered", color=RED)
        return 128 + stop.number
    return worst_of(codes)
