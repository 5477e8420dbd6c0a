"""No test is decided by chance: by how busy the machine is, or by what runs beside it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
NOT_OURS = ("lab/", "mutation/", "bench/")
"""Machines of their own; what runs by hand; what measures on a quiet machine, and again in CI."""
CLOCKS = {"monotonic", "perf_counter"}
READERS_OF_CLOCKS = {
    "support/timing.py": "distinguishes what waits from what does not, by minutes",
    "support/scratch.py": "how long others may look at a device",
    "support/hanging/short_waits.py": "short waits for what surely hangs",
    "support/hosts/fuzz_texts.py": "runs by hand",
    "cli/fleet/test_gathering.py": "the quickest of several rounds",
    "sources/live/test_live.py": "three seconds and a hundred: a busy machine is between them",
}
SLEEPERS = {
    "cli/fleet/test_auditing.py": "what never ends",
    "kernel/test_probe.py": "not before a signal could come, but also while it works",
    "support/scratch.py": "between two looks",
}
SHORT_TIMEOUTS = {"support/shells/collector.py": "again until it ends"}
TERMINALS = {
    "support/terminals.py": "reads until the last writer has gone",
    "support/shells/terminal.py": "the same",
    "cli/terminal/test_status_line.py": "its width and its kind only",
    "kernel/test_targets.py": "reads until the last writer has gone",
    "sources/snapshot/test_collector.py": "nothing is shown",
}
Node = Callable[[ast.AST], bool]


def places(looked_for: Node) -> set[str]:
    """Return the modules of tests that have what is looked for."""
    return {name for name, tree in _modules() if any(map(looked_for, ast.walk(tree)))}


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(TESTS.rglob("*.py")):
        name = str(path.relative_to(TESTS))
        if not name.startswith(NOT_OURS):
            yield name, ast.parse(path.read_text())


def reads_a_clock(node: ast.AST) -> bool:
    """Whether it is `time.monotonic()`, or the like."""
    return isinstance(node, ast.Call) and _name(node.func) in CLOCKS


def sleeps(node: ast.AST) -> bool:
    """Whether it is `time.sleep(0.5)`: what hangs sleeps for a time with a name."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "time.sleep"
        and isinstance(node.args[0], ast.Constant)
    )


def gives_up_soon(node: ast.AST) -> bool:
    """Whether it is `timeout=30`, or `process.wait(30)`."""
    if isinstance(node, ast.keyword):
        return node.arg == "timeout" and isinstance(node.value, ast.Constant)
    if not isinstance(node, ast.Call) or _name(node.func) != "wait":
        return False
    return any(isinstance(each, ast.Constant) for each in node.args)


def opens_a_terminal(node: ast.AST) -> bool:
    """Whether it is `os.openpty()`, `pty.openpty()` or `pty.fork()`."""
    return isinstance(node, ast.Call) and (
        _name(node.func) == "openpty" or ast.unparse(node.func) == "pty.fork"
    )


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else ""


def test_nothing_is_decided_by_a_clock() -> None:
    """A busy machine delays anything by seconds: `wait_until` and `without_waiting` allow it."""
    assert places(reads_a_clock) == set(READERS_OF_CLOCKS)


def test_nothing_is_waited_for_by_sleeping() -> None:
    """On a busy machine what should have happened within half a second has not."""
    assert places(sleeps) == set(SLEEPERS)


def test_only_what_hangs_is_given_up() -> None:
    """A time limit of a test is its patience, which is the same for all."""
    assert places(gives_up_soon) == set(SHORT_TIMEOUTS)


def test_what_a_terminal_shows_is_read_to_its_end() -> None:
    """The kernel passes it on in pieces: one read may have the first of them only."""
    assert places(opens_a_terminal) == set(TERMINALS)


def test_the_tests_see_it() -> None:
    """What is looked for is found."""
    texts: dict[Node, tuple[str, ...]] = {
        reads_a_clock: ("a = time.monotonic()",),
        sleeps: ("time.sleep(0.5)",),
        gives_up_soon: ("run(timeout=3)", "process.wait(30)", "process.communicate(timeout=3)"),
        opens_a_terminal: ("os.openpty()", "pty.fork()"),
    }
    for looked_for, examples in texts.items():
        assert all(any(map(looked_for, ast.walk(ast.parse(text)))) for text in examples)
