"""Chains of commands run in real shells, and diffs."""

from __future__ import annotations

import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest

from ext4audit.finding import (
    Disruption,
    LineEdit,
    NewFile,
    Phase,
    Programs,
    Remedy,
    Step,
    Unmount,
)
from ext4audit.renderers.shared.commands import (
    AFTER,
    BEFORE,
    FILE,
    chain,
    chain_of,
    changes,
    phases,
)
from support.examples import sample_of
from support.hosts.fixture_hosts import report_of, some_fixture_hosts

SHELLS = [
    shell
    for shell in (("sh",), ("dash",), ("bash",), ("busybox", "sh"))
    if shutil.which(shell[0]) is not None
]
SUCCEEDING = {
    "plain": "true",
    "negated pipeline": "! echo a | grep -q b",
    "or": "false || true",
    "or of the first": "true || false",
    "and": "true && true",
    "and or": "false && true || true",
    "if": "if false; then false; fi",
    "group": "{ false || true; }",
    "guard and group": "true && { false || test $? -eq 1; }",
    "sequence": "false; true",
    "loop": "until true; do sleep 9; done",
    "for": "for each in a b; do test -n $each; done",
    "case": "case a in a) true;; *) false;; esac",
    "subshell": "(false; true)",
    "assignment": 'found=$(echo a; echo b) && test -n "$found"',
    "quoted operators": "test 'a || b' = \"a || b\"",
    "quoted in a substitution": "test \"$(printf '\\073')\" = ';'",
    "redirection": "ls / > /dev/null 2>&1",
    "reserved words as arguments": ": { if ! done || false",
}
FAILING = {
    "plain": "false",
    "negated pipeline": "! echo a | grep -q a",
    "or": "false || false",
    "and": "true && false",
    "and or": "false && true || false",
    "if": "if true; then false; fi",
    "group": "{ false || false; }",
    "guard and group": "false && { false || true; }",
    "guard and group that fails": "true && { false || test $? -eq 2; }",
    "sequence": "true; false",
    "subshell": "(true; false)",
    "assignment": "found=$(false) && true",
    "redirection": "ls /there/is/none > /dev/null 2>&1",
    "pipeline": "echo a | grep -q b",
}


