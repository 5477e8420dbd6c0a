"""Hosts with hundreds of devices below their filesystems, or hundreds of lines in fstab."""

from __future__ import annotations

from ext4audit.sources import ReadFile
from support.hosts.evidence_host import (
    DATA_UUID,
    GROUPS,
    OPTIONS,
    HostEvidence,
    HostSource,
    debian_host,
    descriptors,
    dumpe2fs_text,
    replaced,
)

_FIRST = 100
"""The first mount ID of the added mounts."""
_DISK, _DISK_NUMBER = "sdz", "65:0"
_SECTORS = 2_048_000
_BAD_OPTIONS = {
    "barrier": "nobarrier",
    "nodiscard": "discard",
    "data=ordered": "data=writeback",
    "auto_da_alloc": "noauto_da_alloc",
    "commit=5": "commit=300",
}


def _uuid(index: int) -> str:
    return f"33333333-aaaa-4bbb-8ccc-{index:012}"


def _filesystem(
    host: HostEvidence, device: tuple[str, str], index: int, *, path: str = "", uuid: str = ""
) -> None:
    """Mount ext4 on a device, given by its name and number, on /srv/<name>."""
    name, number = device
    node, its_uuid = path or f"/dev/{name}", uuid or _uuid(index)
    host.listed(name, number, fstype="ext4", uuid=its_uuid, label=f"data{index}")
    host.dumpe2fs(node, dumpe2fs_text(its_uuid)).groups(node, descriptors(GROUPS))
    host.mount(_FIRST + index, number, f"/srv/{name}", node).options(name)


def _disks(host: HostEvidence, count: int) -> dict[str, str]:
    """Add `count` disks without filesystems, and return their numbers by name."""
    disks = {f"nvme{index}n1": f"259:{index}" for index in range(count)}
    for name, number in disks.items():
        host.disk(name, number).listed(name, number)
    return disks


def _volume(host: HostEvidence, index: int, disk: tuple[str, str]) -> None:
    name, number, mapped = f"dm-{index}", f"254:{index}", f"vg-lv{index}"
    table = f"0 {_SECTORS} linear {disk[1]} {2048 + index * _SECTORS}\n"
    host.stacked(name, number, **{disk[0]: disk[1]}).dm(number, mapped, f"LVM-{index:032}", table)
    _filesystem(host, (name, number), index, path=f"/dev/mapper/{mapped}")


def volumes_on_one_disk(count: int) -> HostSource:
    """Return a host with `count` logical volumes on one disk."""
    host = debian_host().disk(_DISK, _DISK_NUMBER).listed(_DISK, _DISK_NUMBER)
    for index in range(count):
        _volume(host, index, (_DISK, _DISK_NUMBER))
    return host.source()


def volumes_without_tables(count: int) -> HostSource:
    """Return the same host seen by a user who may not read the tables of the volumes."""
    host = debian_host().disk(_DISK, _DISK_NUMBER).listed(_DISK, _DISK_NUMBER)
    for index in range(count):
        _volume(host, index, (_DISK, _DISK_NUMBER))
    return host.as_user().source()


def volumes_on_one_array(count: int) -> HostSource:
    """Return a host with `count` logical volumes on one array of ten disks."""
    host = debian_host()
    disks = _disks(host, 10)
    host.stacked("md0", "9:0", **disks).md("9:0", list(disks))
    for index in range(count):
        _volume(host, index, ("md0", "9:0"))
    return host.source()


def partitions(count: int) -> HostSource:
    """Return a host with `count` partitions on one disk, all of which overlap."""
    host = debian_host().disk(_DISK, _DISK_NUMBER).listed(_DISK, _DISK_NUMBER)
    for index in range(count):
        device = f"{_DISK}{index + 1}", f"259:{index}"
        host.partition(*device, _DISK_NUMBER, start=2048 * (index + 1))
        _filesystem(host, device, index)
    return host.source()


def arrays(count: int) -> HostSource:
    """Return a host with `count` arrays of two disks, which fstab and mdadm.conf name."""
    host = debian_host()
    disks = list(_disks(host, 2 * count).items())
    for index in range(count):
        device, below = (f"md{index}", f"9:{index}"), dict(disks[2 * index : 2 * index + 2])
        host.stacked(*device, **below).md(device[1], list(below))
        _filesystem(host, device, index)
    names = [f"md{index}" for index in range(count)]
    host.file("/etc/mdadm/mdadm.conf", "".join(f"ARRAY /dev/{name} UUID=x\n" for name in names))
    lines = (f"/dev/{name} /srv/{name} ext4 defaults 0 2\n" for name in names)
    return host.file("/etc/fstab", "".join(lines)).source()


def one_array(count: int) -> HostSource:
    """Return a host with one degraded array of `count` disks."""
    host = debian_host()
    disks = _disks(host, count)
    host.stacked("md0", "9:0", **disks).md("9:0", list(disks), degraded="1")
    _filesystem(host, ("md0", "9:0"), 0)
    return host.source()


