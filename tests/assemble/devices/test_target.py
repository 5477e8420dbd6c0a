"""The filesystems of a captured host that a command-line argument names."""

from __future__ import annotations

import pytest

from ext4audit.assemble.devices.target import (
    NotExt4,
    Superblocks,
    Target,
    TargetResolver,
    Unreachable,
    named_filesystems,
    only_filesystems,
)
from ext4audit.assemble.host import OUT_OF_SCOPE
from ext4audit.assemble.inventory import take_inventory
from ext4audit.evidence import Unknown, Why
from ext4audit.facts.mount import DeviceNumber
from ext4audit.sources import RealPath, ResolvePath
from support.builders import UNREAD, UUID, filesystem, host, known, loop, mount
from support.hosts.evidence_host import (
    DATA_UUID,
    HostEvidence,
    absent,
    debian_host,
    denied,
    dumpe2fs_text,
    failed,
)

SDA1, SDB, SDC = DeviceNumber(8, 1), DeviceNumber(8, 16), DeviceNumber(8, 32)
NO_MAGIC = failed("dumpe2fs", "dumpe2fs: Bad magic number in super-block (exit status 1)")


def resolve(host: HostEvidence, path: str) -> Target:
    """Return the superblocks that a path selects."""
    source = host.source()
    return TargetResolver(source, take_inventory(source)).resolve(path)


def overlay_host(upper: str | None = "/var/lib/docker/x/diff") -> HostEvidence:
    """Return a host with an overlay on /merged, whose layers are below /var/lib/docker."""
    options = "rw,lowerdir=/lower" + (f",upperdir={upper},workdir=/work" if upper else "")
    return debian_host().mount(
        60, "0:43", "/merged", "overlay", fstype="overlay", super_options=options
    )


def with_disk(fstype: str | None, superblock: str | Unknown) -> HostEvidence:
    """Return a host with an unmounted disk /dev/sdc."""
    host = debian_host().disk("sdc", "8:32").dumpe2fs("/dev/sdc", superblock)
    return host.listed("sdc", "8:32", fstype=fstype) if fstype else host


@pytest.mark.parametrize(
    ("path", "number", "mount_id", "kind", "expected"),
    [
        ("/data", "8:16", 30, "directory", SDB),
        ("/data/mysql/ibdata1", "8:16", 30, "file", SDB),
        ("/etc", "8:1", 25, "directory", SDA1),
        ("/data/socket", "8:16", 30, "other", SDB),
        ("/data/-rf\n\x1b[31m$(id)", "8:16", 30, "file", SDB),
        ("/data/\udcff", "8:16", 30, "directory", SDB),
    ],
)
def test_a_path_selects_the_filesystem_that_contains_it(
    path: str, number: str, mount_id: int, kind: str, expected: DeviceNumber
) -> None:
    """A mount point, a directory and a file are resolved alike."""
    host = debian_host().path(path, number, mount_id, kind)
    assert resolve(host, path) == Superblocks((expected,))


@pytest.mark.parametrize("fstype", ["ext2", "ext3", "ext4"])
def test_ext2_and_ext3_mounts_of_the_ext4_driver_are_audited(fstype: str) -> None:
    """A filesystem mounted as ext3 is audited too."""
    host = debian_host().disk("sdc", "8:32").mount(40, "8:32", "/c", "/dev/sdc", fstype=fstype)
    assert resolve(host, "/c") == Superblocks((SDC,))


def test_a_bind_mount_selects_the_filesystem_below() -> None:
    """The mount id leads to the line of mountinfo, whatever directory it shows."""
    host = debian_host().mount(40, "8:16", "/srv", "/dev/sdb", root="/sub", flags="ro")
    assert resolve(host, "/srv") == Superblocks((SDB,))


def test_a_path_selects_the_upper_of_two_filesystems_on_one_directory() -> None:
    """The mount id is exact; the path alone names both."""
    host = debian_host().disk("sdc", "8:32").mount(40, "8:32", "/data", "/dev/sdc")
    assert resolve(host, "/data") == Superblocks((SDC,))


def test_the_mount_id_decides_and_not_the_device_number_of_the_file() -> None:
    """On an overlay a file shows a device number that no mount table lists."""
    host = overlay_host().path("/merged/file", "0:44", 60, "file")
    host.path("/var/lib/docker/x/diff", "8:16", 30)
    assert resolve(host, "/merged/file") == Superblocks(
        (SDB,), "an overlay; writes go to /var/lib/docker/x/diff"
    )


