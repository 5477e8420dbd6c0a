"""Hosts assembled from third-party archives: missing evidence must not pass as healthy."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.assemble.devices import StackReader
from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.inventory import take_inventory
from ext4audit.assemble.layout import read_group_table
from ext4audit.assemble.superblock import read_superblock
from ext4audit.engine import audit
from ext4audit.evidence import Known, Unknown, Why, for_wording, need
from ext4audit.facts.mount import DeviceNumber
from ext4audit.report import Outcome, ReportSource
from ext4audit.rule import Scope
from ext4audit.rules import all_rules
from ext4audit.sources import ArchiveError
from ext4audit.sources.archive import recognise
from support.archives.contents import SOS_LINKS, archive, sos_files, sosreport
from support.examples import examples
from support.hosts.evidence_host import QUEUE

MD = DeviceNumber(9, 127)
MD_FILES = {
    "proc/partitions": "\n 9 127 12564480 md127\n 8 16 6291456 sdb\n 8 32 6291456 sdc\n",
    "sos_commands/md/mdadm_-D_.dev.md": (
        "/dev/md127:\n        Raid Level : raid0\n      Raid Devices : 2\n"
        "            Layout : original\n        Chunk Size : 512K\n\n"
        "    Number   Major   Minor   RaidDevice State\n"
        "       0       8       16        0      active sync   /dev/sdb\n"
        "       1       8       32        1      active sync   /dev/sdc\n"
    ),
    **{
        f"sos_commands/md/mdadm_-E_.dev.{name}": (
            f"/dev/{name}:\n Avail Dev Size : 12564480 sectors (5.99 GiB 6.43 GB)\n"
            "    Data Offset : 18432 sectors\n"
        )
        for name in ("sdb", "sdc")
    },
}


def test_the_filesystems_of_an_archive_have_names_mounts_and_superblocks() -> None:
    """They match those of the live host."""
    found = sosreport()
    host = assemble_host(found.source, found.taken_at)
    assert [(fs.device, fs.mount_points, need(fs.superblock).uuid) for fs in host.filesystems] == [
        ("/dev/vda1", ("/",), "11111111-aaaa-4bbb-8ccc-000000000001"),
        ("/dev/vdb", ("/data",), "22222222-aaaa-4bbb-8ccc-000000000002"),
    ]
    data = host.filesystems[1]
    assert need(need(data.options).token("barrier")) == "nobarrier"
    assert [entry.line.line_number for entry in need(data.fstab)] == [2]
    root = need(host.filesystems[0].stack)
    assert (root.kind, [each.name for each in root.known_below]) == ("partition", ["vda"])
    assert (host.name, host.gaps) == ("db-1", ())


def test_an_array_is_put_together_from_what_mdadm_printed() -> None:
    """Archives of sos 4.0 lack `md/` of sysfs."""
    stack = need(StackReader(sosreport(MD_FILES).source).read(MD))
    assert stack.kind == "raid0"
    assert [device.name for device in stack.known_below] == ["sdb", "sdc"]
    assert stack.md is not None
    md = need(stack.md)
    assert (md.chunk_bytes, md.raid_disks, md.layout) == (524288, 2, 1)
    assert [(each.slot, each.name, each.data_offset_sectors) for each in md.members] == [
        (0, "sdb", 18432),
        (1, "sdc", 18432),
    ]


def test_missing_block_groups_name_the_option_of_the_other_program() -> None:
    """No sosreport has the raw descriptors, the usual first source."""
    found = sosreport()
    inventory = take_inventory(found.source)
    number = next(iter(inventory.names))
    superblock = read_superblock(found.source, "/dev/vda1", number, ())
    gap = read_group_table(found.source, "/dev/vda1", number, superblock)
    assert isinstance(gap, Unknown)
    assert gap.why is Why.NOT_CAPTURED
    assert "sos report -k filesys.dumpe2fs=on" in gap.hint


@pytest.mark.parametrize(
    ("state", "active", "mdstat", "expected"),
    [
        ("clean, degraded", "1", "", (1, "idle")),
        ("clean", "2", "", (0, "idle")),
        ("active, degraded, recovering", "1", "", (1, "recover")),
        ("", "", "md127 : active raid1 sdb[0]\n      9 blocks [2/1] [U_]\n", (1, "idle")),
        ("", "", "", (None, None)),
    ],
)
def test_an_array_lacks_the_members_that_mdadm_or_mdstat_says(
    state: str, active: str, mdstat: str, expected: tuple[int | None, str | None]
) -> None:
    """If neither shows the state, it is unknown, not "no member is missing"."""
    name = "sos_commands/md/mdadm_-D_.dev.md"
    fields = f"             State : {state} \n    Active Devices : {active}\n" if state else ""
    text = MD_FILES[name].replace("raid0", "raid1").replace("Layout", f"x\n{fields}  Layout")
    found = sosreport({**MD_FILES, name: text, "proc/mdstat": mdstat})
    stack = need(StackReader(found.source).read(MD))
    assert stack.md_state is not None
    seen = need(stack.md_state)
    assert (for_wording(seen.degraded, None), for_wording(seen.sync_action, None)) == expected


def test_a_degraded_array_is_found_where_only_mdstat_was_captured() -> None:
    """It has no member offsets: the geometry is unknown, but not the missing member."""
    name = "sos_commands/md/mdadm_-D_.dev.md"
    mdstat = "md127 : active raid5 sdb[0] sdc[1]\n      9 blocks 64k chunk [3/2] [UU_]\n"
    found = sosreport({**MD_FILES, name: "", "proc/mdstat": mdstat})
    stack = need(StackReader(found.source).read(MD))
    assert isinstance(stack.md, Unknown)
    assert stack.md_state is not None
    assert need(need(stack.md_state).degraded) == 1


def test_an_array_is_read_from_sysfs_where_that_was_copied() -> None:
    """Sosreports copy /sys/block/md*/md, and mdadm may have failed."""
    values = {
        "level": "raid0\n",
        "chunk_size": "65536\n",
        "raid_disks": "2\n",
        "layout": "0\n",
        "reshape_position": "none\n",
    }
    for slot, name in enumerate(("sdc", "sdb")):
        member = {"slot": f"{slot}\n", "offset": "2048\n", "size": "6282240\n"}
        values |= {f"dev-{name}/{key}": value for key, value in member.items()}
    files = {f"sys/block/md127/md/{key}": value for key, value in values.items()}
    files["proc/partitions"] = MD_FILES["proc/partitions"]
    stack = need(StackReader(sosreport(files).source).read(MD))
    assert stack.kind == "raid0"
    assert [device.name for device in stack.known_below] == ["sdb", "sdc"]
    assert stack.md is not None
    assert [member.name for member in need(stack.md).members] == ["sdc", "sdb"]


@pytest.mark.parametrize(
    "without", [("sos_commands/md/mdadm_-D",), ("sos_commands/md/mdadm_-E", "proc/mdstat")]
)
def test_an_array_of_which_too_little_is_reported_is_unknown(without: tuple[str, ...]) -> None:
    """It is neither a plain disk nor an array with invented offsets."""
    stack = StackReader(sosreport(MD_FILES, without=without).source).read(MD)
    gap = stack if isinstance(stack, Unknown) else stack.value.md
    assert isinstance(gap, Unknown)
    assert gap.why is Why.NOT_CAPTURED


def test_an_archive_without_the_kernels_lists_says_how_to_capture_them() -> None:
    """Without them, filesystems of other namespaces are unknown; the host is not to blame."""
    inventory = take_inventory(sosreport(without=("proc/fs/",)).source)
    assert inventory.gaps == (
        Unknown(
            "ext4 superblocks of other mount namespaces",
            Why.NOT_CAPTURED,
            "neither /proc/fs/ext4 nor /sys/fs/ext4 can be listed",
            "capture again with sos report -e filesys, or with ext4audit collect",
        ),
    )


def test_the_options_file_is_evidence_without_a_superblock() -> None:
    """Every sosreport since 2018 has it, whether or not dumpe2fs could run."""
    found = sosreport(without=("sos_commands/filesys/",))
    host = assemble_host(found.source, found.taken_at)
    assert [isinstance(fs.superblock, Known) for fs in host.filesystems] == [False, False]
    tokens = [need(need(fs.options).token("barrier")) for fs in host.filesystems]
    assert tokens == ["barrier", "nobarrier"]


MAPPED = {
    "proc/partitions": "",
    "sos_commands/block/ls_-lanR_.dev": "",
    "sos_commands/block/lsblk": (
        "NAME        MAJ:MIN RM SIZE RO TYPE MOUNTPOINT\n"
        "sda           8:0    0  40G  0 disk\n"
        "├─sda1        8:1    0  10G  0 part /\n"
        "└─sda2        8:2    0  30G  0 part\n"
        "  └─vg-data 253:0    0  30G  0 lvm  /data\n"
    ),
    "proc/mounts": (
        "/dev/sda1 / ext4 rw,nobarrier 0 0\n/dev/mapper/vg-data /data ext4 rw 0 0\n"
        "/dev/mapper/vg-lost /lost ext4 rw 0 0\n"
    ),
    "proc/fs/ext4/sda1/options": sos_files()["proc/fs/ext4/vdb/options"],
}


def test_a_device_that_no_listing_has_costs_its_own_mount_only() -> None:
    """The others are audited, and a gap names the one that is not."""
    found = sosreport(MAPPED, without=("proc/1/", "proc/fs/ext4/vd"))
    host = assemble_host(found.source, found.taken_at)
    assert [(fs.device, fs.mount_points) for fs in host.filesystems] == [
        ("/dev/sda1", ("/",)),
        ("/dev/mapper/vg-data", ("/data",)),
    ]
    assert need(need(host.filesystems[0].options).token("barrier")) == "nobarrier"
    (gap,) = host.gaps
    assert (gap.why, gap.detail) == (
        Why.NOT_CAPTURED,
        "the device number of /dev/mapper/vg-lost, mounted on /lost, is not in the archive",
    )
    assert host.mounts == gap


def test_what_a_damaged_mount_table_does_not_show_is_not_said_to_be_unmounted() -> None:
    """The line that was lost may be that of /data."""
    table = sos_files()["proc/1/mountinfo"].replace("253:16 / /data", "253:1")
    found = sosreport({"proc/1/mountinfo": table})
    host = assemble_host(found.source, found.taken_at)
    report = audit(ReportSource(found.kind, found.label), host, all_rules())
    outcome = {v.rule.code: v.outcome for v in report.verdicts if v.filesystem_id is None}
    assert outcome["DRF006"] is Outcome.UNDETERMINED
    assert [gap.what for gap in host.gaps] == ["line 3 of the mount table"]


def test_a_container_is_known_by_what_hostnamectl_printed_there() -> None:
    """No archive has its /run/systemd/container; its settings can be changed on the host only."""
    table = sos_files()["proc/1/mountinfo"]
    found = sosreport(
        {
            "proc/1/mountinfo": f"{table}50 25 0:23 / /run rw - tmpfs t rw\n",
            "sos_commands/host/hostnamectl_status": "Architecture: x86-64\nVirtualization: lxc\n",
        }
    )
    host = assemble_host(found.source, found.taken_at)
    assert need(host.container) == "lxc"
    assert isinstance(host.virtualization, Unknown)  # not in the archive for the machine below


WHOLE = {
    **{
        f"sys/devices/pci/{disk}/block/{disk}/queue/{key}": f"{value}\n"
        for disk in ("vda", "vdb")
        for key, value in QUEUE.items()
    },
    "sys/devices/pci/vda/block/vda/vda1/start": "2048\n",
    "sys/devices/pci/vda/block/vda/vda1/alignment_offset": "0\n",
    "sos_commands/processor/lscpu": "Architecture: x86_64\nFlags: fpu vme\n",
    "sos_commands/kernel/sysctl_-a": (
        "vm.dirty_bytes = 0\nvm.dirty_ratio = 20\n"
        "vm.dirty_background_bytes = 0\nvm.dirty_background_ratio = 10\n"
    ),
    "sos_commands/filesys/df_-al_-x_autofs": (
        "Filesystem     1K-blocks     Used Available Use% Mounted on\n"
        "/dev/vda1       41151808 20856180  18175628  54% /\n"
        "/dev/vdb        10255636       24   9712868   1% /data\n"
    ),
    "sos_commands/filesys/df_-ali_-x_autofs": (
        "Filesystem      Inodes  IUsed   IFree IUse% Mounted on\n"
        "/dev/vda1      2621440 711538 1909902   28% /\n"
        "/dev/vdb        655360     11  655349    1% /data\n"
    ),
}


@pytest.mark.parametrize(
    ("without", "complete"),
    [
        ("\0", True),
        ("sos_commands/filesys/df_-al_", False),
        ("sos_commands/filesys/df_-ali", False),
        ("sos_commands/filesys/dumpe2fs", False),
        ("sos_commands/kernel/sysctl", False),
        ("proc/1/", False),
        ("etc/fstab", False),
    ],
)
def test_a_whole_sosreport_is_a_complete_audit(without: str, *, complete: bool) -> None:
    """All default rules can judge; without a part of the report, some cannot."""
    given = {path: text for path, text in (sos_files() | WHOLE).items() if "virtio1" not in path}
    kept = {path: text for path, text in given.items() if not path.startswith(without)}
    disks = {f"sys/block/{disk}": f"../devices/pci/{disk}/block/{disk}" for disk in ("vda", "vdb")}
    found = recognise(archive(kept, links={"proc/self": "1", **disks}))
    assert found is not None
    host = assemble_host(found.source, found.taken_at)
    rules = [rule for rule in all_rules() if rule.default]
    assert audit(ReportSource(found.kind, found.label), host, rules).complete is complete


TOOLBOX = (
    "90 80 0:60 / / rw - overlay overlay rw,upperdir=/x\n"
    "91 90 0:61 / /proc rw - proc proc rw\n"
    "92 90 253:1 / /host rw,relatime - ext4 /dev/vda1 rw\n"
    "93 92 253:16 / /host/data rw,noatime - ext4 /dev/vdb rw,nobarrier\n"
    "94 90 253:1 /etc/hosts /etc/hosts rw - ext4 /dev/vda1 rw\n"
)
MANIFEST = (
    '{"components": {"report": {"sysroot": "/host", "plugins": {}}}, '
    '"start_time": "2026-11-21 05:56:57"}'
)


@pytest.mark.parametrize(
    "files",
    [
        {"proc/1/mountinfo": TOOLBOX},
        {"proc/1/mountinfo": TOOLBOX, "sos_reports/manifest.json": MANIFEST},
        {"proc/self/mountinfo": TOOLBOX, "sos_reports/manifest.json": MANIFEST},
        {"proc/self/mountinfo": TOOLBOX},
        {
            "proc/1/mountinfo": "",
            "proc/mounts": "/dev/vdb /host/data ext4 rw 0 0\n",
            "sos_commands/filesys/mount_-l": (
                "/dev/vda1 on / type ext4 (rw)\n/dev/vdb on /data type ext4 (rw,nobarrier)\n"
            ),
            "sos_reports/manifest.json": MANIFEST,
        },
    ],
)
def test_a_report_from_a_toolbox_shows_the_mounts_of_its_host(files: dict[str, str]) -> None:
    """Run in a toolbox, sos reads the container's mount table but the host's fstab."""
    given = sos_files() | files
    links = {} if "proc/self/mountinfo" in files else {"proc/self": "1"}
    found = recognise(archive(given, links={**SOS_LINKS, **links} if links else {}))
    assert found is not None
    host = assemble_host(found.source, found.taken_at)
    assert [(fs.device, fs.mount_points) for fs in host.filesystems] == [
        ("/dev/vda1", ("/",)),
        ("/dev/vdb", ("/data",)),
    ]
    assert (host.gaps, need(host.container)) == ((), None)
    report = audit(ReportSource(found.kind, found.label), host, all_rules())
    by_code = {v.rule.code: v for v in report.verdicts if v.filesystem_id is None}
    assert by_code["DRF006"].outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("mounted", "name", "device"),
    [
        ("/dev/mapper/vg-lv", "dm-7", "/dev/mapper/vg-lv"),
        ("/dev/vg/lv", "253:7", "/dev/block/253:7"),
    ],
)
def test_no_path_is_made_of_a_name_that_the_kernel_never_had(
    mounted: str, name: str, device: str
) -> None:
    """Only the mount table shows the device, and its options are those listed there."""
    line = f"50 25 253:7 / /more rw - ext4 {mounted} rw,nobarrier\n"
    found = sosreport({"proc/1/mountinfo": sos_files()["proc/1/mountinfo"] + line})
    host = assemble_host(found.source, found.taken_at)
    (fs,) = (fs for fs in host.filesystems if fs.mount_points == ("/more",))
    assert (fs.name, fs.device) == (name, device)
    report = audit(ReportSource(found.kind, found.label), host, all_rules())
    own = [v for v in report.verdicts if v.filesystem_id == fs.id]
    whats = [each.what for v in own for each in v.unknowns]
    shown = [f.message for v in own for f in v.findings]
    assert not [text for text in (*whats, *shown) if "/vg-lv/" in text or "/lv" in text]
    assert "DUR001" in {v.rule.code for v in own if v.outcome is not Outcome.PASS}


XFS = "25 1 253:1 / / rw - xfs /dev/vda1 rw\n26 25 0:22 / /proc rw - proc proc rw\n"


@pytest.mark.parametrize(
    ("blkid", "complete"),
    [
        ('/dev/vda1: UUID="a" TYPE="xfs"\n/dev/vdb: TYPE="LVM2_member"\n', True),
        ('/dev/vda1: UUID="a" TYPE="xfs"\n/dev/vdb: TYPE="ext4"\n', False),
        ('/dev/vdb: TYPE="xfs"\n', False),
        ("", False),
    ],
)
def test_the_types_of_all_devices_show_that_there_is_no_ext4(blkid: str, *, complete: bool) -> None:
    """Insights archives lack the kernel's lists; other namespaces mount the same devices."""
    files = {"proc/1/mountinfo": XFS, "sos_commands/block/blkid_-c_.dev.null": blkid}
    inventory = take_inventory(sosreport(files, without=("proc/fs/", "proc/filesystems")).source)
    assert (inventory.names, inventory.gaps == ()) == ({}, complete)


