from __future__ import annotations

from collections.abc import Collection

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import judge
from ext4audit.evidence import Known, Unknown, Why, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber, Provenance
from ext4audit.report import Outcome
from ext4audit.rules.layout.lay009_overlapping_devices import check as overlaps
from ext4audit.sources import FilesystemUuid, ReadFile, RealPath, Uname
from support.builders import filesystem, mount
from support.hosts.evidence_host import (
    DATA_UUID,
    LSBLK_JSON,
    LSBLK_PAIRS,
    OPTIONS,
    ROOT_UUID,
    TAKEN_AT,
    HostEvidence,
    absent,
    debian_host,
    denied,
    dumpe2fs_text,
    failed,
    options_text,
    replaced,
)

SDA1, SDB, SDC = DeviceNumber(8, 1), DeviceNumber(8, 16), DeviceNumber(8, 32)
LOOP = DeviceNumber(7, 0)


def assemble(host: HostEvidence, only: Collection[DeviceNumber] | None = None) -> Host:
    """Assemble the host from its evidence."""
    return assemble_host(host.source(), TAKEN_AT, only=only)


def data_of(host: HostEvidence) -> Filesystem:
    """Assemble the host and return the filesystem on /dev/sdb."""
    return next(fs for fs in assemble(host).filesystems if fs.device_number == SDB)


def fstab_of(host: HostEvidence, *lines: str) -> list[str]:
    """Return the mount points of the fstab entries that are for /dev/sdb."""
    found = data_of(host.file("/etc/fstab", "\n".join(lines) + "\n"))
    return [entry.line.mount_point for entry in need(found.fstab)]


def clone_host() -> HostEvidence:
    """Return a host with a snapshot of sdb, of the same UUID, mounted on /snap."""
    host = debian_host().disk("sdc", "8:32").mount(40, "8:32", "/snap", "/dev/sdc")
    host.listed("sdc", "8:32", fstype="ext4", uuid=DATA_UUID, label="data")
    return host.options("sdc").dumpe2fs("/dev/sdc", dumpe2fs_text(DATA_UUID))


def loop_host() -> HostEvidence:
    """Return a host with a loop device over a file on /data, mounted on /image."""
    host = debian_host().loop("loop0", "7:0", "/data/disk.img").options("loop0")
    host.mount(50, "7:0", "/image", "/dev/loop0").path("/data/disk.img", "8:16", 30, "file")
    return host.dumpe2fs("/dev/loop0", dumpe2fs_text("44444444-aaaa-4bbb-8ccc-000000000004"))


def test_a_plain_host_is_read_without_gaps() -> None:
    """Two filesystems, each with its options, superblock and stack."""
    host = assemble(debian_host())
    assert (host.name, host.taken_at, host.gaps, host.lower) == ("db1", TAKEN_AT, (), ())
    assert need(host.kernel).upstream == (6, 1, 76)
    assert need(host.kernel_arguments) == ("root=/dev/sda1", "ro", "quiet")
    assert [(fs.id, fs.device, fs.mount_points) for fs in host.filesystems] == [
        (ROOT_UUID, "/dev/sda1", ("/",)),
        (DATA_UUID, "/dev/sdb", ("/data",)),
    ]
    assert all(isinstance(fs.superblock, Known) for fs in host.filesystems)
    assert all(need(fs.options).hidden == () for fs in host.filesystems)


def test_a_filesystem_is_joined_from_all_places() -> None:
    """The superblock's bits and the options file are combined: nobarrier is hidden."""
    host = debian_host().options("sdb", replaced(OPTIONS, {"barrier": "nobarrier"}))
    host.dumpe2fs("/dev/sdb", dumpe2fs_text(bits="user_xattr acl nobarrier"))
    (hidden,) = need(data_of(host).options).hidden
    assert (hidden.token, hidden.origin, hidden.set_by) == (
        "nobarrier",
        "/proc/fs/ext4/sdb/options",
        Provenance.SUPERBLOCK_BITS,
    )


def test_a_user_sees_the_options_and_not_the_superblock() -> None:
    """Without root the UUID and the label come from lsblk, and the unknown options have a hint."""
    found = data_of(debian_host().as_user())
    assert isinstance(found.superblock, Unknown)
    assert (found.superblock.why, found.superblock.hint) == (Why.DENIED, "run as root")
    assert (found.uuid, found.label) == (DATA_UUID, "data")
    assert need(need(found.options).token("barrier")) == "barrier"


