"""Distribution of tests over the workers, and the events that these send."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from support.scheduler import ByFunction, send_fewer_events

FUNCTIONS = 300
TESTS = [f"test_a.py::test_{n}[{value}]" for n in range(FUNCTIONS) for value in "xy"]


class Worker:
    """Fake of a worker that records the tests it is given."""

    gateway = SimpleNamespace(id="gw")

    def __init__(self) -> None:
        self.given: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, positions: list[int]) -> None:
        """Record the positions of tests."""
        self.given += positions

    def shutdown(self) -> None:
        """Record the shutdown."""
        self.shutting_down = True


def scheduled(tests: list[str], workers: list[Worker]) -> ByFunction:
    """Return a scheduler that has given each worker its first tests."""
    options = SimpleNamespace(loadscopereorder=False)
    config = SimpleNamespace(option=options, getvalue={"tx": [f"{len(workers)}*popen"]}.get)
    scheduler = ByFunction(config, None)
    for worker in workers:
        scheduler.add_node(worker)
    for worker in workers:
        scheduler.add_node_collection(worker, tests)
    scheduler.schedule()
    return scheduler


def test_each_test_runs_once_and_functions_stay_together() -> None:
    """Each function runs in one worker, and completed tests are not counted again."""
    workers = [Worker(), Worker()]
    scheduler = scheduled(TESTS, workers)
    done = [0, 0]
    while not all(worker.shutting_down for worker in workers) or scheduler.has_pending:
        for number, worker in enumerate(workers):
            for position in worker.given[done[number] :]:
                scheduler.mark_test_complete(worker, position)
                done[number] += 1
            assert len(scheduler.assigned_work[worker]) <= 3
    assert sorted(workers[0].given + workers[1].given) == list(range(len(TESTS)))
    functions = [{TESTS[each].partition("[")[0] for each in worker.given} for worker in workers]
    assert functions[0].isdisjoint(functions[1])
    assert scheduler.tests_finished


def test_tests_of_a_crashed_worker_run_in_another() -> None:
    """A crashed worker reports its test, and another runs the rest of its unit."""
    workers = [Worker(), Worker()]
    scheduler = scheduled(TESTS[:40], workers)
    gone, stays = workers
    scheduler.mark_test_complete(gone, gone.given[0])
    assert scheduler.remove_node(gone) == TESTS[gone.given[1]]
    position = 0
    while position < len(stays.given):
        scheduler.mark_test_complete(stays, stays.given[position])
        position += 1
    assert sorted([gone.given[0], *stays.given]) == list(range(40))


class Interactor:
    """Fake of the worker's end of pytest-xdist."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Mapping[str, Any]]] = []

    def sendevent(self, name: str, **event: object) -> None:
        """Record an event."""
        self.sent.append((name, event))


def sent(report: Mapping[str, Any], **shown: object) -> list[tuple[str, Mapping[str, Any]]]:
    """Return what a worker sends of a test with this report, with options that show more."""
    options = {"verbose": 0, "durations": None, "xmlpath": None, "reportchars": "sfE", **shown}
    worker = Interactor()
    plugins = SimpleNamespace(get_plugins=lambda: [object(), worker])
    send_fewer_events(SimpleNamespace(option=SimpleNamespace(**options), pluginmanager=plugins))
    worker.sendevent("logstart", nodeid="n")
    worker.sendevent("testreport", data={**report, "item_index": 1})
    worker.sendevent("logfinish", nodeid="n")
    worker.sendevent("runtest_protocol_complete", item_index=1)
    return worker.sent


def serialized(
    when: Literal["setup", "call", "teardown"],
    outcome: Literal["passed", "failed", "skipped"],
    **added: Any,
) -> dict[str, Any]:
    """Return a report as a worker sends it."""
    report = pytest.TestReport("n", ("n", 1, "n"), {"k": 1}, outcome, None, when, **added)
    data: dict[str, Any] = report._to_json()
    return data


DONE = "runtest_protocol_complete"


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (serialized("setup", "passed"), [DONE]),
        (serialized("teardown", "passed"), [DONE]),
        (serialized("call", "passed"), ["testreport", DONE]),
        (serialized("teardown", "passed", user_properties=[("a", 1)]), ["testreport", DONE]),
        (serialized("teardown", "passed", _hypothesis_stats="a"), ["testreport", DONE]),
        (serialized("setup", "passed", wasxfail="a"), ["testreport", DONE]),
    ],
)
def test_a_worker_sends_what_is_shown_of_a_passed_test(
    report: dict[str, Any], expected: list[str]
) -> None:
    """That is its call, and what plugins such as Hypothesis have added to other reports."""
    assert [name for name, _ in sent(report)] == expected


@pytest.mark.parametrize("when", ["setup", "call", "teardown"])
@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_a_worker_sends_complete_reports_of_other_tests(
    when: Literal["setup", "call", "teardown"], outcome: Literal["failed", "skipped"]
) -> None:
    """The summary shows them, whatever phase they are of."""
    report = serialized(when, outcome)
    (name, event), _ = sent(report)
    assert name == "testreport"
    assert event["data"] == {**report, "item_index": 1}


@pytest.mark.parametrize(
    "shown", [{"verbose": 1}, {"durations": 0}, {"xmlpath": "a.xml"}, {"reportchars": "A"}]
)
def test_a_worker_sends_everything_where_an_option_shows_more(shown: dict[str, object]) -> None:
    """Among these options are those that list the durations of setups and teardowns."""
    names = [name for name, _ in sent(serialized("setup", "passed"), **shown)]
    assert names == ["logstart", "testreport", "logfinish", DONE]
