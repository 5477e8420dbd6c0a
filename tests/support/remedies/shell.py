"""A real ext4 filesystem on a loop device, in a mount namespace with its own /etc.

The commands of a remedy run here exactly as they are printed; the machine's own mounts and
files do not change.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from ext4audit.evidence import Evidence, Known
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import (
    DeviceNumber,
    EffectiveOption,
    EffectiveOptions,
    FstabEntry,
    FstabLine,
    Mount,
    Provenance,
)
from ext4audit.facts.options import recognize
from ext4audit.facts.superblock import Superblock
from support.builders import filesystem, kernel, superblock
from support.filesystems.mounts import private_etc_command
from support.timing import HANG_SECONDS, wait_until


class RemedyShell:
    """A mount namespace that a sleeping process keeps alive; commands enter it with nsenter."""

    def __init__(self, folder: Path, mount_point: str = "data") -> None:
        self.folder = folder
        self.device = ""
        self.where = folder / mount_point
        self.where.mkdir()
        self.holder = subprocess.Popen(
            ["unshare", "-m", "--propagation", "private", "sleep", str(HANG_SECONDS)]
        )
        own = Path("/proc/self/ns/mnt").readlink()
        theirs = Path(f"/proc/{self.holder.pid}/ns/mnt")
        assert wait_until(lambda: theirs.readlink() != own)
        self.check(private_etc_command(folder))
        self.check(f"truncate -s 64M {folder}/image && mkfs.ext4 -q {folder}/image")
        self.device = self.check(f"losetup -f --show {folder}/image").strip()

    def close(self) -> None:
        """End the namespace and with it all its mounts, then free the loop device."""
        self.run(f"umount -A {self.device}")
        self.holder.kill()
        self.holder.wait()
        if self.device:
            subprocess.run(["losetup", "-d", self.device], check=True)

    def run(self, command: str) -> subprocess.CompletedProcess[bytes]:
        """Run a command as a person would type it."""
        enter = ["nsenter", "-t", str(self.holder.pid), "-m", "--", "sh", "-c", command]
        return subprocess.run(enter, capture_output=True, check=False, cwd="/")

    def check(self, command: str) -> str:
        """Run a command that must succeed, and return what it printed."""
        done = self.run(command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout.decode("utf-8", "surrogateescape")

    @property
    def name(self) -> str:
        """The kernel's name of the device."""
        return self.device.removeprefix("/dev/")

    @property
    def fstab(self) -> Path:
        """The fstab of the namespace."""
        return Path(f"/proc/{self.holder.pid}/root/etc/fstab")

    def write_fstab(self, options: str) -> None:
        """Write an fstab with one entry; without options, with no entry."""
        where = "".join(
            chr(byte) if 0x21 <= byte <= 0x7E and byte not in b"\\#" else f"\\{byte:03o}"
            for byte in os.fsencode(self.where)
        )
        entry = f"{self.device} {where} ext4 {options} 0 2\n" if options else ""
        self.fstab.write_text(f"# test\n{entry}")

    def mount(self, options: str = "") -> None:
        """Mount with these options only, or as in fstab if there are none."""
        where = self.folder / "where"
        where.write_bytes(os.fsencode(self.where))
        if options:
            how = f"--options-source=disable -t ext4 -o {options} {self.device}"
            self.check(f'mount {how} "$(cat {where})"')
        else:
            self.check(f'mount "$(cat {where})"')

    def unmount(self) -> None:
        """Unmount the filesystem everywhere in the namespace."""
        self.check(f"umount -A {self.device}")

    def tokens(self) -> tuple[str, ...]:
        """Return the active options, from the options file."""
        return tuple(self.check(f"cat /proc/fs/ext4/{self.name}/options").split())

    def mountinfo(self) -> Mount:
        """Return the mountinfo entry of the filesystem."""
        text = self.check("cat /proc/self/mountinfo")
        fields = next(line for line in text.split("\n") if f" {self.device} " in line).split(" ")
        dash = fields.index("-")
        major, minor = (int(part) for part in fields[2].split(":"))
        return Mount(
            int(fields[0]),
            int(fields[1]),
            DeviceNumber(major, minor),
            fields[3],
            os.fsdecode(self.where),
            tuple(fields[5].split(",")),
            fields[dash + 1],
            fields[dash + 2],
            tuple(fields[dash + 3].split(",")),
        )

    def superblock_lines(self) -> dict[str, str]:
        """Return the two lines of the superblock that contain mount options, by label."""
        text = self.check(f"tune2fs -l {self.device}")
        pairs = (line.partition(":") for line in text.splitlines() if "ount options:" in line)
        return {label: value.strip() for label, _, value in pairs}

    def state(self) -> tuple[object, ...]:
        """Return everything that a rollback must restore."""
        mount = self.mountinfo()
        return (
            self.tokens(),
            mount.mount_options,
            mount.super_options,
            self.fstab.read_bytes(),
            self.superblock_lines(),
        )

    def filesystem(
        self,
        provenances: dict[str, Provenance] | None = None,
        *,
        superblock_seen: bool = True,
        **changes: Any,
    ) -> Filesystem:
        """Build the facts of this filesystem; `provenances` has the origin of options by name."""
        mount = self.mountinfo()
        options = self._options(provenances or {}, mount)
        values: dict[str, Any] = {
            "number": mount.device_number,
            "name": self.name,
            "device": self.device,
            "mounts": (mount,),
            "options": Known(options, options.source),
            "fstab": Known(tuple(self._fstab_entries(mount)), "/etc/fstab"),
        }
        if superblock_seen:
            values["superblock"] = self._superblock()
        values.update(changes)
        return filesystem(**values)

    def _superblock(self) -> Evidence[Superblock]:
        lines = self.superblock_lines()
        words = lines["Default mount options"].replace("(none)", "").split()
        string = lines.get("Mount options", "")
        facts = superblock(default_mount_options=tuple(words), mount_option_string=string)
        return Known(facts, f"dumpe2fs -h {self.device}")

    def _options(self, provenances: dict[str, Provenance], mount: Mount) -> EffectiveOptions:
        path = f"/proc/fs/ext4/{self.name}/options"
        upstream = kernel(os.uname().release).upstream
        found = []
        for token in self.tokens():
            known = recognize(token)
            if known is None:
                continue
            spec, canonical = known
            by = provenances.get(spec.name, Provenance.KERNEL_DEFAULT)
            hidden = by not in (Provenance.KERNEL_DEFAULT, Provenance.MOUNT)
            baseline = canonical if hidden else spec.default(upstream)
            found.append(EffectiveOption(spec.name, canonical, path, by, hidden, baseline))
        return EffectiveOptions(path, True, tuple(found), mount.super_options)

    def _fstab_entries(self, mount: Mount) -> list[FstabEntry]:
        entries = []
        for number, line in enumerate(self.fstab.read_text().splitlines(), 1):
            if line.startswith(self.device):
                raw = line.split(" ")[3]
                fields = FstabLine(
                    number,
                    self.device,
                    mount.mount_point,
                    "ext4",
                    tuple(raw.split(",")),
                    raw,
                    0,
                    2,
                    line,
                )
                entries.append(FstabEntry(fields, Known(mount.device_number, "test")))
        return entries
