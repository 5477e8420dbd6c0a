"""The stack of block devices below a filesystem, and the md arrays in it."""

from __future__ import annotations

from collections import Counter

import pytest

from ext4audit.assemble.devices import StackReader, read_md
from ext4audit.evidence import Known, Unknown, Why, for_wording, need
from ext4audit.facts.devices import BlockDevice, DmSegment, MdArray, MdMember, ThinPool
from ext4audit.facts.mount import DeviceNumber
from ext4audit.layout import may_stripe
from ext4audit.sources import (
    Answer,
    Ask,
    ListDir,
    ReadFile,
    ResolvePath,
    RunCommand,
    Source,
    UdevDatabase,
)
from ext4audit.sources.snapshot.writing import RecordingSource
from support.hosts.evidence_host import (
    HostEvidence,
    HostSource,
    absent,
    debian_host,
    denied,
)
from support.hosts.large_stacks import mirrors_of_mirrors

NUMBER = "9:127"
DIRECTORY = f"/sys/dev/block/{NUMBER}"


def array_host(level: str) -> HostEvidence:
    """Return a host with an array of two disks."""
    host = debian_host().disk("vdb", "254:16").disk("vdc", "254:32")
    return host.stacked("md127", NUMBER, vdb="254:16", vdc="254:32").md(
        NUMBER, ["vdb", "vdc"], level=level
    )


def array_of(host: HostEvidence) -> MdArray:
    """Return the array, which must be there."""
    found, _ = read_md(host.source(), DIRECTORY, "md127")
    assert found is not None
    return need(found)


@pytest.mark.parametrize(
    ("level", "text", "sectors"),
    [
        ("raid10", "1048576\n", 2097152),
        ("raid10", "-1\n", None),
        ("raid10", "odd\n", None),
        ("raid0", "1048576\n", None),
        ("raid5", "1048576\n", None),
    ],
)
def test_component_size_is_needed_only_for_raid10(
    level: str, text: str, sectors: int | None
) -> None:
    """The far copies of a RAID10 start after the first ones. `md/component_size` is in KiB."""
    host = array_host(level).file(f"{DIRECTORY}/md/component_size", text)
    assert array_of(host).component_sectors == sectors


def test_a_snapshot_without_component_size_still_has_the_array() -> None:
    """Older snapshots lack the file."""
    assert array_of(array_host("raid10")).component_sectors is None


def test_component_size_is_not_read_for_other_levels() -> None:
    """A snapshot holds only the files that are read."""
    recorder = RecordingSource(array_host("raid0").source())
    read_md(recorder, DIRECTORY, "md127")
    assert ReadFile(f"{DIRECTORY}/md/component_size") not in recorder.answers


@pytest.mark.parametrize("slot", ["none", "journal"])
def test_spares_and_journals_are_not_members(slot: str) -> None:
    """The write journal of a RAID5 holds no permanent data (Documentation/driver-api/md)."""
    host = array_host("raid5").md_member(NUMBER, "vdd", slot)
    assert [member.name for member in array_of(host).members] == ["vdb", "vdc"]


@pytest.mark.parametrize(
    ("files", "degraded", "action"),
    [
        ({"degraded": "0\n", "sync_action": "idle\n"}, 0, "idle"),
        ({"degraded": "1\n", "sync_action": "recover\n"}, 1, "recover"),
        ({}, None, None),
    ],
)
def test_sync_and_degraded_states_are_read_for_redundant_levels(
    files: dict[str, str], degraded: int | None, action: str | None
) -> None:
    """A RAID0 has neither file (Linux 6.18)."""
    host = array_host("raid1" if files else "raid0")
    for name, text in files.items():
        host.file(f"{DIRECTORY}/md/{name}", text)
    _, found = read_md(host.source(), DIRECTORY, "md127")
    assert found is not None
    state = need(found)
    assert (for_wording(state.degraded, None), for_wording(state.sync_action, None)) == (
        degraded,
        action,
    )


MD = DeviceNumber(9, 127)
DM = DeviceNumber(253, 1)
LOOP = DeviceNumber(7, 0)
LINEAR = "0 1024000 linear 9:127 2048\n"


def stack(host: HostEvidence, number: DeviceNumber) -> BlockDevice:
    """Return the stack of a device that must exist."""
    return need(StackReader(host.source()).read(number))


def names_below(device: BlockDevice) -> list[str]:
    """Return the names of the devices directly below."""
    return [each.name for each in need(device.below)]