def test_an_overlay_on_an_overlay_is_followed_to_the_disk() -> None:
    """Writes go to the upper directory of the upper directory."""
    host = overlay_host("/inner/diff").path("/inner/diff", "0:50", 61)
    host.mount(
        61, "0:50", "/inner", "overlay", fstype="overlay", super_options="rw,upperdir=/data/up"
    )
    host.path("/data/up", "8:16", 30)
    found = resolve(host, "/merged")
    assert isinstance(found, Superblocks)
    assert found.device_numbers == (SDB,)


def test_an_overlay_on_itself_does_not_recurse() -> None:
    """A cyclic mount table does not hang the scan."""
    host = overlay_host("/merged")
    assert isinstance(resolve(host, "/merged"), NotExt4)


@pytest.mark.parametrize("overlays", [8, 9])
def test_eight_overlays_on_each_other_are_followed(overlays: int) -> None:
    """More than eight are treated as a cycle."""
    host = debian_host()
    for each in range(overlays):
        host.mount(
            60 + each,
            f"0:{60 + each}",
            f"/overlay{each}",
            "overlay",
            fstype="overlay",
            super_options=f"rw,upperdir=/overlay{each + 1}",
        )
    host.path(f"/overlay{overlays}", "8:16", 30)
    found = resolve(host, "/overlay0")
    assert isinstance(found, Superblocks if overlays == 8 else NotExt4)


def test_an_overlay_without_an_upper_directory_is_not_ext4() -> None:
    """Nothing is ever written to it."""
    assert resolve(overlay_host(None), "/merged") == NotExt4(
        "not ext4: an overlay without an upper directory on /merged"
    )


def test_the_reason_names_the_xfs_below_an_overlay() -> None:
    """The reason describes the whole chain."""
    host = overlay_host().mount(70, "8:32", "/var/lib/docker", "/dev/sdc", fstype="xfs")
    host.path("/var/lib/docker/x/diff", "8:32", 70)
    assert resolve(host, "/merged") == NotExt4(
        "an overlay whose upper directory /var/lib/docker/x/diff is not ext4: "
        "xfs (mounted on /var/lib/docker)"
    )


def test_an_upper_directory_of_another_namespace_cannot_be_reached() -> None:
    """In a container the overlay's directories are paths of the host."""
    assert resolve(overlay_host(), "/merged") == Unreachable(
        "is on an overlay whose upper directory /var/lib/docker/x/diff does not exist"
    )


def test_a_relative_upper_directory_is_not_resolved() -> None:
    """It is relative to the working directory of mount(8); another one may exist here."""
    host = overlay_host("upper").path("upper", "8:16", 30)
    assert resolve(host, "/merged") == Unreachable(
        "is on an overlay whose upper directory upper cannot be found"
    )


@pytest.mark.parametrize(
    ("fstype", "mount_point"), [("xfs", "/x"), ("btrfs", "/b"), ("tmpfs", "/t"), ("nfs4", "/n")]
)
def test_a_path_on_another_filesystem_type_is_not_ext4(fstype: str, mount_point: str) -> None:
    """The reason names the filesystem that holds the path."""
    host = debian_host().mount(70, "0:60", mount_point, "x", fstype=fstype)
    assert resolve(host, mount_point) == NotExt4(f"not ext4: {fstype} (mounted on {mount_point})")


def test_a_path_on_an_unlisted_mount_is_unreachable() -> None:
    """It was unmounted between two reads, or a chroot hides it."""
    host = debian_host().path("/gone", "8:16", 99)
    assert resolve(host, "/gone") == Unreachable("is on a mount that the mount table does not list")


@pytest.mark.parametrize(
    ("gap", "reason"),
    [
        (absent(), "does not exist"),
        (denied(), "cannot be reached: Permission denied"),
        (
            Unknown("path", Why.TIMED_OUT, "no answer in 20 s"),
            "cannot be reached: no answer in 20 s",
        ),
    ],
)
def test_a_path_that_cannot_be_examined_is_unreachable(gap: Unknown, reason: str) -> None:
    """Missing, denied and hung have different reasons."""
    assert resolve(debian_host().answer(ResolvePath("/x"), gap), "/x") == Unreachable(reason)