PIECES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(sorted(sos_files().values())).map(str.encode),
    st.sampled_from(
        [
            b"\n" * 50,
            b"9" * 400,
            b"253 16 " + b"9" * 5000 + b" vdb",
            b"8:0 8:0 8:0",
            b'"' * 99,
            b"/dev/md127:\n Raid Level : \n",
            b'{"components": {"report": {"plugins": {"x": {"commands": [{"exec": []}]}}}}}',
            b"vdb: 0 9 linear 253:16 0\n",
            b"lrwxrwxrwx 1 0 0 1 a b c x -> x\n",
        ]
    ),
)
PATHS = st.sampled_from(
    [
        *sos_files(),
        "sos_reports/manifest.json",
        "sos_commands/md/mdadm_-D_.dev.md",
        "sos_commands/block/lsblk",
        "sos_commands/block/lsblk_-O_-P",
        "sos_commands/block/losetup_-a",
        "sos_commands/block/fdisk_-l_.dev.vda",
        "sos_commands/block/udevadm_info_-a_.dev.vdb",
        "sos_commands/block/udevadm_info_.dev.vdb",
        "sos_commands/devicemapper/dmsetup_table",
        "sos_commands/devicemapper/dmsetup_info_-c",
        "sos_commands/kernel/sysctl_-a",
        "sos_commands/processor/lscpu",
        "sos_commands/systemd/timedatectl",
        "proc/mdstat",
    ]
)