@pytest.mark.parametrize(
    ("first", "super_options", "flags", "read_only"),
    [
        ("rw", "rw", "rw,relatime", False),
        ("rw", "rw", "ro,relatime", False),
        ("ro", "ro", "ro,relatime", True),
        ("ro", "ro", "rw,relatime", True),
        # The file is newer than a line that was read from another namespace.
        ("rw", "ro", "ro,relatime", False),
    ],
)
def test_read_only_is_the_superblocks_state(
    first: str, super_options: str, flags: str, *, read_only: bool
) -> None:
    """`ro` of a bind mount is not `ro` of the filesystem."""
    host = debian_host().options("sdb", replaced(OPTIONS, {"rw": first}))
    host.mount(30, "8:16", "/data", "/dev/sdb", super_options=super_options, flags=flags)
    assert need(data_of(host).read_only) is read_only


def test_without_the_options_file_the_mount_table_says_whether_it_is_read_only() -> None:
    """The last field of a line holds the superblock's own options."""
    host = debian_host().without("/proc/fs/ext4/sdb")
    host.mount(30, "8:16", "/data", "/dev/sdb", super_options="ro", flags="ro")
    assert data_of(host).read_only == Known(value=True, origin="/proc/self/mountinfo")


def test_several_mounts_of_one_superblock_are_one_filesystem() -> None:
    """A mount of the whole tree is listed before bind mounts."""
    host = debian_host().mount(29, "8:16", "/srv", "/dev/sdb", root="/sub", flags="ro,relatime")
    host.mount(41, "8:16", "/again", "/dev/sdb")
    assert data_of(host).mount_points == ("/data", "/again", "/srv")


def test_a_filesystem_is_not_named_by_a_file_of_a_container() -> None:
    """Docker mounts three files of a disk before the volume on the same disk."""
    files = [mount(f"/etc/{name}", root=f"/docker/{name}") for name in ("resolv.conf", "hosts")]
    mounts = (*files, mount("/var/lib/postgresql/data", root="/docker/volumes/x/_data"))
    points = filesystem(mounts=mounts).mount_points
    assert points == ("/var/lib/postgresql/data", "/etc/resolv.conf", "/etc/hosts")


def test_the_mount_points_have_the_order_of_the_table() -> None:
    """The kernel reuses mount ids, so they do not show the order."""
    mounts = (mount("/data", mount_id=41), mount("/again", mount_id=11))
    assert filesystem(mounts=mounts).mount_points == ("/data", "/again")


def test_a_superblock_held_by_another_namespace_is_read_through_its_process() -> None:
    """The mount table of any readable process can show the mount."""
    host = debian_host().unmount(30)
    host.file("/proc/self/stat", "").file("/proc/1/mountinfo", denied("/proc/1/mountinfo"))
    host.file(
        "/proc/77/mountinfo",
        "4 1 8:1 / / rw - ext4 /dev/sda1 rw\n5 1 8:16 / /var/pv rw - ext3 /dev/sdb rw,nobarrier\n",
    )
    found = data_of(host)
    assert (found.alive, found.mounts, found.mount_points) == (True, (), ())
    assert found.fstype == Known("ext3", "/proc/77/mountinfo")


def test_a_superblock_that_no_mount_table_shows_is_audited_by_its_options_file() -> None:
    """The mount in another namespace is unknown, but the options are known."""
    found = data_of(debian_host().unmount(30))
    assert found.fstype == Unknown(
        "mount of 8:16",
        Why.ABSENT,
        "active in the kernel, but in no readable mount table",
    )
    assert need(need(found.options).token("barrier")) == "barrier"


@pytest.mark.parametrize(
    "spec",
    [
        f"UUID={DATA_UUID}",
        f'UUID="{DATA_UUID}"',
        "LABEL=data",
        "/dev/sdb",
        "/dev/disk/by-id/x",
    ],
)
def test_an_fstab_entry_is_joined_by_the_device_that_it_names(spec: str) -> None:
    """An entry is matched by identifier or by path, whatever its mount point is."""
    host = debian_host().node("/dev/disk/by-id/x", "8:16")
    assert fstab_of(host, f"{spec} /elsewhere ext4 noauto 0 2") == ["/elsewhere"]


