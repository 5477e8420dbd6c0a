"""Policy of a command: profiles, policy file, rule selection, baselines and post-processing."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import click

from ext4audit import lazily
from ext4audit.cli import NAME, OF_THE_HOST, did_you_mean, nearest_policy
from ext4audit.facts import parse_toml
from ext4audit.facts.host import ActiveProfile, all_profiles
from ext4audit.policy import (
    NothingSelected,
    Policy,
    SuppressionRule,
    UnknownRule,
    not_judged,
    parse_policy,
    rule_sources,
    rules_of_profiles,
    select,
    stale_suppressions,
    suppress,
)
from ext4audit.report import DataFile, Report
from ext4audit.rule import Rule
from ext4audit.rules import all_rules, default_rules
from ext4audit.sources import utc_now
from ext4audit.sources.timeouts import answered, answered_for


def active_profiles(
    words: Sequence[str], policy: Policy | None = None
) -> tuple[ActiveProfile, ...]:
    """Return the profiles of values like "tidb" and "tidb,kafka=/srv/*"; raises UsageError.

    They always include the profiles that the policy defines for mount points.
    """
    site = policy.site_profiles if policy else ()
    always = [active for each in site if each.mounts for active in each.active()]
    if not words:
        return tuple(always)
    own = {each.profile.name: each for each in site}
    return tuple(dict.fromkeys((*always, *_active(words, own))))


def _active(words: Sequence[str], own: Mapping[str, Any]) -> Iterator[ActiveProfile]:
    known = {**all_profiles(), **{name: each.profile for name, each in own.items()}}
    for word in (part.strip() for value in words for part in value.split(",")):
        name, equals, place = word.partition("=")
        if name.lower() not in known:
            near = did_you_mean(name.lower(), known) or f" (choose from {', '.join(known)})"
            raise click.UsageError(f"unknown profile {name!r}{near}")
        if equals and not place.startswith(("/", "*")):
            raise click.UsageError(f"--profile {word}: a mount point starts with / or *")
        if not equals and name.lower() in own:
            yield from own[name.lower()].active()
        else:
            yield ActiveProfile(known[name.lower()], place or None)


LARGEST_POLICY_BYTES = 1 << 20
NAMED = f"pass it with --config, or keep it in {OF_THE_HOST}"
NAME_IT = "if you trust the file, pass it with --config"


def read_policy(config: str | None) -> Policy:
    """Return the policy in force, an empty one if there is no file; raises UsageError.

    Only the nearest file is used; files are not merged. A file that was found, not named, must be
    trusted, because it could suppress findings of root's scan. Site rules run only if the file is
    named or is the host's: changing into a directory must not lead to running its code.
    """
    return _policy(config, runs=True)


def read_profiles(config: str | None) -> tuple[Any, ...]:
    """Return the policy file's own profiles, without loading site rules; raises UsageError."""
    return _policy(config, runs=False).site_profiles


def _policy(config: str | None, *, runs: bool) -> Policy:
    path, text = config, ""
    try:
        if path is None and (path := answered(nearest_policy)) is None:
            return Policy()
        text = answered_for(path, partial(_read, path, found=config is None))
        document = parse_toml(text)
        is_named = config is not None or path == OF_THE_HOST
        site = _site_rules(document, path, is_named=is_named) if runs else ()
        policy = parse_policy(document, (*all_rules(), *site), did_you_mean, path)
        active_profiles(policy.profile, policy)
    except OSError as error:
        raise click.UsageError(f"{path or NAME}: {error.strerror or error}") from None
    except click.UsageError as error:
        raise click.UsageError(f"{path}: {error.message}") from None
    except (ValueError, RecursionError) as error:  # invalid policy, TOML or UTF-8
        both = ": choose by `profiles` beside [profile.NAME]" if _has_both(text) else ""
        raise click.UsageError(f"{path}: {error}{both}") from None
    return policy._replace(path=path, site_rules=site)


def _has_both(text: str) -> bool:
    """Return whether a policy sets `profile` and also has tables in it, which no TOML may have."""
    forms = (r"^[ \t]*profile[ \t]*=", r"^[ \t]*\[[ \t]*profile[ \t]*\.")
    return all(re.search(form, text, re.MULTILINE) for form in forms)


