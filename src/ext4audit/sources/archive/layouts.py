"""The file layouts of archives: sosreport and Insights, and supportconfig.

- sosreport and Insights: files are copied to the path that they had on the host. Outputs lie below
  `sos_commands/<plugin>/` or in `insights_commands/`; since sos 4.0 `sos_reports/manifest.json`
  has the command line of each. Source: sos 3.6 to 4.10 (archives of sos 4.0 were read),
  insights/core/context.py. Since 2024 Insights joins the lines that it has cleaned, so that a
  text ends with a newline only where its last line is blank, as that of dumpe2fs can be
  (insights-core 3.8, ContentProvider.write).
- supportconfig: text files of sections. A section begins with `#==[ Command ]===…` or
  `#==[ Configuration File ]===…`, then `# ` and the command line or the path, and ends with a
  blank line. Comments and blank lines of copied files are removed, so line numbers are not those
  of the host. Source: supportutils 3.1 (supportconfig.rc), facts only.

What is cut off or was stopped is no evidence: the rest of a number is another number, and a
device that a listing lacks would be said to be absent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, cast

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.sources import ArchiveError, ReadFile, decode, refuse_damaged
from ext4audit.sources.archive import TEXTS
from ext4audit.sources.archive.capture import CUT_OFF, STOPPED, TAILED, Output, mangle, numbered
from ext4audit.sources.containers import Archive

MANIFEST = "sos_reports/manifest.json"
MOST_OF_ONE_NAME = 100
_HEADING = re.compile(r"#==\[ (?P<type>[^\]\n]{1,40}) \]=+#?[ \t]*")
_TAILS, _TAIL = "sos_strings/", ".tailed"
"""Where sos puts the last 25 MiB of a longer output; a link stands in its place."""
_END = "#==[ End ]==#"
_ABSENT = " - File not found"
TIMED_OUT = "it timed out, and what it printed may be a part"
_SAMPLE = 8
"""How many outputs are looked at for whether the archive's texts end with a newline."""
_BLANK_AT_END = ("dumpe2fs", "udevadm", "parted", "fdisk")
"""The programs that print a blank last line: joined, their outputs end with a newline all the same
(seen of dumpe2fs 1.47 and udevadm 252)."""


class SosCapture:
    """A directory tree of copied files, and a directory of outputs in it.

    `root` is the directory that stands for "/", `commands` the one of the outputs below it.
    """

    def __init__(self, archive: Archive, root: str, *, kind: str, commands: str) -> None:
        self.kind = kind
        self._archive = archive
        self._root = f"{root}/" if root else ""
        folder = f"{self._root}{commands}/"
        names = archive.names()
        self._all_outputs = [name for name in names if name.startswith(folder)]
        self._by_line = _manifest(self.read(MANIFEST))
        claimed = {member for runs in self._by_line.values() for member, _ in runs}
        self._outputs: dict[str, Output] = {}
        self._by_name: dict[str, list[str]] = {}
        tails = [name for name in names if name.startswith(f"{self._root}{_TAILS}")]
        for name in (*self._all_outputs, *tails):
            member = name.removeprefix(self._root)
            if member not in claimed:
                own = name.rpartition("/")[2].removesuffix(_TAIL)
                self._by_name.setdefault(own, []).append(member)

    def read(self, path: str) -> Evidence[str] | None:
        """Return a file's text, None where the archive does not hold it.

        A file of the kernel that is cut off is unknown.
        """
        try:
            text = decode(self._archive.read(self._root + path.lstrip("/")))
        except ArchiveError as error:
            folder, _, last = path.strip("/").rpartition("/")
            if last not in (self.children(folder) or ()):
                return None
            return Unknown(path, Why.FAILED, str(error))
        return _file(path, self._ended(text), path)

    def _ended(self, text: str) -> str:
        """Return a text with the end of its last line, which an archive of joined lines lacks."""
        is_open = bool(text) and not text.endswith("\n")
        return f"{text}\n" if is_open and self._joins_lines else text

    @cached_property
    def _joins_lines(self) -> bool:
        """Whether none of the archive's first outputs ends with a newline."""
        ends = list(islice(self._ends(), _SAMPLE))
        return len(ends) == _SAMPLE and b"\n" not in ends

    def _ends(self) -> Iterator[bytes]:
        """Yield the last byte of each output that has any, and whose last line is not blank."""
        for name in self._all_outputs:
            if name.rpartition("/")[2].startswith(_BLANK_AT_END):
                continue
            try:
                content = self._archive.read(name)
            except ArchiveError:
                continue
            if content:
                yield content[-1:]

    def children(self, path: str) -> tuple[str, ...] | None:
        """Return the names in a directory, None where the archive does not hold it."""
        name = (self._root + path.strip("/")).rstrip("/")
        try:
            return self._archive.children(name) if self._archive.is_directory(name) else None
        except ArchiveError:
            return None

    def run(self, line: str) -> Sequence[Output]:
        """Return the outputs of a line by the manifest, else by its mangled name."""
        runs = self._by_line.get(_normalised(line)) or [
            (member, None) for member in self._members(mangle(line))
        ]
        return [self._output(member, status) for member, status in runs]

    def outputs(self, program: str) -> Sequence[Output]:
        """Return all outputs of a program, whatever its arguments were."""
        named = [
            (member, None)
            for name, members in sorted(self._by_name.items())
            if name == program or name.startswith(f"{program}_")
            for member in members
        ]
        listed = [
            run
            for line, runs in self._by_line.items()
            if line.partition(" ")[0] == program
            for run in runs
        ]
        return [self._output(member, status) for member, status in (*listed, *named)]

    def _members(self, name: str) -> Iterator[str]:
        for count in range(MOST_OF_ONE_NAME):
            members = self._by_name.get(numbered(name, count))
            if members is None:
                return
            yield from members

    def _output(self, member: str, status: int | None) -> Output:
        """Return an output; each is read once, though many devices are looked up in it."""
        if member not in self._outputs:
            self._outputs[member] = self._read_output(member, status)
        return self._outputs[member]

    def _read_output(self, member: str, status: int | None) -> Output:
        if member.startswith(_TAILS) and member.endswith(_TAIL):
            return Output(TAILED, member, 1)
        found = self.read(member)
        if status in STOPPED:
            return Output(TIMED_OUT, member, status)
        if isinstance(found, Known):
            is_cut = bool(found.value) and not found.value.endswith("\n")
            return Output(CUT_OFF, member, 1) if is_cut else Output(found.value, member, status)
        detail = found.detail if isinstance(found, Unknown) else "not in the archive"
        return Output(detail, member, status or 1)


