from __future__ import annotations

import json

import pytest

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.parsers.devices_and_mounts import parse_lsblk_pairs
from ext4audit.sources import (
    CapturedDumpe2fs,
    EffectiveUser,
    FilesystemUuid,
    ListDir,
    ReadBytes,
    ReadFile,
    RealPath,
    ResolvePath,
    RunCommand,
    TextAsk,
    TuneSuperblock,
    UdevDatabase,
    Uname,
    VirtualMemory,
)
from support.archives.contents import (
    DATA_UUID,
    MOUNTINFO,
    PARTITIONS,
    ROOT_UUID,
    SOS_LINKS,
    dumpe2fs_header,
    recognised_capture,
    sos_files,
    sosreport,
)

FULL = "".join(
    (dumpe2fs_header(DATA_UUID), "\nGroup 0: (Blocks 0-32767)\n  Primary superblock at 0\n")
)
UDEV = (
    "P: /devices/pci/virtio1/block/vdb\nN: vdb\nE: DEVNAME=/dev/vdb\nE: MAJOR=253\n"
    "E: ID_MODEL=a=b c\n"
)
ATTRIBUTES = (
    "  looking at device '/devices/pci/virtio1/block/vdb':\n"
    '    KERNEL=="vdb"\n    ATTR{ro}=="0"\n    ATTR{size}=="20971520"\n'
    '    ATTR{queue/rotational}=="1"\n\n'
    "  looking at parent device '/devices/pci/virtio1':\n"
    '    ATTRS{size}=="1"\n    ATTR{ro}=="1"\n    ATTRS{model}=="Elastic Block Store  "\n\n'
    "  looking at parent device '/devices/pci':\n"
    '    ATTRS{model}=="a bus"\n'
)


def answer(ask: TextAsk, files: dict[str, str] | None = None) -> str:
    """Return the text with which the small host's sosreport answers an ask."""
    found = sosreport(files).source.fetch(ask)
    assert isinstance(found, Known), found
    return found.value


@pytest.mark.parametrize(
    ("ask", "files", "text"),
    [
        (ReadFile("/proc/self/mountinfo"), {}, MOUNTINFO),
        (ReadFile("/proc/1/mountinfo"), {}, MOUNTINFO),
        (ReadFile("/proc/cmdline"), {}, "ro quiet\n"),
        (ListDir("/proc/fs/ext4"), {}, "vda1\0vdb"),
        (ReadFile("/sys/dev/block/253:16/queue/write_cache"), {}, "write back\n"),
        (ReadFile("/sys/block/vdb/queue/write_cache"), {}, "write back\n"),
        (ReadFile("/sys/class/block/vdb/dev"), {}, "253:16"),
        (ReadFile("/sys/dev/block/253:1/../dev"), {}, "253:0"),
        (
            ReadFile("/sys/dev/block/253:1/uevent"),
            {},
            "MAJOR=253\nMINOR=1\nDEVNAME=vda1\nDEVTYPE=partition\n",
        ),
        (ReadFile("/sys/dev/block/253:16/size"), {}, "20971520\n"),
        (ListDir("/sys/dev/block/253:16/slaves"), {}, ""),
        (ListDir("/sys/block/vdb/queue"), {}, "write_cache"),
        (
            ReadFile("/sys/dev/block/253:16/ro"),
            {"sos_commands/block/udevadm_info_-a_.dev.vdb": ATTRIBUTES},
            "0",
        ),
        (
            ReadFile("/sys/dev/block/253:16/queue/rotational"),
            {"sos_commands/block/udevadm_info_-ap_.sys.block.vdb": ATTRIBUTES},
            "1",
        ),
        (
            ReadFile("/sys/dev/block/253:16/device/model"),
            {"sos_commands/block/udevadm_info_-a_.dev.vdb": ATTRIBUTES},
            "Elastic Block Store  ",
        ),
        (
            UdevDatabase("253:16"),
            {"sos_commands/block/udevadm_info_.dev.vdb": UDEV},
            "DEVNAME=/dev/vdb\nID_MODEL=a=b c\nMAJOR=253",
        ),
        (RunCommand(("dumpe2fs", "-h", "/dev/vdb")), {}, dumpe2fs_header(DATA_UUID)),
        (CapturedDumpe2fs("/dev/vdb"), {"sos_commands/filesys/dumpe2fs_.dev.vdb": FULL}, FULL),
        (ResolvePath("/data"), {}, "mount_id=40\ndevice_number=253:16\ntype=directory"),
        (ResolvePath("/data/x/y"), {}, "mount_id=40\ndevice_number=253:16\ntype=file"),
        (
            ResolvePath(f"/dev/disk/by-uuid/{DATA_UUID}"),
            {},
            "mount_id=0\ndevice_number=0:5\ntype=block\nrepresents=253:16",
        ),
        (
            ResolvePath("/dev/root"),
            {},
            "mount_id=0\ndevice_number=0:5\ntype=block\nrepresents=253:1",
        ),
        (RealPath("/data"), {}, "/data"),
        (
            Uname(),
            {},
            "5.14.0-427.el9.x86_64\n#1 SMP PREEMPT_DYNAMIC\nx86_64\ndb-1",
        ),
        (VirtualMemory(), {}, "32768000000\n30720000000"),
        (EffectiveUser(), {}, "0"),
        (
            ReadFile("/proc/sys/vm/dirty_ratio"),
            {"sos_commands/kernel/sysctl_-a": "vm.dirty_ratio = 20\nvm.x = 1\n"},
            "20\n",
        ),
        (
            RunCommand(("systemd-detect-virt", "--vm")),
            {"sos_commands/processor/lscpu": "Architecture: x86_64\nHypervisor vendor: KVM\n"},
            "kvm",
        ),
        (
            RunCommand(("systemd-detect-virt", "--vm")),
            {"sos_commands/processor/lscpu": "Architecture: x86_64\nFlags: fpu vme\n"},
            "none",
        ),
    ],
)
def test_archive_formats_give_the_same_answers(
    ask: TextAsk, files: dict[str, str], text: str
) -> None:
    """The answer does not depend on the form of the archive."""
    assert answer(ask, files) == text


