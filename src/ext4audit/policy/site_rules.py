"""Site rules: loaded from the text of a file or from a package, and validated.

Their codes begin with X, which no built-in code does, so that they never collide. Errors of these
rules become ERROR verdicts: `broken` makes placeholder rules for a source that could not be
loaded, and `_guarded` rejects output that no report can represent.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import cache
from importlib.metadata import EntryPoint, distributions
from types import ModuleType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ext4audit.evidence import Undetermined
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Finding, Severity
from ext4audit.rule import OF_BROKEN, NotApplicable, Rule, RuleOutput, Scope, register

GROUP = "ext4audit.rules"
"""The entry point group of packages that provide rules."""
CODE = re.compile(r"X[A-Z]{2}[0-9]{3}")
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")
DECLARED = re.compile(
    r"(?:host_)?rule\(\s*[\"'](X[A-Z]{2}[0-9]{3})[\"']\s*,\s*[\"']([a-z0-9-]+)[\"']"
)
"""A rule declaration in the text of a file, which need not be valid Python."""

_LONGEST = 80
"""Maximum characters of a value in an error message."""

_OTHER_FIELDS = ("scope", "summary", "run", "default", "in_plans", "module")
"""Fields of a rule that the decorators set; a direct call of `Rule(…)` can set any value."""


class SiteRuleError(Exception):
    """Raised if the rules of a file or a package cannot be used; the message has the reason."""


class NoSuchPackage(ValueError):  # noqa: N818 - named after the user's mistake
    """Raised if no installed package or entry point that provides rules has this name."""


def rules_of_text(text: str, path: str) -> tuple[Rule, ...]:
    """Execute a rule file and return its validated rules; raises SiteRuleError."""
    stem = re.sub(r"\W", "_", path.rpartition("/")[2].removesuffix(".py"))
    module = ModuleType(f"ext4audit_site_{zlib.crc32(path.encode()):08x}_{stem}")
    module.__file__ = path
    sys.modules[module.__name__] = module

    def run() -> ModuleType:
        exec(compile(text, path, "exec", dont_inherit=True), vars(module))  # noqa: S102 - a rule file is code
        return module

    return _checked(_loaded(run, path), path)


def rules_of_package(name: str) -> tuple[Rule, ...]:
    """Return the rules of an installed package, by its name or that of an entry point.

    The working directory is not searched. Raises NoSuchPackage or SiteRuleError.
    """
    with _isolated():
        points = [point for owner, point in _entry_points() if name in {owner, point.name}]
    if not points:
        raise NoSuchPackage(name)
    found = [rule for point in points for rule in _found(_loaded(point.load, name), name)]
    return _checked(found, name)


def _entry_points() -> Iterator[tuple[str, EntryPoint]]:
    """Yield the entry points for rules, with distribution names and without duplicates."""
    seen = set()
    for distribution in distributions():
        name = distribution.metadata["Name"] or ""  # None in a broken installation
        for point in distribution.entry_points:
            if point.group == GROUP and (name, point.name) not in seen:
                seen.add((name, point.name))
                yield name, point


def package_names() -> tuple[str, ...]:
    """Return the names of installed packages that provide rules, and of their entry points."""
    with _isolated():
        found = list(_entry_points())
    return tuple(dict.fromkeys(word for name, point in found for word in (name, point.name)))


@contextmanager
def _isolated() -> Iterator[None]:
    """Prevent imports from the working directory, and redirect standard output to stderr."""
    path = sys.path[:]
    sys.path[:] = [each for each in path if each not in {"", _started_in(path)}]
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.path[:] = path


def _started_in(path: Sequence[str]) -> str:
    """Return the directory in which `python -m` was started, which it puts first in sys.path."""
    by_name = getattr(sys.modules.get("__main__"), "__spec__", None) is not None
    is_safe = getattr(sys.flags, "safe_path", False)
    return path[0] if by_name and path and not is_safe else ""


def _loaded(load: Callable[[], Any], origin: str) -> Any:  # noqa: ANN401 - a source can be any object
    """Load a source and return its object; converts any exception to SiteRuleError."""
    with _isolated(), _errors_of(origin):
        return load()


@contextmanager
def _errors_of(origin: str) -> Iterator[None]:
    """Convert exceptions of site code to SiteRuleError, even those that are not an Exception.

    SystemExit and asyncio.CancelledError would end the program. KeyboardInterrupt is passed on,
    because it comes from a signal, not from site code.
    """
    try:
        yield
    except (Undetermined, NotApplicable, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise SiteRuleError(f"{origin}: {type(error).__name__}: {error}") from error


def _found(source: object, origin: str) -> list[Rule]:
    """Return the rules in a module or list, or a single rule; raises SiteRuleError."""
    if isinstance(source, Rule):
        return [source]
    values = vars(source).values() if isinstance(source, ModuleType) else source
    if not isinstance(values, Collection):
        raise SiteRuleError(f"{origin}: it is neither a module nor a list of rules")
    return [value for value in values if isinstance(value, Rule)]


def _checked(source: object, origin: str) -> tuple[Rule, ...]:
    """Return the rules of a source, guarded; raises SiteRuleError if any is invalid."""
    rules = _found(source, origin)
    if not rules:
        raise SiteRuleError(f"{origin}: it declares no rule: use @filesystem_rule or @host_rule")
    for each in rules:
        wrong = next(declaration_errors(each), None)
        if wrong is not None:
            raise SiteRuleError(f"{origin}: {each.code}: {wrong}")
    refuse_collisions(rules, origin)
    return tuple(register(each._replace(run=_guarded(each))) for each in rules)


def refuse_collisions(rules: Sequence[Rule], origin: str, taken: Sequence[Rule] = ()) -> None:
    """Raise SiteRuleError if two rules have the same code or name."""
    used = {word: other for other in taken for word in (other.code, other.name)}
    for each in rules:
        for word in (each.code, each.name):
            if word in used:
                raise SiteRuleError(
                    f"{origin}: {word} is taken by {used[word].code} {used[word].name}"
                )
        used |= {each.code: each, each.name: each}


def declaration_errors(rule: Rule) -> Iterator[str]:
    """Yield a sentence for each error in the declaration of a site rule."""
    if not _is_match(rule.code, CODE):
        yield "its code is not X with two more capital letters and three digits, such as XAC001"
    elif rule.family == OF_BROKEN:
        yield f"codes that begin with {OF_BROKEN} are reserved"
    if not _is_match(rule.name, NAME):
        yield f"its name {rule.name!r} is not of lower-case words with dashes between them"
    if not isinstance(rule.severity, Severity):
        yield f"its severity {rule.severity!r} is not a Severity"
    if not isinstance(rule.since, str):
        yield "since is not a text"
    if not _is_tuple_of(rule.references, str):
        yield "its references are not a tuple of texts"
    for name in _OTHER_FIELDS:
        yield from type_errors(getattr(rule, name), declared(Rule)[name], f"its {name}")
    if not rule.summary:
        yield "it has no summary: give one, or begin the docstring of the module with CODE: summary"
    if not (_is_tuple_of((rule.docstring,), str) and rule.page):
        yield "its check has no docstring, which is its page"


def _is_match(value: object, form: re.Pattern[str]) -> bool:
    """Return whether a value, whose type is not yet checked, is a string that matches `form`."""
    return isinstance(value, str) and form.fullmatch(value) is not None


def _guarded(rule: Rule) -> Callable[[Filesystem | None, Host], RuleOutput]:
    """Return the check of a rule with validation of its output."""

    def run(fs: Filesystem | None, host: Host) -> RuleOutput:
        with redirect_stdout(sys.stderr), _errors_of(rule.code):
            for output in rule.run(fs, host):
                yield _valid(output, rule)

    return run


def _is_tuple_of(values: object, kind: type) -> bool:
    return isinstance(values, tuple) and all(isinstance(each, kind) for each in values)


@cache
def declared(owner: type) -> Mapping[str, Any]:
    """Return the declared types of the fields of a NamedTuple."""
    return get_type_hints(owner)


def type_errors(value: object, hint: Any, name: str) -> Iterator[str]:  # noqa: ANN401 - any type
    """Yield a message for each part of a value, checked recursively, that has a wrong type.

    Supports the types that our NamedTuples use: classes, unions, tuples of any length, callables.
    """
    kinds = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    kind = next((each for each in kinds if _is(value, each)), None)
    if kind is None:
        yield f"{name} is {value!r:.{_LONGEST}}"
    elif isinstance(value, tuple) and get_origin(kind) is tuple:
        for each in value:
            yield from type_errors(each, get_args(kind)[0], f"one of the {name}")
    elif isinstance(kind, type) and hasattr(kind, "_fields"):
        for field, declared_type in declared(kind).items():
            yield from type_errors(
                getattr(value, field), declared_type, f"{field} of a {kind.__name__}"
            )


def _is(value: object, kind: Any) -> bool:  # noqa: ANN401 - any type
    origin = get_origin(kind)
    if origin is None or origin is tuple:
        return isinstance(value, origin or kind)
    return callable(value)


def _valid(output: Finding | Citation, rule: Rule) -> Finding | Citation:
    """Return an output of a rule; raises TypeError or ValueError if it is invalid."""
    kind = next((each for each in (Citation, Finding) if isinstance(output, each)), None)
    wrong = next(type_errors(output, kind, "what a rule yielded"), None) if kind else None
    if wrong is not None:
        raise TypeError(wrong)
    if isinstance(output, Finding):
        _check_finding(output, rule)
    return output


def _check_finding(finding: Finding, rule: Rule) -> None:
    """Raise ValueError for a finding worse than its rule, or one marked suppressed or known.

    Only the policy and the baseline decide which findings count, and this is reported.
    """
    if not finding.counts:
        raise ValueError("a finding is suppressed or known: a rule cannot accept what it finds")
    if finding.severity.rank < rule.severity.rank:
        found, worst = finding.severity.value, rule.severity.value
        raise ValueError(f"a finding is {found}, and the rule {worst} at worst")


def broken(
    error: SiteRuleError, source: str, text: str, number: int, taken: Collection[str]
) -> tuple[Rule, ...]:
    """Return rules that raise the error: one for each that `text` declares, else a numbered one.

    `taken` are the codes of other rules.
    """
    declared = {code: name for code, name in DECLARED.findall(text) if code not in taken}
    names = declared or {f"{OF_BROKEN}{number:03}": f"site-rules-{number}-not-loaded"}
    return tuple(_broken(code, name, error, source) for code, name in names.items())


def _broken(code: str, name: str, error: SiteRuleError, source: str) -> Rule:
    def run(_fs: Filesystem | None, _host: Host) -> RuleOutput:
        raise error

    summary = f"The rules of {source} could not be loaded."
    page = f"{summary}\n\n{error}"
    place = Scope.HOST
    made = Rule(code, name, Severity.INFO, "", (), place, summary, page, run, module=__name__)
    return register(made)


def is_broken(rule: Rule) -> bool:
    """Return whether a rule is a placeholder for rules that could not be loaded."""
    return rule.module == __name__
