"""A virtual machine of the lab: a Debian kernel over this machine's own file tree.

The guest mounts `/` read-only over 9p below an overlay in its memory, so it runs this checkout
with this interpreter, as root, and cannot change anything here. It returns its results over a
second 9p share. Unless KVM really works it is emulated (TCG): it boots in 3 s, and tests
should count and not time.
"""

from __future__ import annotations

import contextlib
import functools
import lzma
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.support.kernels import Unpacked

TOOLS = (
    "qemu-system-x86_64",
    "busybox",
    "modprobe",
    "depmod",
    "cpio",
    "mdadm",
    "lvm",
    "cryptsetup",
)
INIT = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do
    case $module in scsi_debug*) ;; *) insmod "/modules/$module" || echo "no $module" ;; esac
done < /modules/order
if grep -q lab.probe /proc/cmdline; then echo LAB-PROBE; echo o > /proc/sysrq-trigger; sleep 60; fi
share=trans=virtio,version=9p2000.L,msize=524288
mount -t 9p -o "$share,cache=loose,ro" host /host
mount -t tmpfs -o size=80% tmpfs /layer
mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work root /newroot
mkdir -p /newroot/lab-results /newroot/modules
# Where this machine is a container, the guest is none: rules on fstab would not apply to it.
rm -f /newroot/.dockerenv
mount -t 9p -o "$share,cache=none" results /newroot/lab-results
cp /modules/scsi_debug.ko* /newroot/modules/
for name in proc sys dev; do mount --move "/$name" "/newroot/$name"; done
exec switch_root /newroot /bin/sh /lab-results/run.sh
"""
EMULATED = ("-accel", "tcg", "-cpu", "Nehalem", "-smp", "1")
"""A second emulated CPU doubles the cost of every system call, and x86-64-v2 has no XSAVE, whose
state the dynamic linker saves at each first call of a function. Starting a program takes a tenth
of the time it takes with "-cpu max -smp 2" and random addresses."""
EMULATED_KERNEL = "norandmaps nokaslr mitigations=off cryptomgr.notests"
"""Translated code is cached by address, so random addresses translate libc for each process."""
ACCELERATED = ("-accel", "kvm", "-cpu", "max", "-smp", "2")
RUN = """\
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /mnt
mount -t tmpfs tmpfs /dev/shm 2>/dev/null || {{ mkdir -p /dev/shm; mount -t tmpfs tmpfs /dev/shm; }}
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
{command}
sync
echo LAB-END
echo o > /proc/sysrq-trigger
while :; do :; done
"""


@dataclass(frozen=True, slots=True)
class Disk:
    """One sparse disk of a machine; the guest finds it by its serial.

    `bus` is "virtio" or "nvme". `write_cache` is whether it has a volatile write cache;
    `write_bytes_per_second` throttles it.
    """

    serial: str
    size: str = "1G"
    bus: str = "virtio"
    write_cache: bool = True
    write_bytes_per_second: int = 0

    def arguments(self, image: Path) -> list[str]:
        """Return the QEMU arguments for this disk."""
        throttle = (
            f",throttling.bps-write={self.write_bytes_per_second}"
            if self.write_bytes_per_second
            else ""
        )
        drive = f"file={image},format=raw,if=none,id={self.serial},cache=unsafe{throttle}"
        # QEMU's NVMe always reports a volatile cache, whatever its settings (7.2).
        cache = "on" if self.write_cache else "off"
        device = {"virtio": "virtio-blk-pci", "nvme": "nvme"}[self.bus]
        described = f"{device},drive={self.serial},serial={self.serial},write-cache={cache}"
        return ["-drive", drive, "-device", described]


def missing_tools() -> list[str]:
    """Return the tools that the lab needs and this machine lacks."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    busybox = shutil.which("busybox")
    if (
        busybox
        and subprocess.run(["ldd", busybox], capture_output=True, check=False).returncode == 0
    ):
        missing.append("busybox-static (this busybox needs libraries)")
    return missing


