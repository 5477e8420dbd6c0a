"""The policy file of a user: its keys, the selection of rules, and suppressions."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias

from ext4audit.facts.host import ActiveProfile, Filesystem
from ext4audit.finding import Finding, Severity, Suppression
from ext4audit.report import Report, Verdict, filesystems_by_fact, subject_of
from ext4audit.rule import OF_BROKEN, OF_SITES, Rule


class UnknownRule(ValueError):  # noqa: N818 - named after the user's mistake
    """Raised if a selector matches no rule; `word` is the selector as typed."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word

    def __str__(self) -> str:
        """Return the error message for users of the Python API."""
        return f"unknown rule {self.word!r}"


class NothingSelected(ValueError):  # noqa: N818 - named after the user's mistake
    """Raised if no rule is selected: an audit without rules would report any host as clean."""


def matches(rule: Rule, word: str) -> bool:
    """Return whether a selector matches the code, a prefix of it, the family or the name."""
    upper = word.upper()
    return rule.code.startswith(upper) or rule.name == word.lower() or _is_placeholder(rule, upper)


def _is_placeholder(rule: Rule, word: str) -> bool:
    """Return whether a rule is a placeholder for broken site rules, which may have any code."""
    return rule.family == OF_BROKEN and word.startswith(OF_SITES)


def select(
    rules: Sequence[Rule],
    wanted: Iterable[str] = (),
    ignored: Iterable[str] = (),
    *,
    usual: Callable[[Rule], bool] = lambda rule: rule.default,
) -> tuple[Rule, ...]:
    """Return the rules that `wanted` selects, without the `ignored` ones.

    If `wanted` is empty, the `usual` rules are selected: those that are on by default.

    Raises UnknownRule for a selector that matches no rule, so that a typing error does not
    silently reduce the audit. Raises NothingSelected if no rule is left.
    """
    wanted, ignored = tuple(wanted), tuple(ignored)
    for word in (*wanted, *ignored):
        if not word or not any(matches(rule, word) for rule in rules):
            raise UnknownRule(word)
    chosen = [r for r in rules if _matches_any(wanted, r) or (not wanted and usual(r))]
    left = tuple(r for r in chosen if not _matches_any(ignored, r))
    if not left:
        raise NothingSelected("the selection leaves no rule to run")
    return left


DEMANDS = "CMP007"
"""The rule that checks the requirements of profiles."""


def rules_of_profiles(profiles: Iterable[ActiveProfile]) -> frozenset[str]:
    """Return the codes of the rules that profiles add to the default selection."""
    return frozenset(code for active in profiles for code in (DEMANDS, *active.profile.enable))


def _matches_any(selectors: Iterable[str], rule: Rule) -> bool:
    return any(matches(rule, selector) for selector in selectors)


_WILDCARD = r"[*?[]"
UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


class SuppressionRule(NamedTuple):
    """One [[suppress]] entry of a policy file: a rule code, a glob of subjects, and the reason.

    A subject is a name of a filesystem (UUID, mount point, device path, label), a name of the
    host, or the fact of a finding (the mount point of an fstab entry). Host findings about a
    filesystem also match its names. Names other than UUIDs are case-sensitive.
    """

    code: str
    subject: str
    suppression: Suppression

    def is_expired(self, today: str) -> bool:
        """Return whether the last day of the suppression is before `today` (ISO 8601)."""
        return self.suppression.expires is not None and self.suppression.expires < today

    def matches(self, code: str, names: Sequence[str]) -> bool:
        """Return whether the suppression accepts a finding of a rule about a subject."""
        return code == self.code and any(
            name == self.subject or fnmatchcase(name, self._glob_for(name)) for name in names
        )

    def _glob_for(self, name: str) -> str:
        """Return the glob for a name; UUIDs are compared in lower case, "/Data" is not "/data"."""
        return self.subject.lower() if re.fullmatch(UUID, name) else self.subject

    @property
    def text(self) -> str:
        """The description of the suppression for use in a sentence."""
        return f"the suppression of {self.code} for {self.subject!r}"


_Numbered: TypeAlias = tuple[int, SuppressionRule]


class Suppressions:
    """An ordered index of suppressions, with lookup by subject for those without a wildcard."""

    def __init__(self, rules: Iterable[SuppressionRule]) -> None:
        """Index the suppressions by code, and by subject if it is not a glob."""
        self._named: dict[tuple[str, str], list[_Numbered]] = {}
        self._uuids: dict[tuple[str, str], list[_Numbered]] = {}
        self._globs: dict[str, list[_Numbered]] = {}
        for at in enumerate(rules):
            code, subject, _ = at[1]
            if re.search(_WILDCARD, subject):
                self._globs.setdefault(code, []).append(at)
            self._named.setdefault((code, subject), []).append(at)
            self._uuids.setdefault((code, subject.lower()), []).append(at)

    def matching(self, code: str, names: Sequence[str]) -> tuple[SuppressionRule, ...]:
        """Return the suppressions that accept a finding of a rule about a subject, in order."""
        found = {at for at in self._globs.get(code, ()) if at[1].matches(code, names)}
        for name in names:
            exact = self._uuids if re.fullmatch(UUID, name) else self._named
            found.update(exact.get((code, name), ()))
        return tuple(rule for _, rule in sorted(found))


