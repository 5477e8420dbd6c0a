"""The input of every renderer: the audited hosts, their display names and the page settings."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ext4audit.finding import Severity
from ext4audit.renderers.shared.escape import visible
from ext4audit.report import Report


class Audited(NamedTuple):
    """One host: its report, or why there is none. `label` names the source as the user did."""

    label: str
    report: Report | None
    error: str | None = None


class Page(NamedTuple):
    """Settings of one output, and data of the run that it comes from.

    `threshold` is the severity at which an audit fails, None for never. `seconds` is the
    duration of the audit, `taken_at` its end (RFC 3339, UTC). `verbosity` is -1, 0 or 1.
    `color`, `width` (columns, None for no wrapping) and `ascii_only` describe the output device.
    """

    tool_version: str
    taken_at: str
    threshold: Severity | None = Severity.MEDIUM
    allow_incomplete: bool = False
    seconds: float = 0.0
    verbosity: int = 0
    color: bool = False
    width: int | None = None
    ascii_only: bool = False


def named_hosts(hosts: Sequence[Audited]) -> list[tuple[str, Audited]]:
    """Return each host with its display name."""
    return list(zip(host_names(hosts), hosts, strict=True))


def named_reports(hosts: Sequence[Audited]) -> list[tuple[str, Report]]:
    """Return each report with the display name of its host; hosts without one are left out."""
    return [(name, host.report) for name, host in named_hosts(hosts) if host.report is not None]


def fixed_count(hosts: Sequence[Audited]) -> int | None:
    """Return how many findings of the baseline are fixed, None without a baseline."""
    fixed = [host.report.fixed for host in hosts if host.report and host.report.fixed is not None]
    return sum(map(len, fixed)) if fixed else None


def policy_in_force(hosts: Sequence[Audited]) -> str | None:
    """Return the policy file of a run, None where none is in force or no host was read."""
    return next((host.report.policy for host in hosts if host.report and host.report.policy), None)


def host_names(hosts: Sequence[Audited]) -> tuple[str, ...]:
    """Return a name for each host; the visible forms of the names differ too.

    Many hosts have the name "localhost": hosts of one name are disambiguated by their sources.
    """
    plain = [_plain(host) for host in hosts]
    alike: dict[str, list[Audited]] = {}
    for name, host in zip(plain, hosts, strict=True):
        alike.setdefault(visible(name), []).append(host)
    sources = {key: _sources(same) for key, same in alike.items()}
    full = [_with_source(name, next(sources[visible(name)])) for name in plain]
    return tuple(_numbered(full))


def _plain(host: Audited) -> str:
    name = "" if host.report is None else host.report.host.name
    return name or _last_part(host.label)


def _sources(hosts: Sequence[Audited]) -> Iterator[str]:
    """Yield what disambiguates hosts of one name: the last parts of their sources, if unique."""
    if len(hosts) == 1:
        return iter([""])
    parts = [_last_part(host.label) for host in hosts]
    return iter(parts if len(set(parts)) == len(parts) else [host.label for host in hosts])


def _with_source(name: str, source: str) -> str:
    return f"{name} ({source})" if source else name


def _last_part(label: str) -> str:
    return label.rstrip("/").rpartition("/")[2] or label


def _numbered(names: Sequence[str]) -> Iterator[str]:
    """Yield the names; a repeated one gets a number."""
    taken, last = set(map(visible, names)), Counter[str]()
    for name in names:
        key = visible(name)
        last[key] += 1
        shown = name
        if last[key] > 1:
            while visible(shown := f"{name} #{last[key]}") in taken:
                last[key] += 1
            taken.add(visible(shown))
        yield shown
