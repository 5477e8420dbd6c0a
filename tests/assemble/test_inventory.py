"""Which mounts are hidden by others."""

from __future__ import annotations

import pytest

from ext4audit.assemble.host import OUT_OF_SCOPE, assemble_host
from ext4audit.assemble.inventory import (
    OtherMountTables,
    mark_overmounted,
    read_unmounted,
    take_inventory,
)
from ext4audit.evidence import Evidence, Known, Unknown, Why, need
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import DeviceNumber, Mount
from ext4audit.sources import ListDir, ReadFile
from ext4audit.sources.snapshot.writing import RecordingSource
from support.builders import known, lsblk_row, mount
from support.hosts.evidence_host import (
    LSBLK_JSON,
    LSBLK_PAIRS,
    HostEvidence,
    absent,
    debian_host,
    denied,
    dumpe2fs_text,
    failed,
)


def line(mount_id: int, parent_id: int, mount_point: str) -> Mount:
    """Build a line of mountinfo by its place in the tree."""
    return mount(mount_point, mount_id=mount_id)._replace(parent_id=parent_id)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([line(1, 0, "/"), line(2, 1, "/m")], []),
        ([line(1, 0, "/"), line(2, 1, "/m"), line(3, 2, "/m")], [2]),
        ([line(1, 0, "/"), line(2, 1, "/m"), line(3, 2, "/m/below")], []),
        ([line(1, 0, "/"), line(2, 1, "/m/p/q"), line(3, 1, "/m/p")], [2]),
        ([line(1, 0, "/"), line(2, 1, "/m"), line(3, 2, "/m/a"), line(4, 2, "/m")], [2, 3]),
        ([line(1, 0, "/"), line(2, 1, "/mm"), line(3, 1, "/m")], []),
        ([line(1, 1, "/")], []),
    ],
)
def test_a_mount_that_another_hides_is_overmounted(lines: list[Mount], expected: list[int]) -> None:
    """A mount on the same directory, or above it in the same parent, hides what is below."""
    assert [
        each.mount_id for each in mark_overmounted(tuple(lines)) if each.overmounted
    ] == expected


HINT = "mount /proc and /sys"
SDA1, SDB, SDC = DeviceNumber(8, 1), DeviceNumber(8, 16), DeviceNumber(8, 32)


def inventory_names(host: HostEvidence) -> dict[DeviceNumber, str]:
    """Return the live superblocks of a host that must have no gap."""
    inventory = take_inventory(host.source())
    assert inventory.gaps == ()
    return inventory.names


def without_ext4(host: HostEvidence) -> HostEvidence:
    """Take away both of the kernel's own lists, as a mask over /proc and /sys does."""
    return host.without("/proc/fs/ext4").without("/sys/fs/ext4")


def test_every_live_superblock_is_listed_once() -> None:
    """Three places show each of the two, and "features" is no device."""
    assert inventory_names(debian_host()) == {SDA1: "sda1", SDB: "sdb"}


def test_several_mounts_are_one_superblock() -> None:
    """A bind mount and a second mount add nothing."""
    host = debian_host().mount(40, "8:16", "/srv", "/dev/sdb", root="/sub", flags="ro,relatime")
    host.mount(41, "8:16", "/again", "/dev/sdb")
    assert inventory_names(host) == {SDA1: "sda1", SDB: "sdb"}


@pytest.mark.parametrize("place", ["/proc/fs/ext4", "/sys/fs/ext4"])
def test_one_of_the_kernels_lists_is_enough(place: str) -> None:
    """A mask over one of them hides nothing."""
    assert inventory_names(debian_host().without(place)) == {SDA1: "sda1", SDB: "sdb"}


@pytest.mark.parametrize("file", ["/proc/fs/ext4/sdc/options", "/sys/fs/ext4/sdc/errors_count"])
def test_a_superblock_that_no_mount_shows_is_alive_elsewhere(file: str) -> None:
    """Held by another mount namespace, it has no line in our mount table."""
    host = debian_host().disk("sdc", "8:32").file(file, "rw\n")
    assert inventory_names(host) == {SDA1: "sda1", SDB: "sdb", SDC: "sdc"}


