"""The commands that enable a stripe, run on a filesystem without one; LAY003 disables it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Disruption, Remedy
from ext4audit.remedies.superblock_fields import set_stripe
from ext4audit.rules.shared.quantities import stripe_in_force
from support.builders import host
from support.filesystems.scratch import Scratch, apply_remedy, roll_back

pytestmark = pytest.mark.kernel
Make = Callable[..., Scratch]


def hints(fs: Filesystem) -> tuple[int, int, int]:
    """Return stride, width and the stripe in force."""
    superblock: Superblock = need(fs.superblock)
    stripe = stripe_in_force(fs, host(fs))
    return superblock.stride_blocks, superblock.stripe_width_blocks, stripe


@pytest.mark.parametrize("asked", ["", "stripe=24", "noatime,stripe=48"])
def test_a_stripe_is_stored_and_in_force_at_once_and_taken_back(
    scratch: Make, etc: Path, asked: str
) -> None:
    """Stride, width and the running mount get the array's numbers; fstab no longer sets any."""
    one = scratch().make("-b", "4096").mount(asked)
    etc.write_text(f"{one.device} {one.mount_point} ext4 {asked or 'defaults'} 0 2\n")
    written, before = etc.read_text(), one.filesystem()
    steps = set_stripe(before, need(before.superblock), 16, 48)
    cure = Remedy("Store the stripe.", Disruption.REMOUNT, steps)
    apply_remedy(cure)
    assert hints(one.filesystem()) == (16, 48, 48)
    assert "stripe=" not in etc.read_text()
    roll_back(cure)
    assert hints(one.filesystem()) == hints(before)
    assert etc.read_text() == written
    one.unmount()
    one.fsck()