def label_host(label: str = "cl") -> HostEvidence:
    """Return the host with a label in the superblock of /data, as dumpe2fs and lsblk show it."""
    host = debian_host().listed("sdb", "8:16", fstype="ext4", uuid=DATA_UUID, label=label)
    return host.dumpe2fs("/dev/sdb", dumpe2fs_text(label=label))


@pytest.mark.parametrize(
    "spec",
    ["LABEL=gone", "UUID=deadbeef", "PARTUUID=gone", "PARTLABEL=gone", "/dev/gone", "/srv/image"],
)
def test_an_entry_whose_device_is_not_here_is_not_that_of_its_mount_point(spec: str) -> None:
    """Another device is known to be mounted there: the next boot will not find the entry's."""
    host = label_host().path("/srv/image", "8:1", 25, "file")
    host.file("/etc/fstab", f"{spec} /data ext4 defaults 0 2\n")
    (entry,) = need(assemble(host).fstab)
    assert isinstance(entry.device_number, Unknown)
    assert entry.other_devices == (SDB,)
    assert need(data_of(host).fstab) == ()


@pytest.mark.parametrize("mount_point", ["/data", "/dat\\141", "//data/./", "/link"])
def test_an_entry_that_may_name_the_device_is_joined_by_its_mount_point(mount_point: str) -> None:
    """Without root and udev the PARTUUID is unknown: the entry may match, and stays unresolved."""
    host = debian_host().answer(RealPath("/link"), "/data\n").listed("sdb", "8:16")
    host.file("/etc/fstab", f"PARTUUID=0ff1ce-02 {mount_point} ext4 defaults 0 2\n")
    (entry,) = need(data_of(host).fstab)
    assert isinstance(entry.device_number, Unknown)
    assert entry.other_devices == ()


def test_of_two_filesystems_with_one_label_the_one_mounted_there_is_meant() -> None:
    """The first one that lsblk lists is the other one."""
    host = label_host("twin").listed("sda1", "8:1", fstype="ext4", uuid=ROOT_UUID, label="twin")
    host.file("/etc/fstab", "LABEL=twin /data ext4 defaults 0 2\n")
    (entry,) = need(data_of(host).fstab)
    assert entry.device_number == Known(SDB, "superblock")


def test_a_label_that_only_the_superblock_has_names_its_filesystem() -> None:
    """Without lsblk and udev's links, the label is read from the mounted superblock."""
    host = label_host().answer(LSBLK_JSON, failed()).answer(LSBLK_PAIRS, failed())
    host.file("/etc/fstab", "LABEL=cl /data ext4 defaults 0 2\n")
    (entry,) = need(data_of(host).fstab)
    assert entry.device_number == Known(SDB, "superblock")


@pytest.mark.parametrize(("image", "found"), [("/data/disk.img", True), ("/data/other.img", False)])
def test_an_image_file_names_the_loop_device_over_it(image: str, found: bool) -> None:
    """An entry may name a file, which is the backing file of the mounted loop device."""
    host = loop_host().path("/data/other.img", "8:16", 30, "file")
    host.file("/etc/fstab", f"{image} /image ext4 loop 0 0\n")
    (entry,) = need(assemble(host).fstab)
    assert isinstance(entry.device_number, Known) is found
    assert entry.other_devices == (() if found else (LOOP,))


def test_a_name_that_the_mount_table_shows_is_that_of_its_device() -> None:
    """/dev/root is mounted, although no such device node exists."""
    host = debian_host().mount(25, "8:1", "/", "/dev/root")
    host.file("/etc/fstab", "/dev/root / ext4 defaults 0 1\n")
    (entry,) = need(assemble(host).fstab)
    assert entry.device_number == Known(DeviceNumber(8, 1), "/proc/self/mountinfo")


@pytest.mark.parametrize("mount_point", ["/data", "//data/./", "/link"])
def test_the_place_of_an_entry_is_found_however_it_is_spelt(mount_point: str) -> None:
    """Symbolic links and unusual spellings resolve to the mount point in the mount table."""
    host = debian_host().answer(RealPath("/link"), "/data")
    host.file("/etc/fstab", f"UUID={DATA_UUID} {mount_point} ext4 defaults 0 2\n")
    found = data_of(host)
    (entry,) = need(found.fstab)
    assert [entry.is_for(mount) for mount in found.mounts] == [True]


