"""Remedies on random hosts: the checks of this machine's kernel, on a guest's kernel."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lab.support.scenario import JsonObject, scenario
from support.remedies.random_host import FSTAB, outcome

CASES = 12


@scenario(every_era=True)
def random_remedies() -> JsonObject:
    """Generate hosts and run one remedy of each, with its rollback."""
    before = FSTAB.read_text() if FSTAB.exists() else ""
    try:
        with tempfile.TemporaryDirectory() as folder:
            results = [outcome(seed, Path(folder)) for seed in range(CASES)]
    finally:
        FSTAB.write_text(before)
    broken = [each for each in results if each["broken"]]
    return {"broken": broken, "rules": [each["rule"] for each in results if each["rule"]]}
