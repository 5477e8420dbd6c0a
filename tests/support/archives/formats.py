"""The forms of archives: each writes the captured contents of a host as the files of its program.

A new form is a function and an entry in FORMS; `tests/end_to_end/test_hosts_as_archives.py` then
tests it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ext4audit.sources.archive.capture import mangle
from support.archives.contents import Files
from support.archives.of_snapshot import Contents

MOUNTINFO = "proc/1/mountinfo"
_MANIFEST = "sos_reports/manifest.json"
_DATA = "insights-h-20260101000000/data"
_OTHER_OUTPUTS = {
    f"rpm -V {name}": "missing /x\n" for name in "bash cpio dbus grep m4 pam sed tar".split()
}
"""Outputs that say nothing about filesystems: a real archive has hundreds of them."""
_TEXT_OF = {"block": "fs-diskio.txt", "filesys": "fs-diskio.txt", "devicemapper": "lvm.txt"}
"""The file of a supportconfig with the outputs of a sos plugin; others are in the first file."""
_TEXTS_OF_FILES = {"proc/": "proc.txt", "sys/": "sysfs.txt", "etc/fstab": "fs-diskio.txt"}


class ArchiveFormat(NamedTuple):
    """A form of archives: a function that writes its files, and the links between them.

    `mark` is a name that occurs in each of its archives; without it, they are not recognised.
    `shows_ends` is whether a truncated text can be distinguished from a complete one.
    """

    write: Callable[[Contents], Files]
    mark: str
    links: Mapping[str, str] = {}
    shows_ends: bool = True


def _sosreport(contents: Contents) -> Files:
    """Return the files of a sosreport of sos before 4.0, which has no manifest."""
    outputs = {
        f"sos_commands/{plugin}/{mangle(line)}": text
        for (plugin, line), text in contents.outputs.items()
    }
    return {**contents.files, **outputs}


def _with_manifest(contents: Contents) -> Files:
    """Return the files of a sosreport of sos since 4.0, whose manifest has the command lines."""
    plugins: dict[str, dict[str, list[dict[str, object]]]] = {}
    for plugin, line in contents.outputs:
        path = f"sos_commands/{plugin}/{mangle(line)}"
        run = {"exec": line, "filepath": path, "return_code": 0}
        plugins.setdefault(plugin, {"commands": []})["commands"].append(run)
    manifest = {"components": {"report": {"plugins": plugins}}}
    return {**_sosreport(contents), _MANIFEST: json.dumps(manifest) + "\n"}


def _insights(contents: Contents) -> Files:
    outputs = {f"insights_commands/{mangle(line)}": t for (_, line), t in contents.outputs.items()}
    files = {**_with_mounts(contents.files), **outputs}
    return {f"{_DATA}/{path}": text for path, text in files.items()}


def _insights_joined_lines(contents: Contents) -> Files:
    """Return the files of Insights since 2024, which joins lines: no text ends with a newline."""
    others = {("other", line): text for line, text in _OTHER_OUTPUTS.items()}
    files = _insights(Contents(contents.files, {**others, **contents.outputs}))
    return {path: text.removesuffix("\n") for path, text in files.items()}


def _supportconfig(contents: Contents) -> Files:
    texts: Files = {"basic-environment.txt": ""}
    for (plugin, line), text in contents.outputs.items():
        name = _TEXT_OF.get(plugin, "basic-environment.txt")
        texts[name] = texts.get(name, "") + _section("Command", f"/sbin/{line}", text)
    for path, text in _with_mounts(contents.files).items():
        starts = (each for each in _TEXTS_OF_FILES if path.startswith(each))
        name = _TEXTS_OF_FILES.get(next(starts, ""), "basic-environment.txt")
        lines = [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
        body = "".join(f"{line}\n" for line in lines)
        texts[name] = texts.get(name, "") + _section("Configuration File", f"/{path}", body)
    return texts


def _section(kind: str, title: str, body: str) -> str:
    return f"#==[ {kind} ]{'=' * 40}#\n# {title}\n{body}\n"


def _with_mounts(files: Mapping[str, str]) -> Files:
    """Return the files with /proc/mounts instead of mountinfo."""
    rows = (line.split(" ") for line in files.get(MOUNTINFO, "").split("\n") if " - " in line)
    mounts = "".join(f"{_as_proc_mounts(row)}\n" for row in rows)
    others = {path: text for path, text in files.items() if path != MOUNTINFO}
    return {**others, "proc/mounts": mounts} if mounts else others


def _as_proc_mounts(row: list[str]) -> str:
    """Return a line of mountinfo in the format of /proc/mounts."""
    fstype, source, shared = row[row.index("-") + 1 :]
    own = row[5].split(",")
    options = [*own, *(each for each in shared.split(",") if each not in {"rw", "ro"})]
    if "ro" in shared.split(","):
        options[0] = "ro"
    return f"{source} {row[4]} {fstype} {','.join(options)} 0 0"


FORMATS = {
    "sosreport": ArchiveFormat(_sosreport, "sos_commands/", {"proc/self": "1"}),
    "sosreport with a manifest": ArchiveFormat(_with_manifest, "sos_commands/", {"proc/self": "1"}),
    "insights": ArchiveFormat(_insights, "insights_commands/"),
    "insights of joined lines": ArchiveFormat(
        _insights_joined_lines, "insights_commands/", shows_ends=False
    ),
    "supportconfig": ArchiveFormat(_supportconfig, "basic-environment.txt"),
}
