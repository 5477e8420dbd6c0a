from __future__ import annotations

import pytest

from evidence_host import HostEvidence, absent, debian_host, denied
from ext4audit.assemble.inventory import take_inventory
from ext4audit.evidence import Known, Unknown, Why
from ext4audit.facts.mount import DeviceNumber
from ext4audit.sources.ask import ListDir

HINT = "run on the host, with /proc and /sys mounted"
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
    """The source may be /dev/root or a name that is gone; sysfs knows."""
    host = debian_host().disk("sdc", "8:32").mount(40, "8:32", "/c", source)
    assert inventory_names(host)[SDC] == name


def test_without_sysfs_the_mount_source_must_do() -> None:
    """In a container without /sys the last part of the source is all there is."""
    host = without_ext4(debian_host()).without("/sys").file("/proc/fs/ext4/dm-1/options", "rw\n")
    host.mount(40, "253:1", "/c", "/dev/mapper/vg0-c")
    assert take_inventory(host.source()).names == {
        SDA1: "sda1",
        SDB: "sdb",
        DeviceNumber(253, 1): "vg0-c",
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
    """The kernel says that a superblock lives, and nothing says on which device."""
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
    host.tell(ListDir("/proc/fs/ext4"), denied()).tell(ListDir("/sys/fs/ext4"), denied())
    assert len(take_inventory(host.source()).gaps) == 1


@pytest.mark.parametrize("hole", [denied("/proc/self/mountinfo"), absent("/proc/self/mountinfo")])
def test_an_unreadable_mount_table_is_a_gap_and_the_kernels_lists_still_count(
    hole: Unknown,
) -> None:
    """No mount table never means "nothing is mounted"."""
    inventory = take_inventory(debian_host().file("/proc/self/mountinfo", hole).source())
    assert inventory.gaps == (hole,)
    assert inventory.mounts == hole
    assert inventory.names == {SDA1: "sda1", SDB: "sdb"}


@pytest.mark.parametrize("text", ["", "garbage\n"])
def test_an_odd_mount_table_is_a_gap(text: str) -> None:
    """An empty table is refused: there is always something mounted."""
    inventory = take_inventory(debian_host().file("/proc/self/mountinfo", text).source())
    (gap,) = inventory.gaps
    assert (gap.what, gap.why) == ("/proc/self/mountinfo", Why.UNPARSABLE)


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