def raid_host(**attributes: str) -> HostEvidence:
    """Return a host with a RAID0 of three disks."""
    host = debian_host()
    members = {"vdb": "254:16", "vdc": "254:32", "vdd": "254:48"}
    for name, number in members.items():
        host.disk(name, number)
    return host.stacked("md127", str(MD), **members).md(str(MD), list(members), **attributes)


def test_a_disk_is_the_leaf_of_its_stack() -> None:
    """A disk is known to have no slaves."""
    disk = stack(debian_host(), DeviceNumber(8, 16))
    assert (disk.kind, disk.path, disk.below) == (
        "disk",
        "/dev/sdb",
        Known((), "/sys/dev/block/8:16/slaves"),
    )
    assert (need(disk.queue.write_cache), need(disk.queue.rotational)) == ("write back", True)
    assert (need(disk.size_sectors), disk.leaves()) == (209715200, (disk,))


def test_a_partition_is_on_its_disk_and_has_its_queue() -> None:
    """A partition has no queue in sysfs; its disk is the parent directory."""
    host = debian_host().file("/sys/dev/block/8:1/../queue/write_cache", "write through\n")
    partition = stack(host, DeviceNumber(8, 1))
    assert (partition.kind, partition.start_sectors) == ("partition", 2048)
    assert names_below(partition) == ["sda"]
    assert need(partition.queue.write_cache) == "write through"
    assert partition.below == Known(partition.known_below, "/sys/dev/block/8:1/..")


@pytest.mark.parametrize("text", ["maybe\n", "", "write back; rm -rf /\n"])
def test_an_invalid_queue_value_is_the_only_unknown_of_its_queue(text: str) -> None:
    """An attribute that is not a write cache mode does not affect the rest of the queue."""
    host = debian_host().file("/sys/dev/block/8:16/queue/write_cache", text)
    queue = stack(host, DeviceNumber(8, 16)).queue
    assert isinstance(queue.write_cache, Unknown)
    assert queue.write_cache.why is Why.UNPARSABLE
    assert need(queue.nr_requests) == 256


def test_wbt_latency_is_absent_without_writeback_throttling() -> None:
    """wbt_lat_usec is absent on 4.9 and older, and without CONFIG_BLK_WBT."""
    host = debian_host().without("/sys/dev/block/8:16/queue/wbt_lat_usec")
    latency = stack(host, DeviceNumber(8, 16)).queue.wbt_latency_usec
    assert isinstance(latency, Unknown)
    assert latency.why is Why.ABSENT


@pytest.mark.parametrize(
    ("name", "path"), [("cciss!c0d0", "/dev/cciss/c0d0"), ("nvme0n1", "/dev/nvme0n1")]
)
def test_a_slash_in_a_kernel_name_is_an_exclamation_mark_in_sysfs(name: str, path: str) -> None:
    """cciss!c0d0 in sysfs is the node /dev/cciss/c0d0."""
    device = stack(debian_host().disk(name, "104:0"), DeviceNumber(104, 0))
    assert (device.name, device.path) == (name, path)


def test_the_members_of_an_md_array_are_in_slot_order() -> None:
    """The directory lists names only; the slots give the order of the chunks."""
    host = raid_host()
    for name, slot in {"vdb": "2", "vdc": "0", "vdd": "1"}.items():
        host.md_member(str(MD), name, slot)
    array = stack(host, MD)
    md = need(array.md) if array.md else None
    assert md is not None
    assert (array.kind, md.level, md.chunk_bytes, md.raid_disks) == ("raid0", "raid0", 524288, 3)
    assert md.members == (
        MdMember(0, "vdc", 131072, 209584128),
        MdMember(1, "vdd", 131072, 209584128),
        MdMember(2, "vdb", 131072, 209584128),
    )
    assert sorted(leaf.name for leaf in array.leaves()) == ["vdb", "vdc", "vdd"]


def test_a_spare_is_not_a_member_of_the_stripe() -> None:
    """A spare has the slot "none"."""
    host = raid_host(level="raid5").md_member(str(MD), "vde", "none")
    array = stack(host, MD).md
    assert isinstance(array, Known)
    assert [member.name for member in array.value.members] == ["vdb", "vdc", "vdd"]


