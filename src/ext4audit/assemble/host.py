"""`assemble_host`: a host with all its ext4 filesystems, and what is outside of them.

Kernel, system, memory, container, services and boot loader.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeGuard

from ext4audit.assemble import ask, first_known, read, read_integer, read_line
from ext4audit.assemble.devices import StackReader
from ext4audit.assemble.devices.fstab import (
    NOT_PROBED,
    EntriesByDevice,
    list_devices,
    read_fstab,
    read_trims_all,
    without_contradiction,
)
from ext4audit.assemble.filesystem import FilesystemReader, with_user_options
from ext4audit.assemble.inventory import (
    UNMOUNTED_FILESYSTEMS,
    OtherMountTables,
    backing_numbers,
    neighbours,
    read_unmounted,
    take_inventory,
)
from ext4audit.evidence import (
    OUTSIDE,
    Evidence,
    Known,
    OutOfScope,
    Unknown,
    Why,
    absent_means,
    derive,
    for_wording,
)
from ext4audit.facts.host import (
    UNKNOWN_NAME,
    BootLoader,
    Filesystem,
    Host,
    Kernel,
    Loader,
    Memory,
    OperatingSystem,
)
from ext4audit.facts.mount import MOUNT_TABLE, DeviceNumber, FstabEntry, Mount
from ext4audit.parsers import (
    parse_grub_version,
    parse_kernel,
    parse_kernel_arguments,
    parse_nodename,
    parse_os_release,
)
from ext4audit.parsers.devices_and_mounts import parse_md_arrays
from ext4audit.sources import ReadFile, RealPath, RunCommand, Source, Uname, VirtualMemory

NO_BOOT_LOADER = Unknown("boot loader", Why.UNSUPPORTED, "a container has none", OUTSIDE)
OUT_OF_SCOPE = OutOfScope("filesystems on other devices")
"""The unmounted filesystems of a host of which only targets are audited."""


def assemble_host(
    source: Source,
    taken_at: str,
    *,
    only: Collection[DeviceNumber] | None = None,
    progress: Callable[[str], None] = lambda _doing: None,
) -> Host:
    """Read a host with all its live ext4 superblocks, or only those on the devices `only`.

    A device of `only` that is not mounted is read from its superblock. `progress` is called with
    the name of each device before it is read.
    """
    inventory = take_inventory(source)
    kernel = read_kernel(source)
    devices = list_devices(source)
    reader = FilesystemReader(
        source,
        kernel,
        inventory.mounts,
        with_user_options(source, inventory.visible),
        for_wording(devices, ()),
        StackReader(source),
        OtherMountTables(source),
        inventory.origin,
    )

    def read_filesystem(number: DeviceNumber) -> Filesystem:
        progress(inventory.names.get(number, str(number)))
        return _read(reader, number, inventory.names)

    def read_unmounted_filesystem(number: DeviceNumber) -> Filesystem:
        progress(str(number))
        return _read(reader, number, inventory.names, with_layout=False)

    wanted = sorted(inventory.names if only is None else only)
    filesystems = [read_filesystem(number) for number in wanted]
    rows = for_wording(devices, ())
    needed = neighbours(filesystems, inventory.names, reader.stacks.read, rows)
    lower = [read_filesystem(number) for number in needed]
    # What else is mounted may be younger than the list.
    backing = backing_numbers(filesystems)
    holding = [fs for fs in lower if fs.device_number in backing]
    devices = without_contradiction(devices, [*filesystems, *holding])
    container = read_container(source, inventory.mounts)
    out_of_scope = _out_of_scope(container, only)
    unmounted = out_of_scope or read_unmounted(
        source, devices, inventory.names, read_unmounted_filesystem
    )
    probed = unmounted if out_of_scope is None else NOT_PROBED
    fstab = read_fstab(source, devices, inventory.visible, (*filesystems, *lower), probed)
    is_contained = for_wording(container, None) is not None
    fstrim, trims_all = read_trimming(source)
    return Host(
        name=for_wording(ask(source, Uname(), parse_nodename, "host name"), "") or UNKNOWN_NAME,
        taken_at=taken_at,
        kernel=kernel,
        os=read_os(source),
        virtualization=read_virtualization(source),
        container=container,
        kernel_arguments=read(source, "/proc/cmdline", parse_kernel_arguments),
        memory=read_memory(source),
        mounts=inventory.mounts,
        fstab=fstab,
        filesystems=_with_fstab(mark_shared_uuids(filesystems), fstab),
        gaps=inventory.gaps if only is None else (),
        lower=_with_fstab(lower, fstab),
        devices=devices,
        unmounted=derive(UNMOUNTED_FILESYSTEMS, lambda found: _with_fstab(found, fstab), unmounted),
        boot_loader=NO_BOOT_LOADER if is_contained else read_boot_loader(source),
        md_arrays=read_md_arrays(source),
        fstrim=fstrim,
        trims_all=trims_all,
        raid0_default_layout=read_raid0_default_layout(source),
        mount_table=inventory.origin,
    )


def mark_shared_uuids(filesystems: list[Filesystem]) -> list[Filesystem]:
    """Mark the filesystems that share a UUID: clones, snapshots, one image behind two loops."""
    count = Counter(fs.uuid for fs in filesystems)
    return [
        fs._replace(shares_uuid=fs.uuid is not None and count[fs.uuid] > 1) for fs in filesystems
    ]


def _out_of_scope(
    container: Evidence[str | None], only: Collection[DeviceNumber] | None
) -> Evidence[tuple[Filesystem, ...]] | None:
    """Return no unmounted filesystems where they are out of scope, None where they are in scope."""
    if only is not None:
        return OUT_OF_SCOPE
    if isinstance(container, Unknown):
        return container
    if container.value is not None:
        return Known((), "a container: the devices that it lists are its host's")
    return None


def _read(
    reader: FilesystemReader,
    number: DeviceNumber,
    names: dict[DeviceNumber, str],
    *,
    with_layout: bool = True,
) -> Filesystem:
    if number in names:
        return reader.read(number, names[number])
    stack = for_wording(reader.stacks.read(number), None)
    name = stack.name if stack else str(number)
    return reader.read(number, name, alive=False, with_layout=with_layout)


def _with_fstab(
    filesystems: Iterable[Filesystem], fstab: Evidence[tuple[FstabEntry, ...]]
) -> tuple[Filesystem, ...]:
    """Attach to each filesystem the fstab entries that name it, or that may name it."""
    if isinstance(fstab, Unknown):
        return tuple(fs._replace(fstab=fstab) for fs in filesystems)
    entries = EntriesByDevice(fstab.value)
    return tuple(fs._replace(fstab=_entries_of(fs, entries, fstab.origin)) for fs in filesystems)


def _entries_of(
    fs: Filesystem, entries: EntriesByDevice, origin: str
) -> Evidence[tuple[FstabEntry, ...]]:
    """Return the entries of a filesystem; only a mount tells whose an unresolved one is."""
    if fs.unlisted and fs.alive and entries.has_unresolved(fs):
        return fs.unlisted
    return Known(entries.that_may_name(fs), origin)


MARKERS = (("/.dockerenv", "docker"), ("/run/.containerenv", "podman"))


def read_kernel(source: Source) -> Evidence[Kernel]:
    """Read the kernel release and, on Ubuntu, the version signature."""
    found = ask(source, Uname(), parse_kernel, "kernel release")
    signature = read_line(source, "/proc/version_signature")
    if isinstance(found, Unknown) or signature is None:
        return found
    return Known(found.value._replace(signature=signature), found.origin)


def read_os(source: Source) -> Evidence[OperatingSystem]:
    """Read os-release(5) from either of its two paths."""
    return first_known(
        lambda: read(source, "/etc/os-release", parse_os_release),
        lambda: read(source, "/usr/lib/os-release", parse_os_release),
    )


def read_container(source: Source, mounts: Evidence[tuple[Mount, ...]]) -> Evidence[str | None]:
    """Return the kind of container that the source runs in, None on a host.

    A marker file alone is no proof: an image that was unpacked onto the disk of a virtual machine
    keeps its /.dockerenv. In most containers `/` is an overlay or a directory of a filesystem; in
    one on a volume of its own systemd says so below /run, which is new with each boot. Archives
    lack that file.
    """
    table = for_wording(mounts, ())
    named = absent_means(read(source, "/run/systemd/container", str.strip), "")
    detected = named if isinstance(named, Known) and named.value else None
    of_this_boot = any(m.mount_point == "/run" and m.device_number.major == 0 for m in table)
    if detected and of_this_boot:
        return Known(detected.value, detected.origin)
    if isinstance(named, Unknown) and named.why is not Why.NOT_CAPTURED and of_this_boot:
        return named
    root = next((mount for mount in reversed(table) if mount.mount_point == "/"), None)
    if root is not None and root.device_number.major != 0 and root.root == "/":
        return Known(None, mounts.origin if isinstance(mounts, Known) else MOUNT_TABLE)
    if detected:
        return Known(detected.value, detected.origin)
    marks = [(kind, source.fetch(ReadFile(path))) for path, kind in MARKERS]
    marked = next((Known(k, mark.origin) for k, mark in marks if isinstance(mark, Known)), None)
    gaps = [mark for mark in (named, *(mark for _, mark in marks)) if _is_gap(mark)]
    if marked is not None:
        return mounts if isinstance(mounts, Unknown) else marked
    return gaps[0] if gaps else Known(None, "no mark of a container")


def _is_gap(evidence: Evidence[object]) -> TypeGuard[Unknown]:
    """Whether evidence is unknown; what is known to be absent is no gap."""
    return isinstance(evidence, Unknown) and evidence.why is not Why.ABSENT


def read_virtualization(source: Source) -> Evidence[str | None]:
    """Return the name of the hypervisor by systemd-detect-virt(1), None without one.

    A host without this program has no systemd, and nothing that is judged of virtual machines.
    """
    command = RunCommand(("systemd-detect-virt", "--vm"))
    found = absent_means(ask(source, command, _hypervisor, "virtualization"), "none")
    return derive("virtualization", lambda name: None if name == "none" else name, found)


def _hypervisor(text: str) -> str:
    """Parse "kvm", "vm-other", "none"."""
    name = text.strip()
    if not re.fullmatch("[a-z0-9-]+", name):
        raise ValueError(f"{name!r} is no hypervisor")
    return name


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
        read_integer(source, f"{vm}/dirty_bytes"),
        read_integer(source, f"{vm}/dirty_ratio"),
        derive(
            "vm.dirty_background_*",
            lambda size, ratio: (size, ratio),
            read_integer(source, f"{vm}/dirty_background_bytes"),
            read_integer(source, f"{vm}/dirty_background_ratio"),
        ),
        origin=f"memory, {vm}/dirty_*",
    )


MDADM_CONF = ("/etc/mdadm/mdadm.conf", "/etc/mdadm.conf")
"""The path of Debian, and that of other distributions."""
_WANTS = "systemd/system/timers.target.wants/fstrim.timer"
TRIMMERS = (
    f"/etc/{_WANTS}",
    f"/usr/lib/{_WANTS}",
    "/etc/cron.weekly/fstrim",
    "/etc/cron.daily/fstrim",
)
"""The links that enable fstrim.timer, and the cron jobs of older systems."""
_MASKED = "/dev/null"
RAID0_DEFAULT_LAYOUT = "/sys/module/raid0/parameters/default_layout"


def read_md_arrays(source: Source) -> Evidence[tuple[str, ...]]:
    """Return the devices of the ARRAY lines of mdadm.conf, none without the file."""
    found = [read(source, path, parse_md_arrays) for path in MDADM_CONF]
    known = next((each for each in found if isinstance(each, Known)), None)
    return known or next(filter(_is_gap, found), Known((), MDADM_CONF[0]))


def read_trimming(source: Source) -> tuple[Evidence[bool], Evidence[bool]]:
    """Return whether fstrim runs regularly, and whether it then trims all that is mounted.

    The jobs of cron run `fstrim --all`, or a script that looks at /proc/mounts.
    """
    runs = read_fstrim(source)
    by_timer = isinstance(runs, Known) and runs.value and runs.origin in TRIMMERS[:2]
    return runs, read_trims_all(source) if by_timer else runs


def read_fstrim(source: Source) -> Evidence[bool]:
    """Return whether a timer or a cron job runs fstrim regularly."""
    unknown: Unknown | None = None
    for path in TRIMMERS:
        seen = source.fetch(RealPath(path))
        if isinstance(seen, Known) and seen.value != _MASKED:
            return Known(value=True, origin=path)
        if isinstance(seen, Unknown) and seen.why is not Why.ABSENT:
            unknown = unknown or Unknown("fstrim.timer", seen.why, seen.detail, seen.hint)
    return unknown or Known(value=False, origin=TRIMMERS[0])


def read_raid0_default_layout(source: Source) -> Evidence[int]:
    """Return raid0.default_layout, 0 where it is not set or the module is not loaded."""
    return absent_means(read_integer(source, RAID0_DEFAULT_LAYOUT), 0)


# GRUB comes first because RHEL's GRUB reads its entries from /boot/loader. Only root can read
# RHEL's /boot/grub2, but every user can see that the directory exists.
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
    """Return the boot loader whose files exist, Unknown where a path cannot be accessed."""
    for places, program in GRUB_PLACES:
        seen = _first_existing(source, places)
        if isinstance(seen, Known):
            return Known(BootLoader(Loader.GRUB, _version(source, program)), seen.origin)
        if seen is not None:
            return seen
    return _other(source)


def _other(source: Source) -> Evidence[BootLoader]:
    unknown: Unknown | None = None
    for loader, places in OTHER_PLACES:
        seen = _first_existing(source, places)
        if isinstance(seen, Known):
            return Known(BootLoader(loader), seen.origin)
        unknown = unknown or seen
    return unknown or Known(BootLoader(Loader.NONE_FOUND), "/boot")


def _first_existing(source: Source, places: Sequence[str]) -> Evidence[str] | None:
    """Return the first path that exists, None where all are certainly absent."""
    unknown: Unknown | None = None
    for place in places:
        seen = source.fetch(RealPath(place))
        if isinstance(seen, Known):
            return Known(seen.value, place)
        if seen.why is not Why.ABSENT:
            unknown = unknown or Unknown("boot loader", seen.why, seen.detail, seen.hint)
    return unknown


def _version(source: Source, program: str) -> str | None:
    command = RunCommand((program, "--version"))
    return for_wording(ask(source, command, parse_grub_version, "version of GRUB"), None)
