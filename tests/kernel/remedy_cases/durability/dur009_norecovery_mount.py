"""norecovery goes by a new mount, which replays; a writable one is checked before."""

from __future__ import annotations

from support.remedies.case import RemedyCase, Stage
from support.scratch import run

SUMMARY = "Mount it without norecovery"


def _leave_a_dirty_journal(stage: Stage) -> None:
    """Copy the image while it is mounted and written: what a crash leaves behind."""
    stage.mount()
    (stage.mount_point / "file").write_text("data")
    run("sync", "-f", stage.mount_point)
    copy = stage.image.with_name("crashed")
    run("cp", stage.device, copy)
    stage.unmount()
    run("dd", f"if={copy}", f"of={stage.device}", "bs=1M", "conv=fsync", "status=none")
    stage.mount("ro,norecovery")


def _go_writable(stage: Stage) -> None:
    """Do what every kernel allows: make a mount without recovery writable."""
    _leave_a_dirty_journal(stage)
    run("mount", "-o", "remount,rw", stage.mount_point)


CASES = (
    RemedyCase(name="read-only, clean, by hand", remedy=SUMMARY, mount="ro,norecovery"),
    RemedyCase(
        name="read-only, clean, by fstab",
        remedy=SUMMARY,
        fstab="ro,noload",
        mount="ro,norecovery",
    ),
    RemedyCase(
        name="read-only, a journal to be replayed",
        remedy=SUMMARY,
        mounted=False,
        prepare=_leave_a_dirty_journal,
    ),
    RemedyCase(name="writable, clean", remedy=SUMMARY, mount="norecovery"),
    RemedyCase(
        name="writable, a journal to be replayed",
        remedy=SUMMARY,
        mounted=False,
        prepare=_go_writable,
    ),
)