@pytest.mark.parametrize(
    ("ask", "hint"),
    [
        (CapturedDumpe2fs("/dev/vdb"), "sos report -k filesys.dumpe2fs=on"),
        (RunCommand(("dumpe2fs", "-g", "/dev/vdb")), "sos report -k filesys.dumpe2fs=on"),
        (
            RunCommand(("dumpe2fs", "-h", "/dev/sdz")),
            "sos report -e filesys, as root, with the device mounted",
        ),
        (RunCommand(("dmsetup", "table", "-j", "9", "-m", "0")), "sos report -e devicemapper"),
        (RunCommand(("dmsetup", "info")), "sos report -e devicemapper"),
        (ReadFile("/sys/dev/block/8:0/uevent"), "sos report -e block -e md -e devicemapper"),
        (ListDir("/sys/dev/block/8:0/slaves"), "sos report -e block -e md -e devicemapper"),
        (ResolvePath("/dev/sdz"), "sos report -e block -e md -e devicemapper"),
        (UdevDatabase("253:16"), "sos report -e block"),
        (ReadFile("/proc/sys/vm/dirty_ratio"), "sos report -e kernel"),
        (ReadFile("/proc/fs/ext4/vdc/options"), "sos report -e filesys"),
    ],
)
def test_gap_names_the_option_that_captures_it(ask: TextAsk, hint: str) -> None:
    """The hint makes the host's next report complete."""
    found = sosreport().source.fetch(ask)
    assert isinstance(found, Unknown)
    assert (found.why, found.detail, found.hint) == (
        Why.NOT_CAPTURED,
        "not in the sosreport archive",
        f"capture again with {hint}, or with ext4audit collect",
    )


