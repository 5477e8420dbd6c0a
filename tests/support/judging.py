"""The verdict and the only finding of a rule on a filesystem, for the tests of rules.

A test binds its rule: `verdict_of = partial(verdict_on, check)`. The fixture of
`tests/rules/conftest.py` records what is judged here as what a test judges itself.
"""

from __future__ import annotations

from typing import Any

from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding
from ext4audit.report import Verdict
from ext4audit.rule import Rule
from support.builders import host


def verdict_on(rule: Rule, fs: Filesystem, *others: Filesystem, **around: Any) -> Verdict:
    """Judge a filesystem on a host that also has `others`, and the facts `around` them."""
    return judge(rule, fs, host(fs, *others, **around))


def only_finding(rule: Rule, fs: Filesystem, *others: Filesystem, **around: Any) -> Finding:
    """Return the only finding about a filesystem; see `verdict_on`."""
    verdict = verdict_on(rule, fs, *others, **around)
    assert len(verdict.findings) == 1, verdict
    return verdict.findings[0]
