"""Evidence: `Known` values with their origin, `Unknown` ones with a reason, and their functions.

Every fact about a host is an `Evidence`. An unknown is a value of its own, so that it cannot be
mistaken for a healthy state. `need` unwraps evidence in rules, `derive` computes new evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeAlias, TypeVar, overload

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
R = TypeVar("R")

OUTSIDE = "run on the host, outside containers"
"""The hint of what even root is refused: a container, or the device rules of its cgroup."""
UNDATED = "1970-01-01T00:00:00Z"
"""The time of evidence without one; the current time would make old evidence look fresh."""


class Why(Enum):
    """The reason of an unknown. The set is closed: machine formats print these values."""

    ABSENT = "absent"
    DENIED = "denied"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    UNPARSABLE = "unparsable"
    NOT_CAPTURED = "not_captured"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Known(Generic[T_co]):
    """A value and its origin ("/proc/cmdline", "dumpe2fs -h /dev/md127")."""

    value: T_co
    origin: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A missing value: its name, the reason, the host's own message, and how to obtain it."""

    what: str
    why: Why
    detail: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class OutOfScope(Unknown):
    """What was not read because the user limited the audit to targets.

    It is no gap of the audit: a rule that needs it does not apply (engine.py).
    """

    why: Why = Why.NOT_CAPTURED
    detail: str = "the audit is limited to targets: other devices were not read"
    hint: str = "audit the host without a target"


Evidence: TypeAlias = Known[T] | Unknown


class Undetermined(Exception):  # noqa: N818 - an outcome, not a failure
    """A rule needs evidence that is unknown; `unknowns` are all that one `need` met, each once."""

    def __init__(self, unknowns: tuple[Unknown, ...]) -> None:
        self.unknowns = tuple(dict.fromkeys(unknowns))
        super().__init__(", ".join(unknown.what for unknown in self.unknowns))


@overload
def need(a: Evidence[A], /) -> A: ...
@overload
def need(a: Evidence[A], b: Evidence[B], /) -> tuple[A, B]: ...
@overload
def need(a: Evidence[A], b: Evidence[B], c: Evidence[C], /) -> tuple[A, B, C]: ...
@overload
def need(
    a: Evidence[A], b: Evidence[B], c: Evidence[C], d: Evidence[D], /
) -> tuple[A, B, C, D]: ...
def need(*evidence: Evidence[Any]) -> Any:
    """Return the values of all the evidence, or raise `Undetermined` with all its unknowns."""
    unknowns = tuple(each for each in evidence if isinstance(each, Unknown))
    if unknowns:
        raise Undetermined(unknowns)
    values = tuple(each.value for each in evidence if isinstance(each, Known))
    return values[0] if len(values) == 1 else values


def raise_for(unknowns: Iterable[Unknown]) -> None:
    """Raise `Undetermined` for unknowns that could change a verdict, if there are any.

    Behind a finding, it says what could make the finding worse.
    """
    found = tuple(unknowns)
    if found:
        raise Undetermined(found)


def derive(
    what: str,
    function: Callable[..., R],
    *evidence: Evidence[Any],
    origin: str | None = None,
) -> Evidence[R]:
    """Compute evidence from evidence: the error boundary of parsers and assembly.

    The first unknown among the inputs is the result. An exception of `function` becomes
    `Unknown(what, UNPARSABLE)`, because one malformed text must not end the audit.
    """
    values, origins = [], []
    for each in evidence:
        if isinstance(each, Unknown):
            return each
        values.append(each.value)
        origins.append(each.origin)
    try:
        value = function(*values)
    except Exception as error:  # noqa: BLE001 - the boundary: malformed text never ends the audit
        return Unknown(what, Why.UNPARSABLE, _message(error))
    return Known(value, ", ".join(origins) if origin is None else origin)


def _message(error: Exception) -> str:
    """Return the message of a parser, which raises ValueError with a text for users."""
    if isinstance(error, ValueError) and str(error):
        return str(error)
    return f"unexpected format ({type(error).__name__}: {error})"


def absent_means(evidence: Evidence[T], value: T) -> Evidence[T]:
    """Return `value` for what the host certainly lacks; any other unknown is returned as it is.

    A verdict may depend on no other default: what was denied, timed out, truncated or not
    captured reaches the rule as unknown.
    """
    if isinstance(evidence, Unknown) and evidence.why is Why.ABSENT:
        return Known(value, f"{evidence.what} (absent)")
    return evidence


def for_wording(evidence: Evidence[T], default: T) -> T:
    """Return the value, or `default` for any unknown: for names and sentences, never to decide."""
    return evidence.value if isinstance(evidence, Known) else default


def is_surely(evidence: Evidence[bool]) -> bool:
    """Whether it is known, and true: where doubt must leave a finding as severe as it is."""
    return isinstance(evidence, Known) and evidence.value


def origin_of(evidence: Evidence[object]) -> str:
    """Return where something was read; empty where it is unknown."""
    return evidence.origin if isinstance(evidence, Known) else ""