@pytest.mark.parametrize(
    "line",
    [
        "UUID=deadbeef /other ext4 defaults 0 2",
        # Its device is known to be another one, so the mount point does not count.
        "/dev/sda1 /data ext4 defaults 0 2",
        f"UUID={DATA_UUID} /data ext4 bind 0 0",
        f"UUID={DATA_UUID} /data none rbind 0 0",
        "/data /srv none bind 0 0",
        "/data /srv ext4 bind 0 0",
        f"UUID={DATA_UUID} /data xfs defaults 0 0",
        f"UUID={DATA_UUID} none swap sw 0 0",
        f"# UUID={DATA_UUID} /data ext4 defaults 0 2",
    ],
)
def test_other_lines_of_fstab_are_not_its_entries(line: str) -> None:
    """Bind mounts, other devices and other types are left out."""
    assert fstab_of(debian_host(), line) == []


@pytest.mark.parametrize("fstype", ["ext4", "ext3", "ext2", "auto", "xfs,ext4"])
def test_every_type_that_may_be_served_by_the_ext4_driver_counts(fstype: str) -> None:
    """A list of types, and "auto", may turn out to be ext4."""
    line = f"UUID={DATA_UUID} /data {fstype} defaults 0 2"
    assert fstab_of(debian_host(), line) == ["/data"]


def test_an_unread_fstab_is_unknown_in_every_filesystem() -> None:
    """An unread file is not an empty one."""
    gap = denied("/etc/fstab")
    host = assemble(debian_host().file("/etc/fstab", gap))
    assert host.fstab == gap
    assert [fs.fstab for fs in host.filesystems] == [gap, gap]


def test_a_host_without_an_fstab_has_no_entries() -> None:
    """Units of systemd or scripts may mount the filesystems: this is known, not a gap."""
    host = assemble(debian_host().file("/etc/fstab", absent("/etc/fstab")))
    assert host.fstab == Known((), "/etc/fstab (absent)")
    assert [fs.fstab for fs in host.filesystems] == [host.fstab, host.fstab]


def test_without_lsblk_the_superblocks_uuids_still_join_fstab() -> None:
    """A container without util-linux may still have dumpe2fs."""
    host = debian_host().answer(LSBLK_JSON, failed()).answer(LSBLK_PAIRS, failed())
    assert fstab_of(host, f"UUID={DATA_UUID} /elsewhere ext4 defaults 0 2") == ["/elsewhere"]


def test_copies_with_one_uuid_have_different_ids() -> None:
    """A snapshot mounted beside its origin has its own id."""
    host = assemble(clone_host())
    assert [fs.id for fs in host.filesystems] == [
        ROOT_UUID,
        f"{DATA_UUID}@8:16",
        f"{DATA_UUID}@8:32",
    ]


@pytest.mark.parametrize("spec", [f"UUID={DATA_UUID}", "LABEL=data"])
@pytest.mark.parametrize(("mount_point", "owner"), [("/data", SDB), ("/snap", SDC)])
def test_of_copies_the_one_mounted_there_has_the_fstab_entry(
    spec: str, mount_point: str, owner: DeviceNumber
) -> None:
    """The snapshot does not take its origin's entry."""
    host = assemble(clone_host().file("/etc/fstab", f"{spec} {mount_point} ext4 defaults 0 2\n"))
    owners = [fs.device_number for fs in host.filesystems if need(fs.fstab)]
    assert owners == [owner]


def test_of_copies_a_path_names_the_very_device() -> None:
    """/dev/sdc means /dev/sdc, whatever is mounted on the mount point of the entry."""
    host = assemble(clone_host().file("/etc/fstab", "/dev/sdc /data ext4 noauto 0 2\n"))
    assert [fs.device_number for fs in host.filesystems if need(fs.fstab)] == [SDC]


@pytest.mark.parametrize("nil", ["00000000-0000-0000-0000-000000000000", "<none>"])
def test_a_nil_uuid_identifies_nothing(nil: str) -> None:
    """A UUID of zeros was never generated: the device number is the id."""
    host = debian_host().listed("sdb", "8:16", fstype="ext4")
    host.dumpe2fs("/dev/sdb", dumpe2fs_text(nil))
    found = data_of(host)
    assert (found.uuid, found.id, found.shares_uuid) == (None, "8:16", False)


