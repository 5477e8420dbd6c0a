"""Nagios: one line with the status and performance data, then a line for each finding.

The status is the name of the plugin's exit code (`report.nagios_code`). Findings that
are suppressed, in the baseline or below `--fail-on` do not raise it; only the performance data
counts them. Gaps and hosts that could not be read are UNKNOWN, unless a finding is worse or
`--allow-incomplete` is given.

Everything after "|" is performance data, and a dollar sign begins a macro in notification
commands, so the text escapes both (Monitoring Plugins Development Guidelines, "Plugin Output for
Nagios"; Nagios Core, "Understanding Macros"). Nagios keeps 8 KiB of the output and silently drops
the rest. The lines are therefore sorted worst first and stop before that limit, after 50 lines at
most, with the number of the others. Gaps of a host with the same cause share a line, and so do
findings if they do not fit otherwise. `-q` omits the lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from ext4audit.finding import Severity, listed
from ext4audit.renderers import (
    Audited,
    Page,
    fixed_count,
    in_force,
    in_force_text,
    named_reports,
    visible,
)
from ext4audit.renderers.shared import counted
from ext4audit.renderers.shared.rows import (
    ACTIVE,
    KNOWN,
    SUPPRESSED,
    Gap,
    Row,
    by_cause,
    by_urgency,
    count_text,
    gap_groups,
    gaps,
    message_of,
    rows,
    severity_counts,
)
from ext4audit.report import NAGIOS_UNKNOWN, PlanAdvice, Report, nagios_code

STATUS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
"""The names of the exit codes 0 to 3."""
LARGEST_LINES = 50
LARGEST_OUTPUT = 8191
"""Bytes that Nagios Core keeps: MAX_PLUGIN_OUTPUT_LENGTH without the final NUL."""
_LAST_LINE = 32
"""Bytes reserved for the last line, which has the number of omitted lines."""
_SHOWN = 3
_LONGEST = 60
"""Maximum characters of a name in the first line, which is the only one that a pager shows."""
_ESCAPED = {ord("|"): r"\x7c", ord("$"): r"\x24", ord("`"): r"\x60"}


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return the output of the plugin, with a final newline."""
    read = named_reports(hosts)
    found = by_urgency(row for each in read for row in rows(*each))
    found_gaps = [gap for each in read for gap in gaps(*each)]
    unread = sum(host.report is None for host in hosts)
    failing = [row for row in found if _fails(row, page)]
    text = f"EXT4AUDIT {STATUS[status(hosts, page)]} - {_text(failing, found_gaps, unread, hosts)}"
    text += in_force_text(in_force(hosts))
    numbers = " ".join((_performance(found, found_gaps, unread, page), *_fixed(hosts)))
    first = f"{_plain(text)} | {numbers}"
    room = LARGEST_OUTPUT - _size(first) - _LAST_LINE
    groups = [group for host in hosts for group in gap_groups(host, _SHOWN)]
    groups.sort(key=lambda group: not group.is_error)
    others = [f"[UNKNOWN] {group.sentence}" for group in groups]
    rest = [] if page.verbosity < 0 else [*_findings(failing, dict(read), room), *others]
    return "".join(f"{line}\n" for line in (first, *_shortened(rest, room)))


def render_plan(report: Report, advice: PlanAdvice, page: Page) -> str:
    """Return the output of the plugin for a plan, followed by the recommended commands."""
    lines = [] if page.verbosity < 0 else [f"{each.key}: {each.command}" for each in advice.lines]
    text = render([Audited(report.source.label, report)], page)
    return "".join((text, *(f"{_plain(line)}\n" for line in lines)))


def unknown_line(why: str) -> str:
    """Return the output of a plugin that could not run, with a final newline."""
    return f"EXT4AUDIT {STATUS[NAGIOS_UNKNOWN]} - {_plain(why)}\n"