@pytest.mark.parametrize("fstype", ["ext2", "ext3", "ext4"])
def test_a_mount_is_enough(fstype: str) -> None:
    """What only the mount table shows is listed all the same, under the kernel's name."""
    host = debian_host().disk("sdc", "8:32").mount(40, "8:32", "/c", "/dev/sdc", fstype=fstype)
    assert inventory_names(host)[SDC] == "sdc"


@pytest.mark.parametrize("fstype", ["xfs", "btrfs", "fuse.ext4", "ext4dev"])
def test_other_filesystems_are_not_listed(fstype: str) -> None:
    """Only what the ext4 driver serves is."""
    host = debian_host().disk("sdc", "8:32").mount(40, "8:32", "/c", "/dev/sdc", fstype=fstype)
    assert SDC not in inventory_names(host)


@pytest.mark.parametrize(
    ("source", "name"),
    [("/dev/root", "sdc"), ("/dev/mapper/vg0-c", "sdc"), ("none", "sdc"), ("", "sdc")],
)
def test_the_name_is_the_kernels_and_not_the_mount_source(source: str, name: str) -> None:
    """The source may be /dev/root or a name that no longer exists; sysfs has the name."""
    host = debian_host().disk("sdc", "8:32").mount(40, "8:32", "/c", source)
    assert inventory_names(host)[SDC] == name


@pytest.mark.parametrize(
    ("mounted", "name"),
    [
        ("/dev/mapper/vg-lv", "dm-7"),
        ("/dev/sdq1", "sdq1"),
        ("/dev/root", "253:7"),
        ("/dev/vg/lv", "253:7"),
        ("/dev/disk/by-uuid/5c1e9a7c", "253:7"),
        ("none", "253:7"),
        ("", "253:7"),
    ],
)
def test_a_name_is_made_of_a_node_only(mounted: str, name: str) -> None:
    """The last part of any other source is the name of no file of the kernel's."""
    host = debian_host().mount(40, "253:7", "/c", mounted)
    assert take_inventory(host.source()).names[DeviceNumber(253, 7)] == name


def test_without_sysfs_the_mount_source_must_do() -> None:
    """In a container without /sys; a mapped device is called by its minor number."""
    host = without_ext4(debian_host()).without("/sys").file("/proc/fs/ext4/dm-1/options", "rw\n")
    host.mount(40, "253:1", "/c", "/dev/mapper/vg0-c")
    assert take_inventory(host.source()).names == {
        SDA1: "sda1",
        SDB: "sdb",
        DeviceNumber(253, 1): "dm-1",
    }


@pytest.mark.parametrize(
    ("name", "source"), [("sdc", "/dev/sdc"), ("cciss!c0d0p1", "/dev/cciss/c0d0p1")]
)
def test_without_sysfs_a_mount_of_the_same_name_gives_the_number(name: str, source: str) -> None:
    """A device that was pulled out while mounted has no sysfs directory any more."""
    host = debian_host().file(f"/proc/fs/ext4/{name}/options", "rw\n")
    host.mount(40, "104:1", "/c", source)
    assert inventory_names(host)[DeviceNumber(104, 1)] == name


def test_sysfs_is_believed_before_a_mount_source() -> None:
    """A container's /dev/sdc can be the node of another device: the source is what was typed."""
    host = debian_host().disk("sdc", "8:32").options("sdc").disk("sdd", "8:48").options("sdd")
    host.mount(40, "8:48", "/d", "/dev/sdc")
    names = inventory_names(host)
    assert (names[SDC], names[DeviceNumber(8, 48)]) == ("sdc", "sdd")


def test_a_name_without_a_number_is_a_gap() -> None:
    """The kernel lists a live superblock whose device is unknown."""
    inventory = take_inventory(debian_host().file("/proc/fs/ext4/sdx/options", "rw\n").source())
    assert inventory.names == {SDA1: "sda1", SDB: "sdb"}
    assert inventory.gaps == (
        Unknown("ext4 superblock on sdx", Why.ABSENT, "No such file or directory", HINT),
    )


