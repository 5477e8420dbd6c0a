"""The cost of `ext4audit fleet` on the controller compared with plain Ansible, and its memory.

Run with `uv run --extra fleet pytest -m bench -s tests/bench/test_gathering.py`; for the whole
measurement set EXT4AUDIT_FLEET_HOSTS=1000. The hosts are pseudo-hosts: their shell answers with a
prepared snapshot, so that the controller is measured and not the hosts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.test_fleet import MEASURE
from ext4audit import __version__
from ext4audit.sources.ansible import AnsibleError, playbook_program
from ext4audit.sources.snapshot.collector import collect_script

pytestmark = pytest.mark.bench

HOSTS = int(os.environ.get("EXT4AUDIT_FLEET_HOSTS", "60"))
FEW = 10
FORKS = 10
MOST_OF_PLAIN = 1.5
ROUNDS = 3
"""Maximum rounds of a comparison by wall time, because other programs disturb some of them."""
REPORT = "out.ndjson"
READ = (0, 1, 3)
"""Exit codes of a run in which hosts were audited."""
Command = tuple[object, ...]
SHELL = """\
#!/bin/sh
case "$*" in
*"-s -- --text"*) cat >/dev/null; exec cat "$0.txt" ;;
*) exec /bin/sh "$@" ;;
esac
"""


def why_no_ansible() -> str | None:
    """Return why Ansible cannot run, None if it can; raises AnsibleError in CI, which needs it."""
    try:
        playbook_program()
    except AnsibleError as error:
        if os.environ.get("EXT4AUDIT_REQUIRE_FLEET") == "1":
            raise
        return str(error)
    return None


class Cost(NamedTuple):
    """Wall time, CPU time, and the peak memory of the largest process."""

    seconds: float
    cpu_seconds: float
    peak_kib: int


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    """Write the shell of the pseudo-hosts and a snapshot of this machine as its answer."""
    why = why_no_ansible()
    if why is not None:
        pytest.skip(why)
    path = tmp_path / "shell"
    path.write_text(SHELL)
    path.chmod(0o755)
    script = collect_script(__version__).encode()
    done = subprocess.run(
        ["sh", "-s", "--", "--text"], input=script, capture_output=True, check=True
    )
    Path(f"{path}.txt").write_bytes(done.stdout)
    return path


def measured(folder: Path, codes: tuple[int, ...], *command: object) -> Cost:
    """Run a command as the child of a small process, and return its cost."""
    words = [sys.executable, "-I", "-c", MEASURE, *map(str, command)]
    with (folder / "output").open("w") as output:
        done = subprocess.run(words, cwd=folder, stdout=output, check=True)
    code, seconds, cpu_seconds, peak_kib = (folder / "output").read_text().split()[-4:]
    assert done.returncode == 0
    assert int(code) in codes
    return Cost(float(seconds), float(cpu_seconds), int(peak_kib))


def inventory(folder: Path, shell: Path, count: int) -> Path:
    """Write an inventory of `count` pseudo-hosts, and return its path."""
    path = folder / f"hosts{count}.ini"
    words = f"ansible_connection=local ansible_shell_executable={shell}"
    path.write_text("".join(f"host{number:05} {words}\n" for number in range(count)))
    return path


def commands(folder: Path, shell: Path, count: int) -> dict[str, tuple[tuple[int, ...], Command]]:
    """Return three commands with their exit codes: plain Ansible, gather and audit, audit only."""
    program = Path(sys.executable).with_name("ext4audit")
    plain = Path(playbook_program()).with_name("ansible")
    hosts = ("-i", inventory(folder, shell, count), "--forks", FORKS)
    kept, output = folder / f"kept{count}", ("-f", "ndjson", "-o", folder / REPORT, "-q")
    return {
        "plain": ((0,), (plain, "all", *hosts, "-m", "raw", "-a", "true")),
        "fleet": (READ, (program, "fleet", *hosts, "--keep", kept, *output)),
        "audit": (READ, (program, "scan", "--from", kept, *output)),
    }


def test_the_controller_spends_little_more_than_plain_ansible(tmp_path: Path, shell: Path) -> None:
    """Gathering without the audit costs less than 1.5 times plain Ansible; memory stays flat."""
    costs = {}
    for count in (FEW, HOSTS):
        for what, (codes, command) in commands(tmp_path, shell, count).items():
            cost = costs[what, count] = measured(tmp_path, codes, *command)
            print(
                f"\n{what} {count:6} hosts: {cost.seconds:6.1f} s, {cost.cpu_seconds:6.1f} s of "
                f"CPU, largest process {cost.peak_kib >> 10} MiB"
            )
        assert (tmp_path / REPORT).read_bytes().count(b"\n") == count
    own = {
        what: _each(costs[what, FEW], costs[what, HOSTS]) for what in ("plain", "fleet", "audit")
    }
    ratio = (own["fleet"] - own["audit"]) / own["plain"]
    print("CPU for each host:", {what: f"{cost * 1e3:.0f} ms" for what, cost in own.items()})
    print(f"gathering: {ratio:.2f} of plain by CPU")
    assert ratio < MOST_OF_PLAIN
    assert costs["fleet", HOSTS].peak_kib < costs["fleet", FEW].peak_kib * 4 / 3


def test_gathering_and_audit_take_little_longer_than_plain_ansible(
    tmp_path: Path, shell: Path
) -> None:
    """In wall time, in the best of a few rounds: other programs may use the machine, too."""
    both = commands(tmp_path, shell, HOSTS)
    ratios: list[float] = []
    while len(ratios) < ROUNDS and min(ratios, default=MOST_OF_PLAIN) >= MOST_OF_PLAIN:
        plain, fleet = (
            measured(tmp_path, codes, *command).seconds
            for codes, command in (both["plain"], both["fleet"])
        )
        ratios.append(fleet / plain)
    print(f"\n{HOSTS} hosts: by the clock", *(f"{ratio:.2f}" for ratio in ratios), "of plain")
    assert min(ratios) < MOST_OF_PLAIN


def _each(few: Cost, many: Cost) -> float:
    """Return the CPU seconds of each additional host."""
    return (many.cpu_seconds - few.cpu_seconds) / (HOSTS - FEW)
