"""The guest's side: runs scenarios one after the other, and stores what each returns.

`python -m lab.support.inside DIRECTORY NAME…` writes DIRECTORY/NAME.json as soon as NAME has ended,
so that a guest that dies keeps earlier results. It stops after a scenario that has left mounts
or devices behind: the rest then run in a new boot.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from pathlib import Path

from lab.support.scenario import Scenario, all_scenarios

STACKED = ("md*", "dm-*", "sd*", "loop*/backing_file")
"""Names in /sys/block of devices that a scenario builds on the guest's disks."""


def main(directory: Path, names: list[str]) -> None:
    """Run the named scenarios, up to the first that leaves mounts or devices behind."""
    known = all_scenarios()
    before = leftovers()
    for name in names:
        print(f"LAB {name}", flush=True)
        part = directory / f"{name}.part"
        part.touch()
        part.write_text(json.dumps(outcome_of(known[name])))
        part.rename(directory / f"{name}.json")
        left = leftovers() - before
        if left:
            print(f"LAB {name} left {sorted(left)}", flush=True)
            return


def outcome_of(scenario: Scenario) -> dict[str, object]:
    """Run one scenario; return its result or its error, and its duration in seconds."""
    started = time.monotonic()
    outcome: dict[str, object]
    try:
        outcome = {"result": scenario.run()}
    except (Exception, SystemExit):  # noqa: BLE001 - the test that reads it reports it
        outcome = {"error": traceback.format_exc()}
    return {**outcome, "seconds": round(time.monotonic() - started, 1)}


def leftovers() -> set[str]:
    """Return the ext4 mounts and the stacked devices that exist."""
    mounts = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
    mounted = {line.split()[1] for line in mounts if line.split()[2].startswith("ext")}
    return mounted | {str(each) for kind in STACKED for each in Path("/sys/block").glob(kind)}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
