"""Build facts for tests: a healthy host by default, and one keyword per deviation.

A rule test is a table of such hosts. Nothing here reads the machine that runs the tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts import cached_by_identity
from ext4audit.facts.devices import (
    BlockDevice,
    LoopDevice,
    LsblkDevice,
    MdArray,
    MdMember,
    MdState,
    QueueLimits,
)
from ext4audit.facts.host import (
    BootLoader,
    ErrorCounters,
    Filesystem,
    Host,
    Kernel,
    Loader,
    Memory,
    OperatingSystem,
    Usage,
)
from ext4audit.facts.layout import MemberLoad, MetadataLayout, StripeGeometry
from ext4audit.facts.mount import (
    DeviceNumber,
    EffectiveOption,
    EffectiveOptions,
    FstabEntry,
    FstabLine,
    Mount,
    Provenance,
)
from ext4audit.facts.options import OptionSpec, Version, all_options, recognize
from ext4audit.facts.superblock import PrimarySuperblock, Sizes, Superblock, sizes_of

T = TypeVar("T")
GIB = 1 << 30
UUID = "4a1e8f2e-7a56-4f0a-9d0c-1c5d0a6e8b11"
OPTIONS_FILE = "/proc/fs/ext4/sda/options"
UNREAD = Unknown("something", Why.DENIED, "permission denied", "run as root")


def known(value: T, origin: str = "test") -> Known[T]:
    """Wrap a value as evidence."""
    return Known(value, origin)


def unknown(what: str, why: Why = Why.DENIED, hint: str = "run as root") -> Unknown:
    """Build an unknown, by default one that root could read."""
    return Unknown(what, why, "permission denied", hint)


def kernel(release: str = "6.1.0-18-amd64", version: str = "#1 SMP Debian 6.1.76-1") -> Kernel:
    """Build a kernel; its upstream version is parsed from the release."""
    numbers = [
        int(part) for part in release.split("-", maxsplit=1)[0].split(".")[:3] if part.isdigit()
    ]
    major, minor, patch = (*numbers, 0, 0)[:3]
    return Kernel(release, version, (major, minor, patch))


def queue(**changes: Any) -> QueueLimits:
    """Build the queue of a rotational disk with a volatile write cache and WBT on."""
    values: dict[str, object] = {
        "write_cache": "write back",
        "fua": False,
        "rotational": True,
        "discard_max_bytes": 0,
        "minimum_io_bytes": 512,
        "optimal_io_bytes": 0,
        "logical_block_bytes": 512,
        "physical_block_bytes": 512,
        "nr_requests": 256,
        "max_sectors_kb": 1280,
        "wbt_latency_usec": 75000,
    }
    values.update(changes)
    wrapped = {
        key: value if isinstance(value, Unknown) else Known(value, f"/sys/block/sda/queue/{key}")
        for key, value in values.items()
    }
    return QueueLimits(**wrapped)  # type: ignore[arg-type]


def disk(
    name: str = "sda",
    number: DeviceNumber = DeviceNumber(8, 0),
    limits: QueueLimits | None = None,
    *,
    kind: str = "disk",
    below: Evidence[tuple[BlockDevice, ...]] = Known((), "/sys"),
    **changes: Any,
) -> BlockDevice:
    """Build a block device, by default a plain disk of 100 GiB."""
    return BlockDevice(
        name=name,
        path=changes.pop("path", f"/dev/{name}"),
        device_number=number,
        kind=kind,
        size_sectors=changes.pop("size_sectors", Known(100 * GIB // 512, "/sys")),
        queue=limits or queue(),
        below=below,
        **changes,
    )


def raid(
    members: Sequence[BlockDevice],
    *,
    level: str = "raid0",
    chunk_bytes: int = 512 << 10,
    name: str = "md127",
    limits: QueueLimits | None = None,
    layout: int = -1,
) -> BlockDevice:
    """Build an md array of members of equal size."""
    array = MdArray(
        level=level,
        chunk_bytes=chunk_bytes,
        raid_disks=len(members),
        layout=layout,
        reshape_position=None,
        members=tuple(
            MdMember(slot, member.name, 131072, 209584128) for slot, member in enumerate(members)
        ),
    )
    return disk(
        name,
        DeviceNumber(9, 127),
        limits,
        kind=level,
        below=Known(tuple(members), f"/sys/block/{name}/slaves"),
        md=Known(array, f"/sys/block/{name}/md"),
        md_state=Known(md_state(level, len(members)), f"/sys/block/{name}/md"),
    )


def md_state(
    level: str, disks: int, degraded: int | None = None, action: str | None = None
) -> MdState:
    """Build the state of an array; None stands for attributes that the kernel does not show."""
    return MdState(
        level=level,
        raid_disks=known(disks),
        degraded=unknown("md/degraded") if degraded is None else known(degraded),
        sync_action=unknown("md/sync_action") if action is None else known(action),
    )


def loop(
    below: Evidence[tuple[BlockDevice, ...]] = Known((), "/sys"),
    *,
    backing: DeviceNumber = DeviceNumber(8, 0),
    offset_bytes: int | None = 0,
    **changes: Any,
) -> BlockDevice:
    """Build a loop device that is backed by a file on another filesystem."""
    device = LoopDevice(
        backing_file="/var/lib/image.img",
        offset_bytes=offset_bytes,
        backing_device_number=Known(backing, "path /var/lib/image.img"),
    )
    return disk("loop0", DeviceNumber(7, 0), kind="loop", below=below, loop=device, **changes)


def options(
    *tokens: str,
    hidden: Sequence[str] = (),
    release: str = "6.1.0-18-amd64",
    complete: bool = True,
    mount_table: Sequence[str] | None = None,
    set_by: Provenance | None = None,
    gap: Unknown | None = None,
) -> EffectiveOptions:
    """Build effective options: kernel defaults, mount `tokens`, `hidden` superblock defaults.

    With `complete=False` only the given options are established, and `gap` is the reason.
    """
    origin = OPTIONS_FILE if complete else "/proc/self/mountinfo"
    upstream = kernel(release).upstream
    found = dict(_kernel_defaults(all_options())(upstream)) if complete else {}
    for token in (*tokens, *hidden):
        recognized = recognize(token)
        name, canonical = (recognized[0].name, recognized[1]) if recognized else (token, token)
        is_hidden = token in hidden
        before = found.get(name)
        found[name] = EffectiveOption(
            name,
            canonical,
            origin,
            set_by or (Provenance.SUPERBLOCK_BITS if is_hidden else Provenance.MOUNT),
            hidden=is_hidden,
            baseline=canonical if is_hidden else before.baseline if before else None,
        )
    shown = tuple(mount_table) if mount_table is not None else ("rw", *tokens)
    if not complete and gap is None:
        gap = unknown("the effective options")
    return EffectiveOptions(origin, complete, tuple(found.values()), shown, gap)


@cached_by_identity
def _kernel_defaults(
    specs: tuple[OptionSpec, ...],
) -> Callable[[Version], dict[str, EffectiveOption]]:
    """Return the function that gives the options of a kernel without any mount option."""

    @cache
    def of(upstream: Version) -> dict[str, EffectiveOption]:
        defaults = {spec.name: spec.default(upstream) for spec in specs}
        return {
            name: EffectiveOption(
                name, token, OPTIONS_FILE, Provenance.KERNEL_DEFAULT, hidden=False, baseline=token
            )
            for name, token in defaults.items()
            if token
        }

    return of


def mount(
    mount_point: str = "/data",
    *,
    number: DeviceNumber = DeviceNumber(8, 0),
    fstype: str = "ext4",
    flags: Sequence[str] = ("rw", "relatime"),
    super_options: Sequence[str] = ("rw",),
    root: str = "/",
    mount_id: int = 30,
) -> Mount:
    """Build a line of mountinfo."""
    return Mount(
        mount_id,
        1,
        number,
        root,
        mount_point,
        tuple(flags),
        fstype,
        "/dev/sda",
        tuple(super_options),
    )


def fstab_entry(
    *opts: str,
    mount_point: str = "/data",
    spec: str = f"UUID={UUID}",
    number: Evidence[DeviceNumber] = Known(DeviceNumber(8, 0), "lsblk"),
    line_number: int = 7,
    fstype: str = "ext4",
) -> FstabEntry:
    """Build an fstab entry that names the default filesystem's device."""
    words = opts or ("defaults",)
    raw = ",".join(words)
    fields = (re.sub(r"[ \t\n\\]", _octal, name) for name in (spec, mount_point, fstype))
    text = " ".join((*fields, raw, "0 2"))
    line = FstabLine(line_number, spec, mount_point, fstype, words, raw, 0, 2, text)
    return FstabEntry(line, number)


