"""The guest's side: run scenarios one after the other, and write down what each found.

`python -m lab.inside DIRECTORY NAME…` writes DIRECTORY/NAME.json as soon as NAME has ended, so
that a guest that dies keeps what it had.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from pathlib import Path

from lab.scenario import all_scenarios


def main(directory: Path, names: list[str]) -> None:
    """Run the named scenarios."""
    known = all_scenarios()
    for name in names:
        print(f"LAB {name}", flush=True)
        started = time.monotonic()
        outcome: dict[str, object]
        try:
            outcome = {"result": known[name].run()}
        except (Exception, SystemExit):  # noqa: BLE001 - the host's test tells what it was
            outcome = {"error": traceback.format_exc()}
        outcome["seconds"] = round(time.monotonic() - started, 1)
        part = directory / f"{name}.part"
        part.write_text(json.dumps(outcome))
        part.rename(directory / f"{name}.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