def status(hosts: Sequence[Audited], page: Page) -> int:
    """Return the plugin's exit code, which is UNKNOWN if no host could be read."""
    reports = [host.report for host in hosts]
    if not any(reports):
        return NAGIOS_UNKNOWN
    return nagios_code(reports, page.threshold, allow_incomplete=page.allow_incomplete)


def _fails(row: Row, page: Page) -> bool:
    at_least = page.threshold is not None and row.finding.severity.at_least(page.threshold)
    return at_least and row.state == ACTIVE


def _text(
    failing: Sequence[Row], found_gaps: Sequence[Gap], unread: int, hosts: Sequence[Audited]
) -> str:
    """Return one line with the numbers of findings, gaps and unread hosts, and the worst rules."""
    on = _short(hosts[0].name) if len(hosts) == 1 else counted(len(hosts), "host")
    parts = [f"{severity_counts(failing) or 'no findings that fail'} on {on}"]
    if found_gaps:
        parts.append(f"{len(found_gaps)} not determined")
    if unread:
        parts.append(f"{counted(unread, 'host')} not read")
    worst = dict.fromkeys(f"{row.rule.code} {_short(row.where)}" for row in failing)
    return "; ".join(parts) + (f": {listed(list(worst), _SHOWN)}" if worst else "")


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."


def _performance(found: Sequence[Row], found_gaps: Sequence[Gap], unread: int, page: Page) -> str:
    """Return `label=value;warn;crit;min` for each number; a range of 0 alerts on other values."""
    active = Counter(row.finding.severity for row in found if row.state == ACTIVE)
    states = Counter(row.state for row in found)
    numbers = [f"{s.value}={active[s]};{_ranges(s, page)};0" for s in Severity]
    numbers += [f"{state}={states[state]};;;0" for state in (SUPPRESSED, KNOWN)]
    numbers += [f"undetermined={len(found_gaps)};;;0", f"unread={unread};;;0"]
    return " ".join((*numbers, f"time={page.seconds:.3f}s;;;0"))


def _fixed(hosts: Sequence[Audited]) -> Iterator[str]:
    """Yield the number of fixed findings, if there is a baseline."""
    fixed = fixed_count(hosts)
    if fixed is not None:
        yield f"fixed={fixed};;;0"


def _ranges(severity: Severity, page: Page) -> str:
    if page.threshold is None or not severity.at_least(page.threshold):
        return ";"
    return ";0" if severity.at_least(Severity.HIGH) else "0;"


def _findings(failing: Sequence[Row], read: Mapping[str, Report], room: int) -> list[str]:
    """Return a line for each finding, or for each cause on a host if the lines do not fit."""
    whole = [_finding((row,), read[row.host]) for row in failing]
    if len(whole) <= LARGEST_LINES and sum(map(_size, map(_plain, whole))) <= room:
        return whole
    return [_finding(group, read[group[0].host]) for group in by_cause(failing, 1)]


def _finding(group: Sequence[Row], report: Report) -> str:
    row = group[0]
    number = count_text(group, len(report.host.filesystems))
    names = listed([*dict.fromkeys(_short(each.where) for each in group)], _SHOWN)
    where = f"{number} ({names})" if number else row.where
    what = f"{row.rule.title} on {row.host}, {where}"
    return f"[{row.finding.severity.value.upper()}] {what}: {message_of(group)}"


def _shortened(lines: Sequence[str], room: int) -> Iterator[str]:
    """Yield the first lines that fit into `room` bytes, at least one, and the number omitted."""
    plain = [_plain(line) for line in lines[:LARGEST_LINES]]
    fitting = sum(end <= room for end in accumulate(map(_size, plain)))
    kept = plain[: max(fitting, 1)]
    yield from kept
    if len(lines) > len(kept):
        yield f"and {len(lines) - len(kept)} more"


def _size(line: str) -> int:
    """Return the size of a line in bytes, including its newline."""
    return len(line.encode()) + 1


def _plain(line: str) -> str:
    """Escape performance data and macros in a line; `visible` escapes newlines."""
    return visible(line).translate(_ESCAPED)