@pytest.mark.parametrize(
    "ask",
    [
        TuneSuperblock("/data"),
        FilesystemUuid("/data"),
        ReadBytes("/dev/vdb", 1024, 1024),
        ReadFile("/sys/fs/ext4/features"),
        ListDir("/sys/fs/ext4"),
        RealPath("/elsewhere"),
        ResolvePath("relative"),
        RunCommand(("lsblk", "-J", "-o", "NAME")),
        RunCommand(("systemd-detect-virt", "--vm")),
    ],
)
def test_gap_that_needs_a_snapshot(ask: TextAsk) -> None:
    """Third-party archives hold no ioctls, bytes of devices or /sys/fs/ext4."""
    found = sosreport().source.fetch(ask)
    assert isinstance(found, Unknown)
    assert found.why is Why.NOT_CAPTURED
    assert found.hint.endswith("ext4audit collect")


@pytest.mark.parametrize("line", ["41 25 253", "41 25 ?:? / /data/x rw - ext4 /dev/x rw"])
def test_path_below_a_lost_mount_is_unknown(line: str) -> None:
    """The path could be on the lost mount; mount points themselves are known."""
    files = {"proc/1/mountinfo": f"{MOUNTINFO}{line}\n"}
    below = sosreport(files).source.fetch(ResolvePath("/data/x/y"))
    assert isinstance(below, Unknown)
    assert below.why is Why.NOT_CAPTURED
    assert answer(ResolvePath("/data"), files).startswith("mount_id=40\n")


def test_overmounted_mount_is_not_lost() -> None:
    """Both are on one mount point; the last one holds the files below it."""
    files = {"proc/1/mountinfo": f"{MOUNTINFO}41 40 253:1 / /data rw - ext4 /dev/vda1 rw\n"}
    below = answer(ResolvePath("/data/x/y"), files)
    assert below.split("\n") == ["mount_id=41", "device_number=253:1", "type=file"]


@pytest.mark.parametrize(
    ("copied", "level"), [("", "raid0"), ("raid", "raid0"), ("linear\n", "linear\n")]
)
def test_missing_attribute_is_taken_from_an_output(copied: str, level: str) -> None:
    """An empty level means an inactive array, on which no filesystem is mounted."""
    files = {
        "proc/partitions": f"{PARTITIONS} 9 0 20971520 md0\n",
        "proc/mdstat": "md0 : active raid0 vdb[1] vda[0]\n      1 blocks 512k chunks\n\n",
        "sys/block/md0/md/level": copied,
    }
    assert answer(ReadFile("/sys/dev/block/9:0/md/level"), files) == level


def test_answers_are_cached() -> None:
    """The same object is returned, so that a rule and an evidence line show one text."""
    source = sosreport().source
    ask = ReadFile("/proc/cmdline")
    assert source.fetch(ask) is source.fetch(ask)


def test_dumpe2fs_of_another_device_name() -> None:
    """The mount table has /dev/root, but a user types /dev/vda1."""
    files = {
        "sos_commands/filesys/dumpe2fs_-h_.dev.root": dumpe2fs_header(ROOT_UUID),
        "proc/1/mountinfo": MOUNTINFO.replace("/dev/vda1", "/dev/root"),
    }
    found = sosreport(files, without=("sos_commands/filesys/dumpe2fs_-h_.dev.vda1",))
    answered = found.source.fetch(RunCommand(("dumpe2fs", "-h", "/dev/vda1")))
    assert isinstance(answered, Known)
    assert answered.origin == "sos_commands/filesys/dumpe2fs_-h_.dev.root"


def header_of_vdb(files: dict[str, str]) -> Evidence[str]:
    """Return the answer of an archive with these files instead of the header of vdb."""
    others = sos_files()
    del others["sos_commands/filesys/dumpe2fs_-h_.dev.vdb"]
    source = recognised_capture({**others, **files}, SOS_LINKS).source
    return source.fetch(RunCommand(("dumpe2fs", "-h", "/dev/vdb")))


@pytest.mark.parametrize("manifest", [False, True])
def test_dumpe2fs_of_a_mount_point(*, manifest: bool) -> None:
    """This is so until sos 4.0; the dumpe2fs of RHEL 7 ignored the argument."""
    name = "sos_commands/filesys/dumpe2fs_-h_.dev.vdb_.data"
    command = {"exec": "dumpe2fs -h /dev/vdb /data", "filepath": name, "return_code": 0}
    plugins = {"filesys": {"commands": [command]}}
    told = json.dumps({"components": {"report": {"plugins": plugins}}})
    files = {
        name: dumpe2fs_header(DATA_UUID),
        **({"sos_reports/manifest.json": told} if manifest else {}),
    }
    assert header_of_vdb(files) == Known(dumpe2fs_header(DATA_UUID), name)


