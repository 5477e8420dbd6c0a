"""The alert rules, the dashboard and a real node_exporter can read the metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ext4audit.renderers import Audited
from ext4audit.renderers.prometheus import render
from support.docs.pages import ROOT
from support.formats.prometheus_tools import (
    NODE_EXPORTER,
    PROMTOOL,
    REQUIRED,
    promtool,
    running_exporter,
    scrape,
)
from support.formats.sample_reports import FLEET, HOSTILE_NAMES, PAGE, hostile_report
from support.hosts.fixture_hosts import report_of, some_fixture_hosts

ALERTS = ROOT / "docs" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "docs" / "prometheus" / "dashboard.json"
ALERT_TESTS = ROOT / "tests" / "support" / "formats" / "prometheus-alerts.yml"
OTHER_METRICS = {"node_textfile_scrape_error"}
"""Metrics of node_exporter itself."""
METRIC = re.compile(r"\b(?:ext4audit|node)_[a-z0-9_]+\b")

needs_promtool = pytest.mark.skipif(PROMTOOL is None and not REQUIRED, reason="needs promtool")
needs_exporter = pytest.mark.skipif(
    NODE_EXPORTER is None and not REQUIRED, reason="needs prometheus-node-exporter"
)


def expressions() -> list[str]:
    """Return the queries of the dashboard, with each variable replaced by a value."""
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    found = [target["expr"] for panel in panels for target in panel["targets"]]
    return [each.replace("$host", ".*") for each in found]


def exposed(text: str) -> set[tuple[str, tuple[tuple[str, str], ...], float]]:
    """Return the name, the labels with a value, and the value of each sample of a text."""
    return {
        (s.name, tuple(sorted((k, v) for k, v in s.labels.items() if v)), s.value)
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def test_alerts_and_dashboard_use_existing_metrics() -> None:
    """With a renamed metric an alert would never fire."""
    text = ALERTS.read_text(encoding="utf-8")
    alerts = re.findall(r"expr:(.*?)\n +(?:for|labels):", text, re.DOTALL)
    names = set(METRIC.findall(f"{alerts}{expressions()}"))
    written = {family.name for family in text_string_to_metric_families(render(FLEET, PAGE))}
    assert names - written == OTHER_METRICS
    assert "ext4audit_finding_severity" in names


def test_every_variable_of_the_dashboard_is_declared() -> None:
    """Grafana shows an undeclared variable as text."""
    text = DASHBOARD.read_text(encoding="utf-8")
    dashboard: Any = json.loads(text)
    declared = {each["name"] for each in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\b", text))
    assert used == declared
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)


@needs_promtool
def test_promtool_accepts_the_alert_rules() -> None:
    """The check covers their syntax and their templates."""
    assert "6 rules found" in promtool("check", "rules", str(ALERTS))


@needs_promtool
def test_each_alert_fires() -> None:
    """The unit tests cover every alert in the file."""
    promtool("test", "rules", str(ALERT_TESTS))
    named = re.findall(r"- alert: (\w+)", ALERTS.read_text(encoding="utf-8"))
    tested = re.findall(r"alertname: (\w+)", ALERT_TESTS.read_text(encoding="utf-8"))
    assert set(named) == set(tested)


@needs_promtool
def test_promtool_parses_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    """Each query is checked as a rule, because promtool parses queries only in rules."""
    rules = [{"record": f"x:{n}", "expr": expr} for n, expr in enumerate(expressions())]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "x", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(path))


@needs_promtool
@some_fixture_hosts(__name__)
def test_promtool_accepts_metrics_of_every_fixture_host(fixture: str) -> None:
    """It checks syntax, help, types, and naming conventions."""
    text = render([Audited("x", report_of(fixture))], PAGE)
    assert promtool("check", "metrics", text=text) == ""


@needs_promtool
@pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES)
def test_promtool_accepts_hostile_names(name: str) -> None:
    """Such names are valid label values."""
    text = render([Audited(name, hostile_report(name)), *FLEET], PAGE)
    assert promtool("check", "metrics", text=text) == ""


@needs_exporter
def test_node_exporter_exposes_every_series(tmp_path: Path) -> None:
    """The textfile collector refuses a whole file for one invalid line."""
    hosts = [*FLEET, *(Audited(name, hostile_report(name)) for name in HOSTILE_NAMES.values())]
    text = render(hosts, PAGE)
    (tmp_path / "ext4audit.prom").write_text(text, encoding="utf-8")
    with running_exporter(tmp_path) as address:
        found = exposed(scrape(address))
    assert ("node_textfile_scrape_error", (), 0) in found
    assert exposed(text) <= found


@needs_exporter
def test_node_exporter_reports_an_invalid_file(tmp_path: Path) -> None:
    """The test above can fail: the error metric that it reads is 1 for a bad file."""
    (tmp_path / "bad.prom").write_text("ext4audit_host_readable{\n", encoding="utf-8")
    with running_exporter(tmp_path) as address:
        assert ("node_textfile_scrape_error", (), 1) in exposed(scrape(address))
