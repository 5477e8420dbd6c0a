"""Distribution of tests over the workers."""

from __future__ import annotations

from types import SimpleNamespace

from support.scheduler import ByFunction

FUNCTIONS = 300
TESTS = [f"test_a.py::test_{n}[{value}]" for n in range(FUNCTIONS) for value in "xy"]


class Worker:
    """Fake of a worker that records the tests it is given."""

    gateway = SimpleNamespace(id="gw")

    def __init__(self) -> None:
        self.told: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, positions: list[int]) -> None:
        """Record the positions of tests."""
        self.told += positions

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


def test_every_test_runs_once_beside_its_like() -> None:
    """Each function runs in one worker, and completed tests are not counted again."""
    workers = [Worker(), Worker()]
    scheduler = scheduled(TESTS, workers)
    done = [0, 0]
    while not all(worker.shutting_down for worker in workers) or scheduler.has_pending:
        for number, worker in enumerate(workers):
            for position in worker.told[done[number] :]:
                scheduler.mark_test_complete(worker, position)
                done[number] += 1
            assert len(scheduler.assigned_work[worker]) <= 3
    assert sorted(workers[0].told + workers[1].told) == list(range(len(TESTS)))
    functions = [{TESTS[each].partition("[")[0] for each in worker.told} for worker in workers]
    assert functions[0].isdisjoint(functions[1])
    assert scheduler.tests_finished


def test_what_a_worker_leaves_is_run_by_another() -> None:
    """A crashed worker reports its test, and another runs the rest of its unit."""
    workers = [Worker(), Worker()]
    scheduler = scheduled(TESTS[:40], workers)
    gone, stays = workers
    scheduler.mark_test_complete(gone, gone.told[0])
    assert scheduler.remove_node(gone) == TESTS[gone.told[1]]
    position = 0
    while position < len(stays.told):
        scheduler.mark_test_complete(stays, stays.told[position])
        position += 1
    assert sorted([gone.told[0], *stays.told]) == list(range(40))
