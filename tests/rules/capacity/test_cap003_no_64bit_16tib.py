"""CAP003: a filesystem with 32-bit block numbers on a large device."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Disruption, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.capacity.cap003_no_64bit_16tib import check
from support.builders import GIB, disk, filesystem, host, known, mount, superblock, unknown, usage
from support.filesystems.scratch import run
from support.remedies.case import LoopMount, RemedyCase

TIB = 1024 * GIB
SECTOR_TIB = 2**-31
WITHOUT_64BIT_FEATURES = frozenset({"has_journal", "extent"})


def verdict(fs: Filesystem, *, planned: bool = False) -> Verdict:
    """Judge one filesystem."""
    return judge(check, fs, host(fs)._replace(planned=planned))


def on_device_of(
    tib: float,
    *,
    block: int = 4096,
    features: frozenset[str] = WITHOUT_64BIT_FEATURES,
    **changes: Any,
) -> Filesystem:
    """Build a small filesystem on a device of this size."""
    values: dict[str, Any] = {
        "stack": known(disk(size_sectors=known(int(tib * TIB) // 512))),
        "superblock": known(superblock(features=features, block_bytes=block)),
        "usage": known(usage(block_bytes=block)),
    }
    values.update(changes)
    return filesystem(**values)


NO_SUPERBLOCK: dict[str, Any] = {"superblock": unknown("superblock")}
NO_USAGE: dict[str, Any] = {"usage": unknown("space in use")}
WITH_64BIT_FEATURES = frozenset({"64bit"})


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (on_device_of(8), Outcome.FAIL),
        (on_device_of(8 - SECTOR_TIB), Outcome.NOT_APPLICABLE),
        (on_device_of(7.9, **NO_SUPERBLOCK), Outcome.NOT_APPLICABLE),
        (on_device_of(8, **NO_SUPERBLOCK), Outcome.UNDETERMINED),
        (on_device_of(1.9, **NO_SUPERBLOCK, **NO_USAGE), Outcome.NOT_APPLICABLE),
        (on_device_of(2 - SECTOR_TIB, **NO_SUPERBLOCK, **NO_USAGE), Outcome.NOT_APPLICABLE),
        (on_device_of(2, **NO_SUPERBLOCK, **NO_USAGE), Outcome.UNDETERMINED),
        (on_device_of(2.1, **NO_USAGE), Outcome.NOT_APPLICABLE),
        (on_device_of(2, block=1024), Outcome.FAIL),
        # The features that current mke2fs sets at any size.
        (on_device_of(20, features=WITH_64BIT_FEATURES), Outcome.PASS),
        (on_device_of(8, stack=unknown("stack")), Outcome.UNDETERMINED),
        (
            filesystem(superblock=known(superblock(features=WITHOUT_64BIT_FEATURES))),
            Outcome.NOT_APPLICABLE,
        ),
    ],
)
def test_cap003_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """The rule applies from half of 2^32 blocks on; below that, no superblock is needed."""
    assert verdict(fs).outcome is outcome


@pytest.mark.parametrize(
    ("tib", "block", "severity", "words"),
    [
        (8, 4096, Severity.MEDIUM, "limited to 16 TiB; the device has 8 TiB."),
        (16, 4096, Severity.MEDIUM, "limited to 16 TiB"),
        (16 + SECTOR_TIB, 4096, Severity.HIGH, "cannot use 512 bytes of the device"),
        (20, 4096, Severity.HIGH, "cannot use 4 TiB of the device"),
        (5, 1024, Severity.HIGH, "limited to 4 TiB; it cannot use 1 TiB of"),
    ],
)
def test_cap003_severity_by_size_of_the_device(
    tib: float, block: int, severity: Severity, words: str
) -> None:
    """The limit follows from the block size."""
    (finding,) = verdict(on_device_of(tib, block=block)).findings
    assert finding.severity is severity
    assert words in finding.message


def test_cap003_cites_statfs_for_the_block_size_without_root() -> None:
    """Without root the block size in the superblock is unknown."""
    bare = known(superblock(features=WITHOUT_64BIT_FEATURES, block_bytes=None), "ioctl")
    (finding,) = verdict(on_device_of(20, superblock=bare, usage=known(usage(), "statfs"))).findings
    assert [(each.value, each.origin) for each in finding.citations[:2]] == [
        (" ".join(sorted(WITHOUT_64BIT_FEATURES)), "ioctl"),
        ("4096 bytes", "statfs"),
    ]


def test_cap003_is_info_in_every_plan() -> None:
    """Before the filesystem exists, the feature costs nothing."""
    (finding,) = verdict(on_device_of(1), planned=True).findings
    assert finding.severity is Severity.INFO
    assert (
        verdict(on_device_of(1, features=WITH_64BIT_FEATURES), planned=True).outcome is Outcome.PASS
    )


def test_cap003_remedy_converts_the_unmounted_filesystem() -> None:
    """The unmount is checked, because another mount namespace may still hold the filesystem."""
    (finding,) = verdict(on_device_of(8)).findings
    (remedy,) = finding.remedies
    assert remedy.disruption is Disruption.UNMOUNT
    commands = [step.command for step in remedy.lines]
    guard = "test ! -e /sys/fs/ext4/sda && "
    assert commands[:4] == [
        "umount /data",
        f"{guard}{{ e2fsck -f -p /dev/sda || test $? -eq 1; }}",
        f"{guard}resize2fs -b /dev/sda",
        "mount -t ext4 -o rw,relatime /dev/sda /data",
    ]
    assert commands[-2] == (
        f"{guard}{{ e2fsck -f -p /dev/sda || test $? -eq 1; }} && resize2fs -s /dev/sda"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mounts": (mount("/"),)}, "from a rescue system"),
        (
            {"mounts": (mount("/a"), mount("/b", mount_id=31))},
            "as soon as it is not mounted anywhere",
        ),
        ({"mounts": ()}, "mount namespace that uses it"),
    ],
)
def test_cap003_prints_no_commands_if_one_unmount_is_not_enough(
    changes: dict[str, Any], words: str
) -> None:
    """For the root, several mounts, or another namespace there is only advice."""
    (finding,) = verdict(on_device_of(8, **changes)).findings
    assert finding.remedies[0].steps == ()
    assert words in finding.remedies[0].summary


def test_cap003_remedy_of_an_unmounted_filesystem() -> None:
    """Nothing has to be unmounted or mounted again."""
    (finding,) = verdict(on_device_of(8, alive=False, mounts=(), **NO_USAGE)).findings
    commands = [step.command for step in finding.remedies[0].lines]
    assert not any("mount " in command for command in commands)
    assert commands[1] == "test ! -e /sys/fs/ext4/sda && resize2fs -b /dev/sda"


def test_cap003_prints_no_commands_without_extents() -> None:
    """Resize2fs refuses it ("Please enable the extents feature", 1.47.0)."""
    (finding,) = verdict(on_device_of(8, features=frozenset({"has_journal"}))).findings
    (remedy,) = finding.remedies
    assert (remedy.steps, remedy.destructive) == ((), True)


# Small filesystems on a device of 9 TiB, which is a sparse file.
WITHOUT_64BIT = ("-O", "^64bit")


def enlarge_device(loop_mount: LoopMount) -> None:
    """Make the device larger than half of the limit of 32-bit block numbers."""
    run("truncate", "-s", "9T", loop_mount.image)
    run("losetup", "--set-capacity", loop_mount.device)


def test_cap003_compares_the_size_of_an_image_itself() -> None:
    """The device that the image will be written to is not known."""
    blocks = 9 * TIB // 4096
    held = superblock(features=WITHOUT_64BIT_FEATURES, size_blocks=blocks)
    fs = on_device_of(0, superblock=known(held), stack=known(disk(kind="image")))
    (finding,) = verdict(fs).findings
    assert finding.message == "Without 64bit, the filesystem is limited to 16 TiB; it has 9 TiB."
    assert "filesystem size" in [cited.label for cited in finding.citations]


REMEDY_CASES = (
    RemedyCase(
        name="mounted by fstab",
        remedy="convert it to 64 bits",
        mke2fs=WITHOUT_64BIT,
        mount="noatime",
        fstab="noatime",
        prepare=enlarge_device,
    ),
    RemedyCase(
        name="mounted by hand",
        remedy="convert it to 64 bits",
        mke2fs=WITHOUT_64BIT,
        mount="nosuid,commit=30",
        prepare=enlarge_device,
    ),
    RemedyCase(
        name="not mounted",
        remedy="convert it to 64 bits",
        mke2fs=WITHOUT_64BIT,
        mounted=False,
        prepare=enlarge_device,
    ),
)
