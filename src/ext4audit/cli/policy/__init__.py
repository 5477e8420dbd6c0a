"""Policy on the command line: profiles, policy file, selected rules, baselines, post-processing."""

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import click

from ext4audit.cli import did_you_mean, lazily
from ext4audit.facts import parse_toml
from ext4audit.facts.profile import ActiveProfile, all_profiles
from ext4audit.policy import (
    NothingSelected,
    Policy,
    SuppressionRule,
    UnknownRule,
    not_judged,
    parse_policy,
    select,
    stale,
    suppress,
)
from ext4audit.report import Report
from ext4audit.rule import Rule
from ext4audit.rules import all_rules, default_rules
from ext4audit.sources import utc_now
from ext4audit.sources.live.paths import BoundedCalls


def active_profiles(words: Sequence[str]) -> tuple[ActiveProfile, ...]:
    """Return the profiles of values like "tidb" and "tidb,kafka=/srv/*"; raises UsageError."""
    return tuple(_active(words)) if words else ()


def _active(words: Sequence[str]) -> Iterator[ActiveProfile]:
    known = all_profiles()
    for word in (part.strip() for value in words for part in value.split(",")):
        name, equals, place = word.partition("=")
        if name.lower() not in known:
            near = did_you_mean(name.lower(), known) or f" (choose from {', '.join(known)})"
            raise click.UsageError(f"unknown profile {name!r}{near}")
        if equals and not place.startswith(("/", "*")):
            raise click.UsageError(f"--profile {word}: a mount point starts with / or *")
        yield ActiveProfile(known[name.lower()], place or None)


NAME = "ext4audit.toml"
OF_THE_HOST = "/etc/ext4audit.toml"
LARGEST_POLICY_BYTES = 1 << 20


def read_policy(config: str | None) -> Policy:
    """Return the policy in force, an empty one without a file; raises UsageError.

    The nearest file counts alone: nothing of another is mixed in. A file that is found and not
    named must be trusted: it could suppress findings of root's scan.
    """
    path = config
    try:
        with closing(BoundedCalls()) as bounded:
            if path is None and (path := bounded(_nearest)) is None:
                return Policy()
            text = bounded(partial(_text, path, found=config is None))
        policy = parse_policy(parse_toml(text), all_rules(), did_you_mean)
        active_profiles(policy.profile)
    except OSError as error:
        raise click.UsageError(f"{path or NAME}: {error.strerror or error}") from None
    except click.UsageError as error:
        raise click.UsageError(f"{path}: {error.message}") from None
    except (ValueError, RecursionError) as error:  # of the policy, of TOML, of UTF-8
        raise click.UsageError(f"{path}: {error}") from None
    return policy._replace(path=path)


def _nearest() -> str | None:
    """Return the nearest file in the working directory and its parents, else the host's."""
    paths = (*(f"{folder.rstrip('/')}/{NAME}" for folder in _upwards()), OF_THE_HOST)
    return next(filter(os.path.isfile, paths), None)


def _text(path: str, *, found: bool) -> str:
    """Return a file's text; raises OSError, ValueError, and UsageError for an untrusted find."""
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs a scan its start
        if found:
            _check_trusted(path, os.fstat(file.fileno()))
        raw = file.read(LARGEST_POLICY_BYTES + 1)
    if len(raw) > LARGEST_POLICY_BYTES:
        raise ValueError("it is longer than 1 MiB")
    return raw.decode("utf-8")


def _upwards() -> Iterator[str]:
    """Yield the working directory and those above it; none where it was removed."""
    try:
        here = os.getcwd()  # noqa: PTH109 - pathlib costs a scan its start
    except FileNotFoundError:
        return
    while here != "/":
        yield here
        here = os.path.dirname(here)  # noqa: PTH120 - the same
    yield here


def _check_trusted(path: str, status: os.stat_result) -> None:
    """Refuse a file that others than root and the caller could have written; raises UsageError.

    `status` is of the open file, so that no other one is read than the one that was checked. Of a
    link, itself and its directory count as well.
    """
    target = os.path.realpath(path)
    folders = {os.path.dirname(each) for each in (path, target)}  # noqa: PTH120 - pathlib's cost
    every = [status, os.lstat(path), *map(os.stat, folders)]
    trusted, uids = _trusted_ids("UID", os.geteuid()), {each.st_uid for each in every}
    refusal = None
    if uids - trusted:
        refusal = f"it or its directory belongs to another user ({min(uids - trusted)})"
    elif any(_is_written_by_others(each) for each in every):
        refusal = "others may write to it or to its directory"
    if refusal:
        raise click.UsageError(f"{refusal}: if you trust the file, pass it with --config")


def _is_written_by_others(status: os.stat_result) -> bool:
    """Whether anybody may write, or a group that is not the caller's own; a link has no mode."""
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        return False
    own_group = status.st_gid in _trusted_ids("GID", os.getegid())
    return bool(mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not own_group))


def _trusted_ids(kind: str, own: int) -> set[int]:
    """Return root, the caller, and the user who became root by sudo(8)."""
    before = os.environ.get(f"SUDO_{kind}", "") if os.geteuid() == 0 else ""
    return {0, own, *([int(before)] if before.isdecimal() else [])}


DEMANDS = "CMP007"
"""The rule that judges what profiles demand."""


def on_hosts(rule: Rule) -> bool:
    """Whether a rule judges hosts by default."""
    return rule.default


def on_plans(rule: Rule) -> bool:
    """Whether a rule judges plans by default."""
    return rule.in_plans