def make_initramfs(kernel: Unpacked, path: Path) -> None:
    """Write an initramfs: busybox, the modules in order, and the init script above."""
    tree = path.with_suffix(".tree")
    shutil.rmtree(tree, ignore_errors=True)
    for name in ("bin", "proc", "sys", "dev", "host", "layer", "newroot", "modules"):
        (tree / name).mkdir(parents=True)
    shutil.copy(str(shutil.which("busybox")), tree / "bin" / "busybox")
    modules = kernel.modules()
    names = [module.name.removesuffix(".xz") for module in modules]
    for module, name in zip(modules, names, strict=True):
        content = module.read_bytes()
        plain = lzma.decompress(content) if module.suffix == ".xz" else content
        (tree / "modules" / name).write_bytes(plain)
    (tree / "modules" / "order").write_text("".join(f"{name}\n" for name in names))
    (tree / "init").write_text(INIT)
    (tree / "init").chmod(0o755)
    paths = "\n".join(str(each.relative_to(tree)) for each in sorted(tree.rglob("*")))
    archive = subprocess.run(
        ["cpio", "-o", "-H", "newc", "--quiet"],
        input=paths.encode(),
        cwd=tree,
        capture_output=True,
        check=True,
    )
    path.write_bytes(archive.stdout)
    shutil.rmtree(tree)


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine to boot: its kernel, its disks, and the directory of its files."""

    kernel: Unpacked
    directory: Path
    disks: Sequence[Disk]
    memory_mib: int = 2048

    @property
    def results(self) -> Path:
        """Directory in which the guest leaves its results."""
        return self.directory / "results"

    @property
    def console(self) -> Path:
        """Log of the guest's serial console."""
        return self.directory / "console.log"

    def run(self, command: str, patience_seconds: float) -> None:
        """Boot, run one shell command as root in the guest, and power off.

        The guest is killed if it adds nothing to its results for `patience_seconds`. Missing
        results are reported with the end of the console.
        """
        self.results.mkdir(parents=True, exist_ok=True)
        (self.results / "run.sh").write_text(RUN.format(command=command))
        initramfs = self.directory / "initramfs"
        make_initramfs(self.kernel, initramfs)
        arguments = self._arguments(initramfs)
        with self.console.open("ab") as console:
            # pdeathsig: an interrupted test must not leave a machine running.
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
            )
            try:
                self._wait(process, patience_seconds)
            finally:
                process.kill()
                process.wait()
                for disk in self.disks:
                    self._image(disk).unlink()

    def _wait(self, process: subprocess.Popen[bytes], patience_seconds: float) -> None:
        """Wait for the guest to exit, or until its results have not changed for too long."""
        while time.time() - self.results.stat().st_mtime < patience_seconds:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
                return

    def console_tail(self, lines: int = 60) -> str:
        """Return the end of the console log."""
        text = self.console.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def _image(self, disk: Disk) -> Path:
        return self.directory / f"{disk.serial}.img"

    def _arguments(self, initramfs: Path) -> list[str]:
        arguments = [
            *_qemu(self.kernel, initramfs, works_with_kvm(self.kernel)),
            "-m",
            str(self.memory_mib),
        ]
        for tag, path, more in (
            ("host", Path("/"), ",readonly=on,multidevs=remap"),
            ("results", self.results, ""),
        ):
            share = f"local,path={path},mount_tag={tag},security_model=none{more}"
            arguments += ["-virtfs", share]
        for disk in self.disks:
            subprocess.run(["truncate", "-s", disk.size, self._image(disk)], check=True)
            arguments += disk.arguments(self._image(disk))
        return arguments


def _qemu(kernel: Unpacked, initramfs: Path, kvm: bool, append: str = "") -> list[str]:
    words = append if kvm else f"{EMULATED_KERNEL} {append}"
    return [
        "qemu-system-x86_64",
        *(ACCELERATED if kvm else EMULATED),
        *("-nographic", "-no-reboot", "-net", "none", "-monitor", "none", "-serial", "stdio"),
        *("-kernel", str(kernel.image), "-initrd", str(initramfs)),
        *("-append", f"console=ttyS0 quiet panic=-1 {words}"),
    ]


@functools.cache
def works_with_kvm(kernel: Unpacked, timeout_seconds: float = 10.0) -> bool:
    """Return whether a guest really boots under KVM here.

    /dev/kvm may exist and not work, as in a nested guest.
    """
    if not Path("/dev/kvm").exists():
        return False
    with tempfile.TemporaryDirectory() as directory:
        initramfs = Path(directory) / "probe"
        make_initramfs(kernel, initramfs)
        try:
            done = subprocess.run(
                _qemu(kernel, initramfs, kvm=True, append="lab.probe"),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=timeout_seconds,
            )
        except subprocess.TimeoutExpired:
            return False
        return b"LAB-PROBE" in done.stdout