def run_pasted(shell: tuple[str, ...], commands: list[str]) -> tuple[list[str], bool]:
    """Return what a chain prints when it is pasted into a shell, and whether it succeeds."""
    text = "\n".join(chain(commands)) + "\n"
    done = subprocess.run(shell, input=text, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.split(), done.returncode == 0


@pytest.mark.parametrize(
    ("shell", "bad", "position"),
    sample_of(product(map(" ".join, SHELLS), FAILING, range(5)), "failures"),
)
def test_failure_stops_all_following_commands(shell: str, bad: str, position: int) -> None:
    """No operator in the failed command, or in those around it, hides the failure."""
    printed = [[], ["a"], ["a"], ["a", "b"], ["a", "b"]][position]
    for good in ("true || false", "! echo x | grep -q y", "if false; then false; fi"):
        commands = ["echo a || echo wrong", good, "echo b", good]
        commands.insert(position, FAILING[bad])
        assert run_pasted(tuple(shell.split()), commands) == (printed, False)


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
@pytest.mark.parametrize("good", SUCCEEDING.values(), ids=SUCCEEDING)
def test_chain_without_failure_runs_each_command_once(shell: tuple[str, ...], good: str) -> None:
    """Chaining does not change successful commands, and a failure after one still counts."""
    commands = ["echo a", good, "echo b || echo wrong", good, "echo c"]
    assert run_pasted(shell, commands) == (["a", "b", "c"], True)
    assert run_pasted(shell, [good, "false", "echo wrong"]) == ([], False)
    assert run_pasted(shell, ["false", good, "echo wrong"]) == ([], False)


@pytest.mark.parametrize(
    ("commands", "lines"),
    [
        ([], ()),
        (["a || b"], ("a || b",)),
        (["a", "b"], ("a &&", "b")),
        (["a || b", "c"], ("{ a || b; } &&", "c")),
        (["test ! -e x && { a || b; }", "c"], ("test ! -e x && { a || b; } &&", "c")),
        (["! a | b", "if a; then b; fi"], ("! a | b &&", "if a; then b; fi")),
    ],
)
def test_braces_only_if_needed(commands: list[str], lines: tuple[str, ...]) -> None:
    """Braces are added only if an operator needs them; a single command is unchanged."""
    assert chain(commands) == lines


def test_no_unmount_if_required_programs_are_missing(tmp_path: Path) -> None:
    """The PATH of a `su` shell lacks /usr/sbin: after the unmount, commands were not found."""
    needing = Programs(("umount", "tune2fs", "e2fsck"))
    there = Step(Phase.IMMEDIATE, f"umount {tmp_path}/x", change=Unmount("/x", "mount /x"))
    work = Step(Phase.IMMEDIATE, "work", programs=needing)
    back = Step(Phase.IMMEDIATE, "mount /x", programs=Programs(("mount",)))
    lines = chain_of([there, work, back])
    assert lines[:2] == ("type e2fsck tune2fs &&", f"umount {tmp_path}/x &&")
    umount = tmp_path / "umount"
    umount.write_text(f"#!/bin/sh\necho > {tmp_path}/done\n")
    umount.chmod(0o755)
    for shell in SHELLS:
        argv = [shutil.which(shell[0]) or "", *shell[1:], "-c", "\n".join(lines)]
        done = subprocess.run(argv, env={"PATH": str(tmp_path)}, capture_output=True, check=False)
        assert done.returncode != 0
        assert not (tmp_path / "done").exists()
    assert chain_of([there, back])[0] == f"umount {tmp_path}/x &&"
    assert chain_of([work, work])[0] == "work &&"
    taken_back = Step(Phase.PERSISTENT, "x", undo_by_unmount="umount /x", programs=needing)
    undoing = taken_back._replace(programs=Programs(undo_by_unmount=("umount", "tune2fs")))
    *_, rollback = phases(Remedy("Do.", Disruption.ONLINE, (undoing, work)))
    assert rollback.commands == ("type tune2fs &&", "umount /x")


@some_fixture_hosts(__name__)
def test_every_printed_chain_is_valid_shell(fixture: str) -> None:
    """A shell parses each phase of each remedy of a fixture host without running it."""
    remedies = [remedy for finding in report_of(fixture).findings for remedy in finding.remedies]
    texts = {"\n".join(part.commands) for remedy in remedies for part in phases(remedy)}
    for shell in (("dash",), ("busybox", "sh")):
        if shutil.which(shell[0]) is not None:
            text = "\n".join(sorted(texts))
            done = subprocess.run(
                [*shell, "-n"], input=text.encode(), capture_output=True, check=False
            )
            assert (done.returncode, done.stderr) == (0, b"")


def test_phases_keep_their_order_and_diffs() -> None:
    """Consecutive steps of a phase form one chain; a step without a file change has no diff."""
    steps = (
        Step(Phase.PERSISTENT, "a", "undo a", change=LineEdit("/f", 3, "x\t1", "xy\t2")),
        Step(Phase.PERSISTENT, "b", change=NewFile("/g", "1\n")),
        Step(Phase.IMMEDIATE, "c", "undo c || true"),
        Step(Phase.PERSISTENT, "d", change=NewFile("/h", "")),
    )
    first, second, third, rollback = phases(Remedy("x", Disruption.ONLINE, steps))
    assert first.phase is third.phase is Phase.PERSISTENT
    assert first.commands == ("a &&", "b")
    assert first.diff == (
        (FILE, "--- /f, line 3"),
        (BEFORE, "- x       1"),
        (AFTER, "+ xy      2"),
        (FILE, "+++ /g, new file"),
        (AFTER, "+ 1"),
    )
    assert (second.diff, second.commands) == ((), ("c",))
    assert third.diff_texts == ("+++ /h, new file",)
    assert (rollback.phase, rollback.diff) == (Phase.ROLLBACK, ())
    assert rollback.commands == ("{ undo c || true; } &&", "undo a")


EDIT = Step(Phase.PERSISTENT, "sed -i 1d x", "undo", "done", LineEdit("x", 1, "a", "b"))
CREATION = Step(Phase.PERSISTENT, "echo c > y", change=NewFile("y", "c\n"))
IMMEDIATE_STEP = Step(Phase.IMMEDIATE, "mount /x", "umount /x")
PERSISTENT_STEP = Step(Phase.PERSISTENT, "update-grub")
VERIFY_STEP = Step(Phase.VERIFY, "test -e y")


@pytest.mark.parametrize(
    ("steps", "shown"),
    [
        ((IMMEDIATE_STEP, VERIFY_STEP), [(Phase.IMMEDIATE, [], ["mount /x"])]),
        ((EDIT, VERIFY_STEP), [(Phase.PERSISTENT, ["--- x, line 1", "- a", "+ b"], [])]),
        (
            (CREATION, PERSISTENT_STEP, PERSISTENT_STEP, IMMEDIATE_STEP),
            [
                (Phase.PERSISTENT, ["+++ y, new file", "+ c"], ["update-grub &&", "update-grub"]),
                (Phase.IMMEDIATE, [], ["mount /x"]),
            ],
        ),
        ((VERIFY_STEP,), []),
    ],
)
def test_changes_as_diffs_and_commands(
    steps: tuple[Step, ...], shown: list[tuple[Phase, list[str], list[str]]]
) -> None:
    """Checks and rollback do not count as changes."""
    parts = changes(Remedy("Do.", Disruption.ONLINE, steps))
    assert [(each.phase, [*each.diff_texts], [*each.commands]) for each in parts] == shown
