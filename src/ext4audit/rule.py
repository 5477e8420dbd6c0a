"""What a rule is: a function over one subject, its code and name, and its page."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Finding, Severity

RuleOutput: TypeAlias = Iterator[Finding | Citation]
FilesystemCheck: TypeAlias = Callable[[Filesystem, Host], RuleOutput]
HostCheck: TypeAlias = Callable[[Host], RuleOutput]
OFF_BY_DEFAULT = frozenset(
    {
        "CAP006",
        "CAP007",
        "CMP002",
        "CMP006",
        "CMP007",
        "DRF005",
        "DUR007",
        "DUR009",
        "HLT004",
        "HLT005",
        "HLT006",
        "LAY007",
        "LAY008",
        "PRF003",
        "PRF005",
        "PRF006",
        "PRF007",
        "PRF008",
        "PRF010",
        "PRF011",
        "PRF012",
        "SEC003",
    }
)
"""The codes of the rules that judge only when they are chosen; their modules load only then."""


class NotApplicable(Exception):  # noqa: N818 - an outcome, not a failure
    """The rule does not apply to this subject; the message says why."""


class Scope(Enum):
    """What a rule judges: each ext4 superblock, or the host once."""

    FILESYSTEM = "filesystem"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the catalogue.

    `severity` is the worst that its findings can have. `page` is the check's docstring, which
    `explain` and the README are generated from. A check yields findings, and citations: what
    it looked at, shown as the evidence of a pass. `default` says that the rule judges when nobody
    chooses, `in_plans` that it judges plans then; both follow from OFF_BY_DEFAULT, unless
    `in_plans` is stated.
    """

    code: str
    name: str
    severity: Severity
    since: str
    references: tuple[str, ...]
    scope: Scope
    summary: str
    page: str
    run: Callable[[Filesystem | None, Host], RuleOutput]
    default: bool = True
    in_plans: bool = True
    module: str = ""

    @property
    def family(self) -> str:
        """The three letters of the code."""
        return self.code[:3]

    def __reduce__(self) -> tuple[Callable[[str, str], Rule], tuple[str, str]]:
        """Travel to another process by name: a check is a closure, which cannot."""
        return _made, (self.module, self.code)


_MADE: dict[tuple[str, str], Rule] = {}
"""The rules that were made in this process, by the module of the check and the code."""


def _made(module: str, code: str) -> Rule:
    return _MADE[module, code]


def rule(
    code: str,
    name: str,
    *,
    severity: Severity,
    since: str,
    references: tuple[str, ...] = (),
    in_plans: bool | None = None,
) -> Callable[[FilesystemCheck], Rule]:
    """Make a rule of a check over one filesystem and its host."""

    def decorate(check: FilesystemCheck) -> Rule:
        def run(fs: Filesystem | None, host: Host) -> RuleOutput:
            if fs is None:
                raise TypeError(f"{code} judges filesystems")
            return check(fs, host)

        head = code, name, severity, since, references, Scope.FILESYSTEM
        rest = *_documentation(check), run, *_defaults(code, in_plans)
        return _register(Rule(*head, *rest, module=check.__module__))

    return decorate


def host_rule(
    code: str,
    name: str,
    *,
    severity: Severity,
    since: str,
    references: tuple[str, ...] = (),
    in_plans: bool | None = None,
) -> Callable[[HostCheck], Rule]:
    """Make a rule of a check over the host as a whole."""

    def decorate(check: HostCheck) -> Rule:
        def run(_fs: Filesystem | None, host: Host) -> RuleOutput:
            return check(host)

        head = code, name, severity, since, references, Scope.HOST
        rest = *_documentation(check), run, *_defaults(code, in_plans)
        return _register(Rule(*head, *rest, module=check.__module__))

    return decorate


def _register(rule: Rule) -> Rule:
    _MADE[rule.module, rule.code] = rule
    return rule


def _defaults(code: str, in_plans: bool | None) -> tuple[bool, bool]:
    """Return whether the rule judges hosts, and plans, when nobody chooses."""
    default = code not in OFF_BY_DEFAULT
    return default, default if in_plans is None else in_plans


def _documentation(check: Callable[..., RuleOutput]) -> tuple[str, str]:
    """Return the one-line summary of the check's module, and the page in its docstring."""
    module_doc = inspect.cleandoc(check.__globals__.get("__doc__") or "")
    return module_doc.partition("\n")[0].partition(": ")[2], inspect.cleandoc(check.__doc__ or "")
