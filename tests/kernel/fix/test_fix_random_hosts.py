"""Remedies on random hosts change only what they name, cure the finding and can be rolled back.

`EXT4AUDIT_RANDOM_CASES=5000` runs more hosts, `EXT4AUDIT_RANDOM_SEED` other hosts: CI draws
another part of the same hosts each hour, other runs draw new ones. The seeds are printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.examples import share_of

pytestmark = pytest.mark.kernel

CASES = share_of(60, "EXT4AUDIT_RANDOM_CASES")
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
"""Least share of hosts that must have a remedy: with fewer, the test would check nothing. Four of
five have one; below ten hosts the share depends on chance, and one host must have a remedy."""


@pytest.mark.parametrize(
    "how",
    # Each runs in its own process and mount namespace, so they run in parallel.
    [pytest.param(how, marks=pytest.mark.xdist_group(how)) for how in ("commands", "script")],
)
def test_remedies_on_random_hosts(tmp_path: Path, how: str) -> None:
    """Each case draws a host; a script costs five times one remedy, and is run with a fault."""
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
