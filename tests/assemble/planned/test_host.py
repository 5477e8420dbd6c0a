"""planned_host: the host that a plan describes, as rules see it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ext4audit.assemble.planned import (
    planned_entry,
    planned_mount,
    planned_stack,
    planned_usage,
)
from ext4audit.evidence import Known, Unknown, Why, need
from ext4audit.facts.layout import MetadataLayout
from ext4audit.facts.mount import DeviceNumber, Provenance
from ext4audit.facts.plan import Plan
from ext4audit.layout.levels import map_of
from ext4audit.layout.stack import map_stack
from ext4audit.report import Outcome
from support.builders import superblock, unknown
from support.hosts.plans import TWELVE_DISKS_BYTES, disk_plan, host_of, judge_by, plan
from support.images.mke2fs import needs_e2fsprogs

GIB = 1 << 30


def test_an_array_is_planned_from_unnamed_disks() -> None:
    """Each disk has its queue settings, the array its I/O sizes."""
    stack = planned_stack(plan())
    assert (stack.path, stack.kind) == ("/dev/md0", "raid0")
    assert [each.name for each in stack.leaves()][-2:] == ["disk10", "disk11"]
    assert stack.queue.minimum_io_bytes == Known(524288, "the plan")
    assert stack.queue.optimal_io_bytes == Known(6291456, "the plan")
    assert isinstance(stack.queue.nr_requests, Unknown)
    assert {each.queue.nr_requests for each in stack.leaves()} == {
        Known(256, "/sys/block/sda/queue/nr_requests")
    }


@pytest.mark.parametrize(
    ("level", "members", "member_bytes"),
    [
        ("raid0", 12, 100 * GIB - (64 << 20)),
        ("raid1", 2, TWELVE_DISKS_BYTES),
        ("raid5", 4, 429228294144),
        ("raid6", 5, 429228294144),
        ("raid10", 5, 515074162688),
    ],
)
def test_members_are_as_large_as_the_array_needs(
    level: str, members: int, member_bytes: int
) -> None:
    """Member sizes are whole chunks, rounded up."""
    leaves = planned_stack(plan(level=level, members=members)).leaves()
    assert len(leaves) == members
    assert {each.size_sectors for each in leaves} == {Known(member_bytes // 512, "the plan")}
    array = need(planned_stack(plan(level=level, members=members)).md or unknown("md"))
    assert [(each.slot, each.size_sectors) for each in array.members] == [
        (slot, member_bytes // 512) for slot in range(members)
    ]


@pytest.mark.parametrize(("level", "members"), [("raid0", 3), ("raid10", 4), ("raid5", 5)])
def test_the_planned_stack_maps_bytes_as_the_geometry_does(level: str, members: int) -> None:
    """Byte positions map to the same members as the plan's geometry gives."""
    of = plan(level=level, members=members)
    stack, geometry = map_stack(planned_stack(of)), of.geometry
    assert isinstance(stack, Known)
    assert geometry is not None
    described = map_of(geometry)
    for chunk in range(40):
        byte = chunk * of.chunk_bytes
        ours = [place.member for place in stack.value.data(byte)]
        assert ours == [place.member for place in described.data(byte)]


def test_a_single_planned_disk_has_the_name_of_the_device() -> None:
    """The disk has the name of the planned device."""
    stack = planned_stack(disk_plan())
    assert (stack.name, stack.kind, stack.leaves()) == ("sdX", "disk", (stack,))
    assert stack.size_sectors == Known(2097152, "the plan")


NUMBER = DeviceNumber(9, 0)


