"""The memory of a simulation by mke2fs, before it runs."""

from __future__ import annotations

import pytest

from ext4audit.assemble.planned.simulation import BESIDE_BYTES, _predicted_bytes
from ext4audit.parsers.mke2fs import DryRun


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
    dry = DryRun(4096, groups * 8192, groups * 32768, 0, groups, 32768, 8192, ())
    assert _predicted_bytes(dry) == groups * 64 * copies + BESIDE_BYTES
