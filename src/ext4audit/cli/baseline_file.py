"""Read earlier reports: JSON of one host, or NDJSON of many."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ext4audit.cli.diagnostics import tell
from ext4audit.policy.baseline import KnownHost, known_host

MAJOR = "1."
LARGEST_BYTES = 1 << 30


def read_baselines(path: str) -> Mapping[str, list[KnownHost]]:
    """Return what is known of each host of a report, by its name; raises UsageError."""
    hosts: dict[str, list[KnownHost]] = {}
    for document in read_reports(path):
        try:
            host = known_host(document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise no_report(path, f"{type(error).__name__}: {error}") from None
        hosts.setdefault(host.name, []).append(host)
    return hosts


def read_reports(path: str) -> list[Mapping[str, Any]]:
    """Return the reports in a file of JSON or NDJSON; raises UsageError.

    Hosts that could not be read then have none; how many there are is told on standard error.
    """
    try:
        documents = _documents(_text(path))
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise no_report(path, str(error)) from None
    reports = [each for each in documents if "error" not in each]
    for each in reports:
        version = each.get("schema_version")
        if not (isinstance(version, str) and version.startswith(MAJOR)):
            raise no_report(path, f"its schema_version is {version!r}")
    if not reports:
        raise no_report(path, "no host could be read" if documents else "it is empty")
    if len(reports) < len(documents):
        tell(f"{path}: {len(documents) - len(reports)} of its hosts could not be read")
    return reports


def _text(path: str) -> str:
    """Return a file's text; raises OSError or ValueError."""
    with Path(path).open("rb") as file:
        raw = file.read(LARGEST_BYTES + 1)
    if len(raw) > LARGEST_BYTES:
        raise ValueError("it is longer than 1 GiB")
    return raw.decode("utf-8-sig")


def _documents(text: str) -> list[Mapping[str, Any]]:
    """Return the objects of a text: one, or one a line; raises ValueError."""
    try:
        documents = [json.loads(text)] if text.strip() else []
    except ValueError:
        documents = [json.loads(line) for line in text.split("\n") if line.strip()]
    if not all(isinstance(each, dict) for each in documents):
        raise ValueError("not a JSON object")
    return documents


def no_report(path: str, why: str) -> click.UsageError:
    """Return the refusal of a file that is no report."""
    return click.UsageError(f"{path}: not a report of `ext4audit scan -f json`: {why}")