@pytest.mark.parametrize("filesystems", ["nodev\tproc\n\text4\n", None])
def test_a_view_without_the_kernels_lists_has_a_gap(filesystems: str | None) -> None:
    """With both masked, superblocks of other mount namespaces cannot be seen."""
    host = without_ext4(debian_host())
    host.without("/proc/filesystems")
    if filesystems is not None:
        host.file("/proc/filesystems", filesystems)
    inventory = take_inventory(host.source())
    assert inventory.names == {SDA1: "sda1", SDB: "sdb"}
    assert inventory.gaps == (
        Unknown(
            "ext4 superblocks of other mount namespaces",
            Why.ABSENT,
            "neither /proc/fs/ext4 nor /sys/fs/ext4 can be listed",
            HINT,
        ),
    )


def test_lists_that_may_not_be_read_are_a_gap_too() -> None:
    """A refusal is no empty list."""
    host = without_ext4(debian_host())
    host.answer(ListDir("/proc/fs/ext4"), denied()).answer(ListDir("/sys/fs/ext4"), denied())
    assert len(take_inventory(host.source()).gaps) == 1


@pytest.mark.parametrize("gap", [denied("/proc/self/mountinfo"), absent("/proc/self/mountinfo")])
def test_an_unreadable_mount_table_is_a_gap_and_the_kernels_lists_still_count(
    gap: Unknown,
) -> None:
    """No mount table never means "nothing is mounted"."""
    inventory = take_inventory(debian_host().file("/proc/self/mountinfo", gap).source())
    assert inventory.gaps == (gap,)
    assert inventory.mounts == gap
    assert inventory.names == {SDA1: "sda1", SDB: "sdb"}


@pytest.mark.parametrize("text", ["", "garbage\n"])
def test_an_odd_mount_table_is_a_gap(text: str) -> None:
    """An empty table is refused: there is always something mounted."""
    inventory = take_inventory(debian_host().file("/proc/self/mountinfo", text).source())
    (gap,) = inventory.gaps
    assert (gap.what, gap.why) == ("/proc/self/mountinfo", Why.UNPARSABLE)


@pytest.mark.parametrize(
    ("line", "why", "detail"),
    [
        ("99 1 8:99 / /lost", Why.UNPARSABLE, "not a mount: '99 1 8:99 / /lost'"),
        (
            "99 1 ?:? / /lost rw - ext4 /dev/x rw",
            Why.NOT_CAPTURED,
            "the device number of /dev/x, mounted on /lost, is not in the archive",
        ),
    ],
)
def test_a_line_that_cannot_be_read_is_a_gap_and_costs_no_filesystem(
    line: str, why: Why, detail: str
) -> None:
    """What the other lines show is audited; that something is not mounted is not known."""
    host = debian_host()
    table = host.source().fetch(ReadFile("/proc/self/mountinfo"))
    assert isinstance(table, Known)
    host.file("/proc/self/mountinfo", f"{line}\n{table.value}")
    inventory = take_inventory(host.source())
    (gap,) = inventory.gaps
    assert (gap.what, gap.why) == ("line 1 of the mount table", why)
    assert gap.detail.endswith(detail)
    assert inventory.mounts == gap
    assert {mount.device_number for mount in inventory.visible} >= {SDA1, SDB}
    assert inventory.names == {SDA1: "sda1", SDB: "sdb"}


def test_the_first_line_that_cannot_be_read_stands_for_all() -> None:
    """Each is a gap of its own; what is mounted where is not known because of the first."""
    host = debian_host()
    table = host.source().fetch(ReadFile("/proc/self/mountinfo"))
    assert isinstance(table, Known)
    host.file("/proc/self/mountinfo", f"one\ntwo\n{table.value}three\n")
    inventory = take_inventory(host.source())
    assert len(inventory.gaps) == 3
    assert inventory.mounts == inventory.gaps[0]


@pytest.mark.parametrize("listed", [True, False])
def test_a_host_without_ext4_is_empty_and_has_no_gap(*, listed: bool) -> None:
    """No driver, no lists, no mounts: that is complete knowledge."""
    host = debian_host().unmount(25, 30)
    if listed:
        host.without("/proc/fs/ext4/sda1").without("/proc/fs/ext4/sdb")
        host.without("/sys/fs/ext4/sda1").without("/sys/fs/ext4/sdb")
    else:
        without_ext4(host).file("/proc/filesystems", "nodev\tproc\n\txfs\n")
    inventory = take_inventory(host.source())
    assert (inventory.names, inventory.gaps) == ({}, ())
    assert isinstance(inventory.mounts, Known)


