"""A captured host as another program would have captured it at the same time.

It has only answers that such programs record in some form: no bytes of devices, no file of the boot
loader, and no absent files. `support.archives.formats` writes the files of each program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from ext4audit.evidence import Known
from ext4audit.sources import (
    Answer,
    Ask,
    ReadFile,
    ResolvePath,
    RunCommand,
    StatFilesystem,
    UdevDatabase,
    Uname,
    VirtualMemory,
)
from support.archives.contents import Files

BLOCK, FILESYS, MAPPER = "block", "filesys", "devicemapper"
_OF_DEVICE = re.compile(r"/sys/dev/block/(\d+:\d+)/(\.\./)?([^.].*)")
_COLUMNS = ("fstype", "uuid", "label", "partuuid", "partlabel", "model", "tran")


class Contents(NamedTuple):
    """Captured files by their paths without the leading "/", and outputs of commands.

    The key of an output is the sos plugin that runs the command, and the command line.
    """

    files: Mapping[str, str]
    outputs: Mapping[tuple[str, str], str]


Outputs = dict[tuple[str, str], str]


class Devices(NamedTuple):
    """The rows of lsblk by device number."""

    rows: Mapping[str, Mapping[str, Any]]

    def name(self, number: str) -> str:
        """Return the kernel's name of a device."""
        return str(self.rows[number]["kname"])

    def directory(self, number: str, *, above: bool = False) -> str:
        """Return the sysfs directory of a device; with `above`, of the disk of a partition."""
        name = self.name(number)
        disk = name.rstrip("0123456789")
        names = {str(row["kname"]) for row in self.rows.values()} - {name}
        disk = next((each for each in (disk, disk.removesuffix("p")) if each in names), "")
        if above or not disk:
            return f"sys/block/{disk or name}"
        return f"sys/block/{disk}/{name}"


