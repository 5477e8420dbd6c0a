"""A superblock that is destroyed below a mounted filesystem, on the real kernel."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ext4audit.report import Outcome
from support.program import run as program
from support.scratch import Scratch

pytestmark = pytest.mark.kernel
Make = Callable[..., Scratch]


def overwrite(one: Scratch, offset: int, data: bytes) -> None:
    """Write to the device behind the back of the mounted filesystem."""
    with open(one.device, "r+b") as device:  # noqa: PTH123 - a device
        device.seek(offset)
        device.write(data)


@pytest.mark.parametrize(
    ("offset", "data", "damage"),
    [
        (1024, bytes(1024), "it is zeroed"),
        (1024 + 0x38, b"\x34\x12", "the magic number is 0x1234 and not 0xef53"),
        (1024 + 0x78, b"overwritten", "the checksum of its superblock is wrong"),
    ],
    ids=["zeroed", "magic number", "checksum"],
)
def test_it_is_found_while_the_filesystem_is_mounted(
    scratch: Make, offset: int, data: bytes, damage: str
) -> None:
    """The kernel goes on and says nothing."""
    one = scratch().make().mount()
    assert one.judge("HLT007").outcome is Outcome.PASS
    saved = one.image.read_bytes()[1024:2048]
    overwrite(one, offset, data)
    try:
        verdict = one.judge("HLT007")
        assert verdict.outcome is Outcome.FAIL
        (finding,) = verdict.findings
        assert f"({damage}): it will not mount again." in finding.message
        labels = {citation.label: citation.value for citation in finding.citations}
        assert labels["superblock on the device"] == damage
        assert "while trying to open" in labels["dumpe2fs"]
        done = program("scan", "-f", "json", str(one.mount_point))
        found = json.loads(done.stdout)
        failed = [v["rule"] for v in found["verdicts"] if v["outcome"] == "fail"]
        assert (done.returncode, "HLT007" in failed) == (1, True)
    finally:
        overwrite(one, 1024, saved)