@pytest.mark.parametrize(
    ("attributes", "chunk_bytes", "raid_disks", "layout", "reshape_position"),
    [
        ({}, 524288, 3, -1, None),
        ({"raid_disks": "6 (5)", "reshape_position": "12288"}, 524288, 6, -1, "12288"),
        ({"chunk_size": "65536 (524288)", "reshape_position": "0"}, 65536, 3, -1, "0"),
        ({"layout": "2 (-1)", "reshape_position": "0"}, 524288, 3, 2, "0"),
        ({"layout": ""}, 524288, 3, None, None),
    ],
)
def test_a_reshape_prints_the_new_value_and_the_old_one_in_parentheses(
    attributes: dict[str, str],
    chunk_bytes: int,
    raid_disks: int,
    layout: int | None,
    reshape_position: str | None,
) -> None:
    """The new value is used, and the reshape position is set."""
    array = stack(raid_host(**attributes), MD).md
    assert isinstance(array, Known)
    md = array.value
    assert (md.chunk_bytes, md.raid_disks, md.layout, md.reshape_position) == (
        chunk_bytes,
        raid_disks,
        layout,
        reshape_position,
    )


@pytest.mark.parametrize(
    "attributes", [{"chunk_size": "abc"}, {"raid_disks": ""}, {"chunk_size": "\x1b[31m"}]
)
def test_an_invalid_array_is_unknown_and_the_rest_of_the_stack_is_read(
    attributes: dict[str, str],
) -> None:
    """A bad chunk size makes the array unknown and does not end the scan."""
    array = stack(raid_host(**attributes), MD)
    assert isinstance(array.md, Unknown)
    assert array.md.why is Why.UNPARSABLE
    assert (array.kind, names_below(array)) == ("md", ["vdb", "vdc", "vdd"])
    assert need(array.queue.nr_requests) == 256


@pytest.mark.parametrize("level", ["raid0", "linear"])
def test_an_array_without_redundancy_has_all_its_members(level: str) -> None:
    """It cannot run without one, so a directory is missing in the archive."""
    array = stack(raid_host(level=level, raid_disks="4"), MD).md
    assert isinstance(array, Unknown)
    assert array.detail == "3 of its 4 members are known"


@pytest.mark.parametrize("level", ["raidf1", "raidF1", "raid1e", "null"])
def test_an_unknown_level_may_stripe(level: str) -> None:
    """Synology's RAID F1 has chunks, like RAID5."""
    array = stack(raid_host(level=level), MD)
    assert isinstance(array.md, Unknown)
    assert may_stripe(array)


def test_an_array_with_members_has_a_level() -> None:
    """An empty `level` means an inactive array, which has no members."""
    array = stack(raid_host(level=""), MD)
    assert isinstance(array.md, Unknown)
    assert isinstance(array.md_state, Unknown)
    assert isinstance(stack(raid_host(level="", raid_disks="0"), MD).md_state, Known)


@pytest.mark.parametrize("attribute", ["slot", "offset", "size"])
def test_a_member_that_cannot_be_read_is_unknown_in_the_array(attribute: str) -> None:
    """With fewer members the stripe would be another one."""
    host = raid_host().without(f"/sys/dev/block/{MD}/md/dev-vdc/{attribute}")
    assert isinstance(stack(host, MD).md, Unknown)


@pytest.mark.parametrize(
    ("uuid", "table", "kind"),
    [
        ("LVM-abc", LINEAR, "dm-linear"),
        ("LVM-abc", "0 8 linear 8:0 0\n8 8 linear 8:16 0\n", "dm-linear"),
        ("LVM-abc", "0 8 linear 8:0 0\n8 8 striped 2 128 8:0 0 8:16 0\n", "dm"),
        ("LVM-abc", "0 73728 striped 3 128 8:9 384 8:8 384 8:7 9789824\n", "dm-striped"),
        ("CRYPT-LUKS2-1", "0 8 crypt aes-xts-plain64 :64:logon:k 0 8:3 32768\n", "dm-crypt"),
        # Without root the table is not readable, but the UUID shows LUKS.
        ("CRYPT-LUKS2-1", denied(), "dm-crypt"),
        ("LVM-abc", denied(), "dm"),
        ("", absent(), "dm"),
        ("LVM-abc", "garbage\n", "dm"),
        ("LVM-abc", "", "dm"),
    ],
)
def test_a_dm_device_is_named_by_its_target(uuid: str, table: str | Unknown, kind: str) -> None:
    """The kind is "dm" if the table has several kinds of targets or cannot be read."""
    host = raid_host().stacked("dm-1", str(DM), md127=str(MD)).dm(str(DM), "vg0-data", uuid, table)
    device = stack(host, DM)
    assert (device.kind, device.path) == (kind, "/dev/mapper/vg0-data")
    assert names_below(device) == ["md127"]
    assert len(device.leaves()) == 3


