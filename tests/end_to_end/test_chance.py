"""No test depends on chance: on the load of the machine, or on concurrent tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
EXCLUDED_FOLDERS = ("lab/", "mutation/", "bench/")
"""Tests on separate machines, tests run by hand, and measurements for a quiet machine and CI."""
CLOCKS = {"monotonic", "perf_counter"}
CLOCK_MODULES = {
    "support/timing.py": "distinguishes what waits from what does not, by minutes",
    "support/filesystems/scratch.py": "how long others may look at a device",
    "support/hanging/short_timeouts.py": "short waits for what surely hangs",
    "support/hosts/fuzz_texts.py": "runs by hand",
    "cli/fleet/test_gathering.py": "the quickest of several rounds",
    "sources/live/test_live.py": "three seconds and a hundred: a busy machine is between them",
}
SLEEP_MODULES = {
    "cli/fleet/test_auditing.py": "what never ends",
    "kernel/test_probe.py": "not before a signal could come, but also while it works",
    "support/filesystems/scratch.py": "between two looks",
}
SHORT_TIMEOUT_MODULES = {"support/shells/collector.py": "again until it ends"}
TERMINAL_MODULES = {
    "support/terminals.py": "reads until the last writer has gone",
    "support/shells/terminal.py": "the same",
    "cli/terminal/test_status_line.py": "its width and its kind only",
    "kernel/targets/test_targets.py": "reads until the last writer has gone",
    "sources/snapshot/test_collector.py": "nothing is shown",
}
Node = Callable[[ast.AST], bool]
WORDS = re.compile(r"monotonic|perf_counter|sleep|timeout|wait|openpty|pty\.fork")
"""Strings of which a module must contain one to contain any searched call."""


@cache
def modules_by_check() -> Mapping[Node, set[str]]:
    """Return the test modules that contain each searched call; a module is parsed once."""
    found: dict[Node, set[str]] = {looked_for: set() for looked_for in ALLOWED_MODULES}
    for path in sorted(TESTS.rglob("*.py")):
        name, text = str(path.relative_to(TESTS)), path.read_text()
        if name.startswith(EXCLUDED_FOLDERS) or not WORDS.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call | ast.keyword):
                for looked_for in filter(lambda each: each(node), ALLOWED_MODULES):
                    found[looked_for].add(name)
    return found


def reads_a_clock(node: ast.AST) -> bool:
    """Return whether the node is `time.monotonic()` or a similar call."""
    return isinstance(node, ast.Call) and _name(node.func) in CLOCKS


def sleeps(node: ast.AST) -> bool:
    """Return whether the node is `time.sleep(0.5)`: simulated hangs use a named duration."""
    return (
        isinstance(node, ast.Call)
        and _dotted(node.func) == "time.sleep"
        and isinstance(node.args[0], ast.Constant)
    )


def has_short_timeout(node: ast.AST) -> bool:
    """Return whether the node is `timeout=30` or `process.wait(30)`."""
    if isinstance(node, ast.keyword):
        return node.arg == "timeout" and isinstance(node.value, ast.Constant)
    if not isinstance(node, ast.Call) or _name(node.func) != "wait":
        return False
    return any(isinstance(each, ast.Constant) for each in node.args)


def opens_a_terminal(node: ast.AST) -> bool:
    """Return whether the node is `os.openpty()`, `pty.openpty()` or `pty.fork()`."""
    return isinstance(node, ast.Call) and (
        _name(node.func) == "openpty" or _dotted(node.func) == "pty.fork"
    )


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else ""


def _dotted(function: ast.expr) -> str:
    """Return "module.name" if a function is called that way, else an empty string."""
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        return ""
    return f"{function.value.id}.{function.attr}"


ALLOWED_MODULES: Mapping[Node, Mapping[str, str]] = {
    reads_a_clock: CLOCK_MODULES,
    sleeps: SLEEP_MODULES,
    has_short_timeout: SHORT_TIMEOUT_MODULES,
    opens_a_terminal: TERMINAL_MODULES,
}


@pytest.mark.parametrize("looked_for", ALLOWED_MODULES)
def test_timing_dependent_calls_are_in_listed_modules_only(looked_for: Node) -> None:
    """Only the modules with a listed reason contain such calls.

    A busy machine delays anything by seconds: `wait_until` and `assert_no_waiting` allow for that,
    a check after half a second does not. Time limits of tests are all the same PATIENCE_SECONDS.
    The kernel delivers terminal output in pieces: one read may return only the first piece.
    """
    assert modules_by_check()[looked_for] == set(ALLOWED_MODULES[looked_for])


def test_checks_find_each_kind_of_call() -> None:
    """Examples of each searched call are found."""
    texts: dict[Node, tuple[str, ...]] = {
        reads_a_clock: ("a = time.monotonic()",),
        sleeps: ("time.sleep(0.5)",),
        has_short_timeout: ("run(timeout=3)", "process.wait(30)", "process.communicate(timeout=3)"),
        opens_a_terminal: ("os.openpty()", "pty.fork()"),
    }
    for looked_for, examples in texts.items():
        assert all(any(map(looked_for, ast.walk(ast.parse(text)))) for text in examples)
        assert all(map(WORDS.search, examples))
