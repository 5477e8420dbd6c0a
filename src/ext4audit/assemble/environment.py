"""What surrounds the filesystems: system, memory, virtualization, services and the boot loader."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.assemble.reading import ask, first_known, integer, read, word
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive, value_or
from ext4audit.facts.host import BootLoader, Kernel, Loader, Memory, OperatingSystem
from ext4audit.facts.mount import Mount
from ext4audit.parsers.devices import parse_md_arrays
from ext4audit.parsers.system import parse_grub_version, parse_kernel, parse_os_release
from ext4audit.sources.ask import ReadFile, RealPath, RunCommand, Source, Uname, VirtualMemory

MARKERS = (("/.dockerenv", "docker"), ("/run/.containerenv", "podman"))


def read_kernel(source: Source) -> Evidence[Kernel]:
    """Read the kernel's name, and Ubuntu's own number of it."""
    found = ask(source, Uname(), parse_kernel, "kernel release")
    signature = word(source, "/proc/version_signature")
    if isinstance(found, Unknown) or signature is None:
        return found
    return Known(found.value._replace(signature=signature), found.origin)


def read_os(source: Source) -> Evidence[OperatingSystem]:
    """Read os-release(5), at either of its two places."""
    return first_known(
        lambda: read(source, "/etc/os-release", parse_os_release),
        lambda: read(source, "/usr/lib/os-release", parse_os_release),
    )


def read_container(source: Source, mounts: tuple[Mount, ...]) -> str | None:
    """Return the kind of container that this view is from, None on a host.

    A marker alone proves nothing: an image unpacked onto a virtual machine's disk keeps its
    /.dockerenv. In a container `/` is an overlay, or a directory of some filesystem.
    """
    root = next((mount for mount in reversed(mounts) if mount.mount_point == "/"), None)
    if root is not None and root.device_number.major != 0 and root.root == "/":
        return None
    marked = [kind for path, kind in MARKERS if isinstance(source.fetch(ReadFile(path)), Known)]
    return word(source, "/run/systemd/container") or (marked[0] if marked else None)


def read_virtualization(source: Source) -> str | None:
    """Return the hypervisor as systemd-detect-virt(1) names it, None when there is none."""
    command = RunCommand(("systemd-detect-virt", "--vm"))
    found = value_or(ask(source, command, str.strip, "virtualization"), "none")
    return None if found in {"none", ""} else found


def read_memory(source: Source) -> Evidence[Memory]:
    """Read memory, and the limits of dirty page cache (Documentation/admin-guide/sysctl/vm.rst)."""
    vm = "/proc/sys/vm"

    def build(virtual: str, dirty_bytes: int, ratio: int, background: tuple[int, int]) -> Memory:
        total, available = (int(line) for line in virtual.split("\n")[:2])
        return Memory(total, available, dirty_bytes, ratio, *background)

    return derive(
        "memory and vm.dirty_*",
        build,
        source.fetch(VirtualMemory()),
        integer(source, f"{vm}/dirty_bytes"),
        integer(source, f"{vm}/dirty_ratio"),
        derive(
            "vm.dirty_background_*",
            lambda size, ratio: (size, ratio),
            integer(source, f"{vm}/dirty_background_bytes"),
            integer(source, f"{vm}/dirty_background_ratio"),
        ),
        origin=f"memory, {vm}/dirty_*",
    )


MDADM_CONF = ("/etc/mdadm/mdadm.conf", "/etc/mdadm.conf")
"""Debian's place, and that of the others."""
_WANTS = "systemd/system/timers.target.wants/fstrim.timer"
TRIMMERS = (
    f"/etc/{_WANTS}",
    f"/usr/lib/{_WANTS}",
    "/etc/cron.weekly/fstrim",
    "/etc/cron.daily/fstrim",
)
"""The links that start fstrim.timer, and the jobs of systems before it."""
_MASKED = "/dev/null"
RAID0_DEFAULT_LAYOUT = "/sys/module/raid0/parameters/default_layout"


def read_md_arrays(source: Source) -> Evidence[tuple[str, ...]]:
    """Return the devices of the ARRAY lines; no file is no line."""
    found = [read(source, path, parse_md_arrays) for path in MDADM_CONF]
    holes = [each for each in found if isinstance(each, Unknown) and each.why is not Why.ABSENT]
    known = [each for each in found if isinstance(each, Known)]
    if known:
        return known[0]
    return holes[0] if holes else Known((), MDADM_CONF[0])


def read_fstrim(source: Source) -> Evidence[bool]:
    """Say whether something that starts fstrim regularly is enabled."""
    hole: Unknown | None = None
    for path in TRIMMERS:
        seen = source.fetch(RealPath(path))
        if isinstance(seen, Known) and seen.value != _MASKED:
            return Known(value=True, origin=path)
        if isinstance(seen, Unknown) and seen.why is not Why.ABSENT:
            hole = hole or Unknown("fstrim.timer", seen.why, seen.detail, seen.hint)
    return hole or Known(value=False, origin=TRIMMERS[0])


def read_raid0_default_layout(source: Source) -> Evidence[int]:
    """Return raid0.default_layout: 0 where nobody set it, or where no RAID0 was ever assembled."""
    found = integer(source, RAID0_DEFAULT_LAYOUT)
    if isinstance(found, Unknown) and found.why is Why.ABSENT:
        return Known(0, RAID0_DEFAULT_LAYOUT)
    return found


# RHEL keeps its entries in /boot/loader, too, and has GRUB read them: GRUB is looked for first.
# Its /boot/grub2 is for root only; that the directory is there can be seen by anybody.
GRUB_PLACES = (
    (("/boot/grub/grub.cfg",), "grub-install"),
    (("/boot/grub2/grub.cfg", "/boot/grub2"), "grub2-install"),
)
OTHER_PLACES = (
    (Loader.EXTLINUX, ("/boot/extlinux/extlinux.conf",)),
    (
        Loader.SYSTEMD_BOOT,
        ("/boot/loader/entries", "/boot/efi/EFI/systemd", "/efi/EFI/systemd"),
    ),
)


def read_boot_loader(source: Source) -> Evidence[BootLoader]:
    """Return the boot loader whose files are there; a place that may not be seen is a hole."""
    for places, program in GRUB_PLACES:
        seen = _first_there(source, places)
        if isinstance(seen, Known):
            return Known(BootLoader(Loader.GRUB, _version(source, program)), seen.origin)
        if seen is not None:
            return seen
    return _other(source)


def _other(source: Source) -> Evidence[BootLoader]:
    hole: Unknown | None = None
    for loader, places in OTHER_PLACES:
        seen = _first_there(source, places)
        if isinstance(seen, Known):
            return Known(BootLoader(loader), seen.origin)
        hole = hole or seen
    return hole or Known(BootLoader(Loader.NONE_FOUND), "/boot")


def _first_there(source: Source, places: Sequence[str]) -> Evidence[str] | None:
    """Return the first path that is there, None where all are certainly absent."""
    hole: Unknown | None = None
    for place in places:
        seen = source.fetch(RealPath(place))
        if isinstance(seen, Known):
            return Known(seen.value, place)
        if seen.why is not Why.ABSENT:
            hole = hole or Unknown("boot loader", seen.why, seen.detail, seen.hint)
    return hole


def _version(source: Source, program: str) -> str | None:
    command = RunCommand((program, "--version"))
    return value_or(ask(source, command, parse_grub_version, "version of GRUB"), None)