def test_the_table_of_a_dm_device_is_read_or_unknown() -> None:
    """A table that only root can read is Unknown with a hint, not empty."""
    host = raid_host().stacked("dm-1", str(DM), md127=str(MD))
    seen = stack(host.dm(str(DM), "vg0-data", "LVM-abc", LINEAR), DM).dm
    assert seen is not None
    assert need(seen.table) == (DmSegment(0, 1024000, "linear", ("9:127", "2048")),)
    unseen = stack(host.as_user(), DM).dm
    assert unseen is not None
    assert unseen.table == Unknown(
        "dmsetup table -j 253 -m 1", Why.DENIED, "Permission denied", "run as root"
    )


@pytest.mark.parametrize("name", ["-rf", "a b", "\udcff", "new\nline", "$(id)", "[/red]"])
def test_a_dm_name_with_a_leading_dash_is_not_an_option(name: str) -> None:
    """The table is read by number, so dmsetup does not take a leading dash for an option."""
    host = raid_host().stacked("dm-1", str(DM), md127=str(MD)).dm(str(DM), name, "", LINEAR)
    device = stack(host, DM)
    assert device.dm is not None
    assert (device.dm.name, device.path) == (name, f"/dev/mapper/{name}")
    assert device.kind == "dm-linear"


def test_a_slave_that_vanished_makes_the_devices_below_unknown() -> None:
    """A stack without one of its devices must not look complete."""
    host = raid_host().without("/sys/dev/block/254:32")
    below = stack(host, MD).below
    assert isinstance(below, Unknown)
    assert (below.what, below.why) == ("block device 254:32", Why.ABSENT)


def test_a_loop_device_is_on_the_device_that_holds_its_file() -> None:
    """The stack continues below the file, down to the disk."""
    host = debian_host().loop("loop0", str(LOOP), "/var/disk.img")
    host.path("/var/disk.img", "8:1", 25, "file")
    device = stack(host, LOOP)
    assert device.loop is not None
    assert (device.kind, device.loop.backing_file) == ("loop", "/var/disk.img")
    assert need(device.loop.backing_device_number) == DeviceNumber(8, 1)
    assert device.loop.offset_bytes == 0
    assert [each.name for each in device.walk()] == ["loop0", "sda1", "sda"]
    assert isinstance(device.below, Known)
    assert device.below.origin == "/sys/dev/block/7:0/loop/backing_file"


@pytest.mark.parametrize(
    ("text", "offset_bytes"),
    [("1048576\n", 1 << 20), (absent(), 0), (Unknown("offset", Why.DENIED), None)],
)
def test_a_loop_device_begins_at_its_offset(text: str | Unknown, offset_bytes: int | None) -> None:
    """A loop device without an offset begins at the start of the file."""
    host = debian_host().loop("loop0", str(LOOP), "/var/disk.img")
    device = stack(host.file(f"/sys/dev/block/{LOOP}/loop/offset", text), LOOP)
    assert device.loop is not None
    assert device.loop.offset_bytes == offset_bytes


def test_a_loop_file_on_tmpfs_is_on_no_device() -> None:
    """Major 0 is not a block device."""
    host = debian_host().loop("loop0", str(LOOP), "/tmp/disk.img")  # noqa: S108 - a name
    host.path("/tmp/disk.img", "0:40", 33, "file")  # noqa: S108 - a name
    device = stack(host, LOOP)
    assert (names_below(device), device.leaves()) == ([], (device,))


def test_a_deleted_loop_file_makes_the_devices_below_unknown() -> None:
    """The loop device still serves a deleted file, but its filesystem is unknown."""
    host = debian_host().loop("loop0", str(LOOP), "/var/disk.img (deleted)")
    device = stack(host, LOOP)
    assert isinstance(device.below, Unknown)
    assert device.loop is not None
    assert device.loop.backing_file == "/var/disk.img (deleted)"
    assert device.loop.backing_device_number == device.below


def test_a_loop_device_on_its_own_file_does_not_recurse() -> None:
    """`losetup` of a file mounted over the file's own directory must not recurse endlessly."""
    host = debian_host().loop("loop0", str(LOOP), "/mnt/disk.img")
    host.path("/mnt/disk.img", str(LOOP), 50, "file")
    device = stack(host, LOOP)
    assert names_below(device) == []


