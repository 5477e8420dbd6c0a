"""A superblock that is destroyed under a mounted filesystem, on the real kernel."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ext4audit.report import Outcome
from support.filesystems.scratch import Scratch, run
from support.program import run as program
from support.timing import HANG_SECONDS, PATIENCE_SECONDS

pytestmark = pytest.mark.kernel
Make = Callable[..., Scratch]


def overwrite(one: Scratch, offset: int, data: bytes) -> None:
    """Write to the device of a mounted filesystem, bypassing the filesystem."""
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
    """The kernel continues and reports nothing."""
    one = scratch().make().mount()
    assert one.judge("HLT007").outcome is Outcome.PASS
    saved = one.image.read_bytes()[1024:2048]
    overwrite(one, offset, data)
    try:
        verdict = one.judge("HLT007")
        assert verdict.outcome is Outcome.FAIL
        (finding,) = verdict.findings
        assert f"({damage}): the next mount will fail." in finding.message
        labels = {citation.label: citation.value for citation in finding.citations}
        assert labels["superblock on the device"] == damage
        assert "while trying to open" in labels["dumpe2fs"]
        done = program("scan", "-f", "json", str(one.mount_point))
        found = json.loads(done.stdout)
        failed = [v["rule"] for v in found["verdicts"] if v["outcome"] == "fail"]
        assert (done.returncode, "HLT007" in failed) == (1, True)
    finally:
        overwrite(one, 1024, saved)


@pytest.mark.parametrize(
    ("script", "seconds", "detail"),
    [
        ("echo broken >&2; exit 1", PATIENCE_SECONDS, "broken (exit status 1)"),
        (f"exec sleep {HANG_SECONDS}", 0.5, "no answer within 0.5 s"),
        ("kill -SEGV $$", PATIENCE_SECONDS, "killed by signal 11"),
        ("echo garbage", PATIENCE_SECONDS, "not the superblock as dumpe2fs prints it"),
        ("exit 0", PATIENCE_SECONDS, "not the superblock as dumpe2fs prints it"),
    ],
    ids=["fails", "hangs", "crashes", "garbage", "silent"],
)
def test_a_dumpe2fs_that_fails_is_reported_though_the_bytes_answer(
    scratch: Make, tmp_path: Path, script: str, seconds: float, detail: str
) -> None:
    """The superblock is intact, but the audit is incomplete."""
    one = scratch().make().mount()
    fake = tmp_path / "dumpe2fs"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    real = run("sh", "-c", "readlink -f $(command -v dumpe2fs)").strip()
    run("mount", "--bind", fake, real)
    try:
        options = ("-f", "json", "--fail-on", "never", "--timeout", str(seconds))
        done = program("scan", *options, str(one.mount_point))
    finally:
        run("umount", real)
    found = json.loads(done.stdout)
    (verdict,) = [v for v in found["verdicts"] if v["rule"] == "HLT007"]
    assert (done.returncode, found["complete"]) == (3, False)
    assert verdict["outcome"] == "undetermined"
    assert detail in verdict["unknowns"][0]["detail"]
