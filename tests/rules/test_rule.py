"""Rule: what the decorators make of a check and its docstring."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ext4audit import __version__
from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Severity
from ext4audit.report import Outcome
from ext4audit.rule import OFF_BY_DEFAULT, Rule, RuleOutput, Scope, host_rule, rule
from ext4audit.rules import RULE_MODULE, all_rules
from support.builders import filesystem, host

RULES = Path(__file__).parents[2] / "src" / "ext4audit" / "rules"
FAMILIES = {
    "DUR": "durability",
    "PRF": "performance",
    "LAY": "layout",
    "CAP": "capacity",
    "HLT": "health",
    "CMP": "compatibility",
    "DRF": "drift",
    "KRN": "kernel",
    "SEC": "security",
}
"""The families of rule codes, and the folder of each."""
HEADINGS = ["What it checks", "Why it matters", "Remedy", "When to ignore"]


@rule("DUR901", "made-up", severity=Severity.HIGH, since="0.1", references=("mke2fs(8)",))
def filesystem_check(fs: Filesystem, _host: Host) -> RuleOutput:
    """Check nothing.

    ## Remedy

        none
    """
    yield Citation("device", fs.device, "test")


@host_rule("KRN901", "made-up-too", severity=Severity.LOW, since="0.2")
def host_check(host_: Host) -> RuleOutput:
    """Check nothing."""
    yield Citation("name", host_.name, "test")


def test_attributes_of_a_rule() -> None:
    """The family is the letters of the code; the page is the dedented docstring."""
    assert filesystem_check.code == "DUR901"
    assert filesystem_check.family == "DUR"
    assert filesystem_check.name == "made-up"
    assert filesystem_check.severity is Severity.HIGH
    assert filesystem_check.since == "0.1"
    assert filesystem_check.references == ("mke2fs(8)",)
    assert filesystem_check.scope is Scope.FILESYSTEM
    assert filesystem_check.page == "Check nothing.\n\n## Remedy\n\n    none"


def test_summary_is_the_first_line_of_the_module() -> None:
    """The summary is the text after "CODE: " in the module's docstring; here, after "Rule: "."""
    expected = "what the decorators make of a check and its docstring."
    assert filesystem_check.summary == expected
    assert host_check.summary == expected


def test_filesystem_rule_gets_filesystem_and_host() -> None:
    """The check is called with the subject and its host."""
    reported = list(filesystem_check.run(filesystem(device="/dev/sdz"), host()))
    assert reported == [Citation("device", "/dev/sdz", "test")]


def test_filesystem_rule_without_a_filesystem_raises_type_error() -> None:
    """The engine's mistake raises a TypeError with the code of the rule."""
    with pytest.raises(TypeError, match="DUR901 judges filesystems"):
        filesystem_check.run(None, host())


def test_host_rule_gets_the_host() -> None:
    """The scope is the host, and no filesystem is passed."""
    assert host_check.scope is Scope.HOST
    assert list(host_check.run(None, host(name="db9"))) == [Citation("name", "db9", "test")]
    assert judge(host_check, None, host()).outcome is Outcome.PASS


@pytest.mark.parametrize("each", all_rules(), ids=lambda each: each.code)
def test_every_rule_of_the_catalogue_is_complete(each: Rule) -> None:
    """A rule has a code, name, summary, a page with four headings in order, and a reference."""
    assert re.fullmatch(r"[A-Z]{3}[0-9]{3}", each.code)
    assert each.family in FAMILIES
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", each.name)
    assert each.summary.endswith(".")
    assert re.findall(r"^## (.*)$", each.page, re.MULTILINE) == HEADINGS
    assert each.references
    assert re.fullmatch(r"[0-9]+\.[0-9]+", each.since)
    assert tuple(map(int, each.since.split("."))) <= tuple(map(int, __version__.split(".")[:2]))
    assert all(each.references)


@pytest.mark.parametrize("each", all_rules(), ids=lambda each: each.code)
def test_every_module_is_named_after_its_rule(each: Rule) -> None:
    """`<code>_<name>.py` holds the rule, so that the file is found by code or by name."""
    folder = RULES / FAMILIES[each.family]
    assert (folder / f"{each.code.lower()}_{each.name.replace('-', '_')}.py").is_file()


def test_codes_and_names_are_unique_and_sorted() -> None:
    """A code is never reused, and the catalogue is sorted by code."""
    codes = [each.code for each in all_rules()]
    names = [each.name for each in all_rules()]
    assert codes == sorted(set(codes))
    assert len(names) == len(set(names))


def test_every_rule_module_is_in_the_catalogue() -> None:
    """Rules are discovered by file name; a rule in a misnamed file would never run."""
    modules = {path for path in RULES.rglob("*.py") if "@rule(" in path.read_text()}
    modules |= {path for path in RULES.rglob("*.py") if "@host_rule(" in path.read_text()}
    assert len(all_rules()) == len(modules)
    assert all(RULE_MODULE.fullmatch(path.stem) for path in modules)


@pytest.mark.parametrize("declared", [None, True, False])
@pytest.mark.parametrize("code", ["DUR901", min(OFF_BY_DEFAULT)])
def test_rules_that_run_on_plans(code: str, declared: bool | None) -> None:
    """docs/rules/README.md, which is generated and compared, has this for every rule."""

    def check(fs: Filesystem, _host: Host) -> RuleOutput:
        """Check nothing."""
        yield Citation("device", fs.device, "test")

    def check_host(on: Host) -> RuleOutput:
        """Check nothing."""
        yield Citation("name", on.name, "test")

    on_by_default = code not in OFF_BY_DEFAULT
    of_either = (
        rule(code, "a-b", severity=Severity.LOW, since="0.1", in_plans=declared)(check),
        host_rule(code, "a-b", severity=Severity.LOW, since="0.1", in_plans=declared)(check_host),
    )
    for made in of_either:
        assert made.default is on_by_default
        assert made.in_plans is (on_by_default if declared is None else declared)


def test_every_code_that_is_off_by_default_is_a_rule() -> None:
    """A misspelt code would leave its rule enabled."""
    assert {each.code for each in all_rules()} >= OFF_BY_DEFAULT
