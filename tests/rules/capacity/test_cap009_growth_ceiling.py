"""CAP009: how far a filesystem can grow."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Evidence, need
from ext4audit.facts.superblock import Superblock, sizes_of
from ext4audit.finding import Confidence, Severity
from ext4audit.layout import ceiling_of
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.capacity.cap009_growth_ceiling import check
from support.builders import disk, filesystem, host, known, superblock, unknown

GIB, TIB = 1 << 30, 1 << 40


def with_size(size_bytes: int, **changes: Any) -> Superblock:
    """Build the superblock of a filesystem of this size."""
    each = changes.get("block_bytes", 4096)
    return superblock(size_blocks=size_bytes // each, **changes)


SMALL_BLOCKS = {
    "block_bytes": 1024,
    "blocks_per_group": 8192,
    "first_block": 1,
    "inodes_per_group": 512,
}
DENSE = {"inodes_per_group": 32768}
NARROW = {"features": frozenset({"extent", "has_journal"})}


def verdict(held: Evidence[Superblock], device_bytes: int | None = None) -> Verdict:
    """Judge a filesystem on a device of its size, or of another size."""
    own = held.value.size_blocks * 4096 if device_bytes is None and hasattr(held, "value") else 0
    sectors = (device_bytes or own) // 512
    fs = filesystem(superblock=held, stack=known(disk(size_sectors=known(sectors))))
    return judge(check, fs, host(fs))


@pytest.mark.parametrize(
    ("held", "device", "outcome"),
    [
        (known(with_size(100 * GIB)), None, Outcome.PASS),
        (known(with_size(31 * TIB)), None, Outcome.PASS),
        (known(with_size(33 * TIB)), None, Outcome.FAIL),
        (known(with_size(3 * TIB, **DENSE)), None, Outcome.PASS),
        (known(with_size(10 * TIB, **DENSE)), None, Outcome.FAIL),
        (known(with_size(900 * GIB, **SMALL_BLOCKS)), 900 * GIB, Outcome.FAIL),
        (known(with_size(400 * GIB, **SMALL_BLOCKS)), 400 * GIB, Outcome.PASS),
        (known(with_size(10 * TIB, **NARROW)), None, Outcome.NOT_APPLICABLE),
        (known(with_size(10 * TIB, inodes_per_group=None)), None, Outcome.UNDETERMINED),
        (unknown("superblock"), None, Outcome.UNDETERMINED),
    ],
)
def test_cap009_outcomes(held: Evidence[Superblock], device: int | None, outcome: Outcome) -> None:
    """The default inode ratio limits it to 64 TiB, 1 KiB blocks to 1 TiB."""
    assert verdict(held, device).outcome is outcome


def test_cap009_severity_is_higher_if_the_device_exceeds_the_limit() -> None:
    """The space of a volume beyond the limit is wasted."""
    (low,) = verdict(known(with_size(33 * TIB))).findings
    (medium,) = verdict(known(with_size(15 * TIB, **DENSE)), 20 * TIB).findings
    assert (low.severity, medium.severity) == (Severity.LOW, Severity.MEDIUM)
    assert medium.message == (
        "The filesystem can grow to 16 TiB at most, but its device has 20 TiB: each block group "
        "has 32768 inodes, and ext4 has at most 2^32."
    )
    assert "mkfs.ext4 -i 65536" in medium.remedies[0].summary


def test_cap009_message_names_the_limit_of_newer_tools() -> None:
    """The version on the host is unknown."""
    (finding,) = verdict(known(with_size(900 * GIB, **SMALL_BLOCKS)), 900 * GIB).findings
    assert finding.confidence is Confidence.LIKELY
    assert "resize2fs before 1.47.2 accepts no more group descriptors" in finding.message
    newer, again = finding.remedies
    assert "resize2fs 1.47.2 or newer" in newer.summary
    assert again.destructive
    (of_inodes,) = verdict(known(with_size(33 * TIB))).findings
    assert (of_inodes.confidence, len(of_inodes.remedies)) == (Confidence.CONFIRMED, 1)


def test_cap009_does_not_offer_a_limit_below_the_present_size() -> None:
    """mke2fs 1.47.0 makes 2 TiB with blocks of 1 KiB (meta_bg), which resize2fs 1.47.0 refuses."""
    (finding,) = verdict(known(with_size(2 * TIB, **SMALL_BLOCKS)), 3 * TIB).findings
    assert finding.severity is Severity.MEDIUM
    assert finding.message.startswith("The filesystem cannot grow, but its device has 3 TiB: with")


def test_cap009_remedy_in_a_plan_is_the_mkfs_option() -> None:
    """No data exists yet that could be lost."""
    fs = filesystem(superblock=known(with_size(33 * TIB)), stack=known(disk()))
    (finding,) = judge(check, fs, host(fs, planned=True)).findings
    assert finding.remedies[0].summary == "Create it with fewer inodes (mkfs.ext4 -i 65536)."


@pytest.mark.parametrize(
    ("held", "size_bytes", "is_of_inodes"),
    [
        # mke2fs -b 1024, 900 GiB: resize2fs 1.47.0 grows it to 1023 GiB and refuses 1200 GiB.
        (with_size(900 * GIB, **SMALL_BLOCKS), 1023 * GIB + 896 * (1 << 20), False),
        # mke2fs -b 4096 -i 1024: resize2fs 1.47.0 refuses 4500 GiB, "inodes (4718559232) must be
        # less than 4294967295".
        (
            with_size(3900 * GIB, blocks_per_group=8192, inodes_per_group=32768),
            4 * TIB - (32 << 20),
            True,
        ),
    ],
)
def test_cap009_limit_is_that_of_resize2fs(
    held: Superblock, size_bytes: int, *, is_of_inodes: bool
) -> None:
    """Both limits were verified on sparse images."""
    found = ceiling_of(sizes_of(held))
    assert (found.size_bytes, found.is_of_inodes) == (size_bytes, is_of_inodes)


def test_cap009_unknown_device_size_is_undetermined() -> None:
    """Without the size of the device it is unknown whether the filesystem can grow."""
    fs = filesystem(stack=unknown("stack"))
    assert judge(check, fs, host(fs)).outcome is Outcome.UNDETERMINED
    assert need(fs.superblock)


REMEDIES_NOT_RUN = "Only a new filesystem has another limit: the remedy is advice in words."