def test_a_mounted_block_device_selects_its_filesystem() -> None:
    """Its superblock does not have to be read."""
    host = debian_host().as_user()
    assert resolve(host, "/dev/sdb") == Superblocks((SDB,))
    assert resolve(host.node("/dev/disk/by-uuid/x", "8:1"), "/dev/disk/by-uuid/x") == Superblocks(
        (SDA1,)
    )


def test_an_unmounted_ext4_device_is_audited_from_its_superblock() -> None:
    """The superblock on the disk can be audited without a mount."""
    assert resolve(with_disk("ext4", dumpe2fs_text()), "/dev/sdc") == Superblocks(
        (SDC,), "not mounted: audited from its superblock"
    )


@pytest.mark.parametrize("gap", [denied(), absent()])
def test_an_unmounted_ext4_device_with_an_unread_superblock_is_a_subject(
    gap: Unknown,
) -> None:
    """Udev shows the type ext4; the verdicts name the missing evidence."""
    assert resolve(with_disk("ext4", gap), "/dev/sdc") == Superblocks(
        (SDC,), "not mounted, and its superblock cannot be read"
    )


@pytest.mark.parametrize(
    "message",
    [
        "Journal superblock magic number invalid!",
        "dumpe2fs: Attempt to read block … short read while reading journal super block",
    ],
)
def test_a_device_whose_journal_cannot_be_read_is_ext4(message: str) -> None:
    """Without udev only dumpe2fs knows the type, and it stops there after the superblock."""
    failed = Unknown("dumpe2fs", Why.FAILED, f"{message} (exit status 1)")
    note = "not mounted, and dumpe2fs cannot read its journal"
    assert resolve(with_disk(None, failed), "/dev/sdc") == Superblocks((SDC,), note)
    assert resolve(with_disk("xfs", failed), "/dev/sdc") == NotExt4("not ext4: xfs")


@pytest.mark.parametrize(
    ("fstype", "superblock", "expected"),
    [
        ("xfs", NO_MAGIC, NotExt4("not ext4: xfs")),
        ("crypto_LUKS", denied(), NotExt4("not ext4: crypto_LUKS")),
        (
            None,
            NO_MAGIC,
            NotExt4(
                "not ext4: no ext4 superblock on it "
                "(dumpe2fs: Bad magic number in super-block (exit status 1))"
            ),
        ),
        (
            "jbd",
            dumpe2fs_text(features="journal_dev"),
            NotExt4("not ext4: it is an external journal, not a filesystem"),
        ),
        (None, denied(), Unreachable("cannot be read: Permission denied; run as root")),
        (
            None,
            Unknown("dumpe2fs", Why.ABSENT, "no dumpe2fs in /sbin", "install e2fsprogs"),
            Unreachable("cannot be read: no dumpe2fs in /sbin; install e2fsprogs"),
        ),
        (
            None,
            Unknown("dumpe2fs", Why.TIMED_OUT, "no answer in 20 s"),
            Unreachable("cannot be read: no answer in 20 s"),
        ),
    ],
)
def test_only_dumpe2fs_proves_that_an_unmounted_device_has_no_ext4(
    fstype: str | None, superblock: str | Unknown, expected: Target
) -> None:
    """Only a dumpe2fs that ran and found nothing proves that there is no ext4."""
    assert resolve(with_disk(fstype, superblock), "/dev/sdc") == expected


def test_an_image_file_of_a_loop_device_selects_its_filesystem() -> None:
    """The backing file of a live loop device selects the filesystem on it."""
    host = debian_host().loop("loop0", "7:0", "/data/disk.img").options("loop0")
    host.path("/data/disk.img", "8:16", 30, "file")
    assert resolve(host, "/data/disk.img") == Superblocks(
        (DeviceNumber(7, 0),),
        "the image behind /dev/loop0; name its directory for the one that contains it",
    )
    assert resolve(host, "/data") == Superblocks((SDB,))


def test_an_image_file_is_found_by_its_canonical_name() -> None:
    """A symbolic link to the image selects the image."""
    host = debian_host().loop("loop0", "7:0", "/data/disk.img").options("loop0")
    host.path("/link", "8:16", 30, "file").answer(RealPath("/link"), "/data/disk.img")
    found = resolve(host, "/link")
    assert isinstance(found, Superblocks)
    assert found.device_numbers == (DeviceNumber(7, 0),)


