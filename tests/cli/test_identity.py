"""Host identity: adding a host to a run does not change a byte of another host's part."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from functools import cache
from io import StringIO
from itertools import chain, permutations
from pathlib import Path
from xml.etree.ElementTree import fromstring, tostring

import pytest

from ext4audit.cli import run_program
from support.examples import sample_of
from support.hosts.fixture_hosts import HOSTS
from support.hosts.fleets import Original

FIXTURE_OF_HOST = {
    "db1": "forced-readonly-6.1",
    "db2": "not-root-md-raid0-hot-member",
    "db-1": "healthy-debian-12",
}
"""Hosts that all call themselves "localhost"; one has an incomplete audit."""
BROKEN_HOST = "db9"
"""A host that cannot be read."""
KEYS = (*FIXTURE_OF_HOST, BROKEN_HOST)


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the evidence of all hosts into one folder."""
    folder = tmp_path_factory.mktemp("evidence")
    for key, fixture in FIXTURE_OF_HOST.items():
        (folder / f"{key}.tar.gz").write_bytes(
            Original(HOSTS / fixture / "snapshot").tar("localhost")
        )
    (folder / f"{BROKEN_HOST}.tar.gz").write_bytes(b"garbage")
    return folder


Outputs = Callable[..., dict[str, str]]
"""Return the outputs of a scan of the hosts with the given keys, by format."""


@pytest.fixture(scope="module")
def outputs(evidence: Path, tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """Return a function that scans hosts and caches the outputs; exit 2 if none could be read."""

    @cache
    def scan(*keys: str) -> dict[str, str]:
        folder = tmp_path_factory.mktemp("outputs")
        sources = [f"--from={evidence / key}.tar.gz" for key in keys]
        files = [[f"-f{fmt}", f"-o{folder / fmt}"] for fmt in PARTS if fmt != "text"]
        for words in ([*chain(*files)], ["-v", "-ftext", f"-o{folder / 'text'}"]):
            run_program(["scan", *sources, "--fail-on", "info", *words])
        return {fmt: (folder / fmt).read_text() for fmt in PARTS}

    return scan


def ndjson_part(text: str, key: str) -> object:
    """Return the host's lines."""
    return [line for line in text.splitlines() if json.loads(line)["source"]["key"] == key]


def sarif_part(text: str, key: str) -> object:
    """Return the results located at the host and the notifications that start with its name."""
    (run,) = json.loads(text)["runs"]
    results = [r for r in run["results"] if f'"hosts/{key}/' in json.dumps(r["locations"])]
    notifications = run["invocations"][0]["toolExecutionNotifications"]
    return results, [n for n in notifications if re.match(f"{key}[: ]", n["message"]["text"])]


def gitlab_part(text: str, key: str) -> object:
    """Return the issues in the host's folder."""
    issues = json.loads(text)
    return [issue for issue in issues if issue["location"]["path"].startswith(f"hosts/{key}/")]


def junit_part(text: str, key: str) -> object:
    """Return the host's suites, without the run's time stamp."""
    suites = fromstring(text).findall("testsuite")  # noqa: S314 - our own output
    for suite in suites:
        suite.attrib.pop("timestamp", None)
    return [tostring(suite).strip() for suite in suites if suite.get("name") == key]


def prometheus_part(text: str, key: str) -> object:
    """Return the host's series."""
    return [line for line in text.splitlines() if f'host="{key}"' in line]


def csv_part(text: str, key: str) -> object:
    """Return the host's rows."""
    return [row for row in csv.DictReader(StringIO(text)) if row["host"] == key]


def markdown_part(text: str, key: str) -> object:
    """Return the host's rows in the host tables, and the rule and place of each of its findings.

    Findings are grouped by cause, not by host.
    """
    tables, _, causes = text.partition("## Findings")
    rows = re.findall(r"^\| ([A-Z]+) \| ([A-Z]{3}\d{3}) .*? \| (.*?) \| ", causes, re.MULTILINE)
    found: list[object] = [
        (severity, code, place)
        for severity, code, where in rows
        for place in re.findall(rf"\b{key} (`+ ?.*? ?`+)", where)
    ]
    head: list[str] = []
    for line in tables.splitlines():
        row = [cell.strip() for cell in line.split("|")]
        head = row if row[1:2] == ["Host"] else head
        if row[1:2] == [key]:
            cells = zip(head, row, strict=True)
            found.append({name: cell for name, cell in cells if cell not in {"", "?"}})
    return found


def html_part(text: str, key: str) -> object:
    """Return the host's part of the page, from its anchor."""
    parts = re.findall(
        rf'^<div id="host-{key}">.*?(?=^</details>\n<details class="host|^</main>)',
        text,
        re.DOTALL | re.MULTILINE,
    )
    return [part.rstrip().removesuffix("</details>").rstrip() for part in parts]


def nagios_part(text: str, key: str) -> object:
    """Return the lines about the host."""
    return [line for line in text.splitlines() if re.search(rf"\b(?:on|host) {key}[,: ]", line)]


def github_part(text: str, key: str) -> object:
    """Return the annotations in the host's folder; annotations of whole runs have no folder."""
    return [line for line in text.splitlines() if f" file=hosts/{key}/" in line]


def text_part(text: str, key: str) -> object:
    """Return the host's report, from its name to its totals."""
    report = re.compile(rf"^{key}: .*?^[0-9]+ filesystems?: [^\n]*", re.DOTALL | re.MULTILINE)
    return report.findall(text)


PARTS: dict[str, Callable[[str, str], object]] = {
    "ndjson": ndjson_part,
    "sarif": sarif_part,
    "gitlab": gitlab_part,
    "junit": junit_part,
    "prometheus": prometheus_part,
    "csv": csv_part,
    "markdown": markdown_part,
    "html": html_part,
    "nagios": nagios_part,
    "github": github_part,
    "text": text_part,
}


@pytest.mark.parametrize("fmt", PARTS)
def test_output_of_a_host_does_not_depend_on_other_hosts(fmt: str, outputs: Outputs) -> None:
    """A host's part is the same with one other host, or among all hosts in any order."""
    part = PARTS[fmt]
    orders = sample_of(list(permutations(KEYS))[::7], "orders")
    runs = [("db1", "db2"), ("db2", "db-1"), ("db1", BROKEN_HOST), *orders]
    texts = {keys: outputs(*keys)[fmt] for keys in runs}
    for key in KEYS:
        parts = [part(text, key) for keys, text in texts.items() if key in keys]
        assert re.search(r"\w{3}", str(parts[0])) or key in {"db-1", BROKEN_HOST}, f"{key}: nothing"
        assert parts == [parts[0]] * len(parts), key


@pytest.mark.parametrize("fmt", ["sarif", "gitlab", "junit", "prometheus", "csv", "ndjson"])
def test_single_host_and_fleet_have_the_same_identity(fmt: str, outputs: Outputs) -> None:
    """A run that grows from one host to two does not start a new history."""
    part = PARTS[fmt]
    alone = part(outputs("db1")[fmt], "db1")
    assert str(alone) != "[]"
    assert part(outputs("db1", "db2")[fmt], "db1") == alone
