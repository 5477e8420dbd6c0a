"""The distribution of tests to the workers of pytest-xdist, and what these send."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import pytest
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


PLAIN_REPORT = frozenset(vars(pytest.TestReport("", ("", 0, ""), {}, "passed", None, "call"))) | {
    *("$report_type", "item_index", "worker_id", "testrun_uid"),
}
"""The keys of a serialized report to which no plugin has added any."""


def send_fewer_events(config: Any) -> None:
    """Let a worker send only the events that change what the controller prints.

    For each test, a worker sends six messages, which both processes convert in Python. Of a test
    that passed, the report of its call and its completion are enough, unless an option shows more.
    """
    option = config.option
    shows_more = option.verbose > 0 or option.durations is not None or option.xmlpath
    if shows_more or not set(option.reportchars).isdisjoint("pPA"):
        return
    for plugin in config.pluginmanager.get_plugins():
        if hasattr(plugin, "sendevent"):  # the worker's end of pytest-xdist, which has no name
            plugin.sendevent = partial(_send_if_needed, plugin.sendevent)


def _send_if_needed(send: Callable[..., None], name: str, **event: Any) -> None:
    """Send an event unless it is the start or end of a test, or a setup or teardown that passed.

    A report to which a plugin has added something, such as Hypothesis a failing example, is sent.
    """
    if name in {"logstart", "logfinish"}:
        return
    report = event.get("data", {})
    if name == "testreport" and report["outcome"] == "passed":
        added = report["user_properties"] or not PLAIN_REPORT.issuperset(report)
        if report["when"] != "call" and not added:
            return
        report["keywords"] = {}  # those of failed and skipped tests are shown
    send(name, **event)
