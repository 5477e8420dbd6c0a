"""The formats: each is a module or package, discovered by name."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from ext4audit import renderers
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Confidence, Disruption, Finding, Phase, Remedy, Severity, Step
from ext4audit.renderers import Audited, Page, formats
from ext4audit.rule import RuleOutput, rule
from support.builders import host
from support.formats.sample_reports import PAGE, report, root


def test_formats_are_in_alphabetical_order() -> None:
    """Only the module name of JSON includes its version."""
    assert list(formats()) == sorted(formats())
    assert {name: module for name, module in formats().items() if name != module} == {
        "json": "json_v1"
    }


def test_every_format_is_documented() -> None:
    """There is no row for a format that does not exist; a row can cover several formats."""
    page = Path(__file__).parents[2] / "docs" / "ci.md"
    table = page.read_text(encoding="utf-8").partition("\n|---|---|---|\n")[2].partition("\n\n")[0]
    cells = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
    rows = sorted(name for cell in cells for name in cell.split(", "))
    assert rows == list(formats()), "the table of docs/ci.md has a row for each format"


@pytest.mark.parametrize("name", formats())
def test_every_format_renders(name: str) -> None:
    """Each module has render(), and those that support plans also have render_plan()."""
    imported = importlib.import_module(f"ext4audit.renderers.{formats()[name]}")
    assert callable(imported.render)
    assert callable(imported.render_plan)


REMEDIES = (
    Remedy("Think about it.", Disruption.ONLINE),
    Remedy("Start again.", Disruption.REBOOT, (Step(Phase.IMMEDIATE, "reboot"),)),
    Remedy("Set it.", Disruption.REMOUNT, (Step(Phase.IMMEDIATE, "mount -o remount /data"),)),
)


@rule("DUR001", "barrier-disabled", severity=Severity.HIGH, since="0.1")
def with_remedies(_fs: Filesystem, _host: Host) -> RuleOutput:
    """Find what can be cured in several ways."""
    yield Finding("Wrong.", Severity.HIGH, Confidence.CONFIRMED, (), REMEDIES)


@pytest.mark.parametrize("name", ["csv", "github", "text"])
def test_single_remedy_is_the_safest(name: str) -> None:
    """It is the remedy that `ext4audit fix` applies; advice without commands is not chosen."""
    module = importlib.import_module(f"ext4audit.renderers.{name}")
    text = module.render([Audited("db1", report(host(root()), with_remedies))], PAGE)
    assert [way.summary for way in REMEDIES if way.summary in text] == ["Set it."]


def test_new_format_is_discovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a render() is found without any other change."""
    folder = tmp_path / "haiku"
    folder.mkdir()
    (folder / "__init__.py").write_text("def render(hosts, page):\n    return page.tool_version\n")
    monkeypatch.setattr(renderers, "__path__", [*renderers.__path__, str(tmp_path)])
    assert formats()["haiku"] == "haiku"
    module = importlib.import_module("ext4audit.renderers.haiku")
    assert module.render((), Page("1.0", "")) == "1.0"
