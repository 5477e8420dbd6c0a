"""What surrounds the filesystems: container or not, virtual or not, memory, the system's name."""

from __future__ import annotations

from ext4audit.assemble.reading import ask, first_known, integer, read, word
from ext4audit.evidence import Evidence, Known, Unknown, derive, value_or
from ext4audit.facts.host import Memory, OperatingSystem
from ext4audit.facts.kernel import Kernel
from ext4audit.facts.mount import Mount
from ext4audit.parsers.os_release import parse_os_release
from ext4audit.parsers.uname import parse_kernel
from ext4audit.records import replace
from ext4audit.sources.ask import ReadFile, RunCommand, Source, Uname, VirtualMemory

MARKERS = (("/.dockerenv", "docker"), ("/run/.containerenv", "podman"))


def read_kernel(source: Source) -> Evidence[Kernel]:
    """Read the kernel's name, and Ubuntu's own number of it."""
    found = ask(source, Uname(), parse_kernel, "kernel release")
    signature = word(source, "/proc/version_signature")
    if isinstance(found, Unknown) or signature is None:
        return found
    return Known(replace(found.value, signature=signature), found.origin)


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
