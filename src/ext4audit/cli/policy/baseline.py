"""Baseline files: reading and checking earlier reports, and matching them to a host."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import click

from ext4audit.cli import print_diagnostic
from ext4audit.cli.files import read_bytes
from ext4audit.facts import decoded
from ext4audit.facts.host import UNKNOWN_NAME
from ext4audit.policy.baseline import (
    KnownFinding,
    KnownHost,
    apply_baseline,
    check_document,
    identity_of,
    key_of_filesystem,
    keys_in_document,
    known_host,
)
from ext4audit.report import Report
from ext4audit.sources import why_no_json

Baselines = Mapping[str, Sequence[KnownHost]]
"""The hosts of a baseline by key, or by host name if a report has no key.

Several hosts may share a host name, such as "localhost".
"""

MAJOR = "1."
NO_NAMES = frozenset({"", "(none)", "localhost", "localhost.localdomain", UNKNOWN_NAME})
"""Default host names of kernels and images, and the placeholder for an unknown name."""
EMPTY: Mapping[str, Any] = {"host": {"name": ""}, "filesystems": [], "verdicts": []}
"""The members that are missing for an unread host, whose `source` has the key."""
LARGEST_BASELINE_BYTES = 1 << 30


def read_baselines(path: str) -> Mapping[str, list[KnownHost]]:
    """Return the hosts in a report file, by key or name; raises UsageError."""
    hosts: dict[str, list[KnownHost]] = {}
    for document in read_reports(path):
        host = known_host(document)
        known_as = host.identity.key or host.identity.name
        hosts.setdefault(known_as, []).append(host)
    return hosts


def read_reports(path: str) -> list[Mapping[str, Any]]:
    """Return the reports in a file of JSON or NDJSON, all readable by policy.baseline.

    Raises UsageError. An unread host gets an empty report, so that it is not confused with
    another host; the number of unread hosts is printed to standard error.
    """
    try:
        documents = _documents(decoded(read_bytes(path, LARGEST_BASELINE_BYTES)))
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise no_report(path, why_no_json(error)) from None
    for each in documents:
        version = each.get("schema_version")
        if not (isinstance(version, str) and version.startswith(MAJOR)):
            raise no_report(path, f"its schema_version is {version!r}")
    reports = [{**each, **EMPTY} if "error" in each else each for each in documents]
    _refuse_malformed(path, reports)
    _refuse_twice(path, documents)
    unread = sum("error" in each for each in documents)
    if unread == len(documents):
        raise no_report(path, "no host could be read" if documents else "it is empty")
    if unread:
        print_diagnostic(f"{path}: {unread} of its hosts could not be read")
    return reports


def _refuse_malformed(path: str, reports: Sequence[Mapping[str, Any]]) -> None:
    """Raise UsageError if a member of a report is missing or has another type."""
    try:
        for each in reports:
            check_document(each)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"a member is missing or has another type ({error})"
        raise no_report(path, why) from None


def _refuse_twice(path: str, documents: Sequence[Mapping[str, Any]]) -> None:
    """Raise UsageError for several reports of one host, because it is unclear which one counts.

    Repetition is allowed for hosts without keys, which can share a name, for the plans of one
    file, which share a key, and for unread hosts.
    """
    met = Counter(
        (identity_of(each).key, superblock)
        for each in documents
        if "error" not in each
        for superblock in {*keys_in_document(each).values()}
    )
    twice = {key for (key, superblock), times in met.items() if key and superblock and times > 1}
    if twice:
        names = ", ".join(sorted(twice))
        raise click.UsageError(f"{path}: there are several reports of {names}: keep one of each")


def _documents(text: str) -> list[Mapping[str, Any]]:
    """Return the JSON objects of a text: a single one, or one per line; raises ValueError."""
    try:
        documents = [json.loads(text)] if text.strip() else []
    except ValueError:
        documents = [json.loads(line) for line in text.split("\n") if line.strip()]
    if not all(isinstance(each, dict) for each in documents):
        raise ValueError("not a JSON object")
    return documents


def no_report(path: str, why: str) -> click.UsageError:
    """Return the usage error for a file that is not a report."""
    return click.UsageError(f"{path}: not a report of `ext4audit scan -f json`: {why}")


def compared(baselines: Baselines, report: Report, *, alone: bool) -> Report:
    """Return the report compared with the baseline of its host."""
    return apply_baseline(report, _findings(baselines, report, alone=alone))


def has_host(baselines: Baselines, report: Report) -> bool:
    """Return whether the baselines have the host of a report, by key, else by name."""
    return bool(_hosts_named(baselines, report.key, report.host.name))


def _findings(baselines: Baselines, report: Report, *, alone: bool) -> tuple[KnownFinding, ...]:
    """Return the known findings of a host; a baseline of a single host allows for renaming.

    If several hosts share a name ("localhost", or the plans of one file), the one with the most
    superblocks in common is used.
    """
    only = _only(baselines) if alone else None
    if only:
        return only.findings if _is_host_of(only, report) else ()
    named = _hosts_named(baselines, report.key, report.host.name)
    best = max(named, key=lambda host: len(_in_common(host, report)), default=None)
    is_one = best is not None and (len(named) == 1 or _in_common(best, report))
    return best.findings if best and is_one else ()


def of_another_host(baselines: Baselines, report: Report) -> tuple[str, ...]:
    """Return a sentence if the only host of a baseline may not be the host of the report.

    Machines made from the same image share filesystem UUIDs, like a renamed machine.
    """
    only = _only(baselines)
    if only is None or not only.findings:
        return ()
    known, here = only.identity.key or only.identity.name, report.key
    if not _is_host_of(only, report):
        why = f"which shares neither a name of its own nor a filesystem with {here!r}"
        return (f"the baseline is of {known!r}, {why}: every finding is new",)
    if {only.identity.key, only.identity.name}.isdisjoint({here, report.host.name}):
        why = f"{here!r} has the UUID of one of its filesystems"
        return (f"the baseline is of {known!r}, and counts because {why}",)
    return ()


def _only(baselines: Baselines) -> KnownHost | None:
    every = [host for hosts in baselines.values() for host in hosts]
    return every[0] if len(every) == 1 else None


def _is_host_of(known: KnownHost, report: Report) -> bool:
    """Return whether a known host is the host of a report."""
    return _is_same_host((*known.identity, report.key, report.host.name), _in_common(known, report))


def are_of_one_host(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether two reports are of the same host, which may have been renamed."""
    superblocks = {*keys_in_document(old).values()} & {*keys_in_document(new).values()}
    return _is_same_host((*identity_of(old), *identity_of(new)), superblocks - {""})


def _is_same_host(names: Iterable[str | None], in_common: Collection[str]) -> bool:
    """Return whether two hosts are the same: by a key, a distinctive name, or a filesystem.

    `names` are the keys and names of both. Findings without a filesystem (CMP004 of /data) and
    default host names do not identify a host.
    """
    key, name, *other = names
    return bool(in_common) or not ({key, name} - NO_NAMES - {None}).isdisjoint(other)


def _in_common(known: KnownHost, report: Report) -> frozenset[str]:
    return known.superblocks & frozenset(map(key_of_filesystem, report.host.filesystems))


def _hosts_named(baselines: Baselines, key: str, name: str) -> list[KnownHost]:
    known = (*baselines.get(key, ()), *(baselines.get(name, ()) if name != key else ()))
    return [host for host in known if host.identity.is_same(key, name)]
