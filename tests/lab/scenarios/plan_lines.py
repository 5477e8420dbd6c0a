"""The mkfs lines that `ext4audit plan` prints for an array, run on that array."""

from __future__ import annotations

import json
import os
from typing import Any

from lab.support.devices import disk, md, run
from lab.support.scenario import JsonObject, scenario
from support.filesystems.scratch import judge_host, run_shell, scanned_host
from support.program import run as run_program

PLACE = "/mnt/planned"


@scenario()
def plan_md_raid0() -> JsonObject:
    """Make a filesystem on twelve disks, first as planned, then with the corrected line."""
    members = [disk(f"raid{number:02}") for number in range(12)]
    with md("0", members, "--chunk=512") as device:
        size = run("blockdev", "--getsize64", device).strip()
        planned = _plan(device, size, "-m 0")
        as_planned = "mkfs.ext4 -m 0 -F -E stride=128,stripe_width=1536"
        run_shell(f"{as_planned} {device}")
        before = _measured(device)
        for key in ("mkfs", "verify", "tune2fs_stripe", "mount"):
            run_shell(planned["plan"]["lines"][key])
        after = _measured(PLACE)
        corrected = _plan(device, size, "-m 0 -g 32744 -G 16")
        run("umount", PLACE)
    return {
        "planned": _predictions(planned),
        "corrected": _predictions(corrected),
        "changes": planned["plan"]["changes"],
        "basis": planned["plan"]["basis"],
        "before": before,
        "after": after,
    }


def _plan(device: str, size: str, mkfs: str) -> Any:
    """Run the program as a user does."""
    words = f"--raid0 12 --chunk 512K --size {size} --device {device} --mount-point {PLACE}"
    options = ["--mkfs", mkfs, "--mount-options", "noatime,noinit_itable", "--rotational"]
    kernel = ["--kernel", os.uname().release]
    program = ["plan", "-f", "json", "--select", "LAY001"]
    return json.loads(run_program(*program, *words.split(), *options, *kernel).stdout)


def _predictions(report: Any) -> JsonObject:
    """Return a plan's predictions: LAY001's outcome and the bitmaps of each member."""
    ((fs,), (verdict,)) = report["filesystems"], report["verdicts"]
    bitmaps = [
        member["block_bitmaps"] + member["inode_bitmaps"] for member in fs["layout"]["members"]
    ]
    return {"outcome": verdict["outcome"], "bitmaps": bitmaps}


def _measured(target: str) -> JsonObject:
    """Return the same facts measured on the real filesystem."""
    host = scanned_host(target)
    layout = host.filesystems[0].layout
    members = getattr(getattr(layout, "value", None), "members", ())
    bitmaps = {member.name: member.block_bitmaps + member.inode_bitmaps for member in members}
    by_slot = [bitmaps[disk(f"raid{number:02}").removeprefix("/dev/")] for number in range(12)]
    return {"outcome": judge_host(host, "LAY001").outcome.value, "bitmaps": by_slot}
