"""SARIF 2.1.0 (OASIS, with errata 01): one run for all hosts, as GitHub's code scanning takes it.

GitHub refuses a whole file for one result without a physical location, so every result has one
(places.py); only the first counts there. It makes an alert of a result whatever `kind` and
`suppressions` say (microsoft/PSRule#955, github/codeql-action#1230): accepted findings stay,
marked for readers that look, and the action advanced-security/dismiss-alerts closes them there.
GitHub compares runs itself: what is uploaded to it is better made without a baseline, whose
fixed findings are results too.

What could not be judged is a notification of the invocation: a result would be an alert, and
nothing at all would look like a pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ext4audit.renderers.blind_groups import blind_groups
from ext4audit.renderers.escape import visible
from ext4audit.renderers.page import Audited, Page
from ext4audit.renderers.places import segment
from ext4audit.renderers.rows import host_names
from ext4audit.renderers.sarif_results import message_text, results
from ext4audit.renderers.sarif_rules import descriptor, judging

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
MOST_RESULTS = 25_000
"""GitHub refuses a file with a run of more (docs: SARIF limits)."""


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return one log with one run; the text is ASCII."""
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(hosts, page)]}
    return json.dumps(log, ensure_ascii=True, indent=2) + "\n"


def _run(hosts: Sequence[Audited], page: Page) -> dict[str, Any]:
    rules = judging(hosts)
    found = results(hosts, {rule.code: index for index, rule in enumerate(rules)})
    driver = {
        "name": "ext4audit",
        "version": page.tool_version,
        "rules": [descriptor(rule) for rule in rules],
    }
    return {
        "tool": {"driver": driver},
        "automationDetails": {"id": _category(hosts)},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(hosts, page, len(found) - MOST_RESULTS)],
        "results": found[:MOST_RESULTS],
    }


def _category(hosts: Sequence[Audited]) -> str:
    """Return the category of the run, ended by "/": that of its only host, or of the fleet."""
    names = host_names(hosts)
    return f"ext4audit/{segment(names[0])}/" if len(names) == 1 else "ext4audit/"


def _invocation(hosts: Sequence[Audited], page: Page, left_out: int) -> dict[str, Any]:
    blind = list(_blind(hosts))
    if left_out > 0:
        sentence = f"{left_out} findings, the mildest ones, are left out: split the fleet."
        blind.append(_notification("left-out", "error", sentence))
    told: dict[str, Any] = {
        "executionSuccessful": all(each["level"] != "error" for each in blind),
        "toolExecutionNotifications": blind,
        "toolConfigurationNotifications": list(_notices(hosts)),
    }
    return {**told, "endTimeUtc": page.taken_at} if page.taken_at else told


def _blind(hosts: Sequence[Audited]) -> Iterator[dict[str, Any]]:
    for name, host in zip(host_names(hosts), hosts, strict=True):
        for group in blind_groups(host, name):
            kind = ("failed", "error") if group.is_error else ("not-determined", "warning")
            yield _notification(*kind, group.sentence)


def _notices(hosts: Sequence[Audited]) -> Iterator[dict[str, Any]]:
    for host in hosts:
        for notice in host.report.notices if host.report else ():
            yield _notification("policy", "warning", visible(notice))


def _notification(name: str, level: str, sentence: str) -> dict[str, Any]:
    return {
        "descriptor": {"id": name},
        "level": level,
        "message": {"text": message_text(sentence)},
    }
