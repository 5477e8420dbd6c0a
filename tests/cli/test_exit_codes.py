"""Exit code of every format for every outcome of an audit, in one table."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from ext4audit.cli import captured as scan_from
from ext4audit.cli import run_program
from ext4audit.cli.fleet import one_host as fleet_host
from ext4audit.cli.output import FORMATS, NAGIOS
from ext4audit.engine import audit
from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Confidence, Finding, Severity
from ext4audit.renderers.json_v1 import render_report
from ext4audit.report import Report, ReportSource
from ext4audit.rule import Rule, RuleOutput, Scope, register
from support.builders import filesystem, host, unknown
from support.examples import sample_of
from support.hosts.fixture_hosts import HOSTS

SOURCE = str(HOSTS / "healthy-debian-12" / "snapshot")
ACCEPTED = '[[suppress]]\nrule = "DUR001"\nsubject = "*"\nreason = "so"\n'
SEVERITIES = [severity.value for severity in Severity]


def _finding_by_label(fs: Filesystem | None, _host: Host) -> RuleOutput:
    """Find what the label says; "gap" is not seen."""
    assert fs is not None
    for word in (fs.label or "").split():
        if word in SEVERITIES:
            yield Finding("Bad.", Severity(word), Confidence.CONFIRMED, ())
        else:
            need(fs.superblock)


RULE = register(
    Rule(
        "DUR001",
        "barrier-disabled",
        Severity.CRITICAL,
        "0.1",
        (),
        Scope.FILESYSTEM,
        "",
        "",
        _finding_by_label,
    )
)
"""Registered like every decorated rule: reports come back from other processes."""


def report(label: str) -> Report:
    """Audit one filesystem with this label."""
    fs = filesystem(label=label, superblock=unknown("superblock"))
    return audit(ReportSource("snapshot", "db1"), host(fs), (RULE,))


class AuditResult(NamedTuple):
    """Result of an audit: the label with its findings, options, exit code, and that of Nagios."""

    label: str
    options: tuple[str, ...]
    code: int
    nagios: int


AUDIT_RESULTS = {
    "clean": AuditResult("", (), 0, 0),
    "below the threshold": AuditResult("low", (), 0, 0),
    "at the threshold": AuditResult("medium", (), 1, 1),
    "above the threshold": AuditResult("high", (), 1, 2),
    "at another threshold": AuditResult("low", ("--fail-on", "low"), 1, 1),
    "never": AuditResult("critical", ("--fail-on", "never"), 0, 0),
    "incomplete": AuditResult("gap", (), 3, 3),
    "incomplete, allowed": AuditResult("gap", ("--allow-incomplete",), 0, 0),
    "a finding and a gap": AuditResult("medium gap", (), 1, 1),
    "a low finding and a gap": AuditResult("low gap", (), 3, 3),
    "a finding and a gap, allowed": AuditResult("high gap", ("--allow-incomplete",), 1, 2),
    "suppressed only": AuditResult("critical", ("--config", "POLICY"), 0, 0),
    "suppressed, and a gap": AuditResult("critical gap", ("--config", "POLICY"), 3, 3),
    "known only": AuditResult("critical", ("--baseline", "BASELINE"), 0, 0),
    "worse than known": AuditResult("critical", ("--baseline", "MILDER"), 1, 2),
    "a usage error": AuditResult("critical", ("--select", "NONE001"), 2, 3),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write a policy and two baselines; return their paths by their names in the table."""
    folder = tmp_path_factory.mktemp("files")
    texts = {
        "POLICY": ACCEPTED,
        "BASELINE": render_report(report("critical"), tool_version="0"),
        "MILDER": render_report(report("low"), tool_version="0"),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return {name: str(folder / name) for name in texts}


def audit_returning(label: str) -> Callable[..., Report]:
    """Return a function that audits any source as this report."""

    def audited(*_: object, **__: object) -> Report:
        return report(label)

    return audited


@pytest.mark.parametrize(("name", "fmt"), sample_of(product(AUDIT_RESULTS, FORMATS), "ends"))
def test_exit_code_is_the_same_for_every_format(
    fmt: str,
    name: str,
    files: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The exit code does not depend on the format, except for the Nagios plugin."""
    end = AUDIT_RESULTS[name]
    monkeypatch.setattr(scan_from, "audit_snapshot", audit_returning(end.label))
    options = [files.get(word, word) for word in end.options]
    code = run_program(["scan", "--from", SOURCE, "-f", fmt, *options])
    reported = capsys.readouterr()
    assert code == (end.nagios if fmt == NAGIOS else end.code), reported.err
    assert bool(reported.out) is (name != "a usage error" or fmt == NAGIOS)


@pytest.mark.parametrize(
    ("name", "fmt"),
    sample_of(
        product(
            ["clean", "above the threshold", "incomplete", "suppressed only"],
            sorted(FORMATS.keys() - {"json"}),
        ),
        "ends of many hosts",
    ),
)
def test_exit_code_of_two_hosts(
    fmt: str,
    name: str,
    files: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two hosts with the same outcome have the exit code of one."""
    end = AUDIT_RESULTS[name]
    monkeypatch.setattr(fleet_host, "audit_snapshot", audit_returning(end.label))
    options = [files.get(word, word) for word in end.options]
    code = run_program(
        ["scan", "--from", f"a={SOURCE}", "--from", f"b={SOURCE}", "-f", fmt, *options]
    )
    assert code == (end.nagios if fmt == NAGIOS else end.code), capsys.readouterr().err


@pytest.mark.parametrize("fmt", FORMATS)
def test_unreadable_source_exits_2(
    fmt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is audited: exit 2, but UNKNOWN for Nagios, where 2 would be an alarm."""
    garbage = tmp_path / "garbage.tar.gz"
    garbage.write_bytes(b"garbage")
    code = run_program(["scan", "--from", str(garbage), "-f", fmt])
    assert code == (3 if fmt == NAGIOS else 2)
    assert bool(capsys.readouterr().out) is (fmt not in scan_from.WITHOUT_UNREAD)


@pytest.mark.parametrize("fmt", FORMATS)
def test_renderer_crash_exits_70(
    fmt: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """None of its output is written: exit 70, but UNKNOWN for Nagios, to which 70 is CRITICAL."""

    def crash(*_: object) -> str:
        raise KeyError("a bug")

    monkeypatch.setattr(scan_from, "audit_snapshot", audit_returning("critical"))
    module = importlib.import_module(f"ext4audit.renderers.{FORMATS[fmt]}")
    monkeypatch.setattr(module, "render", crash)
    code, line = (3, "EXT4AUDIT UNKNOWN - internal error\n") if fmt == NAGIOS else (70, "")
    assert run_program(["scan", "--from", SOURCE, "-f", fmt]) == code
    assert capsys.readouterr().out == line


@pytest.mark.parametrize(
    "words",
    [
        ("-f", "nagios", "--selct", "DUR"),
        ("--format", "nagios", "/no|such"),
        ("--format=nagios", "--config", "/nosuch"),
        ("-fnagios", "--baseline", "/nosuch"),
        ("-qf", "nagios", "--profile", "tdb"),
        ("-f", "nagios", "-o", "-", "-f", "text", "-o", "/nosuch/file"),
    ],
)
def test_usage_error_of_the_nagios_plugin_is_unknown(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nagios reads 2 as CRITICAL, and shows the first line of standard output."""
    assert run_program(["scan", *words]) == 3
    reported = capsys.readouterr()
    assert reported.out.startswith("EXT4AUDIT UNKNOWN - ")
    assert reported.out.count("\n") == 1
    assert "|" not in reported.out
    assert reported.err.startswith("ext4audit: ")


@pytest.mark.parametrize("words", [("-f", "text", "-f", "nagios"), ("-f", "json"), ()])
def test_usage_error_of_other_formats_exits_2(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """The first format decides, as it does for findings."""
    assert run_program(["scan", *words, "--selct", "DUR"]) == 2
    assert capsys.readouterr().out == ""
