"""LAY002: the stripe of ext4 compared with that of the array below."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Evidence, Unknown, Why, need
from ext4audit.facts.devices import BlockDevice, DmDevice, DmSegment
from ext4audit.facts.host import Filesystem, Kernel
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Confidence, Phase, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.layout.lay002_stride_stripe_mismatch import check
from support.builders import (
    disk,
    filesystem,
    fstab_entry,
    host,
    kernel,
    known,
    mount,
    options,
    queue,
    raid,
    superblock,
    unknown,
)

KIB = 1024
NEW_KERNEL, SPINNING_KERNEL = known(kernel("6.12.1")), known(kernel("6.6.9"))
PLANNED = options("stripe=0", complete=False)
MEMBERS = tuple(disk(f"vd{c}", DeviceNumber(253, 16 * i)) for i, c in enumerate("bcde"))


def io_sizes(minimum: int, optimal: int, **more: Any) -> Any:
    """Build the queue of a device that recommends these I/O sizes, in KiB."""
    return queue(minimum_io_bytes=minimum * KIB, optimal_io_bytes=optimal * KIB, **more)


RAID5 = raid(MEMBERS, level="raid5", chunk_bytes=64 * KIB, limits=io_sizes(64, 192))
RAID0 = raid(MEMBERS, limits=io_sizes(512, 2048))
SSDS = raid(MEMBERS, limits=io_sizes(512, 2048, rotational=False))
CONTROLLER = disk("sda", limits=io_sizes(256, 1024))
LVM_RAID5 = disk(
    "dm-0",
    DeviceNumber(253, 0),
    io_sizes(64, 192),
    kind="dm-raid",
    below=known(MEMBERS),
    dm=DmDevice("vg-lv", "LVM-x", known((DmSegment(0, 2048, "raid", ("raid5_ls", "3", "128")),))),
)


STRIPED_LVM = replace(
    LVM_RAID5, dm=DmDevice("vg-lv", "LVM-x", known((DmSegment(0, 2048, "striped", ("raid5",)),)))
)
LVM_WITHOUT_ARGUMENTS = replace(
    LVM_RAID5, dm=DmDevice("vg-lv", "LVM-x", known((DmSegment(0, 2048, "raid", ()),)))
)


def with_raid_hints(
    stack: Evidence[BlockDevice] | BlockDevice,
    stride: int = 0,
    width: int = 0,
    live: int | None = None,
    **changes: Any,
) -> Filesystem:
    """Build a filesystem of 4 KiB blocks on a stack, with these RAID hints and stripe in force."""
    made = superblock(stride_blocks=stride, stripe_width_blocks=width)
    token = f"stripe={live if live is not None else width or stride}"
    values: dict[str, Any] = {
        "stack": stack if isinstance(stack, Unknown) else known(stack),
        "superblock": known(made, "dumpe2fs"),
        "options": known(options(token)),
    }
    return filesystem(**(values | changes))


def verdict(fs: Filesystem, running: Evidence[Kernel] = NEW_KERNEL) -> Verdict:
    """Judge a filesystem on a kernel."""
    return judge(check, fs, host(fs, kernel=running))


@pytest.mark.parametrize(
    ("fs", "outcome", "severity"),
    [
        (with_raid_hints(RAID5, 16, 48), Outcome.PASS, None),
        (with_raid_hints(RAID5, 16, 96), Outcome.PASS, None),
        (with_raid_hints(RAID5, 16, 64), Outcome.FAIL, Severity.MEDIUM),
        (with_raid_hints(RAID5, 16, 64, live=48), Outcome.PASS, None),
        (with_raid_hints(RAID5, 16, 48, live=64), Outcome.FAIL, Severity.MEDIUM),
        (with_raid_hints(RAID5, 16), Outcome.FAIL, Severity.MEDIUM),
        (with_raid_hints(LVM_RAID5, 16, 64), Outcome.FAIL, Severity.MEDIUM),
        (with_raid_hints(STRIPED_LVM, 16, 64), Outcome.FAIL, Severity.LOW),
        (with_raid_hints(LVM_WITHOUT_ARGUMENTS, 16, 64), Outcome.FAIL, Severity.LOW),
        (with_raid_hints(RAID0, 128, 512), Outcome.PASS, None),
        (
            with_raid_hints(
                raid(MEMBERS, limits=io_sizes(512, 2048, physical_block_bytes=unknown("x"))),
                128,
                512,
            ),
            Outcome.PASS,
            None,
        ),
        (with_raid_hints(RAID0, 128, 384), Outcome.FAIL, Severity.LOW),
        (with_raid_hints(RAID0, 128, 512, options=known(PLANNED)), Outcome.PASS, None),
        (with_raid_hints(RAID0), Outcome.FAIL, Severity.INFO),
        (with_raid_hints(SSDS, 128), Outcome.PASS, None),
        (with_raid_hints(RAID0, 128), Outcome.FAIL, Severity.LOW),
        (with_raid_hints(RAID0, 64, 200, alive=False, mounts=()), Outcome.FAIL, Severity.LOW),
        (with_raid_hints(RAID0, 0, 512, alive=False, mounts=()), Outcome.PASS, None),
    ],
)
def test_lay002_compares_the_active_stripe_with_the_array(
    fs: Filesystem, outcome: Outcome, severity: Severity | None
) -> None:
    """Multiples pass; a mismatch on parity RAID is medium, and no stripe at all is info."""
    reported = verdict(fs)
    assert reported.outcome is outcome, reported.note
    assert [finding.severity for finding in reported.findings] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("cluster_blocks", "width"), [(1, 48), (4, 48), (16, 48), (32, 96), (16384, None)]
)
def test_lay002_sets_a_stripe_of_whole_clusters(cluster_blocks: int, width: int | None) -> None:
    """6.18 sets stripe=0 for others, at a mount and at a remount: "stripe is disabled"."""
    held = superblock(cluster_blocks=cluster_blocks, blocks_per_group=32768)
    findings = verdict(with_raid_hints(RAID5, superblock=known(held), live=0)).findings
    assert [f"stripe_width={width}" in each.remedies[0].summary for each in findings] == (
        [True] if width else []
    )


@pytest.mark.parametrize(
    "fs",
    [
        with_raid_hints(disk()),
        with_raid_hints(disk(), 16, 64),
        with_raid_hints(disk(limits=queue(minimum_io_bytes=4096, physical_block_bytes=4096))),
        with_raid_hints(disk(limits=queue(minimum_io_bytes=4096, optimal_io_bytes=33553920))),
        with_raid_hints(disk(limits=queue(optimal_io_bytes=512))),
        with_raid_hints(disk(limits=queue(optimal_io_bytes=unknown("optimal")))),
        with_raid_hints(
            disk(kind="image", limits=queue(optimal_io_bytes=unknown("optimal"))), 16, 64
        ),
        with_raid_hints(CONTROLLER),
        with_raid_hints(raid(MEMBERS[:2], level="raid1"), 16, 64),
        with_raid_hints(raid(MEMBERS[:2], limits=io_sizes(2, 4))),
        with_raid_hints(raid(MEMBERS, limits=io_sizes(1 << 16, 1 << 18))),
        with_raid_hints(
            replace(
                RAID5, md=known(need(RAID5.md or unknown("md"))._replace(reshape_position="8"))
            ),
            16,
            64,
        ),
    ],
)
def test_lay002_does_not_apply_without_a_certain_stripe(fs: Filesystem) -> None:
    """Single disks, USB bridges, mirrors, and controllers with unused hints are not judged."""
    assert verdict(fs).outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("fs", "running"),
    [
        (with_raid_hints(unknown("stack")), NEW_KERNEL),
        (
            with_raid_hints(raid(MEMBERS, limits=queue(optimal_io_bytes=unknown("optimal")))),
            NEW_KERNEL,
        ),
        (
            with_raid_hints(disk(limits=queue(optimal_io_bytes=unknown("optimal"))), 16, 64),
            NEW_KERNEL,
        ),
        (
            with_raid_hints(RAID5, superblock=unknown("superblock"), usage=unknown("usage")),
            NEW_KERNEL,
        ),
        (
            with_raid_hints(
                RAID5, superblock=known(superblock(block_bytes=None)), usage=unknown("usage")
            ),
            NEW_KERNEL,
        ),
        (with_raid_hints(RAID0, 128, superblock=unknown("superblock")), NEW_KERNEL),
        (with_raid_hints(RAID5, options=unknown("options")), NEW_KERNEL),
        (with_raid_hints(RAID5, options=known(options("stripe=x"))), NEW_KERNEL),
        (with_raid_hints(RAID5), unknown("kernel")),
        (
            with_raid_hints(
                raid(MEMBERS, limits=io_sizes(512, 2048, rotational=unknown("rotational"))), 128
            ),
            NEW_KERNEL,
        ),
    ],
)
def test_lay002_unknown_values_are_undetermined(fs: Filesystem, running: Evidence[Kernel]) -> None:
    """Unknown values never count as a stripe that fits."""
    assert verdict(fs, running).outcome is Outcome.UNDETERMINED


@pytest.mark.parametrize(
    ("live", "outcome"), [(48, Outcome.PASS), (64, Outcome.FAIL), (0, Outcome.FAIL)]
)
def test_lay002_works_without_root(live: int, outcome: Outcome) -> None:
    """The block size is from statfs; without the superblock there is no rollback and no command."""
    reported = verdict(with_raid_hints(RAID5, live=live, superblock=unknown("superblock")))
    assert reported.outcome is outcome
    assert all(remedy.steps == () for finding in reported.findings for remedy in finding.remedies)


def test_lay002_missing_stripe_passes_on_kernels_of_krn002() -> None:
    """A stripe that was turned off because of KRN002 must not be turned on again."""
    assert verdict(with_raid_hints(RAID5), SPINNING_KERNEL).outcome is Outcome.PASS


def test_lay002_cites_sizes_in_kib_and_stripes_in_blocks() -> None:
    """The evidence is the array's chunk and width, the RAID hints, and the stripe in force."""
    assert [(c.label, c.value) for c in verdict(with_raid_hints(RAID5, 16, 48)).evidence] == [
        ("chunk", "64 KiB"),
        ("full stripe", "192 KiB"),
        ("RAID hints", "stride 16, width 48 blocks"),
        ("stripe in force", "48 blocks"),
    ]