def test_two_filesystems_without_a_uuid_share_none() -> None:
    """Two missing UUIDs are not a shared UUID."""
    host = debian_host()
    for device, number in (("sda1", "8:1"), ("sdb", "8:16")):
        host.listed(device, number).dumpe2fs(f"/dev/{device}", denied())
    found = assemble(host).filesystems
    assert [(fs.id, fs.shares_uuid) for fs in found] == [("8:1", False), ("8:16", False)]


def test_the_kernels_uuid_is_the_last_resort() -> None:
    """FS_IOC_GETFSUUID gives the UUID if neither dumpe2fs nor lsblk does."""
    host = debian_host().as_user().listed("sdb", "8:16", fstype="ext4")
    host.answer(FilesystemUuid("/data"), bytes.fromhex(DATA_UUID.replace("-", "")))
    assert data_of(host).uuid == DATA_UUID


def test_a_targeted_scan_reads_only_the_target() -> None:
    """The host's gaps are left out, since they are not about the target."""
    host = assemble(debian_host().file("/proc/fs/ext4/sdx/options", "rw\n"), only={SDB})
    assert [fs.device_number for fs in host.filesystems] == [SDB]
    assert host.gaps == ()


def beside_host(**partitions: int) -> HostEvidence:
    """Return a host with filesystems on partitions of sdd that start at these sectors."""
    host = debian_host().disk("sdd", "8:48")
    for minor, (name, start) in enumerate(partitions.items(), start=49):
        host.partition(name, f"8:{minor}", "8:48", start).options(name)
        host.mount(minor, f"8:{minor}", f"/{name}", f"/dev/{name}")
        host.dumpe2fs(f"/dev/{name}", dumpe2fs_text(f"55555555-aaaa-4bbb-8ccc-0000000000{minor}"))
    return host


def test_what_lies_on_the_disk_of_a_target_is_read_too() -> None:
    """Partitions may overlap, so neighbours of the target are read; other disks are not."""
    host = assemble(beside_host(sdd1=2048, sdd2=4096), only={DeviceNumber(8, 49)})
    assert [fs.name for fs in host.lower] == ["sdd2"]
    verdict = judge(overlaps, host.filesystems[0], host)
    assert [finding.fact for finding in verdict.findings] == [
        "55555555-aaaa-4bbb-8ccc-000000000050"
    ]


def test_the_other_path_to_a_target_is_read_too() -> None:
    """Two loop devices over one file, on a filesystem that is not ext4."""
    host = loop_host().loop("loop1", "7:1", "/data/disk.img").options("loop1")
    host.mount(51, "7:1", "/again", "/dev/loop1")
    host.dumpe2fs("/dev/loop1", dumpe2fs_text("44444444-aaaa-4bbb-8ccc-000000000004"))
    found = assemble(host, {LOOP})
    assert [fs.name for fs in found.lower] == ["loop1", "sdb"]
    assert judge(overlaps, found.filesystems[0], found).outcome is Outcome.FAIL


def test_a_whole_scan_keeps_the_gaps_of_the_inventory() -> None:
    """A superblock on an unknown device is a gap."""
    host = assemble(debian_host().file("/proc/fs/ext4/sdx/options", "rw\n"))
    assert [gap.what for gap in host.gaps] == ["ext4 superblock on sdx"]


def test_an_unreadable_mount_table_is_a_gap_and_no_empty_host() -> None:
    """The kernel's own lists still name the filesystems."""
    gap = denied("/proc/self/mountinfo")
    host = assemble(debian_host().file("/proc/self/mountinfo", gap))
    assert (host.mounts, host.gaps) == (gap, (gap,))
    assert [fs.name for fs in host.filesystems] == ["sda1", "sdb"]


@pytest.mark.parametrize("only", [None, {LOOP}])
def test_the_filesystem_below_a_loop_device_is_read_too(only: set[DeviceNumber] | None) -> None:
    """The verdicts on a loop device depend on the filesystem that holds its backing file."""
    host = assemble(loop_host(), only)
    found = host.filesystem(Known(SDB, "test"))
    assert found is not None
    assert found.mount_points == ("/data",)
    assert [fs.device_number for fs in host.lower] == ([SDB] if only else [])


def test_what_is_below_a_loop_device_and_not_ext4_is_not_read() -> None:
    """A backing file on XFS is on no ext4 superblock."""
    host = loop_host().mount(60, "8:0", "/xfs", "/dev/sda", fstype="xfs")
    host.path("/data/disk.img", "8:0", 60, "file")
    assert assemble(host, {LOOP}).lower == ()


