"""Hosts with thousands of mounts or filesystems: container hosts, and farms of small disks."""

from __future__ import annotations

from pathlib import Path
from string import ascii_lowercase

from ext4audit.evidence import Known
from ext4audit.sources import ReadFile
from support.archives import contents
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
_MOUNTINFO = "/proc/self/mountinfo"
_PROCESSES = 20
_ARRAY = """/dev/md{number}:
        Raid Level : raid0
      Raid Devices : 2
             State : clean
        Chunk Size : 512K
    Number   Major   Minor   RaidDevice State
{rows}
"""


def many_bind_mounts(count: int) -> HostSource:
    """Return a host with `count` bind mounts of directories of /data, as kubelet makes them."""
    host = debian_host()
    for index in range(count):
        place = f"/var/lib/kubelet/pods/{index:06}/volumes/data"
        host.mount(_FIRST + index, "8:16", place, "/dev/sdb", root=f"/volumes/{index}")
    return host.source()


def many_stacked_mounts(count: int) -> HostSource:
    """Return a host with `count` mounts of a directory of /data, each on top of the previous."""
    host = debian_host()
    lines = [
        f"{_FIRST + index} {_FIRST + index - 1 if index else 25} 8:16 /same /mnt/same rw,relatime "
        "- ext4 /dev/sdb rw\n"
        for index in range(count)
    ]
    host.path("/mnt/same", "8:16", _FIRST + count - 1)
    return host.file(_MOUNTINFO, _table(host) + "".join(lines)).source()


def _table(host: HostEvidence) -> str:
    found = host.source().fetch(ReadFile(_MOUNTINFO))
    assert isinstance(found, Known)
    return found.value


def many_other_mounts(count: int) -> HostSource:
    """Return a host with `count` mounts of other types, as containers make them."""
    host = debian_host()
    for index in range(count):
        place = f"/run/containers/{index:06}/shm"
        host.mount(_FIRST + index, f"0:{_FIRST + index}", place, "shm", fstype="tmpfs")
    return host.source()


def many_containers(count: int) -> HostSource:
    """Return a host with `count` overlays whose writable directories are on /.

    /data has data=writeback, so rules look at all of them, in case one is on /data.
    """
    host = debian_host().options("sdb", replaced(OPTIONS, {"data=ordered": "data=writeback"}))
    for index in range(count):
        folders = f"rw,lowerdir=/lower,upperdir=/var/lib/docker/{index:06}/diff,workdir=/work"
        host.mount(
            _FIRST + index,
            f"0:{_FIRST + index}",
            f"/run/merged/{index:06}",
            "overlay",
            fstype="overlay",
            super_options=folders,
        )
    return host.source()


def many_filesystems(count: int) -> HostSource:
    """Return a host with `count` disks, each with ext4 and a line in fstab.

    Every other line names the disk by its path instead of its UUID.
    """
    host = debian_host()
    lines = []
    for index in range(count):
        uuid = f"33333333-aaaa-4bbb-8ccc-{index:012}"
        name = _disk(host, index, uuid)
        spec = f"/dev/{name}" if index % 2 else f"UUID={uuid}"
        lines.append(f"{spec} /srv/{name} ext4 defaults 0 2\n")
    return host.file("/etc/fstab", "".join(lines)).source()


def many_unmounted_lines(count: int) -> HostSource:
    """Return a host with `count` lines in fstab for one disk, which is not mounted there."""
    lines = [f"UUID={DATA_UUID} /srv/{index:06} ext4 defaults 0 2\n" for index in range(count)]
    return debian_host().file("/etc/fstab", "".join(lines)).source()


def many_mounted_copies(count: int) -> HostSource:
    """Return a host with `count` copies of /data, all of them mounted."""
    host = debian_host()
    for index in range(count):
        _disk(host, index, DATA_UUID)
    return host.source()


