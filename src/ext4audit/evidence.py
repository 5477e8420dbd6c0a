"""Evidence: `Known` values with their origin, `Unknown` values with a reason, and helpers.

Every fact about a host is an `Evidence`. An unknown is an explicit value, so that it cannot be
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


class CaptureHint(str):
    """A hint on how to capture evidence, which also fits an archive of another program."""

    __slots__ = ()


CAPTURE_AGAIN = CaptureHint("capture again with ext4audit collect")
OUTSIDE = "run on the host, outside containers"
"""The hint if access is denied even to root, by a container or the device rules of its cgroup. It
is the only mark of such a refusal that a snapshot records."""
UNDATED = "1970-01-01T00:00:00Z"
"""The time of evidence that has none; the current time would make old evidence look fresh."""

MOUNT_TABLE = "/proc/self/mountinfo"
"""The origin that rules cite for mounts; `Host.mount_table` is the file that was read."""
UNKNOWN_NUMBER = "?:?"
"""Stands for the device number in a mount table that was composed from an archive without it; the
kernel writes no such number."""


class Why(Enum):
    """The reason why a value is unknown. Machine formats print these values: the set is closed."""

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


class Implied(Known[T_co]):
    """A value that the absence of its evidence implies (`absent_means`): it was read nowhere."""

    __slots__ = ()


class Excerpt(Known[T_co]):
    """The text of a file that was copied into another one, without its comments and blank lines."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """A missing value: its name, the reason, the host's own message, and how to obtain it."""

    what: str
    why: Why
    detail: str = ""
    hint: str = ""


class Truncated(Unknown):
    """Bytes that a device or a file does not have, because it ends before them."""

    __slots__ = ()


class OutOfScope(Unknown):
    """Evidence that was not read because the user limited the audit to targets.

    It does not count as a gap: a rule that needs it is not applicable (engine.py). It inherits the
    methods of a dataclass, which compare classes too; making them again costs time in each start.
    """

    __slots__ = ()

    def __init__(
        self,
        what: str,
        why: Why = Why.NOT_CAPTURED,
        detail: str = "the audit is limited to targets: other devices were not read",
        hint: str = "audit the host without a target",
    ) -> None:
        super().__init__(what, why, detail, hint)


Evidence: TypeAlias = Known[T] | Unknown


class Undetermined(Exception):  # noqa: N818 - an outcome, not a failure
    """A rule needs evidence that is unknown; `unknowns` lists it, without duplicates."""

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
    """Return the value, or a tuple of several, or raise `Undetermined` with all unknowns."""
    unknowns = tuple(each for each in evidence if isinstance(each, Unknown))
    if unknowns:
        raise Undetermined(unknowns)
    values = tuple(each.value for each in evidence if isinstance(each, Known))
    return values[0] if len(values) == 1 else values


def raise_for(unknowns: Iterable[Unknown]) -> None:
    """Raise `Undetermined` if there are unknowns that could change a verdict.

    A rule calls it after it has yielded a finding if the unknowns could make the finding worse.
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

    If an input is unknown, the first unknown is the result. An exception of `function` becomes
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
    except Exception as error:  # noqa: BLE001 - the boundary: malformed text must not end the audit
        return Unknown(what, Why.UNPARSABLE, _message(error))
    return Known(value, ", ".join(origins) if origin is None else origin)


def _message(error: Exception) -> str:
    """Return the text of a parser's ValueError, which is for users, or a generic message."""
    if isinstance(error, ValueError) and str(error):
        return str(error)
    return f"unexpected format ({type(error).__name__}: {error})"


def absent_means(evidence: Evidence[T], value: T) -> Evidence[T]:
    """Return `value` if the host is known to lack the evidence; leave other unknowns as they are.

    This is the only default that a verdict may depend on: evidence that was denied, timed out,
    truncated or not captured reaches the rule as unknown.
    """
    if isinstance(evidence, Unknown) and evidence.why is Why.ABSENT:
        return Implied(value, f"{evidence.what} (absent)")
    return evidence


def for_wording(evidence: Evidence[T], default: T) -> T:
    """Return the value, or `default` if unknown: for names and messages, never for a verdict."""
    return evidence.value if isinstance(evidence, Known) else default


def is_surely(evidence: Evidence[bool]) -> bool:
    """Whether it is known to be true: for uses in which doubt must not make a finding milder."""
    return isinstance(evidence, Known) and evidence.value


def origin_of(evidence: Evidence[object]) -> str:
    """Return where the value was read, or an empty string if it is unknown."""
    return evidence.origin if isinstance(evidence, Known) else ""
