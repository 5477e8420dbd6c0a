"""`assemble_host`: a host with all its ext4 filesystems, and the facts about the host itself.

These are the kernel, operating system, memory, container, trimming and boot loader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

from ext4audit.assemble import (
    ask,
    first_known,
    first_of,
    is_absent,
    is_gap,
    read,
    read_count,
    read_line,
)
from ext4audit.assemble.devices import StackReader
from ext4audit.assemble.devices.fstab import (
    NOT_PROBED,
    list_devices,
    read_fstab,
    with_fstab,
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
    MOUNT_TABLE,
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
from ext4audit.facts.mount import DeviceNumber, Mount
from ext4audit.parsers import (
    parse_fstrim_unit,
    parse_grub_version,
    parse_kernel,
    parse_kernel_arguments,
    parse_nodename,
    parse_os_release,
    parse_word,
)
from ext4audit.parsers.devices_and_mounts import parse_fstab, parse_md_arrays
from ext4audit.sources import ReadFile, RealPath, RunCommand, Source, Uname, VirtualMemory

NO_BOOT_LOADER = Unknown("boot loader", Why.UNSUPPORTED, "a container has none", OUTSIDE)
OUT_OF_SCOPE = OutOfScope("filesystems on other devices")
"""The unmounted filesystems if only targets are audited."""


def assemble_host(
    source: Source,
    taken_at: str,
    *,
    only: Collection[DeviceNumber] | None = None,
    progress: Callable[[str], None] = lambda _doing: None,
    has_local_times: bool = False,
) -> Host:
    """Read a host with all its mounted ext4 superblocks, or only those on the devices `only`.

    A device in `only` that is not mounted is read from its superblock. `progress` is called with
    the name of each device before the device is read. `has_local_times` is a property of the
    source: whether its tools print times in the zone of the host.
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

    def read_filesystem(number: DeviceNumber, *, with_layout: bool = True) -> Filesystem:
        name = inventory.names.get(number)
        if name is None:
            progress(str(number))
            return reader.read_unmounted(number, with_layout=with_layout)
        progress(name)
        return reader.read(number, name)

    wanted = sorted(inventory.names if only is None else only)
    filesystems = [read_filesystem(number) for number in wanted]
    needed = neighbours(filesystems, inventory.names, reader.stacks.read, reader.devices)
    lower = [read_filesystem(number) for number in needed]
    # Other mounted filesystems may be newer than the output of lsblk.
    backing = backing_numbers(filesystems)
    holding = [fs for fs in lower if fs.device_number in backing]
    devices = without_contradiction(devices, [*filesystems, *holding])
    container = read_container(source, inventory.mounts)
    out_of_scope = _out_of_scope(container, only)
    unmounted = out_of_scope or read_unmounted(
        source, devices, inventory.names, partial(read_filesystem, with_layout=False)
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
        filesystems=with_fstab(mark_shared_uuids(filesystems), fstab),
        gaps=inventory.gaps if only is None else (),
        lower=with_fstab(lower, fstab),
        devices=devices,
        unmounted=derive(UNMOUNTED_FILESYSTEMS, lambda found: with_fstab(found, fstab), unmounted),
        boot_loader=NO_BOOT_LOADER if is_contained else read_boot_loader(source),
        md_arrays=read_md_arrays(source),
        fstrim=fstrim,
        trims_all=trims_all,
        raid0_default_layout=read_raid0_default_layout(source),
        mount_table=inventory.origin,
        has_local_times=has_local_times,
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
    """Return why unmounted filesystems are not audited, or None if they are in scope."""
    if only is not None:
        return OUT_OF_SCOPE
    if isinstance(container, Unknown):
        return container
    if container.value is not None:
        return Known((), "a container: the devices that it lists are its host's")
    return None


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

    A marker file alone is not proof: an image that was unpacked onto the disk of a virtual machine
    keeps its /.dockerenv. In most containers `/` is an overlay or a directory of a filesystem. In
    a container on a dedicated volume, systemd writes /run/systemd/container; /run is new with
    each boot. Archives do not contain that file.
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
    gaps = [mark for mark in (named, *(mark for _, mark in marks)) if is_gap(mark)]
    if marked is not None:
        return mounts if isinstance(mounts, Unknown) else marked
    return gaps[0] if gaps else Known(None, "no mark of a container")


def read_virtualization(source: Source) -> Evidence[str | None]:
    """Return the hypervisor that systemd-detect-virt(1) prints, None on bare metal.

    A host without this program has no systemd and is treated as bare metal.
    """
    command = RunCommand(("systemd-detect-virt", "--vm"))
    named = ask(source, command, _hypervisor, "virtualization")
    found = derive("virtualization", lambda name: None if name == "none" else name, named)
    return absent_means(found, None)


def _hypervisor(text: str) -> str:
    """Parse a name such as "kvm", "vm-other" or "none"; raise ValueError for other text."""
    return parse_word(text, "[a-z0-9-]+", "no hypervisor")


def read_memory(source: Source) -> Evidence[Memory]:
    """Read memory and the dirty page cache limits (Documentation/admin-guide/sysctl/vm.rst)."""
    limits = ("dirty_bytes", "dirty_ratio", "dirty_background_bytes", "dirty_background_ratio")

    def build(virtual: str, *dirty: int) -> Memory:
        total, available = (int(line) for line in virtual.split("\n")[:2])
        return Memory(total, available, *dirty)

    return derive(
        "memory and vm.dirty_*",
        build,
        source.fetch(VirtualMemory()),
        *(read_count(source, f"/proc/sys/vm/{limit}") for limit in limits),
        origin="memory, /proc/sys/vm/dirty_*",
    )


MDADM_CONF = ("/etc/mdadm/mdadm.conf", "/etc/mdadm.conf")
"""The path on Debian, and the path on other distributions."""
_WANTS = "systemd/system/timers.target.wants/fstrim.timer"
TIMER_LINKS = (f"/etc/{_WANTS}", f"/usr/lib/{_WANTS}")
TRIMMERS = (*TIMER_LINKS, "/etc/cron.weekly/fstrim", "/etc/cron.daily/fstrim")
"""The links that enable fstrim.timer, and the cron jobs of older systems."""
_MASKED = "/dev/null"
FSTRIM_UNITS = tuple(
    f"{place}/systemd/system/fstrim.service" for place in ("/etc", "/usr/lib", "/lib")
)
"""Paths of the unit that the timer starts; the first that exists is used (systemd.unit(5))."""
FSTRIM_DROP_INS = f"{FSTRIM_UNITS[0]}.d"
_UNIT_HINT = "see what it runs: systemctl cat fstrim.service"
RAID0_DEFAULT_LAYOUT = "/sys/module/raid0/parameters/default_layout"


def read_md_arrays(source: Source) -> Evidence[tuple[str, ...]]:
    """Return the devices in the ARRAY lines of mdadm.conf, empty if no file exists."""
    found = [read(source, path, parse_md_arrays) for path in MDADM_CONF]
    return first_of(each for each in found if not is_absent(each)) or Known((), MDADM_CONF[0])


def read_trimming(source: Source) -> tuple[Evidence[bool], Evidence[bool]]:
    """Return whether fstrim runs regularly, and whether it trims all mounted filesystems.

    The cron jobs run `fstrim --all`, or a script that reads /proc/mounts.
    """
    trimmer = read_trimmer(source)
    runs = derive("fstrim.timer", bool, trimmer)
    by_timer = isinstance(trimmer, Known) and trimmer.value in TIMER_LINKS
    return runs, read_trims_all(source) if by_timer else runs


def read_trimmer(source: Source) -> Evidence[str]:
    """Return which of `TRIMMERS` runs fstrim regularly, an empty string if none does."""
    found = (
        each if isinstance(each, Unknown) else Known(place, place)
        for place in TRIMMERS
        for each in _existing(source, (place,), "fstrim.timer")
        if isinstance(each, Unknown) or each.value != _MASKED
    )
    return first_of(found) or Known("", TRIMMERS[0])


def _existing(source: Source, places: Sequence[str], what: str) -> Iterator[Evidence[str]]:
    """Yield the canonical path of each place that exists, and a gap if that is unknown."""
    for place in places:
        seen = source.fetch(RealPath(place))
        if isinstance(seen, Known):
            yield Known(seen.value, place)
        elif not is_absent(seen):
            yield replace(seen, what=what)


def read_trims_all(source: Source) -> Evidence[bool]:
    """Return whether fstrim.service trims all mounted filesystems, not only those in fstab.

    Distributions run `fstrim -a` (util-linux before 2.33, as in Ubuntu 18.04 and EL 8),
    `fstrim --fstab` (Debian 10, Ubuntu 20.04), or `fstrim --listed-in
    /etc/fstab:/proc/self/mountinfo`, which reads the first file that is not empty (Debian 12,
    NixOS 25.11). Source: fstrim(8), sys-utils/fstrim.service.in of util-linux, and these units.
    """
    drop_ins = first_of(_existing(source, (FSTRIM_DROP_INS,), "fstrim.service"))
    if isinstance(drop_ins, Known):
        detail = f"{FSTRIM_DROP_INS} can replace its command"
        return Unknown("fstrim.service", Why.UNSUPPORTED, detail, _UNIT_HINT)
    if drop_ins is not None:
        return drop_ins
    for path in FSTRIM_UNITS:
        trims = ask(source, ReadFile(path), parse_fstrim_unit, "fstrim.service")
        if not is_absent(trims):
            break
    if isinstance(trims, Unknown):
        return replace(trims, hint=trims.hint or _UNIT_HINT)
    first, _, rest = trims.value.partition(":")
    if first != "/etc/fstab" or not rest.endswith("/mountinfo"):
        is_all = first == "all" or first.endswith("/mountinfo")
        return Known(is_all, trims.origin)
    lines = absent_means(read(source, first, parse_fstab), ())
    return derive("fstrim.service", lambda found: not found, lines, origin=trims.origin)


def read_raid0_default_layout(source: Source) -> Evidence[int]:
    """Return raid0.default_layout, 0 if it is not set or the module is not loaded."""
    return absent_means(read_count(source, RAID0_DEFAULT_LAYOUT), 0)


# GRUB comes first because RHEL's GRUB reads its entries from /boot/loader. Only root can read
# RHEL's /boot/grub2, but every user can see that the directory exists.
GRUB_PLACES = (
    (("/boot/grub/grub.cfg",), "grub-install"),
    (("/boot/grub2/grub.cfg", "/boot/grub2"), "grub2-install"),
)
OTHER_PLACES = (
    (Loader.EXTLINUX, ("/boot/extlinux/extlinux.conf",)),
    (Loader.SYSTEMD_BOOT, ("/boot/loader/entries", "/boot/efi/EFI/systemd", "/efi/EFI/systemd")),
)


def read_boot_loader(source: Source) -> Evidence[BootLoader]:
    """Return the boot loader whose files exist, Unknown if a path cannot be accessed."""
    for places, program in GRUB_PLACES:
        seen = first_of(_existing(source, places, "boot loader"))
        if isinstance(seen, Known):
            return Known(BootLoader(Loader.GRUB, _version(source, program)), seen.origin)
        if seen is not None:
            return seen
    others = (
        each if isinstance(each, Unknown) else Known(BootLoader(loader), each.origin)
        for loader, places in OTHER_PLACES
        for each in _existing(source, places, "boot loader")
    )
    return first_of(others) or Known(BootLoader(Loader.NONE_FOUND), "/boot")


def _version(source: Source, program: str) -> str | None:
    command = RunCommand((program, "--version"))
    return for_wording(ask(source, command, parse_grub_version, "version of GRUB"), None)
