"""Edits of fstab by real sed, GNU and busybox, on a file in a temporary folder."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from ext4audit.facts.mount import FstabLine
from ext4audit.finding import Step
from ext4audit.parsers.devices_and_mounts import parse_fstab

SEDS = [sed for sed in ("sed", "busybox sed") if shutil.which(sed.split()[0])]
TEXT_AROUND = (
    "# made by hand\nUUID=1234 / ext4 errors=remount-ro 0 1\n",
    "\nUUID=1234 /data2\text4 defaults,nobarrier,discard 0 2 # \udcff\r\n\n  # UUID=5678 nobarrier",
)
"""The text before and after the third line; the last line has no newline."""


def encoded(text: str) -> bytes:
    """Return text as the bytes of the file."""
    return text.encode("utf-8", "surrogateescape")


def write_fstab(folder: Path, written: str) -> Path:
    """Write an fstab with `written` as its third line into a folder; return its path."""
    fstab = folder / "fstab"
    fstab.write_bytes(encoded(written.join(TEXT_AROUND)))
    return fstab


def parsed_line(written: str) -> FstabLine:
    """Return the third line as ext4audit parses it."""
    return next(line for line in parse_fstab(written.join(TEXT_AROUND)) if line.line_number == 3)


def succeeds(command: str, folder: Path, sed: str = "sed") -> bool:
    """Run a command, as printed except for the folder of fstab and the sed; return its success."""
    local = re.sub(r"\bsed ", f"{sed} ", command).replace("/etc/fstab", f"{folder}/fstab")
    done = subprocess.run(["sh", "-c", local], capture_output=True, check=False)
    assert not done.stderr, (command, done.stderr)
    return done.returncode == 0


def run(command: str, folder: Path, sed: str = "sed") -> bytes:
    """Run a command that must succeed, and return the content of fstab after it."""
    assert succeeds(command, folder, sed), command
    return (folder / "fstab").read_bytes()


def check_edit_and_undo(edit: Step | None, after: str, folder: Path, sed: str = "sed") -> None:
    """Change the third line to `after` and undo that, each twice; compare the whole file."""
    assert edit is not None
    fstab = folder / "fstab"
    before, changed = fstab.read_bytes(), encoded(after.join(TEXT_AROUND))
    assert run(edit.undo, folder, sed) == before
    assert not succeeds(edit.done, folder, sed)
    assert run(edit.command, folder, sed) == changed
    assert {path.read_bytes() for path in folder.glob("fstab.*")} == {before}
    assert succeeds(edit.done, folder, sed)
    assert run(re.sub(r"-i\.\$\(.*?\)", "-i", edit.command), folder, sed) == changed
    assert run(edit.undo, folder, sed) == before
    assert run(edit.undo, folder, sed) == before