def suppress(
    report: Report, rules: Sequence[SuppressionRule], today: str
) -> tuple[Report, frozenset[SuppressionRule]]:
    """Return the report with accepted findings marked, and the suppressions that matched.

    Expired suppressions are ignored; if several match a finding, the first is recorded in it.
    `today` is a date in ISO 8601.
    """
    live = Suppressions([rule for rule in rules if not rule.is_expired(today)])
    by_fact = filesystems_by_fact(report.host)
    used: set[SuppressionRule] = set()

    def mark(verdict: Verdict, own: Filesystem | None, finding: Finding) -> Finding:
        fs = subject_of(finding, own, by_fact)
        of_host = () if own else (report.key, report.host.name, finding.device)
        names = (finding.fact, finding.numbered_fact, *of_host, *(_names(fs) if fs else ()))
        matching = live.matching(verdict.rule.code, names)
        used.update(matching)
        return finding._replace(suppression=matching[0].suppression) if matching else finding

    verdicts = [
        v._replace(findings=tuple(mark(v, fs, f) for f in v.findings)) for v, fs in report.judged
    ]
    return report._replace(verdicts=tuple(verdicts)), frozenset(used)


def stale_suppressions(
    rules: Sequence[SuppressionRule],
    used: frozenset[object],
    today: str,
    *,
    judged: frozenset[str],
) -> Iterator[str]:
    """Yield a sentence for each suppression that has expired or matches no finding.

    `judged` are the codes of the rules that had all their evidence. Suppressions of other rules
    are not reported, because those rules might have found more.
    """
    for rule in rules:
        if rule.is_expired(today):
            yield f"{rule.text} expired on {rule.suppression.expires}"
        elif rule not in used and rule.code in judged:
            yield f"{rule.text} matches no finding: remove it, or correct the subject"


def not_judged(report: Report) -> frozenset[str]:
    """Return the codes of the rules that lacked evidence and so may have missed findings."""
    has_gaps = bool(report.host.gaps)
    return frozenset(
        verdict.rule.code for verdict in report.verdicts if has_gaps or verdict.is_undetermined
    )


def _names(fs: Filesystem) -> tuple[str, ...]:
    """Return all names of a filesystem."""
    names = (fs.uuid, fs.label, fs.device, fs.name, fs.id, str(fs.device_number))
    return (*fs.mount_points, *(name for name in names if name))


KEYS = ("select", "ignore", "pedantic", "fail_on", "profile", "profiles", "rules", "suppress")
SUPPRESS_KEYS = ("rule", "subject", "reason", "owner", "expires")
REQUIRED = ("rule", "subject", "reason")
NEVER = "never"
THRESHOLDS = (*(severity.value for severity in Severity), NEVER)
"""The values of fail_on."""
TABLE = "ext4audit"
DAY = "([0-9]{4})-([0-9]{2})-([0-9]{2})"
Near = Callable[[str, Sequence[str]], str]
"""Type of a function that returns " (did you mean …?)" for a similar name, else ""."""


class PolicyError(ValueError):
    """Raised if a policy file is invalid; the message may suggest a similar valid name."""


class Policy(NamedTuple):
    """The contents of a policy file; `fail_on` is None if the file does not set it.

    `path` is the file, None if there is none. `profile` selects profiles, `site_profiles` are
    those that the file defines (ext4audit.policy.profiles). `site_rules` are the rules of the
    files and packages that its key `rules` names.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    pedantic: bool = False
    fail_on: str | None = None
    profile: tuple[str, ...] = ()
    suppressions: tuple[SuppressionRule, ...] = ()
    path: str | None = None
    site_profiles: tuple[Any, ...] = ()
    rules: tuple[str, ...] = ()
    site_rules: tuple[Rule, ...] = ()


def rule_sources(document: Mapping[str, Any], near: Near) -> tuple[str, ...]:
    """Return the files and packages of rules that a policy names; raises PolicyError."""
    return _texts(_table(document, near), "rules")


def parse_policy(
    document: Mapping[str, Any], rules: Sequence[Rule], near: Near, path: str = "ext4audit.toml"
) -> Policy:
    """Return the policy of a parsed TOML file; raises PolicyError.

    The keys are at the top level of the file, or in its table [tool.ext4audit]. `rules` are the
    rules that the file may name, `path` is the name of the file that findings cite.
    """
    table = _table(document, near)
    _check_keys(table, KEYS, "", near)
    suppress = table.get("suppress", [])
    if not isinstance(suppress, list) or not all(isinstance(each, dict) for each in suppress):
        raise PolicyError("suppress is not a list of tables: write [[suppress]]")
    return Policy(
        select=_rules(table, "select", rules, near),
        ignore=_rules(table, "ignore", rules, near),
        pedantic=_boolean(table, "pedantic"),
        fail_on=_fail_on(table, near),
        profile=_profiles(table),
        site_profiles=_site_profiles(table, rules, near, path),
        rules=_texts(table, "rules"),
        suppressions=tuple(_suppression(each, rules, near) for each in suppress),
    )


def _table(document: Mapping[str, Any], near: Near) -> Mapping[str, Any]:
    """Return the policy table; a file with [tool] may have only tables at the top level."""
    tools = document.get("tool")
    if not isinstance(tools, dict):
        return document
    if TABLE not in tools:
        meant = next(filter(None, (near(name, [TABLE]) for name in tools)), "")
        raise PolicyError(f"there is no [tool.{TABLE}] in [tool]{meant}")
    for key, value in document.items():
        if key in KEYS:
            raise PolicyError(f"{key!r} is outside of [tool.{TABLE}]")
        if not isinstance(value, dict):
            raise PolicyError(f"unknown key {key!r}{near(key, KEYS)}")
    table = tools[TABLE]
    if not isinstance(table, dict):
        raise PolicyError(f"tool.{TABLE} is not a table")
    return table


def _check_keys(table: Mapping[str, Any], keys: Sequence[str], where: str, near: Near) -> None:
    for key in table:
        if key not in keys:
            raise PolicyError(f"{where}unknown key {key!r}{near(key, keys)}")


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise PolicyError(f"{key} is not a list of strings")
    return tuple(texts)


def _profiles(table: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the profiles that a file selects: `profiles`, and `profile` if it is not a table."""
    chosen = () if isinstance(table.get("profile"), dict) else _texts(table, "profile")
    return (*chosen, *_texts(table, "profiles"))


