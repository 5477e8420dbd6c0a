from __future__ import annotations

import pytest

from evidence_host import LSBLK_JSON, LSBLK_PAIRS, HostEvidence, debian_host, denied, dumpe2fs_text
from ext4audit.assemble import idle as module
from ext4audit.assemble.host import assemble_host
from ext4audit.evidence import Evidence, Unknown, Why, need
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import DeviceNumber
from ext4audit.sources.ask import ListDir, ReadFile
from ext4audit.sources.recording import RecordingSource

TAKEN_AT = "2026-01-02T03:04:05Z"
SPARE_UUID = "33333333-aaaa-4bbb-8ccc-000000000003"


def with_spare(fstype: str = "ext4") -> HostEvidence:
    """Return a host with a disk /dev/sdc that is mounted nowhere."""
    host = debian_host().disk("sdc", "8:32")
    host.listed("sdc", "8:32", fstype=fstype, uuid=SPARE_UUID)
    return host.dumpe2fs("/dev/sdc", dumpe2fs_text(SPARE_UUID))


def idle_of(host: HostEvidence) -> Evidence[tuple[Filesystem, ...]]:
    """Return the idle filesystems of a host."""
    return assemble_host(host.source(), TAKEN_AT).idle


def names(host: HostEvidence) -> list[str]:
    """Return the names of the devices of the idle filesystems."""
    return [fs.name for fs in need(idle_of(host))]


@pytest.mark.parametrize(
    ("fstype", "expected"), [("ext4", ["sdc"]), ("ext2", ["sdc"]), ("xfs", []), ("swap", [])]
)
def test_what_is_mounted_nowhere_is_idle(fstype: str, expected: list[str]) -> None:
    """By the type that lsblk tells; what is alive is none, and neither is another type."""
    assert names(with_spare(fstype)) == expected


def test_an_idle_filesystem_has_its_superblock_and_its_fstab_entries() -> None:
    """Nothing of a mount is known of it, and its block groups are not read."""
    host = with_spare().file("/etc/fstab", f"UUID={SPARE_UUID} /spare ext4 noauto 0 2\n")
    (fs,) = need(idle_of(host))
    assert (fs.alive, fs.uuid, fs.device) == (False, SPARE_UUID, "/dev/sdc")
    assert [entry.line.mount_point for entry in need(fs.fstab)] == ["/spare"]
    assert isinstance(fs.layout, Unknown)


def test_what_other_devices_are_made_of_is_no_filesystem() -> None:
    """A mirror whose metadata stand at the end shows its content on each member."""
    holders = ListDir("/sys/dev/block/8:32/holders")
    assert names(with_spare().tell(holders, "md127")) == []


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
    """Take from lsblk what udev would have told it."""
    for name, number in (("sda1", "8:1"), ("sdb", "8:16"), ("sdc", "8:32")):
        host.listed(name, number)
    return host


def test_without_udev_the_superblocks_tell() -> None:
    """The output of lsblk then leaves the type of every device empty."""
    assert names(without_types(with_spare())) == ["sdc"]
    other = without_types(debian_host().disk("sdc", "8:32"))
    assert names(other) == []


def test_without_udev_and_root_it_is_not_known() -> None:
    """That nothing was told does not mean that nothing is there."""
    found = idle_of(without_types(with_spare()).dumpe2fs("/dev/sdc", denied()))
    assert isinstance(found, Unknown)
    assert found.why is Why.DENIED


def test_where_nobody_can_tell_what_a_device_is_for_is_a_hole() -> None:
    """It may be a member of something."""
    found = idle_of(with_spare().tell(ListDir("/sys/dev/block/8:32/holders"), denied()))
    assert isinstance(found, Unknown)
    assert found.why is Why.DENIED


def test_without_lsblk_it_is_not_known() -> None:
    """Nor are the devices."""
    host = assemble_host(
        debian_host().tell(LSBLK_JSON, denied()).tell(LSBLK_PAIRS, denied()).source(), TAKEN_AT
    )
    assert isinstance(host.idle, Unknown)
    assert isinstance(host.devices, Unknown)


def test_targets_and_containers_have_no_idle_filesystems() -> None:
    """Other devices are of no concern to the one, and are not the other's; none is looked at."""
    recorder = RecordingSource(with_spare().source())
    assert need(assemble_host(recorder, TAKEN_AT, only={DeviceNumber(8, 16)}).idle) == ()
    contained = with_spare().unmount(25).mount(25, "0:40", "/", "overlay", fstype="overlay")
    inside = RecordingSource(contained.file("/run/systemd/container", "lxc\n").source())
    assert need(assemble_host(inside, TAKEN_AT).idle) == ()
    for source in (recorder, inside):
        assert ReadFile("/sys/dev/block/8:32/size") not in source.answers


def test_too_many_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of thousands of volumes would be read for minutes."""
    monkeypatch.setattr(module, "MOST", 0)
    found = idle_of(with_spare())
    assert isinstance(found, Unknown)
    assert found.why is Why.UNSUPPORTED
