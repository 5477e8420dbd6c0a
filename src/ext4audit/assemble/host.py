"""`assemble_host`: a host with all its ext4 filesystems, the entry point of assembly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from ext4audit.assemble.devices.fstab import list_devices, may_name, read_fstab
from ext4audit.assemble.devices.stack import StackReader
from ext4audit.assemble.environment import (
    read_boot_loader,
    read_container,
    read_fstrim,
    read_kernel,
    read_md_arrays,
    read_memory,
    read_os,
    read_raid0_default_layout,
    read_virtualization,
)
from ext4audit.assemble.filesystem import FilesystemReader
from ext4audit.assemble.inventory import read_idle, take_inventory
from ext4audit.assemble.reading import ask, read
from ext4audit.evidence import Evidence, Known, Unknown, Why, value_or
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber, FstabEntry
from ext4audit.parsers.system import parse_kernel_arguments, parse_nodename
from ext4audit.sources.ask import Source, Uname

NO_BOOT_LOADER = Unknown(
    "boot loader", Why.UNSUPPORTED, "a container has none", "run on the host itself"
)
OUT_OF_SCOPE: Known[tuple[Filesystem, ...]] = Known(
    (), "the targets: other devices were not looked at"
)
"""The idle filesystems of a host of which only targets are audited."""


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
    mounts = value_or(inventory.mounts, ())
    kernel = read_kernel(source)
    devices = list_devices(source)
    reader = FilesystemReader(
        source, kernel, mounts, value_or(devices, ()), StackReader(source, mounts)
    )

    def read_filesystem(number: DeviceNumber) -> Filesystem:
        progress(inventory.names.get(number, str(number)))
        return _read(reader, number, inventory.names)

    def read_idle_filesystem(number: DeviceNumber) -> Filesystem:
        progress(str(number))
        return _read(reader, number, inventory.names, with_layout=False)

    wanted = sorted(inventory.names if only is None else only)
    filesystems = [read_filesystem(number) for number in wanted]
    lower = [read_filesystem(number) for number in _lower(filesystems, inventory.names)]
    container = read_container(source, mounts)
    idle = _out_of_scope(container, only) or read_idle(
        source, devices, inventory.names, read_idle_filesystem
    )
    fstab = read_fstab(source, devices, mounts, [*filesystems, *lower])
    return Host(
        name=value_or(ask(source, Uname(), parse_nodename, "host name"), "unknown"),
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
        idle=idle
        if isinstance(idle, Unknown)
        else Known(_with_fstab(idle.value, fstab), idle.origin),
        boot_loader=NO_BOOT_LOADER if container else read_boot_loader(source),
        md_arrays=read_md_arrays(source),
        fstrim=read_fstrim(source),
        raid0_default_layout=read_raid0_default_layout(source),
    )


def mark_shared_uuids(filesystems: list[Filesystem]) -> list[Filesystem]:
    """Mark the filesystems that share a UUID: clones, snapshots, one image behind two loops."""
    count = Counter(fs.uuid for fs in filesystems)
    return [
        replace(fs, shares_uuid=fs.uuid is not None and count[fs.uuid] > 1) for fs in filesystems
    ]


def _out_of_scope(
    container: str | None, only: Collection[DeviceNumber] | None
) -> Known[tuple[Filesystem, ...]] | None:
    """Return no idle filesystems where they are out of scope, None where they are in scope."""
    if only is not None:
        return OUT_OF_SCOPE
    if container is not None:
        return Known((), "a container: the devices that it lists are its host's")
    return None


def _lower(filesystems: list[Filesystem], names: Collection[DeviceNumber]) -> list[DeviceNumber]:
    return sorted(number for number in backing_devices(filesystems) if number in names)


def backing_devices(filesystems: Collection[Filesystem]) -> set[DeviceNumber]:
    """Return the other superblocks that hold the backing files of loop devices in these stacks."""
    have = {fs.device_number for fs in filesystems}
    stacks = [fs.stack.value for fs in filesystems if isinstance(fs.stack, Known)]
    backing = {
        device.loop.backing_device_number.value
        for stack in stacks
        for device in stack.walk()
        if device.loop and isinstance(device.loop.backing_device_number, Known)
    }
    return backing - have


def _read(
    reader: FilesystemReader,
    number: DeviceNumber,
    names: dict[DeviceNumber, str],
    *,
    with_layout: bool = True,
) -> Filesystem:
    if number in names:
        return reader.read(number, names[number])
    stack = reader.stacks.read(number)
    name = stack.value.name if isinstance(stack, Known) else str(number)
    return reader.read(number, name, alive=False, with_layout=with_layout)


def _with_fstab(
    filesystems: Iterable[Filesystem], fstab: Evidence[tuple[FstabEntry, ...]]
) -> tuple[Filesystem, ...]:
    """Attach to each filesystem the fstab entries that name it, or that may name it."""
    if isinstance(fstab, Unknown):
        return tuple(replace(fs, fstab=fstab) for fs in filesystems)
    return tuple(
        replace(fs, fstab=Known(tuple(e for e in fstab.value if may_name(e, fs)), fstab.origin))
        for fs in filesystems
    )
