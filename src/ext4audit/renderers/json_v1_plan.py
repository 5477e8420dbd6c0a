"""JSON, version 1, of a plan: the report of any audit, and one key more."""

from __future__ import annotations

import json
from typing import Any

from ext4audit.facts.plan import PlanAdvice
from ext4audit.renderers.json_v1 import report_object
from ext4audit.renderers.original_bytes import with_original_bytes
from ext4audit.renderers.page import Page
from ext4audit.report import Report


def render(report: Report, advice: PlanAdvice, page: Page) -> str:
    """Return the report of a plan as one JSON object and a newline; the text is ASCII."""
    document = report_object(report, tool_version=page.tool_version)
    document["plan"] = plan_object(advice)
    return json.dumps(with_original_bytes(document), ensure_ascii=True, indent=2) + "\n"


def plan_object(advice: PlanAdvice) -> dict[str, Any]:
    """Return the lines to use by their keys, and how they came about."""
    return {
        "basis": advice.basis,
        "assumed": list(advice.assumed),
        "corrected": bool(advice.changes),
        "changes": list(advice.changes),
        "clean": advice.clean,
        "left": list(advice.left),
        "lines": {line.key: line.command for line in advice.lines},
    }
