"""Evidence: what is known with its origin, or what is not known with its reason.

Every fact about a host travels as `Evidence`. What could not be seen is a value of its own, so
that nothing that is unknown can be mistaken for something that is fine.
"""

from __future__ import annotations

from collections.abc import Callable
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


class Why(Enum):
    """Why something is not known. The set is closed: machine formats print these words."""

    ABSENT = "absent"
    DENIED = "denied"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    UNPARSABLE = "unparsable"
    NOT_CAPTURED = "not_captured"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Known(Generic[T_co]):
    """A value, and where it was read ("/proc/cmdline", "dumpe2fs -h /dev/md127")."""

    value: T_co
    origin: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A hole: what is missing, why, in the host's own words, and how to make it known."""

    what: str
    why: Why
    detail: str = ""
    hint: str = ""


Evidence: TypeAlias = Known[T] | Unknown


class Undetermined(Exception):  # noqa: N818 - an outcome, not a failure
    """A rule asked for evidence that is not there; carries every hole it asked for."""

    def __init__(self, unknowns: tuple[Unknown, ...]) -> None:
        super().__init__(", ".join(unknown.what for unknown in unknowns))
        self.unknowns = unknowns


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
    """Unwrap all the evidence, or raise `Undetermined` naming all its holes at once."""
    holes = tuple(each for each in evidence if isinstance(each, Unknown))
    if holes:
        raise Undetermined(holes)
    values = tuple(each.value for each in evidence if isinstance(each, Known))
    return values[0] if len(values) == 1 else values


def derive(
    what: str,
    function: Callable[..., R],
    *evidence: Evidence[Any],
    origin: str | None = None,
    hint: str = "",
) -> Evidence[R]:
    """Make evidence from evidence; this is the wall round parsers and assembly.

    A hole in the input stays that hole. An exception of `function` becomes
    `Unknown(what, UNPARSABLE)`, because a text that no parser expected must not end the audit:
    a sysfs `chunk_size` holding "abc" once passed the read and crashed where three texts met.
    """
    for each in evidence:
        if isinstance(each, Unknown):
            return each
    known = [each for each in evidence if isinstance(each, Known)]
    try:
        value = function(*(each.value for each in known))
    except Exception as error:  # noqa: BLE001 - the wall: any odd text is a hole, never a crash
        return Unknown(what, Why.UNPARSABLE, f"{type(error).__name__}: {error}", hint)
    return Known(value, origin if origin is not None else ", ".join(k.origin for k in known))


def value_or(evidence: Evidence[T], default: T) -> T:
    """Return the value, or `default` where an unknown changes nothing that is judged."""
    return evidence.value if isinstance(evidence, Known) else default
