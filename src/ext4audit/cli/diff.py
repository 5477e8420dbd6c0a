"""`ext4audit diff`: compare two reports, with output as text or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from ext4audit.cli import Choice, completer, print_diagnostic
from ext4audit.cli.output import (
    color_option,
    format_option,
    look,
    output_option,
    progress,
    write,
)
from ext4audit.cli.policy.baseline import are_of_one_host, read_reports
from ext4audit.finding import Severity
from ext4audit.policy import NEVER, THRESHOLDS
from ext4audit.policy.baseline import (
    Difference,
    KnownFinding,
    difference,
    identity_of,
    known_host,
    lacks_verdicts,
)
from ext4audit.renderers import json_text, visible
from ext4audit.report import EXIT_CLEAN, EXIT_FINDINGS, EXIT_INCOMPLETE


def render_text(differences: Sequence[tuple[str, Difference]]) -> str:
    """Return, for each host, a line for each finding, new and worst first, and a total line."""
    return "".join(f"{start}: {rest}\n" for start, rest in _lines(differences))


def _lines(differences: Sequence[tuple[str, Difference]]) -> Iterator[tuple[str, str]]:
    """Yield the beginning of each line, which is the kind of a finding or a host, and the rest."""
    for host, found in differences:
        yield from ((visible(start), visible(rest)) for start, rest in _host(host, found))


def _host(host: str, found: Difference) -> Iterator[tuple[str, str]]:
    kinds = {
        "new": found.new,
        "fixed": found.fixed,
        "not checked again": found.unchecked,
        "unchanged": found.unchanged,
    }
    for kind, findings in kinds.items():
        for finding in sorted(findings, key=lambda each: each.severity.rank):
            yield kind, _finding_text(finding)
    totals = ", ".join(f"{len(findings)} {kind}" for kind, findings in kinds.items())
    yield f"host {host}", totals


def _finding_text(finding: KnownFinding) -> str:
    severity = finding.severity.value.upper()
    accepted = " (suppressed)" if finding.suppressed else ""
    return f"{severity} {finding.rule} on {finding.subject}{accepted}: {finding.message}"


def render_json(differences: Sequence[tuple[str, Difference]]) -> str:
    """Return a JSON list of hosts with their findings by kind, in ASCII, ending in a newline."""
    return json_text([{"host": host, **_kinds(found)} for host, found in differences])


def _kinds(found: Difference) -> dict[str, Any]:
    kinds = {
        "new": found.new,
        "fixed": found.fixed,
        "unchanged": found.unchanged,
        "unchecked": found.unchecked,
    }
    return {kind: [_finding(each) for each in findings] for kind, findings in kinds.items()}


def _finding(finding: KnownFinding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "superblock": finding.superblock or None,
        "fact": finding.fact,
        "severity": finding.severity.value,
        "subject": finding.subject,
        "message": finding.message,
        "suppressed": finding.suppressed,
    }


RENDERERS = {"text": render_text, "json": render_json}
STYLES: Mapping[str, Mapping[str, Any]] = {
    "new": {"fg": "red"},
    "fixed": {"fg": "green"},
    "not checked again": {"fg": "yellow"},
    "unchanged": {"dim": True},
}
"""The terminal style of each kind of finding."""
TOTAL: Mapping[str, Any] = {"bold": True}
"""The terminal style of the totals of a host."""


@click.command("diff")
@click.argument("old", metavar="OLD.json", shell_complete=completer("files"))
@click.argument("new", metavar="NEW.json", shell_complete=completer("files"))
@format_option(RENDERERS, "Format of the comparison.")
@output_option()
@color_option
@click.option(
    "--fail-on",
    type=Choice(THRESHOLDS),
    default="medium",
    show_default=True,
    help="Exit 1 on a new finding of this severity or worse.",
)
@click.option(
    "--allow-incomplete", is_flag=True, help="Exit 0 instead of 3 if evidence is missing."
)
def command(
    *,
    old: str,
    new: str,
    fmt: str,
    output: str | None,
    color: str,
    fail_on: str,
    allow_incomplete: bool,
) -> int:
    """Print which findings are new, fixed and unchanged between two reports.

    Reports come from `scan -f json`, or from `scan -f ndjson` for many hosts; hosts are paired by
    key (`source.key`). Two findings are the same if rule, superblock UUID and failed fact are the
    same, even if the device was renamed. A finding is new if its severity has increased or its
    suppression has expired. A finding that the new report could not check again is listed as not
    checked.

    Exit codes: 0 no new finding at or above --fail-on, 1 at least one that is not suppressed,
    2 usage error, 3 none, but NEW.json is incomplete and lacks verdicts that OLD.json has.

    \b
    Examples:
      ext4audit diff monday.json friday.json
      ext4audit diff before.ndjson after.ndjson -f json | jq '.[].new'
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    with progress(quiet=False, doing="comparing reports"):
        pairs = list(_paired(read_reports(old), read_reports(new)))
        found = list(_differences(pairs))
        lacking = [name for name, earlier, later in pairs if lacks_verdicts(earlier, later)]
    colored = fmt == "text" and look(color, to_file=output is not None)["color"]
    text = _coloured(found) if colored else RENDERERS[fmt](found)
    write(text, output, linked=colored)
    for name in lacking:
        print_diagnostic(f"host {visible(name)}: {old} had evidence that {new} lacks")
    if fail_on == NEVER:
        return EXIT_CLEAN
    fresh = (each for _, differs in found for each in differs.new if not each.suppressed)
    if any(each.severity.at_least(Severity(fail_on)) for each in fresh):
        return EXIT_FINDINGS
    return EXIT_INCOMPLETE if lacking and not allow_incomplete else EXIT_CLEAN