@pytest.mark.parametrize("backing", ["/data/other.img", "/data/disk.img (deleted)"])
def test_a_file_without_a_loop_device_selects_the_filesystem_around_it(backing: str) -> None:
    """It selects the filesystem that contains it."""
    host = debian_host().loop("loop0", "7:0", backing).options("loop0")
    host.path("/data/disk.img", "8:16", 30, "file")
    assert resolve(host, "/data/disk.img") == Superblocks((SDB,))


def test_without_root_lsblk_gives_the_type_of_an_unmounted_device() -> None:
    """Without root the type that udev found decides."""
    host = with_disk("ext4", dumpe2fs_text(DATA_UUID)).as_user()
    assert resolve(host, "/dev/sdc") == Superblocks(
        (SDC,), "not mounted, and its superblock cannot be read"
    )


ROOT, DATA, LOOP = DeviceNumber(8, 1), DeviceNumber(9, 127), DeviceNumber(7, 0)
ROOT_MOUNT = mount("/", number=ROOT)
DATA_MOUNT = mount("/data", number=DATA)
TMPFS = mount("/data/run", number=DeviceNumber(0, 30), fstype="tmpfs")
HOST = host(
    filesystem(device_number=ROOT, name="sda1", device="/dev/sda1", uuid=None, label="root"),
    filesystem(device_number=DATA, name="dm-3", device="/dev/mapper/vg-data", uuid=UUID),
    mounts=known((ROOT_MOUNT, DATA_MOUNT, TMPFS)),
    gaps=(UNREAD,),
)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("/dev/sda1", ["sda1"]),
        ("sda1", ["sda1"]),
        ("8:1", ["sda1"]),
        ("LABEL=root", ["sda1"]),
        ("/dev/mapper/vg-data", ["dm-3"]),
        ("/dev/dm-3", ["dm-3"]),
        (UUID, ["dm-3"]),
        (f"UUID={UUID}", ["dm-3"]),
        ("/", ["sda1"]),
        ("/data", ["dm-3"]),
        ("/data/", ["dm-3"]),
        ("/data/mysql/ibdata1", ["dm-3"]),
        ("/database", ["sda1"]),
        ("/dev/sdz", []),
        ("/data/run/x", []),
        ("root", []),
        ("", []),
    ],
)
def test_filesystems_are_found_by_every_kind_of_name(word: str, expected: list[str]) -> None:
    """Device, number, UUID, label, or a path on it; a path on another filesystem names none."""
    assert [fs.name for fs in named_filesystems(HOST, word)] == expected


def test_a_path_leads_to_the_last_mount_on_its_directory() -> None:
    """Of two filesystems on one mount point the later hides the earlier."""
    two = host(
        filesystem(device_number=ROOT, name="below"),
        filesystem(device_number=DATA, name="above"),
        mounts=known(
            (
                mount("/m", number=ROOT),
                mount("/m", number=DATA),
            )
        ),
    )
    assert [fs.name for fs in named_filesystems(two, "/m/file")] == ["above"]


def test_without_a_mount_table_a_path_selects_no_filesystem() -> None:
    """Missing evidence is not guessed."""
    unseen = host(filesystem(device_number=ROOT), mounts=UNREAD)
    assert named_filesystems(unseen, "/data") == ()


def test_a_host_limited_to_targets_has_no_gaps() -> None:
    """As in a live scan of TARGETs, the host as a whole is out of scope."""
    left = only_filesystems(HOST, ["/data", "sda1", UUID])
    assert [fs.name for fs in left.filesystems] == ["sda1", "dm-3"]
    assert left.gaps == ()


def test_the_filesystem_that_holds_an_image_is_kept() -> None:
    """As in a live scan of TARGETs: its barriers decide whether the image's writes are flushed."""
    image = filesystem(device_number=LOOP, name="loop0", stack=known(loop(backing=ROOT)))
    whole = host(*HOST.filesystems, image, lower=(), unmounted=UNREAD)
    left = only_filesystems(whole, ["loop0"])
    assert [fs.name for fs in left.filesystems] == ["loop0"]
    assert [fs.name for fs in left.lower] == ["sda1"]
    assert left.unmounted == OUT_OF_SCOPE
    both = only_filesystems(whole, ["loop0", "sda1"])
    assert [fs.name for fs in both.filesystems] == ["sda1", "loop0"]
    assert [fs.name for fs in both.lower] == ["dm-3"]  # it is on the disk of sda1
    again = only_filesystems(left, ["loop0"])
    assert again == left
