"""Record which facts of a host a rule looks at; its verdict depends on no other facts.

A rule is a pure function of its subject. So removing a fact that it did not look at needs no second
judgement: the result would be the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ext4audit.evidence import Known
from support.hosts.fact_loss import FACTS, GAP_IN_OTHER_FIELD, MAY_HOLD, FactPlace, Subject


def tracked(subject: Subject) -> tuple[Subject, set[FactPlace]]:
    """Return a copy of a subject, and a set that receives its facts when they are looked at.

    Facts whose gap is in another field (GAP_IN_OTHER_FIELD) count as looked at when the object that
    has them is reached.
    """
    tracker = _Tracker()
    copy: Subject = tracker.copy(subject)
    return copy, tracker.seen


class _Tracker:
    def __init__(self) -> None:
        self.seen: set[FactPlace] = set()
        self._copies: dict[int, Any] = {}

    def copy(self, value: Any) -> Any:
        """Return a value with watched facts; an object that occurs twice remains one object."""
        if id(value) not in self._copies:
            self._copies[id(value)] = self._copy(value)
        return self._copies[id(value)]

    def _copy(self, value: Any) -> Any:
        if isinstance(value, Known):
            return type(value)(self.copy(value.value), value.origin)
        if facts := FACTS[type(value)]:
            return type(value)(**{name: self._fact(value, name, kind) for name, kind in facts})
        if type(value) is tuple:
            return tuple(map(self.copy, value))
        return value

    def _fact(self, owner: Any, name: str, kind: str) -> Any:
        fact = getattr(owner, name)
        if type(fact) is not Known:
            if kind in GAP_IN_OTHER_FIELD and fact not in (None, ()):
                self.seen.add(FactPlace(kind, id(owner)))
            return self.copy(fact) if MAY_HOLD[type(fact)] else fact
        place = FactPlace(kind, id(owner))

        def look() -> Known[Any]:
            self.seen.add(place)
            copy: Known[Any] = self.copy(fact)
            return copy

        return _TrackedFact(look)


class _TrackedFact:
    """A proxy of a Known that calls a function on each access.

    `isinstance` reads `__class__`, so it counts as a look, too.
    """

    __slots__ = ("_look",)

    def __init__(self, look: Callable[[], Known[Any]]) -> None:
        self._look = look

    def __getattribute__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_look")(), name)

    def __eq__(self, other: object) -> bool:
        return bool(object.__getattribute__(self, "_look")() == other)

    def __repr__(self) -> str:
        return repr(object.__getattribute__(self, "_look")())

    def __hash__(self) -> int:
        return hash(object.__getattribute__(self, "_look")())