def encrypted(count: int) -> HostSource:
    """Return a host with one filesystem on `count` layers of device mapper."""
    host = debian_host().disk(_DISK, _DISK_NUMBER).listed(_DISK, _DISK_NUMBER)
    below = _DISK, _DISK_NUMBER
    for index in range(count):
        device = f"dm-{index}", f"254:{index}"
        table = f"0 {_SECTORS} linear {below[1]} 2048\n"
        host.stacked(*device, **{below[0]: below[1]}).listed(*device)
        host.dm(device[1], f"c{index}", f"CRYPT-LUKS2-{index:032}", table)
        below = device
    _filesystem(host, below, 0, path=f"/dev/mapper/c{count - 1}")
    return host.source()


def mirrors_of_mirrors(count: int) -> HostSource:
    """Return a host with `count` layers of two mirrors, both made of both mirrors below.

    The number of paths down doubles with each layer.
    """
    host = debian_host()
    below = _disks(host, 2)
    for index in range(count):
        layer = {f"md{2 * index + half}": f"9:{2 * index + half}" for half in range(2)}
        for device in layer.items():
            host.stacked(*device, **below).listed(*device)
            host.md(device[1], list(below), level="raid1")
        below = layer
    _filesystem(host, next(iter(below.items())), 0)
    return host.source()


def loops(count: int) -> HostSource:
    """Return a host with `count` images on /data, each mounted by a loop device."""
    host = debian_host()
    for index in range(count):
        device, image = (f"loop{index}", f"7:{index}"), f"/data/{index}.img"
        host.loop(*device, image).path(image, "8:16", 1, "file")
        _filesystem(host, device, index)
    return host.source()


def loops_over_one_file(count: int) -> HostSource:
    """Return a host that has mounted one image `count` times."""
    host = debian_host().path("/data/img", "8:16", 1, "file")
    for index in range(count):
        device = f"loop{index}", f"7:{index}"
        host.loop(*device, "/data/img")
        _filesystem(host, device, index, uuid=_uuid(0))
    return host.source()


def many_defects(count: int) -> HostSource:
    """Return a host with `count` filesystems that have many defects each."""
    host = debian_host()
    lines = []
    for index, device in enumerate(_disks(host, count).items()):
        _filesystem(host, device, index)
        host.options(device[0], replaced(OPTIONS, _BAD_OPTIONS))
        lines.append(f"/dev/{device[0]} /srv/{device[0]} ext4 noatime,foo=1,data=journal 0 2\n")
    return host.file("/etc/fstab", "".join(lines)).source()


def lines_without_mounts(count: int) -> HostSource:
    """Return a host with `count` lines in fstab for devices that do not exist."""
    specs = ("UUID={}", "LABEL=label{}", "/dev/vd{}", "PARTUUID={}")
    lines = (
        f"{specs[index % len(specs)].format(_uuid(index))} /srv/{index} ext4 noatime 0 2\n"
        for index in range(count)
    )
    return debian_host().file("/etc/fstab", "".join(lines)).source()


def equal_lines(count: int) -> HostSource:
    """Return a host whose fstab has one line `count` times, with options that are not active."""
    line = f"UUID={DATA_UUID} /data ext4 noatime,data=writeback,foo 0 2\n"
    return debian_host().file("/etc/fstab", line * count).source()


def equal_lines_without_mounts(count: int) -> HostSource:
    """Return a host whose fstab has one line `count` times, for a device that does not exist."""
    line = f"UUID={_uuid(0)} /srv/gone ext4 noatime 0 2\n"
    return debian_host().file("/etc/fstab", line * count).source()


def lines_without_udev(count: int) -> HostSource:
    """Return a host without udev that has `count` filesystems, and as many labels in fstab."""
    host = debian_host()
    for index, device in enumerate(_disks(host, count).items()):
        _filesystem(host, device, index)
        host.listed(*device)
    lines = (f"LABEL=label{index} /srv/x{index} ext4 noatime 0 2\n" for index in range(count))
    host.file("/etc/fstab", "".join(lines))
    root = {"sda": "8:0", "sda1": "8:1", "sdb": "8:16"}
    for name, number in root.items():
        host.listed(name, number)
    return host.source()


def namespaces(count: int) -> HostSource:
    """Return a host with `count` mount namespaces, none of which has /data mounted."""
    host = debian_host()
    table = host.source().fetch(ReadFile("/proc/self/mountinfo"))
    for index in range(count):
        own = f"{9000 + index} 25 0:{index + 99} / /x{index} rw - tmpfs x rw\n"
        host.file(f"/proc/{1000 + index}/mountinfo", f"{getattr(table, 'value', '')}{own}")
    _filesystem(host, ("sdy", "65:16"), 0)
    return host.disk("sdy", "65:16").unmount(_FIRST).source()


STACKS = (
    volumes_on_one_disk,
    volumes_without_tables,
    volumes_on_one_array,
    partitions,
    arrays,
    one_array,
    encrypted,
    mirrors_of_mirrors,
    loops,
    loops_over_one_file,
    many_defects,
)
FSTABS = (
    lines_without_mounts,
    equal_lines,
    equal_lines_without_mounts,
    lines_without_udev,
    namespaces,
)
