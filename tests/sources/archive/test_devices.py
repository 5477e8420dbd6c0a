from __future__ import annotations

import pytest

from ext4audit.sources.archive.devices import DeviceTable, numbers_in, read_devices
from ext4audit.sources.archive.layouts import SosCapture
from support.archives.contents import archive

LSBLK_TREE = """\
NAME              MAJ:MIN RM  SIZE RO TYPE  MOUNTPOINTS
sda                 8:0    0   40G  0 disk
├─sda1              8:1    0    1G  0 part  /boot
└─sda2              8:2    0   39G  1 part
  ├─vg-root (dm-0) 253:0   0   37G  0 lvm   /
  └─vg-swap       253:1    0    2G  0 lvm   [SWAP]
nvme0n1           259:0    0  1.8T  0 disk
|-nvme0n1p1       259:1    0    1G  0 part
`-nvme0n1p2       259:2    0  1.8T  0 part
  `-md127           9:127  0  3.6T  0 raid0 /srv
"""


def table(files: dict[str, str]) -> DeviceTable:
    """Return the devices in these files of a sosreport."""
    made = archive({"sos_commands/x/x": "", **files})
    return read_devices(SosCapture(made, "", kind="sosreport", commands="sos_commands"))


def shown(found: DeviceTable) -> list[tuple[str, str, str | None, str | None]]:
    """Return number, name, disk and dm name of each device."""
    devices = found.by_number.values()
    return [(each.number, each.name, each.parent, each.mapper) for each in devices]


def test_lsblk_tree_has_numbers_and_names() -> None:
    """The name of a mapped device has its minor number; older lsblk prints dm-N in parentheses."""
    assert shown(table({"sos_commands/block/lsblk": LSBLK_TREE})) == [
        ("8:0", "sda", None, None),
        ("8:1", "sda1", "8:0", None),
        ("8:2", "sda2", "8:0", None),
        ("253:0", "dm-0", None, "vg-root"),
        ("253:1", "dm-1", None, "vg-swap"),
        ("259:0", "nvme0n1", None, None),
        ("259:1", "nvme0n1p1", "259:0", None),
        ("259:2", "nvme0n1p2", "259:0", None),
        ("9:127", "md127", None, None),
    ]


@pytest.mark.parametrize("kind", ["lvm", "crypt", "mpath", "dm", "vdo"])
def test_mapped_device_is_found_by_its_lsblk_number(kind: str) -> None:
    """Without /dev and dmsetup in the archive, no other listing has it."""
    found = table({"sos_commands/block/lsblk": f"vg-data 253:7 0 9G 0 {kind} /data\n"})
    assert shown(found) == [("253:7", "dm-7", None, "vg-data")]
    assert found.number_of("/dev/mapper/vg-data") == "253:7"


def test_kernel_lists_and_device_nodes_are_merged() -> None:
    """/proc/partitions omits loop devices without a file; diskstats and ls -lanR list them."""
    found = table(
        {
            "proc/partitions": "major minor  #blocks  name\n\n 104 0 100 cciss/c0d0\n",
            "proc/diskstats": " 8 0 sda 1 2 3\n 8 1 sda1 1 2 3\n",
            "sos_commands/block/ls_-lanR_.dev": (
                "/dev:\nbrw-rw---- 1 0 6 7, 0 Nov 21 02:30 loop0\ncrw------- 1 0 0 5, 1 Nov 21 "
                "02:30 console\nbrw-rw----. 1 0 6 253, 3 Nov 21  2025 dm-3\n"
                "\n/dev/mapper:\nlrwxrwxrwx 1 0 0 7 Nov 21 02:30 vg-a\\x20b -> ../dm-3\n"
                "lrwxrwxrwx 1 0 0 7 Nov 21 02:30 loop -> loop\n"
            ),
        }
    )
    assert shown(found) == [
        ("104:0", "cciss!c0d0", None, None),
        ("8:0", "sda", None, None),
        ("8:1", "sda1", "8:0", None),
        ("7:0", "loop0", None, None),
        ("253:3", "dm-3", None, "vg-a\\x20b"),
    ]
    assert found.by_number["104:0"].size_kib == 100
    assert found.number_of("/dev/cciss/c0d0") == "104:0"
    assert found.number_of("/dev/mapper/loop") is None
    assert found.paths()["253:3"] == ("/dev/dm-3", "/dev/mapper/vg-a\\x20b")


LISTING = """\
{top}:
total 0
drwxr-xr-x. 21 root root system_u:object_r:device_t:s0             3300 Jun  3 10:00 .
brw-rw----.  1 root disk system_u:object_r:fixed_disk_device_t:s0 8,  1 Jun  3 10:00 sda1
brw-rw----.  1 {ids} ?                                      253,  3 Jun  3  2024 dm-3
lrwxrwxrwx.  1 root root system_u:object_r:device_t:s0                4 Jun  3 10:00 root -> sda1

/dev/disk/by-uuid:
total 0
lrwxrwxrwx.  1 {ids} system_u:object_r:device_t:s0 10 Jun  3 10:00 abc -> ../../sda1
lrwxrwxrwx.  1 {ids} ? 10 Jun  3 10:00 def -> ../../dm-3
"""


