"""The memory of a simulation by mke2fs, before it runs."""

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


@pytest.mark.parametrize(
    ("groups", "copies"),
    [
        pytest.param(1, 2, id="group 0, and group 1 wherever it is"),
        pytest.param(3, 2, id="group 3 does not exist"),
        pytest.param(4, 3, id="group 3"),
        pytest.param(125, 10, id="3, 9, 27, 81; 5, 25; 7, 49"),
        pytest.param(126, 11, id="125 as well"),
    ],
)
def test_each_backup_group_has_a_copy_of_all_descriptors(groups: int, copies: int) -> None:
    """The backups of sparse_super are in group 1 and in the powers of 3, 5 and 7."""
    dry = DryRun(4096, groups * 8192, groups * 32768, groups, 32768, 8192, ())
    assert _predicted_bytes(dry) == groups * 64 * copies + BESIDE_BYTES


@pytest.mark.parametrize(
    ("available_bytes", "spare_bytes"),
    [(0, 0), (4, 1), (400 << 20, 100 << 20), (1200 << 20, 300 << 20), (64 << 30, 300 << 20)],
)
def test_a_quarter_of_the_memory_may_be_taken(available_bytes: int, spare_bytes: int) -> None:
    """And at most 300 MiB of it."""
    memory = Known(f"{64 << 30}\n{available_bytes}\n", "/proc/meminfo")
    assert _spare_bytes(MapSource({VirtualMemory(): memory})) == spare_bytes


@pytest.mark.parametrize(("missing_bytes", "is_tried"), [(0, True), (4, False)])
def test_a_simulation_is_tried_that_just_fits(missing_bytes: int, *, is_tried: bool) -> None:
    """Nothing answers here: what was tried has a superblock that is not known."""
    dry = DryRun(4096, 8192, 32768, 1, 32768, 8192, ())
    available_bytes = 4 * _predicted_bytes(dry) - missing_bytes
    memory = Known(f"{64 << 30}\n{available_bytes}\n", "/proc/meminfo")
    made = simulated(MapSource({VirtualMemory(): memory}), plan(), plan().mkfs, dry)
    assert (made is not None) is is_tried


def test_where_the_memory_is_not_known_none_is_taken() -> None:
    """The superblock is computed then."""
    assert _spare_bytes(MapSource({})) == 0