def test_the_filesystem_below_has_its_fstab_entries_as_well() -> None:
    """They are known, and so must not appear absent."""
    text = f"UUID={DATA_UUID} /data ext4 defaults 0 2\n"
    host = assemble(loop_host().file("/etc/fstab", text), {LOOP})
    (lower,) = host.lower
    assert [entry.line.mount_point for entry in need(lower.fstab)] == ["/data"]


def test_an_unmounted_target_is_read_from_its_superblock() -> None:
    """Its options in force are absent, not unknown."""
    host = debian_host().disk("sdc", "8:32")
    host.dumpe2fs("/dev/sdc", dumpe2fs_text("55555555-aaaa-4bbb-8ccc-000000000005"))
    (found,) = assemble(host, {SDC}).filesystems
    not_mounted = Unknown("effective options", Why.ABSENT, "the filesystem is not mounted")
    assert (found.alive, found.name, found.device) == (False, "sdc", "/dev/sdc")
    assert found.options == found.fstype == found.read_only == not_mounted
    assert need(found.superblock).uuid == "55555555-aaaa-4bbb-8ccc-000000000005"


def test_a_target_without_sysfs_is_named_by_its_number() -> None:
    """Without sysfs there is no better name for it."""
    (found,) = assemble(debian_host(), {DeviceNumber(8, 99)}).filesystems
    assert (found.name, found.alive, isinstance(found.stack, Unknown)) == ("8:99", False, True)


def test_every_filesystem_is_announced_before_it_is_read() -> None:
    """A scan that hangs thus shows at which filesystem."""
    told: list[str] = []
    assemble_host(loop_host().source(), TAKEN_AT, only={LOOP}, progress=told.append)
    assert told == ["loop0", "sdb"]


@pytest.mark.parametrize("answer", [absent("uname"), "garbage", ""])
def test_a_host_without_a_name_and_a_kernel_is_still_read(answer: str | Unknown) -> None:
    """An old archive may lack uname, but its filesystems are still read."""
    host = assemble(debian_host().answer(Uname(), answer))
    assert host.name == "unknown"
    assert isinstance(host.kernel, Unknown)
    assert [fs.name for fs in host.filesystems] == ["sda1", "sdb"]
    assert need(need(host.filesystems[1].options).token("barrier")) == "barrier"


def test_an_empty_host_is_all_unknown_and_does_not_crash() -> None:
    """All evidence is unknown."""
    host = assemble(HostEvidence().file("/proc/self/mountinfo", absent("/proc/self/mountinfo")))
    assert host.filesystems == ()
    assert [gap.what for gap in host.gaps] == [
        "/proc/self/mountinfo",
        "ext4 superblocks of other mount namespaces",
    ]


@pytest.mark.parametrize("name", ["new\nline", "\x1b[31m", "$(id)", "\udcff"])
def test_a_hostile_host_name_is_a_name(name: str) -> None:
    """A node name may hold anything and is kept unchanged."""
    host = debian_host().answer(Uname(), f"6.1.0\n#1 SMP\nx86_64\n{name}")
    assert assemble(host).name == name


def test_an_options_file_of_garbage_falls_back_to_table_and_superblock() -> None:
    """A file that starts with neither rw nor ro is not an options file."""
    host = debian_host().file("/proc/fs/ext4/sdb/options", options_text("garbage"))
    options = need(data_of(host).options)
    assert (options.complete, options.source) == (
        False,
        "/proc/self/mountinfo, dumpe2fs -h /dev/sdb",
    )
    assert need(options.token("barrier")) == "barrier"


def test_a_lost_line_of_mountinfo_does_not_give_an_entry_to_a_namesake() -> None:
    """Of two devices with one label, the mounted one is meant, even if a line is unreadable."""
    host = debian_host().listed("sda1", "8:1", fstype="ext4", uuid=ROOT_UUID, label="data")
    host.file("/etc/fstab", "LABEL=data /data ext4 defaults 0 2\n")
    whole = host.source().fetch(ReadFile("/proc/self/mountinfo"))
    read = assemble(host.file("/proc/self/mountinfo", f"{need(whole)}not a line of mountinfo\n"))
    (entry,) = need(read.fstab)
    assert need(entry.device_number) == SDB
