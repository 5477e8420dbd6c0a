"""Rules: the `Rule` class, and the decorators that turn a check function into a rule."""

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from typing import NamedTuple, TypeAlias

from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Finding, Severity

RuleOutput: TypeAlias = Iterator[Finding | Citation]
FilesystemCheck: TypeAlias = Callable[[Filesystem, Host], RuleOutput]
HostCheck: TypeAlias = Callable[[Host], RuleOutput]
OFF_BY_DEFAULT = frozenset(
    "CAP006 CAP007 CMP002 CMP006 CMP007 CMP008 DRF005 DRF007 DUR007 DUR009 HLT004 HLT006 HLT009 "
    "KRN005 LAY007 LAY008 PRF003 PRF005 PRF006 PRF007 PRF008 PRF010 PRF011 PRF012 SEC003".split()
)
"""The codes of the rules that run only if they are selected; their modules load only then."""
OF_SITES = "X"
"""The prefix of the codes of site rules; no built-in code has it."""
OF_BROKEN = "XXX"
"""The family of placeholders for site rules that could not be loaded."""


class NotApplicable(Exception):  # noqa: N818 - an outcome, not a failure
    """Raised by a rule that does not apply to its subject; the message is the reason."""


def refuse_unmounted(fs: Filesystem) -> None:
    """Raise NotApplicable if the filesystem is not mounted anywhere."""
    if not fs.alive:
        raise NotApplicable("it is not mounted")


class Scope(Enum):
    """The subject of a rule: each ext4 superblock, or the host as a whole."""

    FILESYSTEM = "filesystem"
    HOST = "host"


class Rule(NamedTuple):
    """One rule of the catalogue.

    `severity` is the worst that its findings can have. `docstring` is the check's, the source of
    `page`. `run` yields findings and citations of the evidence that it examined. `default` is
    whether the rule runs without a selection, `in_plans` whether it then also runs on plans; both
    follow from OFF_BY_DEFAULT, unless `in_plans` is given to the decorator.
    """

    code: str
    name: str
    severity: Severity
    since: str
    references: tuple[str, ...]
    scope: Scope
    summary: str
    docstring: str
    run: Callable[[Filesystem | None, Host], RuleOutput]
    default: bool = True
    in_plans: bool = True
    module: str = ""

    @property
    def title(self) -> str:
        """The code and the name, as reports show them: "DUR001 barrier-disabled"."""
        return f"{self.code} {self.name}"

    @property
    def page(self) -> str:
        """The documentation of the rule in Markdown, as shown by `explain` and in the docs."""
        return inspect.cleandoc(self.docstring)

    @property
    def family(self) -> str:
        """The three letters of the code."""
        return self.code[:3]

    @property
    def is_of_site(self) -> bool:
        """Whether the rule is a site rule: no built-in code begins with X."""
        return self.code.startswith(OF_SITES)

    def __reduce__(self) -> "tuple[Callable[[str, str], Rule], tuple[str, str]]":
        """Pickle a rule as its name: `run` is a closure, which cannot be pickled."""
        return _registered, (self.module, self.code)


_RULES: dict[tuple[str, str], Rule] = {}
"""The rules of this process by the module of the check and the code."""


def _registered(module: str, code: str) -> Rule:
    """Return a rule by module and code; import the module if the rule is not registered yet."""
    if (module, code) not in _RULES:
        import_module(module)
    return _RULES[module, code]


def register(rule: Rule) -> Rule:
    """Register a rule by its module and code, which identify it when a report is unpickled."""
    _RULES[rule.module, rule.code] = rule
    return rule


def rule(
    code: str,
    name: str,
    *,
    severity: Severity,
    since: str,
    references: tuple[str, ...] = (),
    in_plans: bool | None = None,
    summary: str = "",
) -> Callable[[FilesystemCheck], Rule]:
    """Turn a check function that examines one filesystem and its host into a rule.

    The docstring of the check is the page of the rule. `summary` is one line; the default is the
    text after the code in the first line of the module's docstring.
    """

    def decorate(check: FilesystemCheck) -> Rule:
        def run(fs: Filesystem | None, host: Host) -> RuleOutput:
            if fs is None:
                raise TypeError(f"{code} judges filesystems")
            return check(fs, host)

        head = code, name, severity, since, references, Scope.FILESYSTEM
        return register(_rule(head, check, run, in_plans, summary))

    return decorate


filesystem_rule = rule
"""The public name of the decorator, because `ext4audit.rule` is this module."""


def host_rule(
    code: str,
    name: str,
    *,
    severity: Severity,
    since: str,
    references: tuple[str, ...] = (),
    in_plans: bool | None = None,
    summary: str = "",
) -> Callable[[HostCheck], Rule]:
    """Turn a check function that examines the host as a whole into a rule; see `rule`."""

    def decorate(check: HostCheck) -> Rule:
        def run(_fs: Filesystem | None, host: Host) -> RuleOutput:
            return check(host)

        head = code, name, severity, since, references, Scope.HOST
        return register(_rule(head, check, run, in_plans, summary))

    return decorate


def _rule(
    head: tuple[str, str, Severity, str, tuple[str, ...], Scope],
    check: Callable[..., RuleOutput],
    run: Callable[[Filesystem | None, Host], RuleOutput],
    in_plans: bool | None,
    given: str,
) -> Rule:
    """Return the rule of a declaration; `head` has its fields from `code` to `scope`."""
    of_module = (check.__globals__.get("__doc__") or "").strip().partition("\n")[0]
    summary = given or of_module.partition(": ")[2]
    default = head[0] not in OFF_BY_DEFAULT
    in_plans = default if in_plans is None else in_plans
    return Rule(*head, summary, check.__doc__ or "", run, default, in_plans, check.__module__)
