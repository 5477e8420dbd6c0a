"""Which mounts are hidden by others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import mount
from ext4audit.assemble.covering import mark_covered
from ext4audit.facts.mount import Mount


def line(mount_id: int, parent_id: int, mount_point: str) -> Mount:
    """Build a line of mountinfo by its place in the tree."""
    return replace(mount(mount_point, mount_id=mount_id), parent_id=parent_id)


@pytest.mark.parametrize(
    ("lines", "covered"),
    [
        ([line(1, 0, "/"), line(2, 1, "/m")], []),
        ([line(1, 0, "/"), line(2, 1, "/m"), line(3, 2, "/m")], [2]),
        ([line(1, 0, "/"), line(2, 1, "/m"), line(3, 2, "/m/below")], []),
        ([line(1, 0, "/"), line(2, 1, "/m/p/q"), line(3, 1, "/m/p")], [2]),
        ([line(1, 0, "/"), line(2, 1, "/m"), line(3, 2, "/m/a"), line(4, 2, "/m")], [2, 3]),
        ([line(1, 0, "/"), line(2, 1, "/mm"), line(3, 1, "/m")], []),
        ([line(1, 1, "/")], []),
    ],
)
def test_a_mount_that_another_hides_is_covered(lines: list[Mount], covered: list[int]) -> None:
    """A mount on the same directory, or above it in the same parent, hides what is below."""
    assert [each.mount_id for each in mark_covered(tuple(lines)) if each.covered] == covered
