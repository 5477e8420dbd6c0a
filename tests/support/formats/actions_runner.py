"""Read a log as the runner of GitHub Actions does (actions/runner, ActionCommand.cs)."""

from __future__ import annotations

from typing import NamedTuple

REGISTERED = frozenset(
    "error warning notice debug set-output save-state add-mask add-path set-env stop-commands "
    "group endgroup echo add-matcher remove-matcher internal-set-repo-path".split()
)
"""The commands that a runner supports."""


class Command(NamedTuple):
    """A workflow command, with its properties and its data unescaped."""

    name: str
    properties: dict[str, str]
    data: str


def command_in(line: str) -> Command | None:
    """Return the command in a line of the log, None if the line is plain text."""
    return _new_style(line) or _old_style(line)


def _new_style(line: str) -> Command | None:
    """Parse `::name key=value,key=value::data`, which may follow blanks."""
    stripped = line.lstrip()
    if not stripped.startswith("::"):
        return None
    head, separator, data = stripped[2:].partition("::")
    name, _, properties = head.partition(" ")
    if not separator or name not in REGISTERED:
        return None
    pairs = [pair.partition("=") for pair in properties.strip().split(",") if pair]
    values = {key: _unescaped(value, colons=True) for key, _, value in pairs if key and value}
    return Command(name, values, _unescaped(data, colons=False))


def _old_style(line: str) -> Command | None:
    """Parse `##[name key=value;key=value]data`, which may follow any text."""
    _, prefix, rest = line.partition("##[")
    head, bracket, data = rest.partition("]")
    name = head.partition(" ")[0]
    return Command(name, {}, data) if prefix and bracket and name in REGISTERED else None


def _unescaped(text: str, *, colons: bool) -> str:
    """Undo the escapes; the percent sign comes last."""
    for written, meant in (("%0D", "\r"), ("%0A", "\n")):
        text = text.replace(written, meant)
    if colons:
        text = text.replace("%3A", ":").replace("%2C", ",")
    return text.replace("%25", "%")
