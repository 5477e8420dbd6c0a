"""Every printed command has been run: a rule's test has remedy cases, or the reason why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from ext4audit.engine import audit
from ext4audit.facts.host import Host
from ext4audit.report import ReportSource
from ext4audit.rule import Rule
from ext4audit.rules import all_rules
from support.examples import examples
from support.hosts.strategies import HOSTS
from support.remedies.case import RemedyCase, cases_of, module_of

REPOSITORY = Path(__file__).parents[2]
RUN_BY_OTHER_MODULES = {
    "DRF001": "tests/kernel/remedies/test_drift_remedies.py",
    "DRF002": "tests/kernel/remedies/test_drift_remedies.py",
    "DRF006": "tests/kernel/remedies/test_drift_remedies.py",
    "DUR001": "tests/rules/durability/test_dur001_barrier_disabled.py",
    "DUR002": "tests/rules/durability/test_dur002_hidden_superblock_default.py",
    "LAY001": "tests/lab/scenarios/experiments/hotspot.py",
    "PRF001": "tests/lab/scenarios/experiments/dioread.py",
    "PRF002": "tests/lab/scenarios/queue_remedies.py",
}
"""Rules whose remedies have tests older than the harness."""


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_rule_has_remedy_cases_or_a_reason(rule: Rule) -> None:
    """The test module has REMEDY_CASES, REMEDIES_NOT_RUN with a sentence, or both."""
    if rule.code in RUN_BY_OTHER_MODULES:
        assert (REPOSITORY / RUN_BY_OTHER_MODULES[rule.code]).is_file()
        return
    cases, reason = cases_of(rule), getattr(module_of(rule), "REMEDIES_NOT_RUN", "")
    assert cases or reason.endswith(".")
    assert all(isinstance(case, RemedyCase) for case in cases)


def test_remedy_cases_are_in_modules_of_rules() -> None:
    """Cases in any other module would never be run."""
    rules = {f"test_{rule.code.lower()}_{rule.name.replace('-', '_')}" for rule in all_rules()}
    with_cases = {
        path.stem
        for path in Path(__file__).parent.glob("*/test_*.py")
        if "\nREMEDY_CASES = " in path.read_text(encoding="utf-8")
    }
    assert with_cases <= rules


RUN_SEPARATELY = {
    "CAP005": "tests/lab/test_capacity_remedies.py",
    "HLT008": "tests/lab/test_device_rules.py",
    "LAY002": "tests/kernel/remedies/test_stripe_steps.py",
}
"""Rules whose commands need a host that the harness does not have, and the tests that run them."""
RULES_WITHOUT_CASES = [
    rule
    for rule in all_rules()
    if rule.code not in RUN_BY_OTHER_MODULES.keys() | RUN_SEPARATELY.keys() and not cases_of(rule)
]


@pytest.mark.parametrize("code", RUN_SEPARATELY)
def test_modules_of_separate_runs_exist(code: str) -> None:
    """The file named for a rule exists."""
    assert (REPOSITORY / RUN_SEPARATELY[code]).is_file()


@examples(60)
@given(judged=HOSTS)
def test_rule_without_tested_remedies_prints_no_command(judged: Host) -> None:
    """A rule whose commands have not been run gives only advice."""
    report = audit(ReportSource("live", "db1"), judged, RULES_WITHOUT_CASES)
    remedies = [remedy for finding in report.findings for remedy in finding.remedies]
    assert not [remedy.summary for remedy in remedies if remedy.steps]