@pytest.mark.parametrize(("chunk_kib", "outcome"), [(2, Outcome.NOT_APPLICABLE), (4, Outcome.FAIL)])
def test_lay002_minimum_stripe_is_two_blocks(chunk_kib: int, outcome: Outcome) -> None:
    """ext4 ignores a stripe of one block."""
    small = raid(MEMBERS[:2], limits=io_sizes(chunk_kib, 2 * chunk_kib))
    assert verdict(with_raid_hints(small, live=3)).outcome is outcome


def test_lay002_no_stride_for_a_chunk_that_is_not_whole_blocks() -> None:
    """A chunk of 1.5 blocks cannot be a stride, but its stripe is a whole number of blocks."""
    (finding,) = verdict(
        with_raid_hints(raid(MEMBERS[:2], limits=io_sizes(6, 12)), 16, 64)
    ).findings
    commands = [step.command for remedy in finding.remedies for step in remedy.lines]
    assert "tune2fs -E stride=0,stripe_width=3 /dev/sda" in commands


@pytest.mark.parametrize("running", [SPINNING_KERNEL, Unknown("kernel", Why.DENIED)])
def test_lay002_prints_no_command_on_kernels_of_krn002(running: Evidence[Kernel]) -> None:
    """On 6.1 to 6.7 a stripe may cost a CPU, so the values are given without a command."""
    (finding,) = verdict(with_raid_hints(RAID5, 16, 64), running).findings
    (remedy,) = finding.remedies
    assert remedy.steps == ()
    assert "KRN002" in remedy.summary
    assert "stride=16,stripe_width=48" in remedy.summary