TAKEN_AT = "2026-01-02T03:04:05Z"
SPARE_UUID = "33333333-aaaa-4bbb-8ccc-000000000003"
TIMED_OUT = Unknown("dumpe2fs -h /dev/sdc", Why.TIMED_OUT, "no answer within 20 s")


def with_spare(fstype: str = "ext4") -> HostEvidence:
    """Return a host with a disk /dev/sdc that is mounted nowhere."""
    host = debian_host().disk("sdc", "8:32")
    host.listed("sdc", "8:32", fstype=fstype, uuid=SPARE_UUID)
    return host.dumpe2fs("/dev/sdc", dumpe2fs_text(SPARE_UUID))


def unmounted_of(host: HostEvidence) -> Evidence[tuple[Filesystem, ...]]:
    """Return the unmounted filesystems of a host."""
    return assemble_host(host.source(), TAKEN_AT).unmounted


def names(host: HostEvidence) -> list[str]:
    """Return the names of the devices of the unmounted filesystems."""
    return [fs.name for fs in need(unmounted_of(host))]


@pytest.mark.parametrize(
    ("fstype", "expected"), [("ext4", ["sdc"]), ("ext2", ["sdc"]), ("xfs", []), ("swap", [])]
)
def test_what_is_mounted_nowhere_is_idle(fstype: str, expected: list[str]) -> None:
    """They are found by the type of lsblk, without live filesystems and other types."""
    assert names(with_spare(fstype)) == expected


def test_an_idle_filesystem_has_its_superblock_and_its_fstab_entries() -> None:
    """Nothing of a mount is known of it, and its block groups are not read."""
    host = with_spare().file("/etc/fstab", f"UUID={SPARE_UUID} /spare ext4 noauto 0 2\n")
    (fs,) = need(unmounted_of(host))
    assert (fs.alive, fs.uuid, fs.device) == (False, SPARE_UUID, "/dev/sdc")
    assert [entry.line.mount_point for entry in need(fs.fstab)] == ["/spare"]
    assert isinstance(fs.layout, Unknown)


def test_what_other_devices_are_made_of_is_no_filesystem() -> None:
    """A mirror whose metadata stand at the end shows its content on each member."""
    holders = ListDir("/sys/dev/block/8:32/holders")
    assert names(with_spare().answer(holders, "md127")) == []


def test_what_a_part_of_a_member_shows_is_no_filesystem() -> None:
    """The partitions of a multipath device, or of a mirror of whole disks, show on each disk."""
    host = with_spare().unlisted("sdc").partition("sdc1", "8:33", "8:32")
    host.listed("sdc1", "8:33", fstype="ext4").dumpe2fs("/dev/sdc1", dumpe2fs_text(SPARE_UUID))
    of_disk = ListDir("/sys/dev/block/8:33/../holders")
    assert names(host) == ["sdc1"]
    assert names(host.answer(of_disk, "")) == ["sdc1"]
    assert names(host.answer(of_disk, "dm-0")) == []
    assert names(host.answer(of_disk, "}odd")) == ["sdc1"]


def test_holders_with_names_of_no_device_are_unknown() -> None:
    """What holds a device is no filesystem's excuse unless it is a device."""
    found = unmounted_of(with_spare().answer(ListDir("/sys/dev/block/8:32/holders"), "}odd"))
    assert isinstance(found, Unknown)
    assert found.why is Why.UNPARSABLE


@pytest.mark.parametrize(("offset", "expected"), [("0", ["loop0"]), ("512", ["loop0", "sdc"])])
def test_what_a_loop_device_shows_is_one_filesystem(offset: str, expected: list[str]) -> None:
    """The kernel names no holder of a block device below a loop device."""
    host = with_spare().loop("loop0", "7:0", "/dev/sdc")
    host.file("/sys/dev/block/7:0/loop/offset", f"{offset}\n")
    host.listed("loop0", "7:0", fstype="ext4", uuid=SPARE_UUID)
    host.dumpe2fs("/dev/loop0", dumpe2fs_text(SPARE_UUID)).answer(
        ListDir("/sys/dev/block/7:0/holders"), ""
    )
    assert names(host) == expected