def _octal(found: re.Match[str]) -> str:
    return f"\\{ord(found[0]):03o}"


def superblock(**changes: Any) -> Superblock:
    """Build the superblock of a 100 GiB filesystem made by mke2fs with its defaults."""
    values: dict[str, Any] = {
        "default_mount_options": ("user_xattr", "acl"),
        "mount_option_string": "",
        "features": frozenset(
            "has_journal ext_attr resize_inode dir_index filetype extent 64bit flex_bg "
            "sparse_super large_file huge_file dir_nlink extra_isize metadata_csum".split()
        ),
        "errors": "continue",
        "stride_blocks": 0,
        "stripe_width_blocks": 0,
        "size_blocks": 100 * GIB // 4096,
        "uuid": UUID,
        "label": None,
        "block_bytes": 4096,
        "first_block": 0,
        "blocks_per_group": 32768,
        "inodes_per_group": 8192,
        "inode_bytes": 256,
        "inode_count": 6553600,
        "flex_bg_groups": 16,
        "cluster_blocks": 1,
        "journal_bytes": 512 << 20,
        "state": "clean",
        "reserved_gdt_blocks": 1024,
        "first_meta_bg": 0,
        "backup_bgs": (),
    }
    values.update(changes)
    values.setdefault("descriptor_bytes", 64 if "64bit" in values["features"] else 32)
    return Superblock(**values)