def _site_rules(document: Mapping[str, Any], path: str, *, is_named: bool) -> tuple[Rule, ...]:
    """Return the site rules that a policy names; raises UsageError or PolicyError."""
    sources = rule_sources(document, did_you_mean)
    if not sources:
        return ()
    if not is_named:
        raise click.UsageError(f"rules: only a file that is named may run rules: {NAMED}")
    found: tuple[Rule, ...] = lazily("cli.policy.site_rules", "load")(sources, path)
    return found


def _read(path: str, *, found: bool) -> str:
    """Return a file's text; raises OSError, ValueError, or UsageError if it is not trusted."""
    text: str = lazily("cli.policy.trusted", "read_text")(
        path, LARGEST_POLICY_BYTES, trusted=not found, advice=NAME_IT
    )
    return text


def on_hosts(rule: Rule) -> bool:
    """Return whether a rule runs on hosts by default."""
    return rule.default


def on_plans(rule: Rule) -> bool:
    """Return whether a rule runs on plans by default."""
    return rule.in_plans


def selected(
    given: dict[str, Any],
    policy: Policy,
    profiles: Sequence[ActiveProfile],
    usual: Callable[[Rule], bool],
) -> tuple[Rule, ...]:
    """Return the rules that the options select; raises UsageError.

    --select replaces `select` and `ignore` of the policy file; --ignore adds to its `ignore`.
    A profile adds the rules that check its requirements to the default rules.
    """
    own = bool(given["wanted"])
    wanted = _words(given["wanted"] or policy.select)
    ignored = _words((*given["ignored"], *(() if own else policy.ignore)))
    pedantic: bool = given["pedantic"] or policy.pedantic
    if not (wanted or ignored or pedantic or profiles) and usual is on_hosts:
        return (*default_rules(), *policy.site_rules)
    added = rules_of_profiles(profiles)
    rules = (*all_rules(), *policy.site_rules)
    try:
        chosen = select(
            rules,
            wanted,
            ignored,
            usual=lambda rule: pedantic or usual(rule) or rule.code in added,
        )
        return _with_broken(chosen, policy)
    except UnknownRule as unknown:
        near = lazily("cli.terminal.errors", "near_rule")(unknown.word, rules)
        raise click.UsageError(f"unknown rule {unknown.word!r}{near}") from None
    except NothingSelected:
        raise click.UsageError("--select and --ignore leave no rule to run") from None


def _with_broken(chosen: tuple[Rule, ...], policy: Policy) -> tuple[Rule, ...]:
    """Return rules, plus those that could not be loaded, which no selection hides."""
    if not policy.site_rules:
        return chosen
    is_broken = lazily("policy.site_rules", "is_broken")
    hidden = (rule for rule in policy.site_rules if is_broken(rule) and rule not in chosen)
    return (*chosen, *hidden)


def named_one_by_one(wanted: Sequence[str], rules: Sequence[Rule]) -> frozenset[str]:
    """Return the codes of rules that --select names individually, not by prefix or family."""
    words = {word.upper() for word in _words(wanted)}
    return frozenset(each.code for each in rules if words & {each.code, each.name.upper()})


def _words(values: Sequence[str]) -> list[str]:
    return [word.strip() for value in values for word in value.split(",")]


DAY_LETTERS = len("2026-01-31")
OUTSIDE_BASELINE = "no host of the baseline"
"""The mark in `Processed.used` of a host that is not in the baseline."""


class Processed(NamedTuple):
    """A post-processed report; `used` are the suppressions and profiles that matched in it.

    `undetermined` are the codes of rules that lacked evidence and so may have missed findings.
    """

    report: Report
    used: frozenset[object] = frozenset()
    undetermined: frozenset[str] = frozenset()