def test_usage_error_of_dumpe2fs_is_a_gap() -> None:
    """A container sees the host's mounts below another path; a usage text is not a superblock."""
    name = "sos_commands/filesys/dumpe2fs_-h_.dev.vdb_.host.data"
    table = (
        "10 1 0:40 / / rw - overlay overlay rw\n"
        "11 10 253:1 / /host rw - ext4 /dev/vda1 rw\n"
        "12 11 253:16 / /host/data rw - ext4 /dev/vdb rw\n"
    )
    usage = "dumpe2fs 1.44.3 (10-July-2018)\nUsage: dumpe2fs [-bfghimxV] device\n"
    refused = header_of_vdb({name: usage, "proc/1/mountinfo": table})
    assert isinstance(refused, Unknown)
    assert refused.detail == f"{name}: Usage: dumpe2fs [-bfghimxV] device"
    assert refused.hint == "capture again with ext4audit collect"


def test_header_of_another_device_is_ignored() -> None:
    """Two devices have one file name, and blkid shows the right UUID."""
    name = "sos_commands/filesys/dumpe2fs_-h_.dev.vdb"
    ask = RunCommand(("dumpe2fs", "-h", "/dev/vdb"))
    both = sosreport({name: dumpe2fs_header(ROOT_UUID), f"{name}.1": dumpe2fs_header(DATA_UUID)})
    assert both.source.fetch(ask) == Known(dumpe2fs_header(DATA_UUID), f"{name}.1")
    wrong = sosreport({name: dumpe2fs_header(ROOT_UUID)}).source.fetch(ask)
    assert isinstance(wrong, Unknown)
    assert wrong.detail == (
        f"{name}: not this device by its UUID; two devices may have one file name"
    )


def test_two_headers_without_blkid_are_ambiguous() -> None:
    """A guess could audit one device's superblock as another's."""
    name = "sos_commands/filesys/dumpe2fs_-h_.dev.vdb"
    files = {
        name: dumpe2fs_header(ROOT_UUID),
        f"{name}.1": dumpe2fs_header(DATA_UUID),
        "sos_commands/block/blkid_-c_.dev.null": "",
    }
    found = sosreport(files).source.fetch(RunCommand(("dumpe2fs", "-h", "/dev/vdb")))
    assert isinstance(found, Unknown)
    assert found.detail == f"{name}: ambiguous name; two devices may have one file name"


def test_device_mounted_twice_has_two_equal_files() -> None:
    """For each line of the mount table, sos runs dumpe2fs."""
    name = "sos_commands/filesys/dumpe2fs_-h_.dev.vdb"
    found = sosreport({f"{name}.1": dumpe2fs_header(DATA_UUID)})
    answered = found.source.fetch(RunCommand(("dumpe2fs", "-h", "/dev/vdb")))
    assert answered == Known(dumpe2fs_header(DATA_UUID), name)


def test_lsblk_is_composed_of_blkid_and_device_numbers() -> None:
    """Quotes in a label are escaped as lsblk does."""
    lines = answer(RunCommand(("lsblk", "-P", "-o", "NAME"))).splitlines()
    assert lines == [
        (
            'NAME="vda" KNAME="vda" MAJ:MIN="253:0" FSTYPE="" UUID="" LABEL="" PARTUUID="" '
            'PARTLABEL=""'
        ),
        (
            f'NAME="vda1" KNAME="vda1" MAJ:MIN="253:1" FSTYPE="ext4" UUID="{ROOT_UUID}" LABEL="" '
            'PARTUUID="aaaa-01" PARTLABEL=""'
        ),
        (
            f'NAME="vdb" KNAME="vdb" MAJ:MIN="253:16" FSTYPE="ext4" UUID="{DATA_UUID}" '
            'LABEL="da\\x22ta" PARTUUID="" PARTLABEL=""'
        ),
    ]


