"""planned_host: a plan as the rules see it."""

from __future__ import annotations

from dataclasses import replace

from builders import unknown
from ext4audit.evidence import Known, Unknown
from ext4audit.facts.layout import MetadataLayout
from ext4audit.facts.options import Setter
from ext4audit.facts.plan import Plan
from planned import disk_plan, host_of, plan
from real_mke2fs import needs_e2fsprogs

pytestmark = needs_e2fsprogs


def tokens(of: Plan, *names: str) -> list[object]:
    """Return the tokens in force of some options of the planned filesystem."""
    options = host_of(of).filesystems[0].options
    assert isinstance(options, Known)
    found = (options.value.token(name) for name in names)
    return [each.value if isinstance(each, Known) else each for each in found]


def test_options_in_force_are_the_planned_ones_over_the_kernels_defaults() -> None:
    """Resolved as on a live host, from the superblock, the mount table and the kernel."""
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
    assert found.set_by is Setter.MOUNT


def test_without_a_kernel_its_defaults_are_holes() -> None:
    """The hint is that of the kernel."""
    hole = unknown("kernel of the plan", hint="--kernel RELEASE")
    of = disk_plan("", "nobarrier")
    of = replace(of, host=replace(of.host, kernel=hole))
    barrier, delalloc = tokens(of, "barrier", "delalloc")
    assert barrier == "nobarrier"
    assert isinstance(delalloc, Unknown)
    assert delalloc.hint == "--kernel RELEASE"


def test_a_default_that_is_not_verified_asks_to_be_said() -> None:
    """journal_checksum depends on more than the version."""
    (hole,) = tokens(disk_plan(), "journal_checksum")
    assert isinstance(hole, Unknown)
    assert "--mount-options" in hole.hint


def test_the_article_is_predicted() -> None:
    """12 members of 100 GiB less 64 MiB, chunks of 512 KiB: to the last digit."""
    layout = host_of(plan()).filesystems[0].layout
    assert isinstance(layout, Known)
    found: MetadataLayout = layout.value
    loads = [each.bitmaps for each in found.members]
    assert loads == [6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0]
    assert (found.basis, layout.origin) == ("simulated", "made by mke2fs in memory")


def test_one_disk_and_a_mirror_have_no_layout() -> None:
    """Nothing stripes there."""
    assert host_of(disk_plan()).filesystems[0].layout is None
    mirror = plan(level="raid1", members=2, size_bytes=1 << 30)
    assert host_of(mirror).filesystems[0].layout is None


def test_the_host_is_that_of_the_plan() -> None:
    """One filesystem, mounted, with its entry of fstab."""
    host = host_of(disk_plan("", "ro"))
    (fs,) = host.filesystems
    assert (fs.alive, fs.mount_points, fs.device, fs.id) == (True, ("/data",), "/dev/sdX", "259:0")
    assert fs.read_only == Known(value=True, origin="planned mount options")
    assert host.mounts == Known(fs.mounts, "the plan")
    assert (host.name, host.taken_at, host.gaps) == ("planned", "2026-01-02T03:04:05Z", ())


def test_a_planned_filesystem_is_empty_and_without_errors() -> None:
    """Nothing was written yet, and lazy initialization is not what a plan is judged by."""
    (fs,) = host_of(disk_plan("", "noatime")).filesystems
    assert isinstance(fs.usage, Known)
    assert fs.usage.value.free_blocks == fs.usage.value.size_blocks > 0
    assert fs.usage.value.available_blocks < fs.usage.value.free_blocks
    assert isinstance(fs.errors, Known)
    known = (fs.errors.value.errors, fs.journal_errno, fs.unzeroed_groups)
    assert known == (0, Known(0, "the plan"), Known(0, "the plan"))