class PostProcessing(NamedTuple):
    """Suppressions and baselines by host, and the date of their application (ISO 8601).

    `policy` is the path of the policy file, which each report names. `places` are the profiles
    for mount points, `idle` the names of profiles that the file defines but nothing activates.
    `measurements` are the runs of `ext4audit probe`, `knowledge` the newer data files. `options`
    are the arguments that make another command select the same findings.
    """

    suppressions: tuple[SuppressionRule, ...] = ()
    today: str = ""
    baselines: Mapping[str, Sequence[Any]] | None = None
    policy: str | None = None
    places: tuple[ActiveProfile, ...] = ()
    measurements: tuple[Any, ...] = ()
    knowledge: tuple[Any, ...] = ()
    idle: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def apply(self, report: Report, *, alone: bool = False) -> Processed:
        """Process one host's report; `alone` means that no other host is audited in this run."""
        used, undetermined = self._matched(report), frozenset[str]()
        files = tuple(DataFile(each.path, each.table, each.dated) for each in self.knowledge)
        report = report._replace(policy=self.policy, knowledge=files, options=self.options)
        if self.measurements:
            report = lazily("policy.measured", "apply_measurements")(report, self.measurements)
            used |= lazily("policy.measured", "used_measurements")(report, self.measurements)
        if self.suppressions:
            report, accepting = suppress(report, self.suppressions, self.today)
            used |= accepting
            undetermined = not_judged(report)
        if self.baselines is not None:
            if not lazily("cli.policy.baseline", "has_host")(self.baselines, report):
                used |= {OUTSIDE_BASELINE}
            report = lazily("cli.policy.baseline", "compared")(self.baselines, report, alone=alone)
        return Processed(report, used, undetermined)

    def _matched(self, report: Report) -> frozenset[object]:
        """Return the profiles that apply to a filesystem, or all if the host has gaps."""
        mounts = [fs.mount_points for fs in report.host.filesystems]
        return frozenset(
            each for each in self.places if report.host.gaps or any(map(each.covers, mounts))
        )

    def one(self, report: Report, rules: Sequence[Rule], *, whole: bool) -> Report:
        """Return the report of a single host, with notices about the policy file.

        `whole` means that all filesystems were audited; else a suppression may match another one.
        """
        processed = self.apply(report, alone=True)
        notices = self.notices(processed.used, processed.undetermined, rules, whole=whole)
        if self.baselines is not None:
            other = lazily("cli.policy.baseline", "of_another_host")(self.baselines, report)
            notices = (*notices, *other)
        if self.measurements:
            unused_measurements = lazily("policy.measured", "unused_measurements")
            notices = (*notices, *unused_measurements(processed.report, self.measurements))
        return processed.report._replace(notices=notices)

    def unused_by_all(self, used: frozenset[object]) -> tuple[str, ...]:
        """Return a sentence for each run of `ext4audit probe` that applies to no host."""
        return tuple(
            f"the probe of {run.directory} on {run.host} is used for no audited filesystem: "
            "a scan of this host alone says why"
            for run in self.measurements
            if run not in used
        )

    def notices(
        self,
        used: frozenset[object],
        undetermined: frozenset[str],
        rules: Sequence[Rule],
        *,
        whole: bool,
    ) -> tuple[str, ...]:
        """Return a sentence for each outdated data file, stale suppression and unused profile."""
        judged = (
            frozenset(rule.code for rule in rules) - undetermined if whole else frozenset[str]()
        )
        unmatched = [each for each in self.places if whole and each not in used]
        old = lazily("facts.knowledge", "older")(self.knowledge) if self.knowledge else ()
        return (
            *old,
            *stale_suppressions(self.suppressions, used, self.today, judged=judged),
            *(
                f"the profile {each.profile.name} for {each.place!r} matches no mount point of "
                "an ext4 filesystem: remove it, or correct the mount point"
                for each in unmatched
            ),
            *(
                f"the profile {name} holds nowhere: give it mounts, or name it in profiles or by "
                "--profile"
                for name in self.idle
            ),
        )


def post_processing_of(
    policy: Policy,
    baseline: str | None,
    profiles: Sequence[ActiveProfile] = (),
    probes: Sequence[str] = (),
) -> PostProcessing:
    """Return the post-processing, dated today, by the policy, --baseline and --probe.

    `profiles` are the active ones. Raises UsageError.
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
        idle=_idle(policy, profiles),
    )


def _idle(policy: Policy, profiles: Sequence[ActiveProfile]) -> tuple[str, ...]:
    """Return the profiles that a file defines but nothing activates; none if any was chosen.

    A file may define profiles for several kinds of hosts, and each run chooses its own.
    """
    always = {each.profile.name for each in policy.site_profiles if each.mounts}
    active = {each.profile.name for each in profiles}
    idle = (each.profile.name for each in policy.site_profiles if each.profile.name not in active)
    return () if active - always else tuple(idle)