def test_lay002_is_likely_behind_a_controller() -> None:
    """A controller may report sizes that are not those of a stripe."""
    (finding,) = verdict(with_raid_hints(CONTROLLER, 64, 128)).findings
    assert finding.confidence is Confidence.LIKELY
    assert finding.severity is Severity.LOW


def test_lay002_remedy_sets_the_superblock_and_edits_fstab() -> None:
    """It has a remount, fstab and the superblock; the rollback ends with the old remount."""
    fs = with_raid_hints(
        RAID5,
        16,
        64,
        mounts=(mount(super_options=("rw", "stripe=64")),),
        fstab=known((fstab_entry("noatime", "stripe=64"),)),
    )
    (finding,) = verdict(fs).findings
    assert finding.message == (
        "ext4 aligns files to 256 KiB, but the stripes of md127 have 192 KiB: more writes cover "
        "only part of a stripe and must read and rewrite parity."
    )
    (remedy,) = finding.remedies
    commands = [(step.phase, step.command) for step in remedy.lines]
    assert commands[0][0] is Phase.IMMEDIATE
    assert "stripe=48" in commands[0][1]
    assert (Phase.PERSISTENT, "tune2fs -E stride=16,stripe_width=48 /dev/sda") in commands
    assert (Phase.VERIFY, "grep -qx stripe=48 /proc/fs/ext4/sda/options") in commands
    assert (Phase.VERIFY, "tune2fs -l /dev/sda | grep -qxE 'RAID stripe width: +48'") in commands
    assert (Phase.ROLLBACK, "tune2fs -E stride=16,stripe_width=64 /dev/sda") in commands
    assert commands[-1][0] is Phase.ROLLBACK
    assert "stripe=64" in commands[-1][1]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"device": "/dev/a\0b"}, ""),
        ({"mounts": ()}, ", in the mount namespace that has it mounted"),
    ],
)
def test_lay002_prints_no_command_without_a_usable_mount(
    change: dict[str, Any], where: str
) -> None:
    """No name that a shell can take, or no mount here: advice only, which names the place."""
    (finding,) = verdict(with_raid_hints(RAID5, 16, 64, **change)).findings
    (remedy,) = finding.remedies
    assert remedy.steps == ()
    assert remedy.summary.endswith(f"(stride=16,stripe_width=48){where}.")


REMEDIES_NOT_RUN = (
    "No md array and no striped mapping can be made on a loop device here; the same commands with "
    "other numbers are run for LAY003, and with a stripe in "
    "tests/kernel/remedies/test_stripe_steps.py."
)
