"""A mounted filesystem to fix, its script, and the faults that are injected into the script.

Scripts run in the mount namespace of the test, which has its own /etc.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from support.examples import ALL_PERCENT, share_percent
from support.filesystems.scratch import run
from support.program import run as run_program
from support.timing import PATIENCE_SECONDS

SHELLS = [
    (name, [path, *arguments])
    for name, *arguments in (("dash",), ("bash", "--posix"), ("busybox", "ash"))
    if (path := shutil.which(name))
]
CHANGING_PROGRAMS = "mount umount tune2fs e2fsck cp mv ln sync".split()
"""The programs that change anything: a script must survive if one fails or is killed."""
VOLATILE_LINES = re.compile(
    r"^(?:Last (?:mount|write) time|Mount count|Lifetime writes|Free (?:blocks|inodes)|Journal "
    r"(?:sequence|start|checksum:)|Last checked|Next check|Checksum|First (?:error|orphan)).*$",
    re.MULTILINE,
)
FAULTS = os.environ.get("EXT4AUDIT_FAULTS", "0")
FAULT_INTERVAL = 1 if FAULTS == "all" else 7 * ALL_PERCENT // share_percent()
FIRST_FAULT = 1 if FAULTS == "all" else 1 + int(FAULTS) % FAULT_INTERVAL
"""The first call that gets a fault; then every seventh does, or every 58th if a run has an eighth
of the examples. CI starts at another call each hour, so within seven hours every call gets one;
with EXT4AUDIT_FAULTS=all, this takes one run."""
FAULT_SHIM = """#!/bin/sh
n=$(($(cat {counter}) + 1))
echo $n >{counter}
if [ $n = {at} ] && [ {mode} = late ]; then {real} "$@"; fi
if [ $n = {at} ] && [ {mode} = fail ]; then echo "{name}: injected" >&2; exit 32; fi
if [ $n = {at} ]; then kill -9 -$(cat {pid}); fi
exec {real} "$@"
"""


def calls_with_faults(calls: int) -> range:
    """Return the calls of a run, counted from 1, at which a fault is injected."""
    return range(FIRST_FAULT, calls + 1, FAULT_INTERVAL)


@dataclass(frozen=True)
class FixScenario:
    """A mounted loop device, and the folder with its script, state and injected faults."""

    folder: Path
    device: str
    mount_point: Path
    fstab: Path

    @property
    def name(self) -> str:
        """The kernel's name of the device."""
        return self.device.removeprefix("/dev/")

    @property
    def script(self) -> Path:
        """The path of the script."""
        return self.folder / "fix.sh"

    def write_script(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Write the script for this filesystem."""
        return run_program("fix", str(self.mount_point), *options, "-o", str(self.script))

    def run_script(
        self, *words: str, shell: tuple[str, ...] = ("dash",), path: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the script in its own process group, and write the group's ID to the file "pid"."""
        start = 'echo $$ > "$0"; exec "$@"'
        program = ["sh", "-c", start, str(self.folder / "pid"), *shell, str(self.script), *words]
        before = f"{path}:" if path else ""
        env = {
            **os.environ,
            "PATH": before + os.environ["PATH"],
            "EXT4AUDIT_STATE": str(self.folder / "state"),
        }
        return subprocess.run(
            program,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=PATIENCE_SECONDS,
            check=False,
            start_new_session=True,
        )

    def inject(self, at: int, mode: str) -> Path:
        """Return a folder of wrapper programs; the call number `at` fails, counted from 1.

        `mode` is "fail", "kill" (before the program runs) or "late" (kill after it has run).
        """
        folder = self.folder / "shims"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        counter = self.folder / "counter"
        counter.write_text("0")
        for name in CHANGING_PROGRAMS:
            shim = folder / name
            real = shutil.which(name)
            shim.write_text(
                FAULT_SHIM.format(
                    counter=counter, at=at, mode=mode, name=name, real=real, pid=self.folder / "pid"
                )
            )
            shim.chmod(0o755)
        return folder

    @property
    def calls(self) -> int:
        """The number of calls of the last run to the programs that can fail."""
        return int((self.folder / "counter").read_text())

    def state(self) -> dict[str, object]:
        """Return all that an undo must restore: options, mounts, fstab, /etc, superblock, sysfs."""
        options = Path(f"/proc/fs/ext4/{self.name}/options")
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        ours = [line.split() for line in mounts if f" {self.device} " in line]
        utab = Path("/run/mount/utab")
        kept = utab.read_text().split("\n") if utab.exists() else []
        superblock = run("dumpe2fs", "-h", self.device)
        settings = Path(f"/sys/fs/ext4/{self.name}").glob("*_*")
        return {
            "options": options.read_text() if options.exists() else None,
            "mounts": [(fields[4], fields[5], fields[-1]) for fields in ours],
            "kept by mount(8)": [line for line in kept if f"SRC={self.device} " in line],
            "settings": {
                path.name: path.read_text()
                for path in settings
                if path.stat().st_mode & 0o777 == 0o644
            },
            "fstab": self.fstab.read_bytes(),
            "mode": self.fstab.stat().st_mode,
            "etc": self.names(),
            "superblock": VOLATILE_LINES.sub("", superblock).replace(" needs_recovery", ""),
        }

    def names(self) -> list[str]:
        """Return the file names in /etc, without the dated copies of fstab."""
        names = sorted(str(path) for path in self.fstab.parent.glob("**/*"))
        return [name for name in names if not re.search(r"/fstab\.\d{8}-\d{6}$", name)]
