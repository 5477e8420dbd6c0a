from __future__ import annotations

from builders import filesystem, host, superblock
from ext4audit.assemble.image import ImageFilesystem
from ext4audit.assemble.image_host import host_of_images, with_images
from ext4audit.engine import judge
from ext4audit.evidence import Known, Unknown, Why
from ext4audit.facts.host import Host
from ext4audit.facts.partition import Partition
from ext4audit.report import Outcome
from ext4audit.rule import Scope
from ext4audit.rules import all_rules

UUID = "0c6f6e2a-0000-4000-8000-000000000001"


def image(path: str = "/srv/fs.img", uuid: str | None = UUID, **changes: object) -> ImageFilesystem:
    """Build a filesystem in an image."""
    values: dict[str, object] = {"start_bytes": 0, **changes}
    return ImageFilesystem(path, superblock=Known(superblock(uuid=uuid), path), **values)  # type: ignore[arg-type]


def of_images(*images: ImageFilesystem) -> Host:
    """Build the host of images."""
    return host_of_images(images, "2026-01-02T03:04:05Z", "fs.img")


def test_an_image_is_a_filesystem_that_is_not_mounted() -> None:
    """It has the superblock's names, and nothing that only a mount has."""
    (fs,) = of_images(image()).filesystems
    assert (fs.alive, fs.mounts, fs.device, fs.name) == (False, (), "/srv/fs.img", "fs.img")
    assert (fs.id, fs.uuid, fs.layout) == (UUID, UUID, None)
    assert isinstance(fs.options, Unknown)
    assert fs.options.why is Why.ABSENT


def test_a_partition_lies_on_the_image() -> None:
    """Its start counts in sectors, so that alignment can be judged."""
    part = image(start_bytes=1048576, partition=Partition(3, 1048576, 4096000))
    (fs,) = of_images(part).filesystems
    assert isinstance(fs.stack, Known)
    top, below = fs.stack.value.walk()
    assert (top.kind, top.name, top.start_sectors) == ("partition", "fs.img partition 3", 2048)
    assert top.size_sectors == Known(8000, "/srv/fs.img")
    assert (below.kind, below.name, below.path) == ("image", "fs.img", "/srv/fs.img")
    assert fs.device == "/srv/fs.img?offset=1048576"


def test_a_copy_by_e2image_is_told_apart() -> None:
    """No command may write to it in the hope that it is the filesystem."""
    (fs,) = of_images(image(descriptors_at_bytes=8192)).filesystems
    assert isinstance(fs.stack, Known)
    assert fs.stack.value.kind == "e2image"


def test_what_an_image_cannot_tell_says_where_to_ask() -> None:
    """Kernel, memory and fstab are those of the host that will mount it."""
    found = of_images(image())
    for hole in (found.kernel, found.memory, found.fstab, found.mounts, found.kernel_arguments):
        assert isinstance(hole, Unknown)
        assert hole.why is Why.NOT_CAPTURED
        assert hole.hint == "scan it on the host that mounts it, or plan for that host"
    assert found.gaps == ()


def test_a_healthy_image_passes_or_is_not_concerned() -> None:
    """No rule about filesystems asks an image for what it cannot tell."""
    found = of_images(image())
    rules = [rule for rule in all_rules() if rule.scope is Scope.FILESYSTEM]
    verdicts = [judge(rule, found.filesystems[0], found) for rule in rules]
    outcomes = {v.rule.code: v.outcome for v in verdicts}
    assert set(outcomes.values()) <= {Outcome.PASS, Outcome.NOT_APPLICABLE}, outcomes
    assert outcomes["DUR002"] is Outcome.PASS


def test_copies_of_one_filesystem_have_ids_of_their_own() -> None:
    """A backup and its original share the UUID, and so may a live filesystem."""
    found = of_images(image(), image("/srv/copy.img"), image("/srv/other.img", uuid=None))
    assert [fs.id for fs in found.filesystems] == [f"{UUID}@0:1", f"{UUID}@0:3", "0:5"]
    live = with_images(host(filesystem(uuid=UUID)), [image()])
    assert [fs.id for fs in live.filesystems] == [f"{UUID}@8:0", f"{UUID}@0:1"]


def test_beside_a_live_filesystem_the_host_is_known() -> None:
    """The host is that of the mount; the image is one subject more."""
    live = host(filesystem())
    both = with_images(live, [image(uuid=None)])
    assert (both.name, both.kernel, both.gaps) == (live.name, live.kernel, live.gaps)
    assert [fs.device for fs in both.filesystems] == ["/dev/sda", "/srv/fs.img"]
