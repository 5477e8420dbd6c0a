"""The distribution of tests to the workers of pytest-xdist."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from xdist.scheduler import LoadGroupScheduling


class ByFunction(LoadGroupScheduling):  # type: ignore[misc] # pytest-xdist has no type information
    """A scheduler whose units are groups and functions: all parameters stay together.

    In LoadGroupScheduling, each test is a unit; after each test it counts the pending tests in all
    units that the worker ever had, and for each test that it sends it searches all names: with
    14,000 tests, that takes as long as many of them.
    """

    def _split_scope(self, nodeid: str) -> str:
        """Return the group of a test, or its function."""
        scope: str = super()._split_scope(nodeid)
        return scope.partition("[")[0]

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        """Return how many tests of a worker are pending, and remove its completed units."""
        for scope in [scope for scope, unit in workload.items() if all(unit.values())]:
            del workload[scope]
        return sum(list(unit.values()).count(False) for unit in workload.values())

    def _assign_work_unit(self, node: Any) -> None:
        """Send the next unit to a worker."""
        scope, unit = self.workqueue.popitem(last=False)
        self.assigned_work.setdefault(node, {})[scope] = unit
        node.send_runtest_some([self._positions[name] for name, done in unit.items() if not done])

    @cached_property
    def _positions(self) -> dict[str, int]:
        """The position of each test in the collection, which is the same in all workers."""
        return {name: position for position, name in enumerate(self.collection)}