@pytest.mark.parametrize(
    ("words", "flags", "options"),
    [
        ("", "rw,relatime", "rw"),
        ("noatime,nobarrier", "rw,noatime", "rw,nobarrier"),
        ("barrier=0", "rw,relatime", "rw,nobarrier"),
        ("nobarrier,barrier", "rw,relatime", "rw,barrier"),
        ("ro,strictatime,nosuid", "ro,nosuid", "ro"),
        ("ro,rw,sync,lazytime,async", "rw,relatime", "rw,lazytime"),
        ("user,exec", "rw,nosuid,nodev,relatime", "rw"),
        ("nofail,x-systemd.automount,_netdev", "rw,relatime", "rw"),
        ("data=journal", "rw,relatime", "rw,data=journal,nodelalloc,nodioread_nolock"),
        ("nobariers", "rw,relatime", "rw"),
    ],
)
def test_mount_flags_and_superblock_options_are_separate_in_mountinfo(
    words: str, flags: str, options: str
) -> None:
    """Mount flags and superblock options are separate; the last of two options wins."""
    mount = planned_mount(plan("", *filter(None, words.split(","))), NUMBER)
    assert ",".join(mount.mount_options) == flags
    assert ",".join(mount.super_options) == options
    assert (mount.mount_point, mount.source, mount.root) == ("/data", "/dev/md0", "/")
    assert (mount.mount_id, mount.parent_id) == (1, 0)


@pytest.mark.parametrize(
    ("words", "stripe", "options"),
    [((), 1536, "rw,stripe=1536"), (("stripe=48",), 1536, "rw,stripe=48"), ((), 0, "rw")],
)
def test_mountinfo_has_the_stripe_of_the_superblock(
    words: tuple[str, ...], stripe: int, options: str
) -> None:
    """The kernel lists the superblock's stripe if no mount option sets another."""
    made = superblock(stripe_width_blocks=stripe)
    assert ",".join(planned_mount(plan("", *words), NUMBER, made).super_options) == options


@pytest.mark.parametrize(
    ("words", "mount_point", "raw", "fsck_pass"),
    [
        ((), "/data", "defaults", 2),
        (("noatime", "nobarrier"), "/data", "noatime,nobarrier", 2),
        (("noatime",), "/", "noatime", 1),
    ],
)
def test_the_fstab_entry_has_the_planned_options_and_device(
    words: tuple[str, ...], mount_point: str, raw: str, fsck_pass: int
) -> None:
    """It has the planned options and device; the root filesystem is checked first."""
    entry = planned_entry(plan("", *words, mount_point=mount_point), NUMBER)
    assert (entry.line.raw_options, entry.line.fsck_pass) == (raw, fsck_pass)
    assert entry.is_for(planned_mount(plan(mount_point=mount_point), NUMBER))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, (904, 904, 804, 100, 89), id="tables and journal are taken"),
        pytest.param({"free_blocks": 700, "free_inodes": 80}, (700, 700, 600, 100, 80), id="told"),
        pytest.param({"free_blocks": 50}, (50, 50, 0, 100, 89), id="less than the reserve"),
        pytest.param({"journal_bytes": None}, (994, 994, 894, 100, 89), id="no journal"),
    ],
)
def test_a_fresh_filesystem_is_empty_but_for_its_metadata(
    changes: dict[str, int | None], expected: tuple[int, ...]
) -> None:
    """Size, free and available blocks, inodes and free inodes; ext4 reserves eleven inodes."""
    values: dict[str, object] = {
        "size_blocks": 1000,
        "reserved_blocks": 100,
        "inode_count": 100,
        "inode_bytes": 256,
        "journal_bytes": 90 * 4096,
        **changes,
    }
    found = planned_usage(superblock(**values))
    counted = found.size_blocks, found.free_blocks, found.available_blocks
    assert (*counted, found.inodes, found.free_inodes) == expected
    assert found.block_bytes == 4096


@pytest.mark.parametrize("field", ["block_bytes", "inode_count", "inode_bytes", "reserved_blocks"])
def test_the_usage_of_unknown_sizes_is_an_error(field: str) -> None:
    """Sizes are not guessed."""
    with pytest.raises(ValueError, match="not known"):
        planned_usage(superblock(**{"reserved_blocks": 100, field: None}))


pytestmark = needs_e2fsprogs


def tokens(of: Plan, *names: str) -> list[object]:
    """Return the tokens in force of some options of the planned filesystem."""
    options = host_of(of).filesystems[0].options
    assert isinstance(options, Known)
    found = (options.value.token(name) for name in names)
    return [each.value if isinstance(each, Known) else each for each in found]


