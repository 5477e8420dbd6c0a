from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from ext4audit.evidence import Why
from ext4audit.sources import Unanswered
from ext4audit.sources.live import files

FULL = {"MemTotal": 1000, "MemFree": 100, "Active(file)": 200, "Inactive(file)": 50}


def meminfo(folder: Path, **kib: int) -> str:
    """Write a /proc/meminfo and return its path."""
    path = folder / "meminfo"
    path.write_text("".join(f"{name}:{amount:>9} kB\n" for name, amount in kib.items()))
    return str(path)


@pytest.mark.parametrize(
    ("kib", "total_kib", "available_kib"),
    [
        pytest.param({**FULL, "MemAvailable": 700}, 1000, 700, id="the kernel's own estimate"),
        pytest.param(FULL, 1000, 350, id="before Linux 3.14"),
        pytest.param({**FULL, "MemAvailable": 0}, 1000, 350, id="zero"),
        pytest.param({**FULL, "MemAvailable": 9000}, 1000, 350, id="the host's in a container"),
        pytest.param({**FULL, "MemFree": 9000}, 1000, 1000, id="at most the total"),
    ],
)
def test_available_memory(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kib: dict[str, int],
    total_kib: int,
    available_kib: int,
) -> None:
    """An implausible MemAvailable is replaced by free memory plus the page cache."""
    monkeypatch.setattr(files, "MEMINFO", meminfo(tmp_path, **kib))
    assert files.virtual_memory() == f"{total_kib * 1024}\n{available_kib * 1024}"


@pytest.mark.parametrize("kib", [{}, {"MemTotal": 1000}, {"MemFree": 1000}])
def test_a_table_without_memory_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kib: dict[str, int]
) -> None:
    """Missing memory is a gap in the report, not a host with 0 bytes."""
    monkeypatch.setattr(files, "MEMINFO", meminfo(tmp_path, **kib))
    with pytest.raises(Unanswered) as raised:
        files.virtual_memory()
    assert raised.value.unknown("memory").why is Why.FAILED


def test_the_estimate_agrees_with_psutil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For this machine's table without MemAvailable, both estimates are about the same."""
    lines = Path("/proc/meminfo").read_text().splitlines(keepends=True)
    old = tmp_path / "meminfo"
    old.write_text("".join(line for line in lines if not line.startswith("MemAvailable")))
    (tmp_path / "zoneinfo").write_bytes(Path("/proc/zoneinfo").read_bytes())
    monkeypatch.setattr(files, "MEMINFO", str(old))
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    total, available = map(int, files.virtual_memory().split("\n"))
    theirs = psutil.virtual_memory()
    assert total == theirs.total
    assert available == pytest.approx(theirs.available, abs=total / 10)