def _coloured(found: Sequence[tuple[str, Difference]]) -> str:
    """Return the text report with the kind of each finding in colour."""
    styled = ((click.style(kind, **STYLES.get(kind, TOTAL)), rest) for kind, rest in _lines(found))
    return "".join(f"{kind}: {rest}\n" for kind, rest in styled)


Document = Mapping[str, Any]
Pair = tuple[str, Document, Document]
NOTHING: Document = {"filesystems": [], "verdicts": []}
UNREAD: Document = {**NOTHING, "error": None}
"""Stands for the newer report if it is of another host: its evidence is missing, not fixed."""


def _paired(old: Sequence[Document], new: Sequence[Document]) -> Iterator[Pair]:
    """Yield the name and the old and new report of each host; a missing report is empty.

    If both files have one report, a shared filesystem identifies a renamed host; of a different
    host, the newer report lacks all evidence. Hosts without keys that share a name are paired by
    the number of superblocks in common.
    """
    are_single = len(old) == len(new) == 1
    if are_single and are_of_one_host(old[0], new[0]):
        yield _name(new[0]), old[0], new[0]
        return
    left: dict[str, list[Document]] = {}
    for report in old:
        left.setdefault(_name(report), []).append(report)
    for report in new:
        yield _name(report), _taken(left, report), report
    for name, reports in left.items():
        for report in reports:
            yield name, report, UNREAD if are_single else NOTHING


def _name(report: Document) -> str:
    """Return the key of a report's host, or its name if the report has no key."""
    identity = identity_of(report)
    return identity.key or identity.name


def _taken(left: Mapping[str, list[Document]], like: Document) -> Document:
    """Remove and return the older report of the same host, `NOTHING` if there is none."""
    key, name = _name(like), identity_of(like).name
    reports = [
        report
        for known_as in dict.fromkeys((key, name))
        for report in left.get(known_as, ())
        if identity_of(report).is_same(key, name)
    ]
    if not reports:
        return NOTHING
    here = known_host(like).superblocks
    best = max(reports, key=lambda report: len(known_host(report).superblocks & here))
    left[_name(best)].remove(best)
    return best


def _differences(pairs: Sequence[Pair]) -> Iterator[tuple[str, Difference]]:
    for name, old, new in pairs:
        if old["verdicts"] or new["verdicts"]:  # else both reports are unread
            yield name, difference(old, new)
