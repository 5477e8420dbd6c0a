"""Read the two file layouts of archives: sosreport and Insights, and supportconfig.

- sosreport and Insights: files are copied to the path that they had on the host. Outputs are in
  `sos_commands/<plugin>/` or `insights_commands/`; since sos 4.0, `sos_reports/manifest.json`
  contains their command lines. Source: sos 3.6 to 4.10 (archives of sos 4.0 were read),
  insights/core/context.py. Since 2024, Insights joins the lines that it has cleaned, so a text
  ends with a newline only if its last line is blank, as it can be for dumpe2fs (insights-core 3.8,
  ContentProvider.write).
- supportconfig: text files with sections. A section begins with `#==[ Command ]===…` or
  `#==[ Configuration File ]===…`, then `# ` and the command line or the path, and ends with a
  blank line. Comments and blank lines of copied files are removed, so line numbers differ from
  the host. Source: supportutils 3.1 (supportconfig.rc), facts only.

Truncated texts and outputs of stopped commands are not used: a truncated number is a different
number, and a device that is missing from a truncated listing would be reported as absent.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, cast

from ext4audit.evidence import Evidence, Excerpt, Known, Unknown, Why
from ext4audit.sources import ArchiveError, ReadFile, decode, refuse_damaged
from ext4audit.sources.archive import TEXTS
from ext4audit.sources.archive.capture import (
    CAPTURE_IT_AGAIN,
    STOPPED,
    Output,
    cut_off,
    mangle,
    numbered,
    tailed,
)
from ext4audit.sources.containers import Archive

MANIFEST = "sos_reports/manifest.json"
MOST_OF_ONE_NAME = 100
_HEADING = re.compile(r"#==\[ (?P<type>[^\]\n]{1,40}) \]=+#?[ \t]*")
_TAILS, _TAIL = "sos_strings/", ".tailed"
"""Where sos stores the last 25 MiB of a longer output, with a link in the usual place."""
_END = "#==[ End ]==#"
_ABSENT = " - File not found"
TIMED_OUT = "it timed out, and what it printed may be a part"
_AFTER_ALL = "\U0010ffff"
"""Sorts after all names in a directory."""
_SAMPLE = 8
"""How many outputs are examined to determine whether the texts end with a newline."""
_BLANK_AT_END = ("dumpe2fs", "udevadm", "parted", "fdisk")
"""Programs that print a blank last line: their outputs end with a newline even in archives of
joined lines (seen with dumpe2fs 1.47 and udevadm 252)."""


class SosCapture:
    """A directory tree of copied files that includes a directory of command outputs.

    `root` is the directory that represents "/", and `commands` the directory of outputs below it.
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
        """Return the text of a file, or None if the archive does not contain it.

        A truncated file of /proc or /sys is Unknown.
        """
        try:
            text = decode(self._archive.read(self._root + path.lstrip("/")))
        except ArchiveError as error:
            folder, _, last = path.strip("/").rpartition("/")
            if last not in (self.children(folder) or ()):
                return None
            return Unknown(path, Why.FAILED, str(error))
        return _file(path, Known(self._ended(text), path))

    def _ended(self, text: str) -> str:
        """Return a text with the final newline that an archive of joined lines lacks."""
        is_open = bool(text) and not text.endswith("\n")
        return f"{text}\n" if is_open and self._joins_lines else text

    @cached_property
    def _joins_lines(self) -> bool:
        """Whether none of the first outputs in the archive ends with a newline."""
        ends = list(islice(self._ends(), _SAMPLE))
        return len(ends) == _SAMPLE and b"\n" not in ends

    def _ends(self) -> Iterator[bytes]:
        """Yield the last byte of non-empty outputs, except of programs with a blank last line."""
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
        """Return the names in a directory, or None if the archive does not contain it."""
        name = (self._root + path.strip("/")).rstrip("/")
        try:
            return self._archive.children(name) if self._archive.is_directory(name) else None
        except ArchiveError:
            return None

    def run(self, line: str) -> Sequence[Output]:
        """Return the outputs of a command line, found by the manifest or else by mangled name."""
        runs = self._by_line.get(_normalised(line)) or [
            (member, None) for member in self._members(mangle(line))
        ]
        return [self._output(member, status) for member, status in runs]

    def outputs(self, program: str) -> Sequence[Output]:
        """Return all outputs of a program, with any arguments."""
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
        """Return an output from a cache, because many devices are looked up in the same output."""
        if member not in self._outputs:
            self._outputs[member] = self._read_output(member, status)
        return self._outputs[member]

    def _read_output(self, member: str, status: int | None) -> Output:
        if member.startswith(_TAILS) and member.endswith(_TAIL):
            return tailed(member)
        found = self.read(member)
        if status in STOPPED:
            return Output(TIMED_OUT, member, status)
        if isinstance(found, Known):
            is_cut = bool(found.value) and not found.value.endswith("\n")
            return cut_off(member) if is_cut else Output(found.value, member, status)
        detail = found.detail if isinstance(found, Unknown) else "not in the archive"
        return Output(detail, member, status or 1)


def _manifest(found: Evidence[str] | None) -> dict[str, list[tuple[str, int | None]]]:
    """Return the files and exit statuses of each command line in a manifest.

    A missing or unexpected manifest gives an empty result; outputs are then found by file name.
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
    """Return a command line without the program's folder, and with single spaces."""
    program, _, rest = line.strip().partition(" ")
    return " ".join((program.rpartition("/")[2], *rest.split()))


class SupportconfigCapture:
    """The sections of the text files in a supportconfig, by command line and by path."""

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
                output = cut_off(origin) if body is None else Output(body, origin)
                self._commands.setdefault(line, []).append(output)
            elif title.startswith("/") and not title.endswith(_ABSENT):
                detail = f"{name} is cut off in it"
                cut = Unknown(title, Why.UNPARSABLE, detail, CAPTURE_IT_AGAIN)
                found = cut if body is None else _file(title, Excerpt(body, f"{name}: {title}"))
                self._files.setdefault(title, found)

    def read(self, path: str) -> Evidence[str] | None:
        """Return the text of a file, or None if it has no section; a truncated one is Unknown."""
        return self._files.get(path)

    def children(self, path: str) -> tuple[str, ...] | None:
        """Return the names in a directory, or None if no file below it has a section."""
        prefix = path.rstrip("/") + "/"
        first, last = (bisect_left(self._paths, end) for end in (prefix, prefix + _AFTER_ALL))
        inside = (file.removeprefix(prefix) for file in self._paths[first:last])
        names = {name.partition("/")[0] for name in inside}
        return tuple(sorted(names)) or None

    @cached_property
    def _paths(self) -> list[str]:
        """The sorted paths of the files, because many directories are looked up for each device."""
        return sorted(self._files)

    def run(self, line: str) -> Sequence[Output]:
        """Return the outputs of a command line, regardless of the program's folder."""
        return self._commands.get(_without_folder(line), [])

    def outputs(self, program: str) -> Sequence[Output]:
        """Return all outputs of a program, with any arguments."""
        lines = (line for line in self._commands if line.partition(" ")[0] == program)
        return [output for line in lines for output in self._commands[line]]


def _file(path: str, text: Known[str]) -> Evidence[str]:
    """Return the text of a file, or an unknown if it is damaged."""
    return cast("Evidence[str]", refuse_damaged(ReadFile(path), text))


def _sections(text: str) -> Iterator[tuple[str, str, str | None]]:
    """Yield type, title and body of each section; the body is None if the text ends within it.

    A body may contain a line that looks like a heading, for example in a log. It then ends early,
    and the rest becomes another section.
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