def selected(
    given: dict[str, Any],
    policy: Policy,
    profiles: Sequence[ActiveProfile],
    usual: Callable[[Rule], bool],
) -> tuple[Rule, ...]:
    """Return the rules that the options choose; raises UsageError.

    --select replaces what the policy file selects and ignores, --ignore adds to what it ignores.
    A profile adds the rules that judge its demands to those that judge when nobody chooses.
    """
    own = bool(given["wanted"])
    wanted = _words(given["wanted"] or policy.select)
    ignored = _words((*given["ignored"], *(() if own else policy.ignore)))
    pedantic: bool = given["pedantic"] or policy.pedantic
    if not (wanted or ignored or pedantic or profiles) and usual is on_hosts:
        return default_rules()
    added = {code for active in profiles for code in (DEMANDS, *active.profile.enable)}
    rules = all_rules()
    try:
        return select(
            rules,
            wanted,
            ignored,
            usual=lambda rule: pedantic or usual(rule) or rule.code in added,
        )
    except UnknownRule as unknown:
        near = lazily("cli.terminal.errors", "near_rule")(unknown.word, rules)
        raise click.UsageError(f"unknown rule {unknown.word!r}{near}") from None
    except NothingSelected:
        raise click.UsageError("--select and --ignore leave no rule to run") from None


def named_one_by_one(wanted: Sequence[str], rules: Sequence[Rule]) -> frozenset[str]:
    """Return the codes of the rules that --select names by code or name, not by their family."""
    words = {word.upper() for word in _words(wanted)}
    return frozenset(each.code for each in rules if words & {each.code, each.name.upper()})


def _words(values: Sequence[str]) -> list[str]:
    return [word.strip() for value in values for word in value.split(",")]


DAY_LETTERS = len("2026-01-31")


class Processed(NamedTuple):
    """A report as it is rendered; `used` are the suppressions and profiles that matched in it.

    `undetermined` are the codes of the rules that lacked evidence and may have found more.
    """

    report: Report
    used: frozenset[object] = frozenset()
    undetermined: frozenset[str] = frozenset()


class PostProcessing(NamedTuple):
    """Suppressions and a baseline by host, with the day on which they are applied (ISO 8601).

    `policy` is the path of the policy file, which each report names. `places` are the profiles
    for a mount point. `measurements` are the runs of `ext4audit probe`.
    """

    suppressions: tuple[SuppressionRule, ...] = ()
    today: str = ""
    baselines: Mapping[str, Sequence[Any]] | None = None
    policy: str | None = None
    places: tuple[ActiveProfile, ...] = ()
    measurements: tuple[Any, ...] = ()

    def apply(self, report: Report, *, alone: bool = False) -> Processed:
        """Process one host's report; `alone` means that no other host is audited in this run."""
        used, undetermined = self._matched(report), frozenset[str]()
        report = report._replace(policy=self.policy)
        if self.measurements:
            report = lazily("policy.measured", "apply_measurements")(report, self.measurements)
        if self.suppressions:
            report, accepting = suppress(report, self.suppressions, self.today)
            used |= accepting
            undetermined = not_judged(report)
        if self.baselines is not None:
            report = lazily("cli.policy.baseline", "compared")(self.baselines, report, alone=alone)
        return Processed(report, used, undetermined)

    def _matched(self, report: Report) -> frozenset[object]:
        """Return the profiles that apply to a filesystem; all of them where mounts are unknown."""
        mounts = [fs.mount_points for fs in report.host.filesystems]
        return frozenset(
            each for each in self.places if report.host.gaps or any(map(each.covers, mounts))
        )

    def one(self, report: Report, rules: Sequence[Rule], *, whole: bool) -> Report:
        """Return the report of a single host, with notices about the policy file.

        `whole` says that all its filesystems were judged: a suppression may match another one.
        """
        processed = self.apply(report, alone=True)
        notices = self.notices(processed.used, processed.undetermined, rules, whole=whole)
        if self.measurements:
            unheard = lazily("policy.measured", "unheard")
            notices = (*notices, *unheard(processed.report, self.measurements))
        return processed.report._replace(notices=notices)

    def notices(
        self,
        used: frozenset[object],
        undetermined: frozenset[str],
        rules: Sequence[Rule],
        *,
        whole: bool,
    ) -> tuple[str, ...]:
        """Return a sentence for each stale suppression, and for each profile without a mount."""
        judged = (
            frozenset(rule.code for rule in rules) - undetermined if whole else frozenset[str]()
        )
        unmatched = [each for each in self.places if whole and each not in used]
        return (
            *stale(self.suppressions, used, self.today, judged=judged),
            *(
                f"the profile {each.profile.name} for {each.place!r} matches no mount point of "
                "an ext4 filesystem: remove it, or correct the mount point"
                for each in unmatched
            ),
        )


def post_processing_of(
    policy: Policy,
    baseline: str | None,
    profiles: Sequence[ActiveProfile] = (),
    probes: Sequence[str] = (),
) -> PostProcessing:
    """Return the post-processing of today by the policy, --baseline and --probe.

    `profiles` are those in force. Raises UsageError.
    """
    baselines = (
        None if baseline is None else lazily("cli.policy.baseline", "read_baselines")(baseline)
    )
    return PostProcessing(
        policy.suppressions,
        utc_now()[:DAY_LETTERS],
        baselines,
        policy.path,
        tuple(each for each in profiles if each.place is not None),
        lazily("cli.probe", "read_runs")(probes) if probes else (),
    )