@pytest.mark.parametrize(
    ("name", "top", "ids"),
    [
        ("ls_-alZR_.dev", "/dev", "root disk"),
        ("ls_-alZRn_.dev", "/dev/", "0    6"),
    ],
)
def test_dev_listing_with_security_contexts(name: str, top: str, ids: str) -> None:
    """Since June 2024 sos lists /dev so, and no other file has the links by UUID."""
    found = table({f"sos_commands/block/{name}": LISTING.format(top=top, ids=ids)})
    assert shown(found) == [("8:1", "sda1", None, None), ("253:3", "dm-3", None, None)]
    assert found.number_of("/dev/root") == "8:1"
    assert found.number_of("/dev/disk/by-uuid/abc") == "8:1"
    assert found.number_of("/dev/disk/by-uuid/def") == "253:3"


@pytest.mark.parametrize("option", ["-c", "-C"])
def test_dmsetup_info_has_names_numbers_and_uuids(option: str) -> None:
    """It is used if neither links nor lsblk name the mapped devices; Insights spells it -C."""
    text = (
        "Name             Maj Min Stat Open Targ Event  UUID\n"
        "vg-root          253   0 L--w    1    1      0 LVM-abc\n"
    )
    found = table({f"sos_commands/devicemapper/dmsetup_info_{option}": text})
    assert shown(found) == [("253:0", "dm-0", None, "vg-root")]
    assert found.by_number["253:0"].mapper_uuid == "LVM-abc"


@pytest.mark.parametrize(
    ("name", "disk"),
    [
        ("sda1", "8:0"),
        ("nvme0n1p12", "8:1"),
        ("loop10", None),
        ("loop1p1", "8:2"),
        ("dm-10", None),
        ("md127p1", "8:4"),
        ("sdp3", "8:5"),
        ("xvdz1", None),
    ],
)
def test_partition_is_recognized_by_its_disk_name(name: str, disk: str | None) -> None:
    """The kernel puts a "p" after a disk that ends in a digit; EC2 has xvda1 without xvda."""
    disks = ("sda", "nvme0n1", "loop1", "dm-1", "md127", "sdp")
    lines = [f" 8 {minor} 9 {disk_name}" for minor, disk_name in enumerate(disks)]
    found = table({"proc/partitions": "\n".join((*lines, f" 8 99 9 {name}\n"))})
    assert found.by_number["8:99"].parent == disk


@pytest.mark.parametrize(
    ("file", "text", "values"),
    [
        (
            "lsblk_-t",
            (
                "NAME  ALIGNMENT MIN-IO OPT-IO PHY-SEC LOG-SEC ROTA SCHED RQ-SIZE RA WSAME\n"
                "sda           0   4096  65536    4096     512    1             128    0B\n"
            ),
            {
                "alignment_offset": "0",
                "queue/minimum_io_size": "4096",
                "queue/optimal_io_size": "65536",
                "queue/physical_block_size": "4096",
                "queue/logical_block_size": "512",
                "queue/rotational": "1",
            },
        ),
        ("lsblk", "sda 8:0 0 40G 1 disk /x\n", {"ro": "1"}),
        (
            "lsblk_-O_-P",
            (
                'NAME="sda" KNAME="sda" MAJ_MIN="8:0" RO="0" MIN_IO="512" OPT-IO="" START="2048" '
                'ALIGNMENT="-1" MODEL="A \\x20B  " RQ-SIZE="64"\n'
            ),
            {
                "alignment_offset": "-1",
                "device/model": "A  B",
                "queue/minimum_io_size": "512",
                "queue/nr_requests": "64",
                "ro": "0",
                "start": "2048",
            },
        ),
        (
            "lsblk_-o_NAME",
            "sda sda 8:0 ext4 my label 0 0 A B 10G root disk brw-rw---- 0 512 0 512 512 0 none\n",
            {
                "alignment_offset": "0",
                "queue/minimum_io_size": "512",
                "queue/optimal_io_size": "0",
                "queue/physical_block_size": "512",
                "queue/logical_block_size": "512",
                "queue/rotational": "0",
            },
        ),
        ("lsblk", "lsblk: failed to access sysfs directory: /sys/dev/block\n", None),
        ("lsblk_-D", "sda 0 4K 4G 0\n", None),
    ],
)
def test_each_lsblk_format(file: str, text: str, values: dict[str, str] | None) -> None:
    """Names are those of sysfs; columns after a blank value are not read, since they shift."""
    found = table({"proc/partitions": "8 0 9 sda\n", f"sos_commands/block/{file}": text})
    row = found.by_number["8:0"].row
    assert (dict(row.attributes) if row else None) == values


def test_lsblk_formats_are_merged() -> None:
    """-t prints no numbers, and the tree no limits."""
    found = table(
        {
            "sos_commands/block/lsblk": "sda 8:0 0 40G 0 disk\n",
            "sos_commands/block/lsblk_-t": "sda 0 4096 0 512 512 1 x\n",
        }
    )
    row = found.by_number["8:0"].row
    assert row is not None
    assert dict(row.attributes)["ro"] == "0"
    assert dict(row.attributes)["queue/minimum_io_size"] == "4096"


def test_device_numbers_in_a_table_are_recognized() -> None:
    """The arguments of a table hold offsets, names and options as well."""
    fields = "0 100 raid raid0 3 128 2 - 253:1 - 253:2 253:1 1:x".split()
    assert numbers_in(fields) == ("253:1", "253:2")