def test_options_in_force_are_the_planned_ones_over_the_kernels_defaults() -> None:
    """They are resolved as on a live host, from superblock, mount table and kernel."""
    of = disk_plan("", "nobarrier", "noatime", release="5.4.286")
    assert tokens(of, "barrier", "delalloc", "dioread_nolock", "data") == [
        "nobarrier",
        "delalloc",
        "nodioread_nolock",
        "data=ordered",
    ]
    options = host_of(of).filesystems[0].options
    assert isinstance(options, Known)
    found = options.value.find("barrier")
    assert found is not None
    assert found.set_by is Provenance.MOUNT


def test_without_a_journal_there_is_no_data_mode() -> None:
    """The kernel refuses a mount with one, so the plan is complete without."""
    of = disk_plan("-O ^has_journal", "nodelalloc")
    (gap,) = tokens(of, "data")
    assert isinstance(gap, Unknown)
    assert gap.why is Why.ABSENT
    report = judge_by("DUR003", "PRF002", "PRF003")(of)
    outcomes = {verdict.rule.code: verdict.outcome for verdict in report.verdicts}
    assert outcomes["DUR003"] is Outcome.NOT_APPLICABLE
    assert Outcome.UNDETERMINED not in outcomes.values()


def test_without_a_kernel_its_defaults_are_unknown() -> None:
    """The hint is that of the unknown kernel."""
    gap = unknown("kernel of the plan", hint="--kernel RELEASE")
    of = disk_plan("", "nobarrier")
    of = replace(of, host=replace(of.host, kernel=gap))
    barrier, delalloc = tokens(of, "barrier", "delalloc")
    assert barrier == "nobarrier"
    assert isinstance(delalloc, Unknown)
    assert delalloc.hint == "--kernel RELEASE"


def test_an_unverified_default_has_the_hint_to_set_the_option() -> None:
    """journal_checksum depends on more than the version, so the hint is to set it explicitly."""
    (gap,) = tokens(disk_plan(), "journal_checksum")
    assert isinstance(gap, Unknown)
    assert "--mount-options" in gap.hint


def test_the_figures_of_the_public_article_are_predicted() -> None:
    """12 members of 100 GiB less 64 MiB, chunks of 512 KiB: all figures match exactly."""
    layout = host_of(plan()).filesystems[0].layout
    assert isinstance(layout, Known)
    found: MetadataLayout = layout.value
    loads = [each.bitmaps for each in found.members]
    assert loads == [6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0]
    assert (found.basis, layout.origin) == ("simulated", "made by mke2fs in memory")
    assert found.device_bytes == plan().size_bytes


def test_one_disk_and_a_mirror_have_no_layout() -> None:
    """Neither of them stripes."""
    assert host_of(disk_plan()).filesystems[0].layout is None
    mirror = plan(level="raid1", members=2, size_bytes=1 << 30)
    assert host_of(mirror).filesystems[0].layout is None


def test_the_planned_host_has_one_mounted_filesystem() -> None:
    """It has one filesystem, which is mounted and has an fstab entry."""
    host = host_of(disk_plan("", "ro"))
    (fs,) = host.filesystems
    assert (fs.alive, fs.mount_points, fs.device, fs.id) == (True, ("/data",), "/dev/sdX", "259:0")
    assert fs.read_only == Known(value=True, origin="planned mount options")
    assert (host.planned, host.mounts) == (True, Known(fs.mounts, "the plan"))
    assert (host.name, host.taken_at, host.gaps) == ("planned", "2026-01-02T03:04:05Z", ())


def test_a_planned_filesystem_is_empty_and_without_errors() -> None:
    """Nothing was written yet, and a plan is not judged by lazy initialization."""
    (fs,) = host_of(disk_plan("", "noatime")).filesystems
    assert isinstance(fs.usage, Known)
    assert fs.usage.value.free_blocks == fs.usage.value.size_blocks > 0
    assert fs.usage.value.available_blocks < fs.usage.value.free_blocks
    assert isinstance(fs.errors, Known)
    known = (fs.errors.value.errors, fs.journal_errno, fs.unzeroed_groups)
    assert known == (0, Known(0, "the plan"), Known(0, "the plan"))