def many_in_other_namespaces(count: int) -> HostSource:
    """Return a host with `count` filesystems that are mounted in other mount namespaces only."""
    host = debian_host()
    names = [_disk(host, index, f"33333333-aaaa-4bbb-8ccc-{index:012}") for index in range(count)]
    table = _table(host)
    for process in range(_PROCESSES):
        host.file(f"/proc/{1000 + process}/mountinfo", table)
    return host.unmount(*(_FIRST + index for index in range(len(names)))).source()


def _disk(host: HostEvidence, index: int, uuid: str) -> str:
    """Add a mounted disk with ext4, and return its name."""
    name = f"vd{_letters(index)}"
    number = f"253:{index}"
    host.disk(name, number).listed(name, number, fstype="ext4", uuid=uuid, label="data")
    host.mount(_FIRST + index, number, f"/srv/{name}", f"/dev/{name}")
    host.options(name).dumpe2fs(f"/dev/{name}", dumpe2fs_text(uuid))
    host.groups(f"/dev/{name}", descriptors(GROUPS))
    return name


def _letters(index: int) -> str:
    """Return the letters in the name of a disk: "aaaa" for the first one."""
    places = (26**3, 26**2, 26, 1)
    return "".join(ascii_lowercase[index // place % 26] for place in places)


def sosreport_of_arrays(count: int) -> contents.Files:
    """Return a sosreport with `count` arrays of two disks, and a logical volume on each.

    As in sos, one output of mdadm has all arrays, and one of dmsetup has all volumes.
    """
    files = contents.sos_files()
    mdstat, details, tables, names, lines = [], [], [], [], []
    for index in range(count):
        number, minor, disks = 1000 + index, index, (2 * index, 2 * index + 1)
        members = [f"nvme{disk}n1" for disk in disks]
        mdstat.append(
            f"md{number} : active raid0 {members[0]}[0] {members[1]}[1]\n"
            "      209582080 blocks super 1.2 512k chunks\n\n"
        )
        rows = "".join(
            f"       {slot}     259     {disk:8}        {slot}      active sync   /dev/{member}\n"
            for slot, (disk, member) in enumerate(zip(disks, members, strict=True))
        )
        details.append(_ARRAY.format(number=number, rows=rows))
        tables.append(f"vg{index}-lv: 0 419164160 linear 9:{number} 2048\n")
        names.append(f"vg{index}-lv 254 {minor} L--w 1 1 0 LVM-{index}\n")
        lines += [f" 259 {disk} 104857600 {m}\n" for disk, m in zip(disks, members, strict=True)]
        lines.append(f"   9 {number} 209582080 md{number}\n 254 {minor} 209581056 dm-{minor}\n")
        mapper = f"/dev/mapper/vg{index}-lv"
        files["proc/1/mountinfo"] += (
            f"{index + 99} 25 254:{minor} / /m{index} rw - ext4 {mapper} rw\n"
        )
        uuid = f"33333333-aaaa-4bbb-8ccc-{index:012}"
        dump = f"sos_commands/filesys/dumpe2fs_-h_.dev.mapper.vg{index}-lv"
        files[dump] = contents.dumpe2fs_header(uuid)
        files[f"proc/fs/ext4/dm-{minor}/options"] = contents.OPTIONS
    files["proc/mdstat"] = "".join(mdstat)
    files["proc/partitions"] += "".join(lines)
    files["sos_commands/md/mdadm_-D_.dev.md"] = "".join(details)
    files["sos_commands/devicemapper/dmsetup_table"] = "".join(tables)
    head = "Name Maj Min Stat Open Targ Event UUID\n"
    files["sos_commands/devicemapper/dmsetup_info_-c"] = head + "".join(names)
    return files


def sosreport_of_arrays_in_one_paragraph(count: int) -> contents.Files:
    """Return a sosreport of arrays whose /proc/mdstat has lost its blank lines."""
    files = sosreport_of_arrays(count)
    return {**files, "proc/mdstat": files["proc/mdstat"].replace("\n\n", "\n")}


def sosreport_of_unlisted_disks(count: int) -> contents.Files:
    """Return a sosreport with `count` filesystems on devices that only the mount table has."""
    files = contents.sos_files()
    rows = (
        f"{index + 99} 25 253:{index + 50} / /m{index} rw - ext4 /dev/vx{index} rw\n"
        for index in range(count)
    )
    return {**files, "proc/1/mountinfo": files["proc/1/mountinfo"] + "".join(rows)}


def sosreport_of_partitions(count: int) -> contents.Files:
    """Return a sosreport with `count` mounted partitions of one disk, listed by parted."""
    files = sosreport_of_unlisted_disks(count)
    rows = range(1, count + 1)
    table = files["proc/1/mountinfo"].replace("/dev/vx", "/dev/vdx1")
    listed = "".join(f" {row:3} {row * 2048}s {row * 2048 + 2047}s 2048s ext4\n" for row in rows)
    files["proc/1/mountinfo"] = table
    files["proc/partitions"] += " 253 49 9999 vdx\n" + "".join(
        f" 253 {index + 50} 1024 vdx1{index}\n" for index in range(count)
    )
    unit = "Sector size (logical/physical): 512B/512B\n"
    files["sos_commands/block/parted_-s_.dev.vdx_unit_s_print"] = unit + listed
    return files


def supportconfig_of_disks(count: int) -> contents.Files:
    """Return a supportconfig with `count` mounted disks, and sections of as many files."""
    partitions = "".join(f" 253 {index} 1024 vx{index}q\n" for index in range(count))
    mounts = "".join(f"/dev/vx{index}q /m{index} ext4 rw 0 0\n" for index in range(count))
    files = {f"/proc/{index}/status": "x\n" for index in range(count)}
    files |= {"/proc/partitions": partitions, "/proc/mounts": mounts}
    sections = (f"#==[ Configuration File ]===#\n# {path}\n{files[path]}\n" for path in files)
    return {"basic-environment.txt": "", "proc.txt": "".join(sections)}


def sosreport_of_loops(count: int) -> contents.Files:
    """Return a sosreport with `count` images on loop devices; `mount` lists all their files."""
    files = contents.sos_files()
    mounted, attached = [], []
    for index in range(count):
        image, place = f"/var/lib/images/{index}.img", f"/m{index}"
        options = "rw,relatime"
        line = f"{index + 99} 25 7:{index} / {place} {options} - ext4 /dev/loop{index} rw\n"
        files["proc/1/mountinfo"] += line
        files["proc/partitions"] += f"   7 {index} 1048576 loop{index}\n"
        mounted.append(f"{image} on {place} type ext4 ({options})\n")
        attached.append(f"/dev/loop{index}: [0801]:{index} ({image})\n" if index % 2 else "")
        files[f"proc/fs/ext4/loop{index}/options"] = contents.OPTIONS
    files["sos_commands/filesys/mount_-l"] = "".join(mounted)
    files["sos_commands/block/losetup_-a"] = "".join(attached)
    return files


def write_sosreport(folder: Path, count: int) -> None:
    """Write a sosreport directory with `count` disks, each with ext4 and a line in fstab."""
    files = contents.sos_files()
    for index in range(count):
        name, uuid = f"nvme{index}n1", f"33333333-aaaa-4bbb-8ccc-{index:012}"
        table = f"{100 + index} 25 259:{index} / /srv/{name} rw - ext4 /dev/{name} rw\n"
        files["proc/1/mountinfo"] += table
        files["proc/partitions"] += f" 259 {index} 10485760 {name}\n"
        files["etc/fstab"] += f"UUID={uuid} /srv/{name} ext4 defaults 0 2\n"
        files[f"proc/fs/ext4/{name}/options"] = contents.OPTIONS
        files[f"sos_commands/filesys/dumpe2fs_-h_.dev.{name}"] = contents.dumpe2fs_header(uuid)
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    for path, target in contents.SOS_LINKS.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).symlink_to(target)
