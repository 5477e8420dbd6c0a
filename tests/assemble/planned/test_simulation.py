"""The estimated memory of a simulation by mke2fs."""

from __future__ import annotations

import pytest

from ext4audit.assemble.planned.simulation import (
    BESIDE_BYTES,
    _predicted_bytes,
    _spare_bytes,
    simulated,
)
from ext4audit.evidence import Known
from ext4audit.parsers.mke2fs import DryRun
from ext4audit.sources import VirtualMemory
from ext4audit.sources.captured import MapSource
from support.hosts.plans import plan


def test_each_backup_group_has_a_copy_of_all_descriptors() -> None:
    """126 groups have the backups 1, 3, 9, 27, 81, 5, 25, 125, 7 and 49 of sparse_super."""
    dry = DryRun(4096, 126 * 8192, 126 * 32768, 126, 32768, 8192, 0, (), backups=10)
    assert _predicted_bytes(dry) == 126 * 64 * 11 + BESIDE_BYTES


@pytest.mark.parametrize(
    ("available_bytes", "spare_bytes"),
    [(0, 0), (4, 1), (400 << 20, 100 << 20), (1200 << 20, 300 << 20), (64 << 30, 300 << 20)],
)
def test_a_simulation_takes_at_most_a_quarter_of_the_memory(
    available_bytes: int, spare_bytes: int
) -> None:
    """The limit is 300 MiB."""
    memory = Known(f"{64 << 30}\n{available_bytes}\n", "/proc/meminfo")
    assert _spare_bytes(MapSource({VirtualMemory(): memory})) == spare_bytes


@pytest.mark.parametrize(("missing_bytes", "is_tried"), [(0, True), (4, False)])
def test_a_simulation_that_just_fits_is_tried(missing_bytes: int, *, is_tried: bool) -> None:
    """No program answers here, so a simulation that was tried has an unknown superblock."""
    dry = DryRun(4096, 8192, 32768, 1, 32768, 8192, 0, ())
    available_bytes = 4 * _predicted_bytes(dry) - missing_bytes
    memory = Known(f"{64 << 30}\n{available_bytes}\n", "/proc/meminfo")
    made = simulated(MapSource({VirtualMemory(): memory}), plan(), plan().mkfs, dry)
    assert (made is not None) is is_tried


def test_without_a_known_memory_size_nothing_is_simulated() -> None:
    """The superblock is then computed."""
    assert _spare_bytes(MapSource({})) == 0