@pytest.mark.parametrize("form", ["-J", "-P"])
def test_device_that_only_blkid_lists_is_not_absent(form: str) -> None:
    """Without a number it is in no list, but DRF006 must not report its label as missing."""
    printed = '/dev/vdc1: LABEL="backup" UUID="x" TYPE="ext4"\nblkid: error: /dev/sr0: No medium\n'
    asked, path = RunCommand(("lsblk", form, "-o", "NAME")), "sos_commands/block/blkid_-c_.dev.null"
    lists = ("proc/partitions", "proc/diskstats", "sos_commands/block/lsblk")
    unknown = sosreport({path: printed}, without=lists).source.fetch(asked)
    assert isinstance(unknown, Unknown)
    assert unknown.detail == "no listing has the number of '/dev/vdc1', which blkid found"
    fewer = sosreport(without=(*lists, path)).source.fetch(asked)
    assert isinstance(fewer, Unknown)
    assert fewer.detail == "no listing has all devices"
    cut = {"sos_commands/block/lsblk": "NAME MAJ:MIN RM SIZE RO TYPE\nvda 253:0 0 9G 0 disk\n"}
    assert sosreport(cut, without=(*lists[:2], path)).source.fetch(asked) == fewer


def test_composed_lsblk_has_only_printed_columns() -> None:
    """An empty PARTUUID would mean that there is none, but older versions of blkid print none."""
    printed = f'/dev/vda1: UUID="{ROOT_UUID}" TYPE="ext4"\n'
    found = sosreport({"sos_commands/block/blkid_-c_.dev.null": printed}).source
    text = found.fetch(RunCommand(("lsblk", "-P", "-o", "NAME")))
    assert isinstance(text, Known)
    assert "PARTUUID" not in text.value
    assert parse_lsblk_pairs(text.value)[1].unlisted == {"PARTUUID", "PARTLABEL", "MODEL", "TRAN"}


def test_truncated_lsblk_lacks_the_missing_columns() -> None:
    """For partitions that only an older blkid lists, PARTUUID is unknown and not empty."""
    row = 'NAME="vda" KNAME="vda" MAJ:MIN="253:0" FSTYPE="" UUID="" LABEL="" PARTUUID=""\n'
    files = {
        "sos_commands/block/lsblk_-O_-P": row,
        "sos_commands/block/blkid_-c_.dev.null": f'/dev/vda1: UUID="{ROOT_UUID}" TYPE="ext4"\n',
    }
    rows = parse_lsblk_pairs(answer(RunCommand(("lsblk", "-P", "-o", "NAME")), files))
    (partition,) = (row for row in rows if row.kernel_name == "vda1")
    assert {"PARTUUID", "PARTLABEL"} <= partition.unlisted


def test_lines_of_real_lsblk_take_precedence() -> None:
    """Since 4.3 sos runs `lsblk -O -P`, which prints all columns."""
    printed = 'NAME="vdb" KNAME="vdb" MAJ:MIN="253:16" RO="0" ROTA="0" UUID="x" FSTYPE="ext4"'
    files = {"sos_commands/block/lsblk_-O_-P": f"{printed}\n"}
    assert printed in answer(RunCommand(("lsblk", "-P", "-o", "NAME")), files).splitlines()
    assert answer(ReadFile("/sys/block/vdb/queue/rotational"), files) == "0"


@pytest.mark.parametrize("name", ["md127", "dm-0"])
def test_array_known_only_by_name_is_not_a_plain_disk(name: str) -> None:
    """Otherwise the audit would not look for a stripe below it and would pass."""
    files = {"proc/partitions": f"\n 9 127 100 {name}\n"}
    source = sosreport(files).source
    for ask in (ReadFile("/sys/dev/block/9:127/uevent"), ListDir("/sys/dev/block/9:127/slaves")):
        found = source.fetch(ask)
        assert isinstance(found, Unknown)
        assert found.why is Why.NOT_CAPTURED