def sizes(**changes: Any) -> Sizes:
    """Build the sizes of the filesystem of `superblock`."""
    return sizes_of(superblock(**changes))


def layout(
    loads: Sequence[int],
    *,
    chunk_bytes: int = 512 << 10,
    groups: int = 9594,
    blocks_per_group: int = 32768,
    flex_bg_groups: int = 16,
) -> MetadataLayout:
    """Build a metadata layout with `loads` block and inode bitmaps on each member of a RAID0."""
    names = tuple(f"vd{chr(ord('b') + index)}" for index in range(len(loads)))
    members = tuple(
        MemberLoad(name, load // 2, load - load // 2, 0)
        for name, load in zip(names, loads, strict=True)
    )
    return MetadataLayout(
        geometry=StripeGeometry("md127", "raid0", chunk_bytes, 0, names),
        block_bytes=4096,
        blocks_per_group=blocks_per_group,
        groups=groups,
        flex_bg_groups=flex_bg_groups,
        size_blocks=groups * blocks_per_group,
        cluster_blocks=1,
        members=members,
    )


def filesystem(**changes: Any) -> Filesystem:
    """Build a healthy ext4 filesystem on /dev/sda that is mounted on /data and in fstab."""
    number = changes.pop("number", DeviceNumber(8, 0))
    values: dict[str, Any] = {
        "device_number": number,
        "name": "sda",
        "device": "/dev/sda",
        "fstype": Known("ext4", "/proc/self/mountinfo"),
        "alive": True,
        "mounts": (mount(number=number),),
        "read_only": Known(value=False, origin="/proc/fs/ext4/sda/options"),
        "superblock": Known(superblock(), "dumpe2fs -h /dev/sda"),
        "uuid": UUID,
        "label": None,
        "options": Known(options(), "/proc/fs/ext4/sda/options"),
        "fstab": Known((fstab_entry(),), "/etc/fstab"),
        "stack": Known(disk(number=number), "/sys/dev/block/8:0"),
        "layout": None,
        "usage": Known(usage(), "statfs /data"),
        "errors": Known(ErrorCounters(errors=0, warnings=known(0)), "/sys/fs/ext4/sda"),
        "journal_errno": Known(0, "journal superblock of /dev/sda"),
        "unzeroed_groups": Known(0, "group descriptors of /dev/sda"),
        "primary": Known(PrimarySuperblock(is_printed=True), "dumpe2fs -h /dev/sda"),
        "settings": Known((), "/sys/fs/ext4/sda"),
    }
    values.update(changes)
    return Filesystem(**values)


def usage(**changes: int) -> Usage:
    """Build the usage of a half-full 100 GiB filesystem with 5 % reserved."""
    blocks = 100 * GIB // 4096
    values = {
        "block_bytes": 4096,
        "size_blocks": blocks,
        "free_blocks": blocks // 2,
        "available_blocks": blocks // 2 - blocks // 20,
        "inodes": 6553600,
        "free_inodes": 6000000,
    }
    values.update(changes)
    return Usage(**values)


def lsblk_row(
    name: str = "sda",
    number: DeviceNumber = DeviceNumber(8, 0),
    **changes: Any,
) -> LsblkDevice:
    """Build a row of lsblk, by default for the default filesystem's device."""
    values: dict[str, Any] = {"fstype": "ext4", "uuid": UUID, "transport": "sata"}
    values.update(changes)
    return LsblkDevice(name, values.pop("kernel_name", name), number, **values)


def memory(**changes: int) -> Memory:
    """Build 16 GiB of memory with the kernel's default dirty ratios."""
    values = {
        "total_bytes": 16 * GIB,
        "available_bytes": 15 * GIB,
        "dirty_bytes": 0,
        "dirty_ratio_percent": 20,
        "dirty_background_bytes": 0,
        "dirty_background_ratio_percent": 10,
    }
    values.update(changes)
    return Memory(**values)


def host(*filesystems: Filesystem, **changes: Any) -> Host:
    """Build a Debian 12 host; plain values of `virtualization` and `container` become known."""
    for kind in {"virtualization", "container"} & changes.keys():
        if changes[kind] is None or isinstance(changes[kind], str):
            changes[kind] = known(changes[kind])
    values: dict[str, Any] = {
        **_same_of_every_host(),
        "mounts": Known(tuple(m for fs in filesystems for m in fs.mounts), "/proc/self/mountinfo"),
        "filesystems": filesystems,
        "devices": Known(
            tuple(lsblk_row(fs.name, fs.device_number) for fs in filesystems), "lsblk"
        ),
    }
    values.update(changes)
    return Host(**values)


@cache
def _same_of_every_host() -> dict[str, Any]:
    """Return the fields of a host that do not depend on its filesystems; all are immutable."""
    return {
        "name": "db1",
        "taken_at": "2026-01-02T03:04:05Z",
        "kernel": Known(kernel(), "uname"),
        "os": Known(OperatingSystem("debian", "12", "Debian GNU/Linux 12"), "/etc/os-release"),
        "virtualization": known(None),
        "container": known(None),
        "kernel_arguments": Known(("quiet",), "/proc/cmdline"),
        "memory": Known(memory(), "/proc/meminfo"),
        "fstab": Known((fstab_entry(),), "/etc/fstab"),
        "gaps": (),
        "unmounted": Known((), "lsblk"),
        "boot_loader": Known(BootLoader(Loader.GRUB, "2.06-13+deb12u1"), "/boot/grub"),
        "md_arrays": Known((), "/etc/mdadm/mdadm.conf"),
        "fstrim": Known(value=True, origin="fstrim.timer"),
        "trims_all": Known(value=False, origin="fstrim.service"),
        "raid0_default_layout": Known(0, "/sys/module/raid0/parameters/default_layout"),
    }