def test_two_loop_devices_on_each_other_do_not_recurse() -> None:
    """A ring of two devices is cut at the repetition."""
    host = debian_host().loop("loop0", "7:0", "/a/disk.img").loop("loop1", "7:1", "/b/disk.img")
    host.path("/a/disk.img", "7:1", 50, "file").path("/b/disk.img", "7:0", 51, "file")
    device = stack(host, LOOP)
    assert [each.name for each in device.walk()] == ["loop0", "loop1"]


@pytest.mark.parametrize(
    ("gap", "hint"),
    [
        (absent(), "mount /sys"),
        (denied(), "run as root"),
    ],
)
def test_without_sysfs_the_stack_is_unknown_with_a_hint(gap: Unknown, hint: str) -> None:
    """A container without /sys sees no devices; the hint names where they are visible."""
    host = debian_host().without("/sys").file("/sys/dev/block/8:16/uevent", gap)
    found = StackReader(host.source()).read(DeviceNumber(8, 16))
    assert found == Unknown("block device 8:16", gap.why, gap.detail, hint)


@pytest.mark.parametrize(
    "text", ["garbage\n", "", "MAJOR=8\nMINOR=16\n", "MAJOR=8\nMINOR=16\nDEVNAME=sdb\n"]
)
def test_an_incomplete_uevent_is_unknown(text: str) -> None:
    """Without a name it names no device, and without its last line it may be a partition."""
    host = debian_host().file("/sys/dev/block/8:16/uevent", text)
    found = StackReader(host.source()).read(DeviceNumber(8, 16))
    assert isinstance(found, Unknown)
    assert found.why is Why.UNPARSABLE


def test_an_unlistable_slaves_directory_makes_the_devices_below_unknown() -> None:
    """Members that cannot be listed are not absent."""
    host = debian_host().answer(ListDir("/sys/dev/block/8:16/slaves"), denied("slaves"))
    assert stack(host, DeviceNumber(8, 16)).below == denied("slaves")


@pytest.mark.parametrize("is_array", [True, False])
def test_an_array_or_volume_without_slaves_has_unknown_components(*, is_array: bool) -> None:
    """An archive without symbolic links has an empty directory of slaves."""
    host = debian_host().stacked("md0", "9:0", sdb="8:16").md("9:0", ["sdb"])
    if not is_array:
        host = debian_host().stacked("dm-0", "253:0", sdb="8:16").dm("253:0", "a", "LVM-a", LINEAR)
    number = DeviceNumber(9, 0) if is_array else DeviceNumber(253, 0)
    assert isinstance(stack(host, number).below, Known)
    below = stack(host.answer(ListDir(f"/sys/dev/block/{number}/slaves"), ""), number).below
    assert isinstance(below, Unknown)
    assert below.why is Why.UNPARSABLE


def test_udev_properties_are_sorted_or_empty() -> None:
    """Its properties are sorted, or empty if they are unknown."""
    host = debian_host()
    assert stack(host, DeviceNumber(8, 16)).udev == ()
    host.answer(UdevDatabase("8:16"), "ID_SERIAL=x\nDEVLINKS=/dev/disk/by-id/x\n")
    host.file("/sys/dev/block/8:16/device/model", "QEMU HARDDISK   \n")
    disk = stack(host, DeviceNumber(8, 16))
    assert disk.udev == (("DEVLINKS", "/dev/disk/by-id/x"), ("ID_SERIAL", "x"))
    assert disk.model == "QEMU HARDDISK"


def test_a_denied_udev_record_is_unknown_and_not_empty() -> None:
    """Without udev there is no record, but an unread one may exist."""
    host = debian_host()
    assert stack(host, DeviceNumber(8, 16)).udev_gap is None
    host.answer(UdevDatabase("8:16"), denied("udev database of 8:16"))
    assert stack(host, DeviceNumber(8, 16)).udev_gap == denied("udev database of 8:16")


def test_the_scheduler_and_the_timeout_of_a_queue_are_read() -> None:
    """Kernels before 5.0 have no io_timeout."""
    queue = stack(debian_host(), DeviceNumber(8, 16)).queue
    gap = queue.io_timeout_msec
    assert isinstance(gap, Unknown)
    assert gap.why is Why.ABSENT
    host = debian_host()
    host.file("/sys/dev/block/8:16/queue/scheduler", "[none] mq-deadline\n")
    host.file("/sys/dev/block/8:16/queue/io_timeout", "30000\n")
    queue = stack(host, DeviceNumber(8, 16)).queue
    assert (need(queue.scheduler), need(queue.io_timeout_msec)) == ("none", 30000)


