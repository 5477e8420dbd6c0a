"""Hosts assembled from other programs' archives: what they lack must not read as fine."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ext4audit.assemble.devices.stack import StackReader
from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.inventory import take_inventory
from ext4audit.engine import audit
from ext4audit.evidence import Known, Unknown, Why, need
from ext4audit.facts.mount import DeviceNumber
from ext4audit.report import Outcome, Source
from ext4audit.rule import Scope
from ext4audit.rules import all_rules
from ext4audit.sources.archive import recognise
from ext4audit.sources.containers.tree import ArchiveError
from support.archives.contents import SOS_LINKS, archive, sos_files, sosreport

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
    """As the live host would have them."""
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
    """No archive of sos 4.0 holds `md/` of sysfs."""
    stack = need(StackReader(sosreport(MD_FILES).source, Known((), "")).read(MD))
    assert stack.kind == "raid0"
    assert [device.name for device in stack.known_below] == ["sdb", "sdc"]
    assert stack.md is not None
    md = need(stack.md)
    assert (md.chunk_bytes, md.raid_disks, md.layout) == (524288, 2, 1)
    assert [(each.slot, each.name, each.data_offset_sectors) for each in md.members] == [
        (0, "sdb", 18432),
        (1, "sdc", 18432),
    ]


def test_an_array_is_read_from_sysfs_where_that_was_copied() -> None:
    """For sos copies /sys/block/md*/md, and mdadm may have failed."""
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
    stack = need(StackReader(sosreport(files).source, Known((), "")).read(MD))
    assert stack.kind == "raid0"
    assert [device.name for device in stack.known_below] == ["sdb", "sdc"]
    assert stack.md is not None
    assert [member.name for member in need(stack.md).members] == ["sdc", "sdb"]


@pytest.mark.parametrize(
    "without", [("sos_commands/md/mdadm_-D",), ("sos_commands/md/mdadm_-E", "proc/mdstat")]
)
def test_an_array_of_which_too_little_is_told_is_unknown(without: tuple[str, ...]) -> None:
    """Neither a plain disk nor an array with invented offsets."""
    stack = StackReader(sosreport(MD_FILES, without=without).source, Known((), "")).read(MD)
    gap = stack if isinstance(stack, Unknown) else stack.value.md
    assert isinstance(gap, Unknown)
    assert gap.why is Why.NOT_CAPTURED


def test_an_archive_without_the_kernels_lists_says_how_to_capture_them() -> None:
    """What other namespaces hold is then not known, and that is no fault of the host."""
    inventory = take_inventory(sosreport(without=("proc/fs/",)).source)
    assert inventory.gaps == (
        Unknown(
            "ext4 superblocks of other mount namespaces",
            Why.NOT_CAPTURED,
            "neither /proc/fs/ext4 nor /sys/fs/ext4 can be listed",
            "capture again with: sos report -e filesys, or ext4audit collect",
        ),
    )


def test_the_options_file_is_evidence_without_a_superblock() -> None:
    """Every sosreport since 2018 has it, whether or not dumpe2fs could run."""
    found = sosreport(without=("sos_commands/filesys/",))
    host = assemble_host(found.source, found.taken_at)
    assert [isinstance(fs.superblock, Known) for fs in host.filesystems] == [False, False]
    tokens = [need(need(fs.options).token("barrier")) for fs in host.filesystems]
    assert tokens == ["barrier", "nobarrier"]


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


@settings(max_examples=150)
@given(st.dictionaries(PATHS, st.lists(PIECES, max_size=4).map(b"".join), max_size=6))
def test_no_archive_ends_the_audit_but_by_its_own_error(changed: dict[str, bytes]) -> None:
    """Whatever its files hold, each rule gives a verdict for each filesystem, or it is refused."""
    try:
        found = recognise(archive({**sos_files(), **changed}, links=SOS_LINKS))
    except ArchiveError as error:
        assert "several hosts" in str(error)  # noqa: PT017 - the one error that content can cause
        return
    assert found is not None
    host = assemble_host(found.source, found.taken_at)
    report = audit(Source(found.kind, found.label), host, all_rules())
    per_filesystem = sum(rule.scope is Scope.FILESYSTEM for rule in all_rules())
    per_host = len(all_rules()) - per_filesystem
    assert len(report.verdicts) == per_filesystem * len(host.filesystems) + per_host
    assert Outcome.ERROR not in {verdict.outcome for verdict in report.verdicts}


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
        ("proc/mounts", "/dev/vda1 /x ext4 rw 0 0\n" * 20_000),
    ],
)
def test_a_text_made_to_stall_a_pattern_does_not(path: str, text: str) -> None:
    """Each was quadratic in its length at first, or would be with a careless pattern.

    200,000 characters take minutes then, and less than a second now.
    """
    listed = "\n 9 0 9 md0\n 7 0 9 loop0\n 8 0 9 vda\n 8 1 9 vda1\n"
    files = {"proc/partitions": listed, path: text}
    started = time.process_time()
    without = ("proc/1/", "sos_commands/host") if "mount" in path else ("sos_commands/host",)
    found = sosreport(files, without=without)
    assemble_host(found.source, found.taken_at)
    StackReader(found.source, Known((), "")).read(DeviceNumber(9, 0))
    StackReader(found.source, Known((), "")).read(DeviceNumber(7, 0))
    assert time.process_time() - started < 5