def _manifest(found: Evidence[str] | None) -> dict[str, list[tuple[str, int | None]]]:
    """Return each command line's files and exit statuses; nothing where there is no manifest.

    A manifest of another shape counts as none: the names of the files remain.
    """
    lines: dict[str, list[tuple[str, int | None]]] = {}
    try:
        manifest = json.loads(found.value) if isinstance(found, Known) else None
    except (ValueError, RecursionError):
        return lines
    plugins = _at(manifest, "components", "report", "plugins")
    for plugin in plugins.values():
        commands = plugin.get("commands") if isinstance(plugin, dict) else None
        for command in commands if isinstance(commands, list) else ():
            _add(lines, command)
    return lines


def _add(lines: dict[str, list[tuple[str, int | None]]], command: object) -> None:
    if not isinstance(command, dict):
        return
    line, member, status = (command.get(key) for key in ("exec", "filepath", "return_code"))
    if isinstance(line, str) and isinstance(member, str):
        run = (member, status if type(status) is int else None)
        lines.setdefault(_normalised(line), []).append(run)


def _at(value: object, *keys: str) -> Mapping[str, Any]:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _normalised(line: str) -> str:
    """Return a line as both sides write it: without the program's folder, single blanks."""
    program, _, rest = line.strip().partition(" ")
    return " ".join((program.rpartition("/")[2], *rest.split()))


class SupportconfigCapture:
    """The sections of the texts, by command line and by path."""

    kind = "supportconfig"

    def __init__(self, archive: Archive, root: str) -> None:
        self._commands: dict[str, list[Output]] = {}
        self._files: dict[str, Evidence[str]] = {}
        present = archive.children(root)
        for name in TEXTS:
            if name in present:
                self._add(name, decode(archive.read(f"{root}/{name}" if root else name)))

    def _add(self, name: str, text: str) -> None:
        for kind, title, body in _sections(text):
            if kind == "Command":
                line = _without_folder(title)
                origin = f"{name}: {line}"
                output = Output(CUT_OFF, origin, 1) if body is None else Output(body, origin)
                self._commands.setdefault(line, []).append(output)
            elif title.startswith("/") and not title.endswith(_ABSENT):
                cut = Unknown(title, Why.UNPARSABLE, f"{name} is cut off in it", "capture it again")
                found = cut if body is None else _file(title, body, f"{name}: {title}")
                self._files.setdefault(title, found)

    def read(self, path: str) -> Evidence[str] | None:
        """Return a file's text, None where no section holds it; one that is cut off is unknown."""
        return self._files.get(path)

    def children(self, path: str) -> tuple[str, ...] | None:
        """Return the names of the files in a directory that has sections, None without any."""
        prefix = path.rstrip("/") + "/"
        inside = (file.removeprefix(prefix) for file in self._files if file.startswith(prefix))
        names = {name.partition("/")[0] for name in inside}
        return tuple(sorted(names)) or None

    def run(self, line: str) -> Sequence[Output]:
        """Return the outputs of a command line, whatever folder its program lay in."""
        return self._commands.get(_without_folder(line), [])

    def outputs(self, program: str) -> Sequence[Output]:
        """Return all outputs of a program, whatever its arguments were."""
        lines = (line for line in self._commands if line.partition(" ")[0] == program)
        return [output for line in lines for output in self._commands[line]]


def _file(path: str, text: str, origin: str) -> Evidence[str]:
    """Return a file's text, unknown where it is damaged."""
    return cast("Evidence[str]", refuse_damaged(ReadFile(path), Known(text, origin)))


def _sections(text: str) -> Iterator[tuple[str, str, str | None]]:
    """Yield type, title and body of each section; the body is None if the text ends in it.

    A body may hold a line that looks like a heading (a log does); it then ends early, and what
    follows has a title of its own.
    """
    kind, lines = "", list[str]()
    plain = text.replace("\r\n", "\n")
    for line in [*plain.split("\n"), _END]:
        heading = _HEADING.fullmatch(line)
        if heading is None:
            lines.append(line)
            continue
        if kind and lines and lines[0].startswith("# "):
            is_cut = line is _END and not plain.endswith("\n\n")
            body = None if is_cut else "\n".join(lines[1:]).strip("\n") + "\n"
            yield kind, lines[0][2:].strip(), body
        kind, lines = heading["type"], []


def _without_folder(line: str) -> str:
    program, blank, rest = line.partition(" ")
    return program.rpartition("/")[2] + blank + rest