def test_a_disk_with_partitions_is_no_filesystem() -> None:
    """A label of old stays behind where a table was written over it."""
    assert names(with_spare().partition("sdc1", "8:33", "8:32")) == []
    nvme = debian_host().disk("nvme0n1", "259:0").partition("nvme0n1p1", "259:1", "259:0")
    for name, number in (("nvme0n1", "259:0"), ("nvme0n1p1", "259:1")):
        nvme.listed(name, number, fstype="ext4")
        nvme.dumpe2fs(f"/dev/{name}", dumpe2fs_text())
    assert names(nvme) == ["nvme0n1p1"]


def test_sdab_is_no_partition_of_sda() -> None:
    """Only digits behind the name of a disk make a partition."""
    host = debian_host().disk("sdcd", "65:32").disk("sdc", "8:32")
    host.listed("sdc", "8:32", fstype="ext4").dumpe2fs("/dev/sdc", dumpe2fs_text())
    assert names(host) == ["sdc"]


def test_an_empty_loop_device_is_none() -> None:
    """It has no size."""
    assert names(with_spare().file("/sys/dev/block/8:32/size", "0\n")) == []


def without_types(host: HostEvidence) -> HostEvidence:
    """Remove the types that lsblk has from udev."""
    for name, number in (("sda1", "8:1"), ("sdb", "8:16"), ("sdc", "8:32")):
        host.listed(name, number)
    return host


def test_without_udev_the_superblocks_tell() -> None:
    """The output of lsblk then leaves the type of every device empty."""
    assert names(without_types(with_spare())) == ["sdc"]
    other = without_types(debian_host().disk("sdc", "8:32"))
    assert names(other) == []


def test_an_external_journal_is_no_filesystem() -> None:
    """Without udev its superblock looks like that of one."""
    journal = dumpe2fs_text(features="journal_dev")
    assert names(without_types(with_spare()).dumpe2fs("/dev/sdc", journal)) == []


def test_without_udev_and_root_it_is_not_known() -> None:
    """Devices without a type are probed for superblocks."""
    found = unmounted_of(without_types(with_spare()).dumpe2fs("/dev/sdc", denied()))
    assert isinstance(found, Unknown)
    assert found.why is Why.DENIED


def test_without_udev_a_disk_that_hangs_is_a_gap() -> None:
    """It may have a filesystem."""
    found = unmounted_of(without_types(with_spare()).dumpe2fs("/dev/sdc", TIMED_OUT))
    assert isinstance(found, Unknown)
    assert found.why is Why.TIMED_OUT


SPARE = f"UUID={SPARE_UUID}"
NO_RECORD = "lsblk shows no identifiers without udev"


@pytest.mark.parametrize(
    ("spec", "dumped", "found"),
    [
        (SPARE, dumpe2fs_text(SPARE_UUID), Known(DeviceNumber(8, 32), "superblock")),
        (SPARE.upper(), dumpe2fs_text(SPARE_UUID), Why.ABSENT),
        ("LABEL=a\\040b", dumpe2fs_text(label="a b"), Known(DeviceNumber(8, 32), "superblock")),
        (SPARE, dumpe2fs_text(label="a b"), Why.ABSENT),
        ("LABEL=a", dumpe2fs_text(label="a b"), Why.ABSENT),
        ("PARTUUID=1-1", dumpe2fs_text(), Why.UNSUPPORTED),
        (SPARE, failed("dumpe2fs", "Bad magic number in super-block"), Why.ABSENT),
        (SPARE, denied(), Why.DENIED),
        (SPARE, TIMED_OUT, Why.TIMED_OUT),
    ],
)
def test_without_udev_the_superblocks_tell_which_device_fstab_names(
    spec: str, dumped: str | Unknown, found: Known[DeviceNumber] | Why
) -> None:
    """A device is absent only where all of them were read."""
    host = without_types(with_spare()).file("/etc/fstab", f"{spec} /spare ext4 defaults 0 2\n")
    (entry,) = need(assemble_host(host.dumpe2fs("/dev/sdc", dumped).source(), TAKEN_AT).fstab)
    number = entry.device_number
    assert (number.why if isinstance(number, Unknown) else number) == found


