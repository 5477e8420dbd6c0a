"""The layout of a SUSE supportconfig: a few large texts, cut into sections.

A section begins with `#==[ Command ]===…` or `#==[ Configuration File ]===…`, then `# ` and the
command line or the path. Comments and blank lines of copied files are removed, so that line
numbers are not those of the host. Source: supportutils 3.1 (supportconfig.rc), facts only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ext4audit.evidence import Evidence, Known
from ext4audit.sources.archive_base import Archive
from ext4audit.sources.foreign_capture import Output
from ext4audit.sources.text import decode

TEXTS = (
    "basic-environment.txt",
    "basic-health-check.txt",
    "fs-diskio.txt",
    "fs-softraid.txt",
    "lvm.txt",
    "boot.txt",
    "memory.txt",
    "proc.txt",
    "udev.txt",
    "sysfs.txt",
    "hardware.txt",
    "env.txt",
    "mpio.txt",
)
"""The texts that can tell something of filesystems; a supportconfig has sixty more."""

_HEADING = re.compile(r"#==\[ (?P<type>[^\]\n]{1,40}) \]=+#?[ \t]*")
_ABSENT = " - File not found"


class SupportconfigCapture:
    """The sections of the texts, by command line and by path."""

    kind = "supportconfig"

    def __init__(self, archive: Archive, root: str) -> None:
        self._commands: dict[str, list[Output]] = {}
        self._files: dict[str, Known[str]] = {}
        present = archive.children(root)
        for name in TEXTS:
            if name in present:
                self._add(name, decode(archive.read(f"{root}/{name}" if root else name)))

    def _add(self, name: str, text: str) -> None:
        for kind, title, body in _sections(text):
            if kind == "Command":
                line = _without_folder(title)
                self._commands.setdefault(line, []).append(Output(body, f"{name}: {line}"))
            elif title.startswith("/") and not title.endswith(_ABSENT):
                self._files.setdefault(title, Known(body, title))

    def read(self, path: str) -> Evidence[str] | None:
        """Return a file's text, None where no section holds it."""
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


def _sections(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield type, title and body of each section.

    A body may hold a line that looks like a heading (a log does); it then ends early, and what
    follows has a title of its own.
    """
    kind, lines = "", list[str]()
    for line in [*text.replace("\r\n", "\n").split("\n"), "#==[ End ]==#"]:
        heading = _HEADING.fullmatch(line)
        if heading is None:
            lines.append(line)
            continue
        if kind and lines and lines[0].startswith("# "):
            yield kind, lines[0][2:].strip(), "\n".join(lines[1:]).strip("\n") + "\n"
        kind, lines = heading["type"], []


def _without_folder(line: str) -> str:
    program, blank, rest = line.partition(" ")
    return program.rpartition("/")[2] + blank + rest