def contents_of(answers: Mapping[Ask, Answer], taken_at: str) -> Contents:
    """Return the files and outputs that contain these answers."""
    texts = {
        ask: answer.value
        for ask, answer in answers.items()
        if isinstance(answer, Known) and isinstance(answer.value, str)
    }
    devices = Devices(dict(_rows(texts)))
    files = dict(_copied(texts, devices))
    clock = datetime.fromisoformat(taken_at.removesuffix("Z"))
    outputs: Outputs = {("date", "date --utc"): f"{clock:%a %b %d %H:%M:%S UTC %Y}\n"}
    for made in (_of_programs, _of_udev, _of_mapper, _of_devices, _of_space, _of_machine):
        outputs |= made(texts, devices)
    if VirtualMemory() in texts:
        total, available = (int(each) // 1024 for each in texts[VirtualMemory()].split())
        files["proc/meminfo"] = f"MemTotal:  {total} kB\nMemAvailable:  {available} kB\n"
    sizes = "".join(
        f" {number.replace(':', ' ')} {_size_kib(files, devices, number)} {devices.name(number)}\n"
        for number in devices.rows
    )
    if sizes:
        files["proc/partitions"] = f"major minor  #blocks  name\n\n{sizes}"
    return Contents(files, outputs)


Texts = Mapping[Ask, str]


def _rows(texts: Texts) -> Iterator[tuple[str, Mapping[str, Any]]]:
    printed = (texts[ask] for ask in texts if isinstance(ask, RunCommand) and "-J" in ask.argv)
    pending = [row for text in printed for row in json.loads(text)["blockdevices"]]
    while pending:
        row = pending.pop()
        yield row["maj:min"].strip(), row
        pending += row.get("children") or ()


def _copied(texts: Texts, devices: Devices) -> Iterator[tuple[str, str]]:
    for ask, text in texts.items():
        if not isinstance(ask, ReadFile):
            continue
        found = _OF_DEVICE.fullmatch(ask.path)
        if ask.path == "/proc/self/mountinfo":
            yield "proc/1/mountinfo", text
        elif found is None:
            yield ask.path.lstrip("/"), text
        elif found[1] in devices.rows and not found[3].startswith("slaves/"):
            yield f"{devices.directory(found[1], above=bool(found[2]))}/{found[3]}", text


def _of_programs(texts: Texts, _: Devices) -> Outputs:
    return {
        (FILESYS, " ".join(ask.argv)): f"dumpe2fs 1.47.0 (5-Feb-2023)\n{text}"
        for ask, text in texts.items()
        if isinstance(ask, RunCommand) and ask.argv[:2] == ("dumpe2fs", "-h")
    }


def _of_udev(texts: Texts, devices: Devices) -> Outputs:
    return {
        (BLOCK, f"udevadm info /dev/{devices.name(ask.device_number)}"): "".join(
            f"E: {line}\n" for line in text.split("\n") if line
        )
        for ask, text in texts.items()
        if isinstance(ask, UdevDatabase) and ask.device_number in devices.rows
    }


def _of_mapper(texts: Texts, devices: Devices) -> Outputs:
    outputs: Outputs = {}
    for ask, text in texts.items():
        if isinstance(ask, RunCommand) and ask.argv[0] == "dmsetup":
            name = devices.rows[f"{ask.argv[-3]}:{ask.argv[-1]}"]["name"]
            lines = "".join(f"{name}: {line}\n" for line in text.split("\n") if line)
            run = MAPPER, f"dmsetup {ask.argv[1]}"
            outputs[run] = outputs.get(run, "") + lines
    return outputs


def _of_devices(texts: Texts, devices: Devices) -> Outputs:
    """Return the listing of /dev and the outputs of lsblk and blkid."""
    if not devices.rows:
        return {}
    nodes = "".join(
        f"brw-rw----  1 0   6  {number.replace(':', ',   ')} Nov 21 02:30 {devices.name(number)}\n"
        for number in devices.rows
    )
    pairs = "".join(f"{_pairs(number, row)}\n" for number, row in devices.rows.items())
    values = "".join(
        f'{_path(row)}: UUID="{row["uuid"]}" TYPE="{row["fstype"]}"\n'
        for row in devices.rows.values()
        if row.get("uuid")
    )
    return {
        (BLOCK, "ls -lanR /dev"): f"/dev:\ntotal 0\n{nodes}{_listed_links(texts, devices)}",
        (BLOCK, "lsblk -O -P"): pairs,
        (BLOCK, "blkid -c /dev/null"): values,
    }


def _path(row: Mapping[str, Any]) -> str:
    is_mapped = str(row["kname"]).startswith("dm-")
    return f"/dev/mapper/{row['name']}" if is_mapped else f"/dev/{row['kname']}"


def _pairs(number: str, row: Mapping[str, Any]) -> str:
    named = f'NAME="{row["name"]}" KNAME="{row["kname"]}" MAJ:MIN="{number}"'
    return " ".join((named, *(f'{key.upper()}="{row.get(key) or ""}"' for key in _COLUMNS)))


def _listed_links(texts: Texts, devices: Devices) -> str:
    """Return the listings of the folders of /dev with links to devices."""
    links = {_path(row): str(row["kname"]) for row in devices.rows.values()}
    for ask, text in texts.items():
        number = text.rpartition("represents=")[2].strip()
        if isinstance(ask, ResolvePath) and ask.path.startswith("/dev/") and number in devices.rows:
            links[ask.path] = devices.name(number)
    folders: dict[str, list[str]] = {}
    for path, name in links.items():
        folder, _, last = path.rpartition("/")
        if path != f"/dev/{name}":
            up = "../" * (folder.count("/") - 1)
            line = f"lrwxrwxrwx 1 0 0 10 Nov 21 02:30 {last} -> {up}{name}\n"
            folders.setdefault(folder, []).append(line)
    inside = folders.pop("/dev", [])
    return "".join((*inside, *(f"\n{each}:\n{''.join(lines)}" for each, lines in folders.items())))


def _of_space(texts: Texts, _: Devices) -> Outputs:
    table = texts.get(ReadFile("/proc/self/mountinfo"), "")
    rows = (line.split(" ") for line in table.split("\n") if " - " in line)
    sources = {row[4]: row[row.index("-") + 2] for row in rows}
    blocks = ["Filesystem 1K-blocks Used Available Use% Mounted on"]
    inodes = ["Filesystem Inodes IUsed IFree IUse% Mounted on"]
    for ask, text in texts.items():
        if isinstance(ask, StatFilesystem) and ask.path in sources:
            size, *counts, files, unused = map(int, text.split()[1:])
            total, free, available = (count * size // 1024 for count in counts)
            source = sources[ask.path]
            blocks.append(f"{source} {total} {total - free} {available} 5% {ask.path}")
            inodes.append(f"{source} {files} {files - unused} {unused} 5% {ask.path}")
    runs = {"df -al -x autofs": blocks, "df -ali -x autofs": inodes}
    return {(FILESYS, line): "\n".join((*lines, "")) for line, lines in runs.items()}


def _of_machine(texts: Texts, _: Devices) -> Outputs:
    outputs: Outputs = {}
    detected = texts.get(RunCommand(("systemd-detect-virt", "--vm")))
    if detected is not None:
        name = detected.strip()
        line = "" if name == "none" else f"  Virtualization: {name}\n"
        outputs["host", "hostnamectl status"] = f"{line}    Architecture: x86-64\n"
    if Uname() in texts:
        release, version, machine, node = texts[Uname()].split("\n", 3)
        outputs["host", "hostname"] = f"{node}\n"
        outputs["kernel", "uname -a"] = (
            f"Linux {node} {release} {version} {machine} {machine} {machine} GNU/Linux\n"
        )
    return outputs


def _size_kib(files: Files, devices: Devices, number: str) -> int:
    return int(files.get(f"{devices.directory(number)}/size", "2")) // 2
