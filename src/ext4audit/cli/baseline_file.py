"""Read earlier reports: JSON of one host, or NDJSON of many."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ext4audit.cli.treatment import ANY_HOST
from ext4audit.policy.baseline import KnownFinding, known_findings

MAJOR = "1."
LARGEST_BYTES = 1 << 30


def read_baselines(path: str) -> Mapping[str, tuple[KnownFinding, ...]]:
    """Return the findings of each host of a report; raises UsageError."""
    documents = read_reports(path)
    try:
        if len(documents) == 1:
            return {ANY_HOST: known_findings(documents[0])}
        return {each["host"]["name"]: known_findings(each) for each in documents}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _no_report(path, f"{type(error).__name__}: {error}") from None


def read_reports(path: str) -> list[Mapping[str, Any]]:
    """Return the reports in a file of JSON or NDJSON, without those of unread hosts."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(LARGEST_BYTES).decode("utf-8")
        documents = _documents(text)
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise _no_report(path, str(error)) from None
    reports = [each for each in documents if "error" not in each]
    for each in reports:
        version = each.get("schema_version")
        if not (isinstance(version, str) and version.startswith(MAJOR)):
            raise _no_report(path, f"its schema_version is {version!r}")
    if not reports:
        raise _no_report(path, "it is empty")
    return reports


def _documents(text: str) -> list[Mapping[str, Any]]:
    """Return the objects of a text: one, or one a line; raises ValueError."""
    try:
        documents = [json.loads(text)]
    except ValueError:
        documents = [json.loads(line) for line in text.splitlines() if line.strip()]
    if not all(isinstance(each, dict) for each in documents):
        raise ValueError("not a JSON object")
    return documents


def _no_report(path: str, why: str) -> click.UsageError:
    return click.UsageError(f"{path}: not a report of `ext4audit scan -f json`: {why}")
