from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders import known, loop, unknown
from ext4audit.facts.block import BlockDevice
from ext4audit.layout.may_stripe import may_stripe
from layout.stacks import dm, md, part, sd

A, B, C, D = (sd(letter) for letter in "abcd")
STRIPE = md(A, B)
MIRROR = md(A, B, level="raid1")

NO: list[Any] = [
    pytest.param(A, id="a disk"),
    pytest.param(part(A), id="a partition"),
    pytest.param(MIRROR, id="a mirror"),
    pytest.param(md(A, B, level="linear"), id="a concatenation"),
    pytest.param(md(A), id="a RAID0 of one member"),
    pytest.param(dm("0 9 striped 1 128 8:0 0", A), id="one stripe"),
    pytest.param(dm("0 9 raid raid1 1 0 2 - 8:0 - 8:16", A, B), id="a mirrored volume"),
    pytest.param(dm("0 9 thin 253:4 1", A), id="a thin volume on one disk"),
    pytest.param(dm("0 9 linear 8:0 0\n9 9 linear 8:16 0", A, B), id="two parts"),
    pytest.param(dm(None, A), id="LVM over one disk, not root"),
    pytest.param(dm(None, MIRROR), id="LVM over a mirror, not root"),
    pytest.param(dm(None, A, B, uuid="mpath-3600"), id="two ways to one disk, not root"),
    pytest.param(loop(known((STRIPE,))), id="a file on a stripe"),
    pytest.param(dm(None, loop(known((STRIPE,)))), id="LUKS in a file on a stripe, not root"),
]
YES: list[Any] = [
    *(
        pytest.param(md(A, B, C, D, level=level), id=level)
        for level in ("raid0", "raid4", "raid5", "raid6", "raid10")
    ),
    pytest.param(part(STRIPE), id="a partition of a stripe"),
    pytest.param(dm(None, STRIPE), id="LVM on a stripe, not root"),
    pytest.param(dm(None, A, B), id="LVM over two disks, not root"),
    pytest.param(dm("0 9 thin 253:4 1", STRIPE), id="a thin volume on a stripe"),
    pytest.param(dm("0 9 striped 2 128 8:0 0 8:16 0", A, B), id="a striped volume"),
    pytest.param(dm("0 9 raid raid0 1 128 2 - 8:0 - 8:16", A, B), id="a volume of type raid0"),
    pytest.param(md(STRIPE, md(C, D, number=1), level="raid1"), id="a mirror of stripes"),
    pytest.param(replace(MIRROR, md=unknown("md")), id="an array that is not read"),
    pytest.param(replace(A, below=unknown("slaves")), id="a device not looked below"),
    pytest.param(md(A, B, reshape_position="8"), id="a stripe that is being reshaped"),
]


@pytest.mark.parametrize("stack", NO)
def test_what_cannot_stripe_does_not(stack: BlockDevice) -> None:
    """Rules about stripes do not apply there, whatever else cannot be read."""
    assert not may_stripe(stack)


@pytest.mark.parametrize("stack", YES)
def test_what_stripes_or_may_do_so_is_told(stack: BlockDevice) -> None:
    """A stripe that cannot be followed is never "no stripe"."""
    assert may_stripe(stack)