def test_loop_device_without_its_file_has_an_unknown_device_below() -> None:
    """Archives lack its file: udevadm omits values starting with "/", and sos 4.0 lacks losetup."""
    source = sosreport({"proc/partitions": "\n 7 0 65536 loop0\n"}).source
    assert isinstance(source.fetch(ListDir("/sys/dev/block/7:0/slaves")), Unknown)
    line = {"sos_commands/block/losetup_-a": "/dev/loop0: [65024]:12 (/srv/a b (1)), offset 512\n"}
    source = sosreport({"proc/partitions": "\n 7 0 65536 loop0\n", **line}).source
    assert source.fetch(ReadFile("/sys/dev/block/7:0/loop/backing_file")) == Known(
        "/srv/a b (1)", "sos_commands/block/losetup_-a"
    )


def test_table_of_a_mapped_device_is_extracted() -> None:
    """`dmsetup table` names each line; the devices below are identified by number."""
    files = {
        "proc/partitions": "\n 253 5 100 dm-5\n 8 0 100 sda\n 8 16 100 sdb\n",
        "sos_commands/block/ls_-lanR_.dev": (
            "/dev/mapper:\nlrwxrwxrwx 1 0 0 7 Nov 21 02:30 vg-a -> ../dm-5\n"
        ),
        "sos_commands/devicemapper/dmsetup_table": (
            "vg-ab: 0 8 linear 8:0 0\n"
            "vg-a: 0 100 striped 2 128 8:16 2048 8:0 2048\nvg-a: 100 8 linear 8:0 4096\n"
        ),
        "sos_commands/devicemapper/dmsetup_status": (
            "vg-ab: 0 8 linear\nvg-a: 0 108 thin-pool Fail\n"
        ),
    }
    source = sosreport(files).source
    table = source.fetch(RunCommand(("dmsetup", "table", "-j", "253", "-m", "5")))
    assert table == Known(
        "0 100 striped 2 128 8:16 2048 8:0 2048\n100 8 linear 8:0 4096\n",
        "sos_commands/devicemapper/dmsetup_table",
    )
    status = ("dmsetup", "status", "--noflush", "-j", "253", "-m", "5")
    assert source.fetch(RunCommand(status)) == Known(
        "0 108 thin-pool Fail\n", "sos_commands/devicemapper/dmsetup_status"
    )
    assert isinstance(source.fetch(RunCommand((*status[:2], *status[3:]))), Unknown)
    slaves = source.fetch(ListDir("/sys/dev/block/253:5/slaves"))
    assert isinstance(slaves, Known)
    assert slaves.value == "sda\0sdb"
    dev = source.fetch(ReadFile("/sys/dev/block/253:5/slaves/sdb/dev"))
    assert isinstance(dev, Known)
    assert dev.value == "8:16"


FDISK, PARTED = "fdisk_-l_.dev.vda", "parted_-s_.dev.vda_unit_s_print"
CYLINDERS = "Units = cylinders of 16065 * 512 = 8225280 bytes\n/dev/vda1  *  1 64 5120 83 Linux\n"


@pytest.mark.parametrize(
    ("files", "start"),
    [
        (
            {FDISK: "Units: sectors of 1 * 4096 = 4096 bytes\n/dev/vda1  *  256 100 99 1G 83 L\n"},
            "2048",
        ),
        ({FDISK: CYLINDERS}, None),
        (
            {
                FDISK: CYLINDERS,
                PARTED: (
                    "Model: Virtio Block Device (virtblk)\nDisk /dev/vda: 83886080s\n"
                    "Sector size (logical/physical): 4096B/4096B\n\n"
                    "Number  Start  End    Size   Type     File system  Flags\n"
                    "11      34s    255s   222s   primary\n"
                    " 1      256s   1023s  768s   primary  ext4         boot\n"
                ),
            },
            "2048",
        ),
    ],
)
def test_a_start_is_in_sectors_of_512_bytes(files: dict[str, str], start: str | None) -> None:
    """Both programs count in the disk's sectors; the fdisk of RHEL 6 counts in cylinders."""
    found = sosreport({f"sos_commands/block/{name}": text for name, text in files.items()})
    told = found.source.fetch(ReadFile("/sys/dev/block/253:1/start"))
    assert (told.value if isinstance(told, Known) else None) == start
