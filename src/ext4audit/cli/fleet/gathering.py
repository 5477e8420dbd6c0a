"""Gathering the hosts of an inventory, auditing them as they arrive, and handling Ctrl-C."""

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
"""The folder in DIR of --keep for the earlier snapshots of hosts that did not answer.
`scan --from DIR` ignores it, as all names that begin with a dot."""
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,][A-Za-z0-9_@+=:,. -]*")


class GatherOptions(NamedTuple):
    """Options and passwords for Ansible, the time limit of a host, and the snapshot folder."""

    options: tuple[str, ...]
    passwords: dict[str, str]
    host_seconds: int
    keep: str | None
    quiet: bool


class Stop:
    """The number of the signal that stopped the run, if any; a second signal ends the program."""

    def __init__(self) -> None:
        self.number: int | None = None

    def __call__(self) -> bool:
        """Return whether the run must end."""
        return self.number is not None

    @property
    def exit_code(self) -> int | None:
        """The exit code of a run that a signal stopped, as shells report it; None for others."""
        return None if self.number is None else 128 + self.number


@contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Yield a flag that Ctrl-C and other stop signals set, instead of raising an exception."""
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
    """Yield the run, and then remove its files, even if Ctrl-C is pressed again meanwhile."""
    made = Gathering(__version__, wanted.host_seconds)
    try:
        yield made
    finally:
        before = {number: signal.signal(number, signal.SIG_IGN) for number in STOPPING}
        made.close()
        _restore(before)


def answered_places(made: Gathering, wanted: GatherOptions, stop: Stop) -> Iterator[Place | None]:
    """Yield the place of each host as it answers; raises UsageError if Ansible does not run.

    Raises Abort if the run was stopped before any host was known, because a report without hosts
    would look clean.
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
    """Move a host's snapshot of an earlier run aside, so that scans do not find it.

    The new path contains the time of the snapshot, and a number if that path exists, so that no
    file is replaced. Raises OutputFailed.
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
    """Move a snapshot, or copy it if DIR is on another filesystem; raises OutputFailed.

    The final name appears only when the file is complete; a link of that name is replaced.
    """
    import shutil  # noqa: PLC0415 - for --keep only
    from tempfile import TemporaryDirectory  # noqa: PLC0415 - see above

    parent = Path(destination).parent
    with written_to(destination), TemporaryDirectory(prefix=".", dir=parent) as folder:
        Path(shutil.move(source, folder)).replace(destination)


def file_name(name: str) -> str:
    """Return the file name for a host's snapshot.

    This is the host's name if `scan --from` derives the same key from it, else the name is quoted
    as in URLs: `scan` skips hidden files, "-" looks like an option to other programs, and snapshot
    extensions are not part of a key. Names that are too long end in a hash.
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
    """Yield the lines, and remove the snapshot of each host that was audited."""
    for line in lines:
        made.forget(line.name)
        yield line


def with_progress(lines: Iterator[HostLine], made: Gathering, *, quiet: bool) -> Iterator[HostLine]:
    """Yield the lines, and show how many hosts are done, failing and unread."""
    show = _progress(made) if not quiet else None
    failing = unread = 0
    for done, line in enumerate(lines, start=1):
        failing += line.code == EXIT_FINDINGS
        unread += line.unread is not None
        if show is not None:
            show(done, failing, unread)
        yield line


def _progress(made: Gathering) -> Callable[[int, int, int], None]:
    """Return a function that repaints the progress on a terminal, or prints occasional lines."""
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
    """Return one line with the hosts done, failing and unread, and the rate."""
    rate = done / seconds if seconds else 0.0
    return f"{done} of {hosts} hosts: {failing} failing, {unread} unread, {rate:.1f} hosts/s"


def audit_inventory(wanted: GatherOptions, asked: ReportOptions) -> int:
    """Audit every host of the inventory, and return the exit code."""
    with stopped_by_signals() as stop, gathering(wanted) as made:
        lines = audit_arriving(answered_places(made, wanted, stop), asked)
        lines = with_progress(with_snapshots_removed(lines, made), made, quiet=wanted.quiet)
        _, codes = print_lines(lines, (), asked, by_key=True)
    if stop.exit_code is not None:
        print_diagnostic("interrupted: the report has the hosts that answered", color=RED)
        return stop.exit_code
    return worst_of(codes)
