"""The command line of `ext4audit probe`, and its text."""

from __future__ import annotations

import os
from typing import Any
from unittest.mock import Mock

import pytest

from ext4audit.cli import probe
from ext4audit.cli.probe import exit_code
from ext4audit.facts.measurement import (
    Figure,
    MeasuredFilesystem,
    Measurement,
    MemberFigures,
    ProbeRun,
    ProbeVerdict,
    Skipped,
)
from ext4audit.renderers.probe import render_text
from support.program import run
from support.timing import assert_no_waiting, hang

FS = MeasuredFilesystem("1111", "/dev/sda", "6.1.0")


def result(verdict: str, *figures: Figure, members: tuple[MemberFigures, ...] = ()) -> Measurement:
    """Build a result of the probe fsync."""
    return Measurement(
        "fsync", "DUR001", ProbeVerdict(verdict), "because", "at least 1", figures, members
    )


def run_of(*results: Measurement, mode: str = "probe", skipped: bool = False) -> ProbeRun:
    """Build a run with some results."""
    left = (Skipped("members", "LAY001", "no stripe"),) if skipped else ()
    return ProbeRun(mode, "2026", "h", "", "/d\x1b", FS, 12.4, 3 << 20, results, left)


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["healthy", "healthy"], 0),
        (["healthy", "inconclusive"], 3),
        (["inconclusive", "affected"], 1),
        ([], 3),
    ],
)
def test_exit_codes(verdicts: list[str], code: int) -> None:
    """Affected outranks inconclusive; a run without measurements is not healthy."""
    assert exit_code(run_of(*map(result, verdicts))) == code


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (Figure("append_fsync_p50_ms", 1.234), "append fsync p50 1.23 ms"),
        (Figure("written_mib_per_second", 123.4), "written 123 MiB/s"),
        (Figure("fsyncs_per_second", 12), "fsyncs 12/s"),
        (Figure("rename_idle_seconds", 0.0123), "rename idle 0.012 s"),
        (Figure("file_mib", 96.0), "file 96.00 MiB"),
        (Figure("evenness", None), "evenness ?"),
    ],
)
def test_figures_have_units(figure: Figure, text: str) -> None:
    """The unit at the end of a name is printed after the value."""
    shown = render_text(
        run_of(result("healthy", figure)), color=False, width=None, ascii_only=False
    )
    assert f"  measured  {text}\n" in shown


def test_text_has_verdicts_members_and_skipped_probes() -> None:
    """Names from the host are escaped, and rare percentiles are for JSON only."""
    member = MemberFigures("sda", 10, 512, 2, 0.5, None, 0.25, None)
    one = result("affected", Figure("fsync_p90_ms", 1.0), Figure("n", 1), members=(member,))
    shown = render_text(run_of(one, skipped=True), color=False, width=None, ascii_only=False)
    assert shown.splitlines() == [
        "/d\\x1b on /dev/sda: 3 MiB written in 12 s, all of it removed",
        "",
        "DUR001  fsync  affected: because",
        "  measured  n 1",
        "  member      writes       share   predicted  write wait     flushes  flush wait",
        "  sda             10       25.0%           ?    0.500 ms           2        ? ms",
        "  healthy   at least 1",
        "",
        "LAY001  members  not measured: no stripe",
    ]
    seen = render_text(run_of(mode="observe"), color=False, width=None, ascii_only=False)
    assert seen == "/d\\x1b on /dev/sda: observed for 12 s, nothing was written\n"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["."], "--size"),
        ([".", "--only", "x"], "--only: invalid value 'x' (choose from"),
        ([".", "--time", "0"], "--time"),
        ([".", "--observe", "0"], "--observe"),
        ([".", "--only", ""], "--only: invalid value ''"),
        (["/nowhere"], "/nowhere"),
    ],
)
def test_usage_errors(arguments: list[str], reason: str) -> None:
    """Nothing is measured, and the exit code is 2."""
    extra = ["--size", "0"] if reason == "--size" else []
    done = run("probe", *arguments, *extra)
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr


def test_an_observation_does_not_wait_for_a_path_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task waits where a server is dead, and the observation asks for its directory."""

    def observe(_subject: object, _seconds: float, _show: object, device_of: Any) -> list[Any]:
        found = [device_of("/tmp")]  # noqa: S108 - any path
        monkeypatch.setattr(probe, "_st_dev", hang)
        return [*found, *(device_of(f"/{number}") for number in range(9)), device_of("/1")]

    monkeypatch.setattr("ext4audit.probing.observing.observe", observe)
    with assert_no_waiting():
        found: Any = probe._observed(Mock(), 1, Mock())
    assert found == [os.stat("/tmp").st_dev, *[None] * 10]  # noqa: S108, PTH116
