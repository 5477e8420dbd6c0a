from __future__ import annotations

import configparser
import re
import shutil
from pathlib import Path

import pytest

from support.packages.built import ROOT, needs, run

pytestmark = pytest.mark.packages

UNITS = ROOT / ".ci" / "packages" / "systemd"
MOST_EXPOSED = 3.0


def exposure(service: Path) -> float:
    """Return the exposure that systemd computes, from 0 to 10."""
    analyze = needs("systemd-analyze")
    output = run(analyze, "security", "--offline=true", "--no-pager", service).stdout
    (line,) = (line for line in output.splitlines() if "Overall exposure level" in line)
    print(line)
    return float(line.rpartition(": ")[2].split()[0])


def test_service_is_hardened() -> None:
    """The exposure is at most 3."""
    assert 0 < exposure(UNITS / "ext4audit.service") <= MOST_EXPOSED


def test_service_without_limits_is_more_exposed(tmp_path: Path) -> None:
    """The same service without its limits is more exposed."""
    text = (UNITS / "ext4audit.service").read_text()
    bare = tmp_path / "ext4audit.service"
    (start,) = (line for line in text.splitlines() if line.startswith("ExecStart="))
    bare.write_text(f"[Service]\n{start}\n")
    assert exposure(bare) > MOST_EXPOSED


def test_systemd_knows_every_setting(tmp_path: Path) -> None:
    """A misspelt setting is ignored by systemd, and would limit nothing."""
    for unit in UNITS.iterdir():
        shutil.copy(unit, tmp_path)
    service = tmp_path / "ext4audit.service"
    text = service.read_text().replace("/usr/bin/ext4audit", "/bin/true")
    service.write_text(re.sub(r"^Documentation=.*\n", "", text, flags=re.MULTILINE))
    done = run(needs("systemd-analyze"), "verify", service)
    assert (done.returncode, done.stderr) == (0, "")


def test_service_has_few_capabilities() -> None:
    """It may read block devices and protected folders and query device mapper, nothing else."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment] # settings are case-sensitive
    unit.read(UNITS / "ext4audit.service")
    service = unit["Service"]
    assert service["CapabilityBoundingSet"].split() == ["CAP_DAC_READ_SEARCH", "CAP_SYS_ADMIN"]
    assert service["ProtectSystem"] == "strict"
    assert service["PrivateTmp"] == "yes"
    assert service["StateDirectory"] == "ext4audit"
