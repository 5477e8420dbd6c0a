"""CAP005: a filesystem that does not fill its device."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.features_and_bugs import ranges_of_rule
from ext4audit.facts.host import ErrorCounters, Filesystem
from ext4audit.facts.mount import Mount
from ext4audit.finding import Disruption, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.capacity.cap005_filesystem_smaller_than_device import check
from support.builders import (
    GIB,
    disk,
    filesystem,
    host,
    kernel,
    known,
    loop,
    mount,
    superblock,
    unknown,
    usage,
)
from support.filesystems.scratch import may_resize, run
from support.remedies.case import LoopMount, RemedyCase, on_kernel

BLOCK = 4096
RESERVED: dict[str, Any] = {"reserved_gdt_blocks": 1024, "descriptor_bytes": 64}
"""The most that mke2fs reserves: with 64bit, enough for 8 TiB."""


def verdict(fs: Filesystem) -> Verdict:
    """Judge one filesystem."""
    return judge(check, fs, host(fs))


def with_sizes(
    own_gib: float, device_gib: float, *, full: float = 0.5, **changes: Any
) -> Filesystem:
    """Build a filesystem of one size on a device of another; ext4 itself takes 2 % of it."""
    blocks = int(own_gib * GIB) // BLOCK
    shown = int(blocks * 0.98)
    free = int(shown * (1 - full))
    found = usage(size_blocks=shown, free_blocks=free, available_blocks=free)
    values: dict[str, Any] = {
        "stack": known(disk(size_sectors=known(int(device_gib * GIB) // 512, "/sys"))),
        "superblock": known(superblock(size_blocks=blocks, **RESERVED)),
        "usage": known(found, "statfs"),
    }
    values.update(changes)
    return filesystem(**values)


OF_100_GIB = known(100 * GIB // 512, "/sys")
OVER_FILE = loop(size_sectors=OF_100_GIB)
IN_DISK_IMAGE = loop(size_sectors=OF_100_GIB, offset_bytes=1 << 20)
"""`mount -o loop,offset=` without a size limit: it ends with the file, after other partitions."""
NOT_SEEN_WHERE = loop(size_sectors=OF_100_GIB, offset_bytes=None)
"""As in an archive without losetup."""
ENCRYPTED = disk("dm-0", kind="dm-crypt", size_sectors=OF_100_GIB, below=known((IN_DISK_IMAGE,)))
NO_SUPERBLOCK: dict[str, Any] = {"superblock": unknown("superblock")}
NO_USAGE: dict[str, Any] = {"usage": unknown("space in use")}
SUPERBLOCK_BY_IOCTL: dict[str, Any] = {
    "superblock": known(superblock(size_blocks=20 * GIB // BLOCK, block_bytes=None))
}


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (with_sizes(20, 100), Outcome.FAIL),
        (with_sizes(100, 100), Outcome.PASS),
        (with_sizes(100, 100, **NO_USAGE), Outcome.PASS),
        # Differences caused by rounding of partitions and block groups.
        (with_sizes(99.2, 100), Outcome.PASS),
        (with_sizes(9900.5, 10_000), Outcome.PASS),
        (with_sizes(9899, 10_000), Outcome.FAIL),
        (with_sizes(0.2, 1), Outcome.PASS),
        # Without root: on a small device, the size that df shows is close enough.
        (with_sizes(20, 20, **NO_SUPERBLOCK), Outcome.PASS),
        (with_sizes(100, 100, **NO_SUPERBLOCK), Outcome.UNDETERMINED),
        (with_sizes(20, 100, **NO_SUPERBLOCK), Outcome.UNDETERMINED),
        (with_sizes(20, 100, **SUPERBLOCK_BY_IOCTL), Outcome.FAIL),
        (with_sizes(20, 100, **SUPERBLOCK_BY_IOCTL, **NO_USAGE), Outcome.UNDETERMINED),
        (with_sizes(20, 100, stack=unknown("stack")), Outcome.UNDETERMINED),
        (with_sizes(20, 100, read_only=known(value=True)), Outcome.NOT_APPLICABLE),
        (with_sizes(20, 100, stack=known(OVER_FILE)), Outcome.FAIL),
        (with_sizes(20, 100, stack=known(IN_DISK_IMAGE)), Outcome.NOT_APPLICABLE),
        (with_sizes(100, 100, stack=known(IN_DISK_IMAGE)), Outcome.PASS),
        (with_sizes(20, 100, stack=known(NOT_SEEN_WHERE)), Outcome.UNDETERMINED),
        (with_sizes(100, 100, stack=known(NOT_SEEN_WHERE)), Outcome.PASS),
        (with_sizes(20, 100, stack=known(ENCRYPTED)), Outcome.NOT_APPLICABLE),
        (with_sizes(20, 100, alive=False, mounts=()), Outcome.NOT_APPLICABLE),
    ],
)
def test_cap005_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """More than 1 % and more than 1 GiB of the device must be unused."""
    assert verdict(fs).outcome is outcome


@pytest.mark.parametrize(("full", "severity"), [(0.5, Severity.LOW), (0.85, Severity.MEDIUM)])
def test_cap005_severity_by_space_in_use(full: float, severity: Severity) -> None:
    """A filesystem that is nearly full needs the unused space."""
    (finding,) = verdict(with_sizes(20, 100, full=full)).findings
    assert finding.severity is severity
    assert "80 GiB of /dev/sda are unused: the device has 100 GiB" in finding.message
    assert ("more than 80 % full" in finding.message) is (severity is Severity.MEDIUM)


def test_cap005_online_growth_has_no_rollback() -> None:
    """The growth cannot be undone while it is mounted, so there is no rollback."""
    (finding,) = verdict(with_sizes(20, 100)).findings
    (remedy,) = finding.remedies
    assert remedy.disruption is Disruption.ONLINE
    assert [step.phase.value for step in remedy.lines] == ["immediate", "verify"]
    assert remedy.steps[0].command == "resize2fs /dev/sda"
    assert remedy.steps[1].command.endswith(f'" -le {GIB}')
    assert "recreate the filesystem" not in (remedy.trade_off or "")


@pytest.mark.parametrize(
    ("mounts", "where"),
    [
        ((), "in the mount namespace that has it mounted"),
        ((mount(flags=("ro", "relatime")),), "through a writable mount"),
        ((mount()._replace(overmounted=True),), "as soon as no other mount hides it"),
    ],
)
def test_cap005_online_growth_needs_a_mount(mounts: tuple[Mount, ...], where: str) -> None:
    """resize2fs 1.47.0 ends with "Device or resource busy" where it finds no mount."""
    (finding,) = verdict(with_sizes(20, 100, mounts=mounts)).findings
    (remedy,) = finding.remedies
    assert where in remedy.summary
    assert remedy.steps == ()


@pytest.mark.parametrize(("device_gib", "warned"), [(160, False), (161, True)])
def test_cap005_warns_that_journal_and_block_size_stay(device_gib: int, *, warned: bool) -> None:
    """A filesystem that grows more than 16-fold keeps its old journal and block size."""
    (finding,) = verdict(with_sizes(10, device_gib)).findings
    assert ("recreate the filesystem" in (finding.remedies[0].trade_off or "")) is warned


def test_cap005_leaves_the_32_bit_limit_to_cap003() -> None:
    """resize2fs would stop at 16 TiB."""
    narrow = known(superblock(size_blocks=20 * GIB // BLOCK, features=frozenset({"extent"})))
    (finding,) = verdict(with_sizes(20, 20_000, superblock=narrow)).findings
    assert finding.remedies[0].steps == ()
    assert "CAP003" in finding.remedies[0].summary


@pytest.mark.parametrize(
    ("own_gib", "advice"),
    [
        (900, "Grow it to 1023.9 GiB at most (resize2fs with that size): it"),
        (2048, "Do not run resize2fs yet: it"),
    ],
)
def test_cap005_leaves_the_growth_ceiling_to_cap009(own_gib: int, advice: str) -> None:
    """mke2fs 1.47.0 makes a filesystem above the ceiling, which no size of resize2fs fits."""
    small = superblock(
        size_blocks=own_gib * GIB // 1024,
        block_bytes=1024,
        blocks_per_group=8192,
        first_block=1,
        inodes_per_group=512,
    )
    (finding,) = verdict(with_sizes(own_gib, 3072, superblock=known(small))).findings
    (remedy,) = finding.remedies
    assert remedy.summary == f"{advice} cannot become larger (see CAP009)."
    assert remedy.steps == ()


def test_cap005_prints_no_commands_with_recorded_errors() -> None:
    """The kernel refuses it, and resize2fs only prints "Permission denied"."""
    errors = known(ErrorCounters(errors=1))
    (finding,) = verdict(with_sizes(20, 100, errors=errors)).findings
    assert finding.remedies[0].steps == ()
    assert "HLT001" in finding.remedies[0].summary


DEFAULTS = superblock().features
NONE_RESERVED = known(superblock(size_blocks=20 * GIB // BLOCK, reserved_gdt_blocks=None))

WITHOUT_64BIT = superblock(
    size_blocks=20 * GIB // BLOCK, features=DEFAULTS - {"64bit"}, reserved_gdt_blocks=10
)
"""Each descriptor block describes 16 GiB, or half of that with 64bit."""
WITH_64BIT = WITHOUT_64BIT._replace(features=DEFAULTS, descriptor_bytes=64)


def with_features(*features: str, without: str = "") -> dict[str, Any]:
    """Build the superblock of 20 GiB with features other than mke2fs's defaults."""
    changed = (DEFAULTS | set(features)) - {without}
    return {
        "superblock": known(superblock(size_blocks=20 * GIB // BLOCK, features=changed, **RESERVED))
    }


@pytest.mark.parametrize(
    ("fs", "release", "reason"),
    [
        (with_sizes(20, 100), "6.1.83", ""),
        (with_sizes(20, 8_000), "6.1.83", ""),
        (
            with_sizes(20, 8_220),
            "6.1.83",
            "its reserved group descriptors end at 8 TiB, and this kernel",
        ),
        (with_sizes(20, 8_220), "6.1.84", ""),
        (with_sizes(12_000, 16_384), "6.1.83", ""),
        (with_sizes(12_000, 16_400), "6.1.83", "its reserved group descriptors end at 16 TiB"),
        (with_sizes(20, 192, superblock=known(WITHOUT_64BIT)), "6.1.83", ""),
        (
            with_sizes(20, 193, superblock=known(WITHOUT_64BIT)),
            "6.1.83",
            "descriptors end at 192 GiB",
        ),
        (with_sizes(20, 104, superblock=known(WITH_64BIT)), "6.1.83", ""),
        (
            with_sizes(20, 105, superblock=known(WITH_64BIT)),
            "6.1.83",
            "descriptors end at 104 GiB",
        ),
        (with_sizes(20, 100, **with_features("meta_bg")), "6.1.83", "it has meta_bg"),
        (
            with_sizes(20, 100, **with_features(without="resize_inode")),
            "6.8.2",
            "it lacks resize_inode",
        ),
        (with_sizes(20, 100, **with_features(without="resize_inode")), "6.8.3", ""),
        (
            with_sizes(20, 100, **with_features(without="resize_inode")),
            "5.14.0-427.el9.x86_64",
            "this kernel may lack commit a6b3bfe176e8",
        ),
        (
            with_sizes(20, 100, superblock=NONE_RESERVED),
            "5.4.273",
            "reserved group descriptors is unknown",
        ),
        (with_sizes(20, 100, superblock=NONE_RESERVED), "5.4.274", ""),
        (with_sizes(20, 100, **with_features("meta_bg")), "", "this kernel may lack"),
        (with_sizes(20, 100, **with_features("sparse_super2")), "6.12.1", "with sparse_super2"),
        (with_sizes(20, 100), "", ""),
    ],
)
def test_cap005_grows_offline_on_kernels_with_the_resize_bug(
    fs: Filesystem, release: str, reason: str
) -> None:
    """The remedy is online only if the kernel has the fix or the reserved descriptors suffice."""
    found = known(kernel(release)) if release else unknown("the kernel")
    (finding,) = judge(check, fs, host(fs, kernel=found)).findings
    (remedy,) = finding.remedies
    assert reason in remedy.summary
    commands = [step.command for step in remedy.steps]
    if reason:
        assert remedy.disruption is Disruption.UNMOUNT
        assert commands[0] == "umount /data"
        assert commands[2].endswith(" && resize2fs /dev/sda")
    else:
        assert remedy.disruption is Disruption.ONLINE
        assert commands[0] == "resize2fs /dev/sda"


def test_cap005_page_names_all_kernels_with_the_fix() -> None:
    """6.7.12 was once missing, so the page named a kernel that destroys data."""
    page = check.page.replace(",", " ").replace(")", " ").split()
    assert not {each.before for each in ranges_of_rule("CAP005")} - {*page}


def test_cap005_gives_advice_for_a_root_that_must_grow_offline() -> None:
    """The root cannot be unmounted by a command."""
    fs = with_sizes(20, 100, mounts=(mount("/"),), **with_features("meta_bg"))
    (finding,) = verdict(fs).findings
    assert finding.remedies[0].steps == ()
    assert "unmounted, from a rescue system" in finding.remedies[0].summary


# A device that grew while its filesystem was mounted.
REMEDIES_NOT_RUN = (
    "Growing a mounted filesystem needs CAP_SYS_RESOURCE, which the root of a container may lack: "
    "there tests/lab/scenarios/capacity_remedies.py alone runs it."
)


def enlarge_device(loop_mount: LoopMount) -> None:
    """Make the device larger than the filesystem."""
    run("truncate", "-s", "4G", loop_mount.image)
    run("losetup", "--set-capacity", loop_mount.device)


OFFLINE = (
    RemedyCase(
        name="unmounted",
        remedy="Grow it to the size of its device while it is unmounted: it lacks resize_inode",
        mke2fs=("-O", "^resize_inode"),
        size="1G",
        prepare=enlarge_device,
        restores=False,
        alter=on_kernel("6.1.83"),
    ),
    RemedyCase(
        name="unmounted, with meta_bg",
        remedy="Grow it to the size of its device while it is unmounted: it has meta_bg",
        mke2fs=("-O", "meta_bg,^resize_inode"),
        size="1G",
        prepare=enlarge_device,
        restores=False,
        alter=on_kernel("6.8.2"),
    ),
    RemedyCase(
        name="unmounted, with sparse_super2",
        remedy="Grow it to the size of its device while it is unmounted: no kernel grows it",
        mke2fs=("-O", "sparse_super2"),
        size="1G",
        prepare=enlarge_device,
        restores=False,
    ),
)
ONLINE = RemedyCase(
    name="online",
    remedy="Grow it",
    size="1G",
    prepare=enlarge_device,
    restores=False,
)
REMEDY_CASES = (*OFFLINE, ONLINE) if may_resize() else OFFLINE
