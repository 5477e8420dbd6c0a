"""Remedies on random hosts: only what is named changes, the finding goes, the rollback restores.

`EXT4AUDIT_RANDOM_CASES=5000` runs more of them, `EXT4AUDIT_RANDOM_SEED` others: CI draws another
part of the same hosts each hour, everybody else draws new ones. The seeds are printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.examples import number

pytestmark = pytest.mark.kernel

CASES = number(60, "EXT4AUDIT_RANDOM_CASES")
SEED = int(
    os.environ.get("EXT4AUDIT_RANDOM_SEED")
    or (0 if os.environ.get("HYPOTHESIS_PROFILE") == "same" else time.time_ns() % 10**9)
)
SCRIPT = """
set -e
cp -a /etc "$1/etc"
mount --bind "$1/etc" /etc
exec "$2" -m support.remedies.random_host "$3" "$4" "$5" "$1"
"""
FEWEST_SHARE, FEW = 0.5, 10
"""Of the hosts that must be found to have a remedy: fewer, and the test would test nothing. Four of
five have one; of fewer than ten, chance decides, and one must."""


@pytest.mark.parametrize(
    "how",
    # Each in a process and a mount namespace of its own: neither waits for the other.
    [pytest.param(how, marks=pytest.mark.xdist_group(how)) for how in ("commands", "script")],
)
def test_remedies_keep_their_laws_on_random_hosts(tmp_path: Path, how: str) -> None:
    """Each case draws a host; a script costs five times one remedy, and meets a fault."""
    count = CASES if how == "commands" else max(CASES // 5, 6)
    arguments = (str(tmp_path), sys.executable, how, str(SEED), str(count))
    done = subprocess.run(
        ["unshare", "-m", "--propagation", "private", "sh", "-c", SCRIPT, "sh", *arguments],
        capture_output=True,
        check=False,
        cwd=Path(__file__).parents[2],
        text=True,
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    broken = [each for each in results if each["broken"]]
    print(f"seeds {SEED} to {SEED + count - 1}")
    assert not broken, json.dumps(broken, indent=1)
    assert sum(bool(each["rule"]) for each in results) >= (
        FEWEST_SHARE * count if count >= FEW else 1
    )