@examples(150)
@given(st.dictionaries(PATHS, st.lists(PIECES, max_size=4).map(b"".join), max_size=6))
def test_no_archive_ends_the_audit_but_by_its_own_error(changed: dict[str, bytes]) -> None:
    """Whatever its files hold, each rule judges each filesystem, or the archive is rejected."""
    try:
        found = recognise(archive({**sos_files(), **changed}, links=SOS_LINKS))
    except ArchiveError as error:
        assert "several hosts" in str(error)  # noqa: PT017 - the one error that content can cause
        return
    assert found is not None
    host = assemble_host(found.source, found.taken_at)
    report = audit(ReportSource(found.kind, found.label), host, all_rules())
    per_filesystem = sum(rule.scope is Scope.FILESYSTEM for rule in all_rules())
    per_host = len(all_rules()) - per_filesystem
    assert len(report.verdicts) == per_filesystem * len(host.filesystems) + per_host
    assert Outcome.ERROR not in {verdict.outcome for verdict in report.verdicts}
    unknowns = [*report.host.gaps, *(each for v in report.verdicts for each in v.unknowns)]
    assert not [each for each in unknowns if each.hint and "capture" not in each.hint]
    assert not [each for each in unknowns if each.detail.startswith("ValueError")]


LONG = 200_000


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("proc/partitions", "253 16 " + "9" * LONG + " vdb"),
        ("proc/mounts", "9" * LONG),
        ("sos_commands/kernel/uname_-a", f"Linux db {'9' * LONG}.{'9' * LONG}.al7 #1 SMP x86_64"),
        ("sos_commands/block/lsblk_-O_-P", "A" * LONG),
        ("sos_commands/block/lsblk", "| " * LONG),
        ("sos_commands/block/lsblk", "a a 8:0 " + "brw-rw---- " * LONG),
        ("sos_commands/block/blkid_-c_.dev.null", "/dev/x: " + "A" * LONG),
        ("sos_commands/block/blkid_-c_.dev.null", '/dev/x: A="' * LONG),
        ("sos_commands/block/fdisk_-l_.dev.vda", "Units = 1 bytes\n/dev/vda1" + " " * LONG + "x"),
        ("sos_commands/block/ls_-lanR_.dev", "brw-rw---- 1 0 6 8, 0 a b c" + " " * LONG),
        ("sos_commands/block/ls_-lanR_.dev", "lrwxrwxrwx 1 0 0 1 a b c x" + " -> x" * LONG),
        ("sos_commands/block/losetup_-a", "/dev/loop0: []:1 (" + "), offset 1" * LONG),
        ("sos_commands/devicemapper/dmsetup_info_-c", "a 1 1 L 1 1 1" + " " * LONG + "a b"),
        ("sos_commands/filesys/mount_-l", " on / type x (" * LONG),
        ("sos_commands/kernel/uname_-a", "Linux " + "1.1 #" * LONG + "\nx"),
        ("sos_commands/processor/lscpu", "Architecture:" + "\n" * LONG),
        (
            "sos_commands/md/mdadm_-D_.dev.md",
            "/dev/md0:\nRaid Level : x\n 1 1 1 1" + " /dev/" * LONG,
        ),
        ("proc/mdstat", "md0 : active raid0 " + "a" * LONG + "\n"),
        ("proc/meminfo", "a:" + "\n" * LONG),
        (
            "sos_commands/filesys/df_-al",
            "Filesystem 1K-blocks x\n" + "1 " * LONG + "\n1" + " " * LONG,
        ),
        ("sos_commands/filesys/df_-al", "Filesystem Inodes" + " " * LONG + "\n" + "a\n" * LONG),
        ("proc/mounts", "/dev/vda1 /x ext4 rw 0 0\n" * 20_000),
    ],
)
def test_a_text_made_to_stall_a_pattern_does_not(path: str, text: str) -> None:
    """Each text takes quadratic time with a careless pattern, as some patterns once had.

    200,000 characters then take minutes; they must take less than a second.
    """
    listed = "\n 9 0 9 md0\n 7 0 9 loop0\n 8 0 9 vda\n 8 1 9 vda1\n"
    files = {"proc/partitions": listed, path: text}
    started = time.process_time()
    without = ("proc/1/", "sos_commands/host") if "mount" in path else ("sos_commands/host",)
    found = sosreport(files, without=without)
    assemble_host(found.source, found.taken_at)
    StackReader(found.source).read(DeviceNumber(9, 0))
    StackReader(found.source).read(DeviceNumber(7, 0))
    assert time.process_time() - started < 5