def test_without_udev_targets_tell_nothing_of_other_devices() -> None:
    """Only the filesystems of the targets are read then."""
    host = without_types(with_spare()).file("/etc/fstab", f"{SPARE} /spare ext4 defaults 0 2\n")
    (entry,) = need(assemble_host(host.source(), TAKEN_AT, only={SDB}).fstab)
    assert isinstance(entry.device_number, Unknown)
    assert (entry.device_number.why, entry.device_number.detail) == (Why.UNSUPPORTED, NO_RECORD)


def test_where_nobody_can_tell_what_a_device_is_for_is_unknown() -> None:
    """It may be a member of something."""
    found = unmounted_of(with_spare().answer(ListDir("/sys/dev/block/8:32/holders"), denied()))
    assert isinstance(found, Unknown)
    assert found.why is Why.DENIED


def test_without_lsblk_it_is_not_known() -> None:
    """Nor are the devices."""
    host = assemble_host(
        debian_host().answer(LSBLK_JSON, denied()).answer(LSBLK_PAIRS, denied()).source(), TAKEN_AT
    )
    assert isinstance(host.unmounted, Unknown)
    assert isinstance(host.devices, Unknown)


def test_targets_and_containers_have_no_idle_filesystems() -> None:
    """Other devices are of no concern to the one, and are not the other's; none is looked at."""
    recorder = RecordingSource(with_spare().source())
    only = {DeviceNumber(8, 16)}
    assert assemble_host(recorder, TAKEN_AT, only=only).unmounted == OUT_OF_SCOPE
    contained = with_spare().unmount(25).mount(25, "0:40", "/", "overlay", fstype="overlay")
    inside = RecordingSource(contained.file("/run/systemd/container", "lxc\n").source())
    assert need(assemble_host(inside, TAKEN_AT).unmounted) == ()
    for source in (recorder, inside):
        assert ReadFile("/sys/dev/block/8:32/size") not in source.answers


@pytest.mark.parametrize(("spares", "why"), [(256, Why.ABSENT), (257, Why.UNSUPPORTED)])
def test_too_many_are_not_read(spares: int, why: Why) -> None:
    """A store of thousands of volumes would be read for minutes."""
    devices = [lsblk_row(f"dm-{each}", DeviceNumber(253, each)) for each in range(spares)]
    found = read_unmounted(debian_host().source(), known(tuple(devices)), (), _never_read)
    assert isinstance(found, Unknown)
    assert found.why is why


def _never_read(number: DeviceNumber) -> Filesystem:
    raise AssertionError(number)


def test_the_topmost_of_many_mounts_on_one_place_is_not_hidden() -> None:
    """Each of two thousand mounts hides the one below it, and nothing hides the last."""
    stack = [line(1, 0, "/"), *(line(number, number - 1, "/m") for number in range(2, 2002))]
    shown = [each.mount_id for each in mark_overmounted(tuple(stack)) if not each.overmounted]
    assert shown == [1, 2001]


def test_mounts_in_a_circle_are_hidden() -> None:
    """A table that leads nowhere gives no mount to act on."""
    lines = (line(1, 3, "/a"), line(2, 1, "/a/b"), line(3, 2, "/a/b/c"))
    assert all(each.overmounted for each in mark_overmounted(lines))


def test_the_tables_of_other_processes_are_read_once_and_only_as_far_as_needed() -> None:
    """What lies behind the table that has the mount is not read, and later it is."""
    host = debian_host()
    here, there = "24 1 8:32 / /c rw - ext4 /dev/sdc rw\n", "25 1 8:48 / /d rw - ext4 /dev/sdd rw\n"
    for pid, table in {"10": here, "11": here, "12": there, "13": there}.items():
        host.file(f"/proc/{pid}/mountinfo", table)
    recorder = RecordingSource(host.source())
    tables = OtherMountTables(recorder)
    found = [tables.find(number) for number in (SDC, DeviceNumber(8, 48), SDC)]
    assert [need(each).mount_point for each in found] == ["/c", "/d", "/c"]
    asked = {ask.path for ask in recorder.answers if isinstance(ask, ReadFile)}
    assert asked == {f"/proc/{pid}/mountinfo" for pid in (10, 11, 12)}
    assert isinstance(tables.find(DeviceNumber(8, 64)), Unknown)
    assert ReadFile("/proc/13/mountinfo") in recorder.answers