def test_the_state_of_a_thin_pool_is_read_without_a_commit() -> None:
    """Only pools are read; the state is unknown if dmsetup fails."""
    host = raid_host().stacked("dm-1", str(DM), md127=str(MD))
    plain = stack(host.dm(str(DM), "vg0-data", "LVM-abc", LINEAR), DM).dm
    assert plain is not None
    assert plain.pool is None
    host.dm(str(DM), "vg0-pool-tpool", "LVM-abc-tpool", "0 1024000 thin-pool 9:1 9:2 128 0\n")
    pool = stack(host, DM).dm
    assert pool is not None
    assert isinstance(pool.pool, Unknown)
    status = RunCommand(("dmsetup", "status", "--noflush", "-j", "253", "-m", "1"))
    host.answer(
        status, "0 1024000 thin-pool 1 1/8 2/9 - rw no_discard_passdown queue_if_no_space - 4"
    )
    pool = stack(host, DM).dm
    assert pool is not None
    assert pool.pool is not None
    assert need(pool.pool) == ThinPool("rw", 2, 9, 1, 8, queues=True, needs_check=False)


def test_a_loop_file_is_found_by_its_whole_name() -> None:
    """Only the last newline is added by sysfs; a trailing blank belongs to the name."""
    host = debian_host().loop("loop0", str(LOOP), "/var/disk.img ")
    host.answer(ResolvePath("/var/disk.img "), "mount_id=25\ndevice_number=8:1\ntype=file\n")
    assert names_below(stack(host, LOOP)) == ["sda1"]


@pytest.mark.parametrize("gap", [denied(), absent()], ids=["denied", "absent"])
def test_an_unknown_partition_start_has_the_reason_of_the_host(gap: Unknown) -> None:
    """Rules that need it show the host's reason."""
    host = debian_host().answer(ReadFile("/sys/dev/block/8:1/start"), gap)
    partition = stack(host, DeviceNumber(8, 1))
    assert (partition.start_sectors, partition.start_gap) == (None, gap)
    assert stack(debian_host(), DeviceNumber(8, 1)).start_gap is None


def test_each_device_is_read_once() -> None:
    """Hundreds of volumes can share one array, and two paths can lead to one device."""
    source = Counting(mirrors_of_mirrors(40))
    stack = need(StackReader(source).read(DeviceNumber(9, 78)))
    assert len(list(stack.walk())) == 1 + 39 * 2 + 2
    assert max(source.uevents.values()) == 1


def test_devices_in_a_cycle_are_read_once() -> None:
    """An archive can contain cycles: following every order of fourteen devices would take years."""
    host, numbers = debian_host(), {f"dm-{minor}": f"254:{minor}" for minor in range(14)}
    for name, number in numbers.items():
        host.stacked(name, number, **{k: v for k, v in numbers.items() if k != name})
    source = Counting(host.source())
    stack = need(StackReader(source).read(DeviceNumber(254, 0)))
    assert {each.name for each in stack.walk()} == numbers.keys()
    assert max(source.uevents.values()) == 1


class Counting(Source):
    """A host source that counts how often each device is read."""

    def __init__(self, host: HostSource) -> None:
        """Store the host; nothing is read yet."""
        self.host = host
        self.uevents = Counter[str]()

    def answer(self, ask: Ask) -> Answer:
        """Return the host's answer, counting each uevent."""
        if isinstance(ask, ReadFile) and ask.path.endswith("/uevent"):
            self.uevents[ask.path] += 1
        return self.host.fetch(ask)


def test_a_cycle_of_loop_devices_is_read_from_either_end() -> None:
    """A stack that was cut at a repeated device is not cached as the whole stack."""
    host = debian_host().loop("loop0", "7:0", "/mnt/a").loop("loop1", "7:1", "/mnt/b")
    host.path("/mnt/a", "7:1", 1, "file").path("/mnt/b", "7:0", 1, "file")
    reader = StackReader(host.source())
    for number, below in ((0, 1), (1, 0), (0, 1)):
        names = [device.name for device in need(reader.read(DeviceNumber(7, number))).walk()]
        assert names == [f"loop{number}", f"loop{below}"]
