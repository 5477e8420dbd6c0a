"""The public Python interface: audit this host or captured evidence, and get a Report.

`ext4audit` exports these functions and the types of their results; the command line calls the
same functions. Everything else in the package is private and may move. The readers of the live
host and of captured evidence are imported only when they are used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import TypeAlias

from ext4audit import lazily
from ext4audit.assemble.host import assemble_host
from ext4audit.engine import audit
from ext4audit.facts.host import ActiveProfile
from ext4audit.policy import rules_of_profiles, select
from ext4audit.report import Report, ReportSource
from ext4audit.rule import Rule
from ext4audit.rules import all_rules, default_rules
from ext4audit.sources import DEFAULT_DEADLINE_SECONDS, utc_now

DEFAULT_TIMEOUT_SECONDS = 20.0
LONGEST_SECONDS = 86_400


StrPath: TypeAlias = str | bytes | os.PathLike[str]


def select_rules(wanted: Iterable[str], ignored: Iterable[str] = ()) -> tuple[Rule, ...]:
    """Return the rules that codes ("DUR001"), prefixes of codes ("DUR") or names select.

    If `wanted` is empty, these are the rules that are on by default. A single string is one term.
    Raises ValueError if a term matches no rule, or if `ignored` leaves no rule.
    """
    return select(all_rules(), _terms(wanted), _terms(ignored))


def _terms(words: StrPath | Iterable[StrPath]) -> tuple[str, ...]:
    """Return the terms as text; a single string is one term, not an iterable of its letters."""
    if isinstance(words, (str, bytes, os.PathLike)):
        return (os.fsdecode(words),)
    return tuple(map(os.fsdecode, words))


def audit_host(
    *,
    rules: Sequence[Rule] | None = None,
    profiles: Sequence[ActiveProfile] = (),
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    deadline_seconds: float = DEFAULT_DEADLINE_SECONDS,
    mounts_of: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Audit every ext4 superblock of this host, without changing anything on it.

    `rules` is a selection from `select_rules`; the default is the rules that are on by default and
    those that the profiles add. `profiles` add the requirements of vendors, at all mount points or
    those that match a glob: `ActiveProfile(all_profiles()["tidb"], "/srv/*")`. `timeout_seconds`
    limits each external command; evidence not read within `deadline_seconds` is unknown. Both are
    at most a day. `mounts_of` is the PID whose mount table is read, such as 1 if the caller runs
    in a private mount namespace. `progress` is called with the name of each device as it is read.
    Missing evidence raises no error: it is in the report, and `Report.complete` is false. Raises
    ValueError if a limit or the PID is out of range, or if `rules` is empty or has duplicates.
    """
    for name, seconds in (("timeout", timeout_seconds), ("deadline", deadline_seconds)):
        if not 0 < seconds <= LONGEST_SECONDS:
            raise ValueError(f"{name}_seconds: not between 0 and {LONGEST_SECONDS}: {seconds}")
    if mounts_of is not None and mounts_of < 1:
        raise ValueError(f"mounts_of: not a process: {mounts_of}")
    active = _active(profiles)
    chosen = _checked(rules, active)
    source = lazily("sources.live", "LiveSource")(
        timeout_seconds, deadline_seconds=deadline_seconds, mounts_of=mounts_of
    )
    with closing(source):
        host = assemble_host(source, utc_now(), progress=progress or (lambda _device: None))
    return audit(ReportSource("live", host.name), host, chosen, active)


def audit_snapshot(
    path: StrPath,
    *,
    rules: Sequence[Rule] | None = None,
    profiles: Sequence[ActiveProfile] = (),
    targets: StrPath | Sequence[StrPath] = (),
    in_fleet: bool = False,
    key: str | None = None,
    may_lack_targets: bool = False,
) -> Report:
    """Audit the captured evidence of one host, without reading anything of this machine.

    `path` is a snapshot (directory, tar or text), a sosreport, an Insights archive or a
    supportconfig; "-" is standard input, and "./-" a file of that name. `targets` limit the audit
    to the filesystems with these paths, devices or UUIDs on the captured host; a single string is
    one target. With `in_fleet`, `path` must be a file or a directory, because opening a FIFO
    blocks. `key` identifies the host in the report; the default is the last part of the path
    without extensions, or else the host's own name.

    `may_lack_targets` accepts targets that this host does not have, for an audit of many hosts.

    Raises ArchiveError, with the reason, if `path` is none of these formats, and ValueError if a
    target is not an ext4 filesystem of the host, or if `rules` is empty or has duplicates.
    """
    active = _active(profiles)
    chosen = _checked(rules, active)
    location = os.fsdecode(path)
    open_captured = lazily("sources.captured", "open_captured")
    captured = open_captured(location, in_fleet=in_fleet)
    host = assemble_host(
        captured.source, captured.taken_at, has_local_times=captured.has_local_times
    )
    if terms := _terms(targets):
        only_filesystems = lazily("assemble.devices.target", "only_filesystems")
        host = only_filesystems(host, terms, may_lack_targets=may_lack_targets)
    name = key or lazily("sources.captured", "key_of")(location) or ""
    return audit(ReportSource(captured.kind, captured.label, name), host, chosen, active)


def _active(profiles: Iterable[ActiveProfile]) -> tuple[ActiveProfile, ...]:
    """Return the profiles of an audit, which are asked for more than once; raises TypeError."""
    active = tuple(profiles)
    if not all(isinstance(each, ActiveProfile) for each in active):
        raise TypeError("profiles: ActiveProfile(all_profiles()[NAME]) makes one of a name")
    return active


def _checked(rules: Iterable[Rule] | None, profiles: Sequence[ActiveProfile]) -> tuple[Rule, ...]:
    """Return the rules to run; the default rules include those that the profiles add.

    Raises ValueError for an empty selection, which would report any host as clean, and for
    duplicates, whose findings would count twice; TypeError for an item that is not a `Rule`.
    """
    if rules is None:
        added = rules_of_profiles(profiles)
        return (
            select(all_rules(), usual=lambda rule: rule.default or rule.code in added)
            if added
            else default_rules()
        )
    chosen = tuple(rules)
    if not chosen:
        raise ValueError("rules: there is none to run")
    if not all(isinstance(rule, Rule) for rule in chosen):
        raise TypeError("rules: select_rules() makes rules of codes and names")
    codes = [rule.code for rule in chosen]
    if len(set(codes)) < len(codes):
        raise ValueError(f"rules: a rule is there twice: {', '.join(codes)}")
    return chosen
