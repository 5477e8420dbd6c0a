"""LAY008: the journal goes back into the filesystem, and out again."""

from __future__ import annotations

import os

from support.remedies.case import RemedyCase, Stage
from support.scratch import run

HELD: list[int] = []
"""What keeps the loop devices of journals until this process ends; then they are freed."""


def move_journal_out(stage: Stage) -> None:
    """Give the journal a loop device of its own."""
    image = stage.image.with_name("journal")
    run("truncate", "-s", "32M", image)
    device = run("losetup", "--find", "--show", image).strip()
    HELD.append(os.open(device, os.O_RDONLY))
    run("losetup", "--detach", device)  # takes place when nobody holds it
    run("mke2fs", "-q", "-F", "-O", "journal_dev", "-b", "1024", device)
    run("tune2fs", "-O", "^has_journal", stage.device)
    run("tune2fs", "-J", f"device={device}", stage.device)


def move_out_and_mount(stage: Stage) -> None:
    """Mount it with its journal outside."""
    move_journal_out(stage)
    stage.mount("noatime")


REMEDY = "Put the journal back"
CASES = (
    RemedyCase(
        name="mounted",
        remedy=REMEDY,
        mke2fs=("-b", "1024"),
        mounted=False,
        fstab="noatime",
        prepare=move_out_and_mount,
    ),
    RemedyCase(
        name="not mounted",
        remedy=REMEDY,
        mke2fs=("-b", "1024"),
        mounted=False,
        prepare=move_journal_out,
    ),
)