def _site_profiles(
    table: Mapping[str, Any], rules: Sequence[Rule], near: Near, path: str
) -> tuple[Any, ...]:
    """Return the profiles that a file defines; imports their module only if there are any."""
    defined = table.get("profile")
    if not isinstance(defined, dict):
        return ()
    from ext4audit.facts.host import all_profiles  # noqa: PLC0415 - reads a table
    from ext4audit.policy.profiles import ProfileContext, site_profiles  # noqa: PLC0415 - see above

    codes = [rule.code for rule in rules]
    return site_profiles(defined, ProfileContext(all_profiles(), codes, near, path))


def _rules(
    table: Mapping[str, Any], key: str, rules: Sequence[Rule], near: Near
) -> tuple[str, ...]:
    """Return the rule selectors; all are checked, because options may override them."""
    values = _texts(table, key)
    for word in (part.strip() for value in values for part in value.split(",")):
        if not word or not any(matches(rule, word) for rule in rules):
            names = [name for rule in rules for name in (rule.code, rule.name, rule.family)]
            raise PolicyError(f"{key}: unknown rule {word!r}{_nearest(word, names, near)}")
    return values


def _nearest(word: str, names: Sequence[str], near: Near) -> str:
    return near(word.upper(), names) or near(word.lower(), names)


def _boolean(table: Mapping[str, Any], key: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise PolicyError(f"{key} is neither true nor false")
    return value


def _fail_on(table: Mapping[str, Any], near: Near) -> str | None:
    value = table.get("fail_on")
    if value is not None and value not in THRESHOLDS:
        raise PolicyError(f"fail_on: unknown severity {value!r}{near(str(value), THRESHOLDS)}")
    return value


def _suppression(table: Mapping[str, Any], rules: Sequence[Rule], near: Near) -> SuppressionRule:
    _check_keys(table, SUPPRESS_KEYS, "suppress: ", near)
    for key in REQUIRED:
        if not str(table.get(key, "")).strip():
            raise PolicyError(f"suppress: {key} is missing: each needs {', '.join(REQUIRED)}")
    for key in (*REQUIRED, "owner"):
        if not isinstance(table.get(key, ""), str):
            raise PolicyError(f"suppress: {key} is not a string")
    owner = table.get("owner")
    suppression = Suppression(table["reason"], owner, _day(table.get("expires")))
    return SuppressionRule(_code(table["rule"], rules, near), table["subject"], suppression)


def _code(word: str, rules: Sequence[Rule], near: Near) -> str:
    """Return the code of the rule with this code or name; a prefix would suppress too much."""
    for rule in rules:
        if word.upper() == rule.code or word.lower() == rule.name:
            return rule.code
        if _is_placeholder(rule, word.upper()):
            return word.upper()
    names = [name for rule in rules for name in (rule.code, rule.name)]
    raise PolicyError(f"suppress: unknown rule {word!r}{_nearest(word, names, near)}")


def _day(value: object) -> str | None:
    """Return a date, given as a TOML date or a string, in ISO 8601; raises PolicyError."""
    if value is None:
        return None
    text = str(value)  # ISO 8601 for a date; a date with a time does not match
    found = re.fullmatch(DAY, text)
    year, month, day = map(int, found.groups()) if found else (0, 0, 0)
    try:
        date(year, month, day)
    except ValueError:
        wrong = f"suppress: expires is not a date such as 2027-01-31: {text}"
        raise PolicyError(wrong) from None
    return text
