"""Remove facts of a host: the same host, seen by someone who knows less.

`losses` returns what to remove: one kind of fact everywhere (no table of any mapped device), the
fact of a single object, and pairs of kinds. If a gap is not the fact's own `Unknown` but in another
field, such as `start_gap` for `start_sectors`, it is listed in `GAP_IN_OTHER_FIELD`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import fields, is_dataclass
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.facts.host import Filesystem, Host

Subject = tuple[Filesystem | None, Host]
T = TypeVar("T")
GAP_IN_OTHER_FIELD: dict[str, dict[str, Any]] = {
    "BlockDevice.start_sectors": {"start_sectors": None, "start_gap": Unknown},
    "BlockDevice.udev": {"udev": (), "udev_gap": Unknown},
    "Filesystem.mounts": {"mounts": (), "unlisted": Unknown},
}
"""Facts whose gap is in another field, with the values of both fields when the fact is lost."""
MOST_FACTS = 1500
"""Maximum facts of a host whose facts are removed; larger hosts test size only."""


class FactPlace(NamedTuple):
    """A fact: its kind ("DmDevice.table"), and the id() of the object that has it."""

    kind: str
    owner: int


class Loss(NamedTuple):
    """Facts to remove: all of some kinds, or only those of one object."""

    kinds: frozenset[str]
    owner: int | None = None

    def of(self, owner: int) -> frozenset[str]:
        """Return the kinds of facts that an object loses."""
        return self.kinds if self.owner in {None, owner} else frozenset()

    def __str__(self) -> str:
        """Return a readable name."""
        where = "" if self.owner is None else " of one of them"
        return f"without {' and '.join(sorted(self.kinds))}{where}"


def losses(
    subject: Subject, seen: Container[FactPlace], chance: random.Random, most: int | None
) -> list[Loss]:
    """Return the losses for a subject; `seen` contains the facts that were looked at.

    There is one for every kind of these facts, and up to `most` each for single facts and for
    pairs of kinds of which one was looked at. Hosts with more than CROWD facts test size only and
    get none.
    """
    known = fact_places(subject)
    if len(known) > MOST_FACTS:
        return []
    counted = Counter(place.kind for place in known)
    looked_at = [place for place in known if place in seen]
    kinds = {place.kind for place in looked_at}
    every = [Loss(frozenset({kind})) for kind in sorted(kinds)]
    singles = [place for place in looked_at if counted[place.kind] > 1]
    pairs = [p for p in combinations(sorted(counted), 2) if p[0] in kinds or p[1] in kinds]
    every += [Loss(frozenset({p.kind}), p.owner) for p in _sample(singles, chance, most)]
    return every + [Loss(frozenset(pair)) for pair in _sample(pairs, chance, most)]


def _sample(choices: list[T], chance: random.Random, most: int | None) -> list[T]:
    return choices if most is None else chance.sample(choices, min(most, len(choices)))


def fact_places(subject: Subject) -> list[FactPlace]:
    """Return the known facts inside a subject, those of each object once."""
    found: list[FactPlace] = []
    _visit(subject, found, set())
    return found


def _visit(value: Any, found: list[FactPlace], met: set[int]) -> None:
    """Append the facts inside a value that may contain some and has not been visited."""
    met.add(id(value))
    for name, kind in FACTS[type(value)]:
        inside = getattr(value, name)
        if isinstance(inside, Known) or (kind in GAP_IN_OTHER_FIELD and inside not in (None, ())):
            found.append(FactPlace(kind, id(value)))
    for part in _parts(value):
        if id(part) not in met:
            _visit(part, found, met)


def _parts(value: Any) -> list[Any]:
    """Return the parts of a value that may contain facts."""
    if isinstance(value, Known):
        return [value.value] if MAY_HOLD[type(value.value)] else []
    if facts := FACTS[type(value)]:
        return [part for name, _ in facts if MAY_HOLD[type(part := getattr(value, name))]]
    return [part for part in value if MAY_HOLD[type(part)]]


Kinds = Mapping[int, frozenset[str]]
"""The kinds of the facts inside each object of a subject, by the object's id()."""


def kinds_inside(value: Any, found: dict[int, frozenset[str]] | None = None) -> Kinds:
    """Return the kinds of the facts inside a value and inside each of its parts."""
    found = {} if found is None else found
    kinds = KINDS[type(value)]
    if parts := _parts(value):
        for part in parts:
            if id(part) not in found:
                kinds_inside(part, found)
        kinds = kinds.union(*(found[id(part)] for part in parts))
    found[id(value)] = kinds
    return found


def without(subject: Subject, loss: Loss, kinds: Kinds) -> Subject:
    """Return a subject without lost facts; an object that occurs twice remains one object."""
    left: Subject = _FactRemover(loss, kinds).seen(subject)
    return left


class _FactRemover:
    def __init__(self, loss: Loss, kinds: Kinds) -> None:
        self._loss = loss
        self._kinds = kinds
        self._made: dict[int, Any] = {}

    def seen(self, value: Any) -> Any:
        """Return a value without the lost facts, or the same object if it has none of them."""
        if self._loss.kinds.isdisjoint(self._kinds.get(id(value), ())):
            return value
        if id(value) not in self._made:
            self._made[id(value)] = self._seen(value)
        return self._made[id(value)]

    def _seen(self, value: Any) -> Any:
        if isinstance(value, Known):
            inside = self.seen(value.value)
            return value if inside is value.value else type(value)(inside, value.origin)
        if FACTS[type(value)]:
            return self._record(value)
        if type(value) is tuple:
            inside = tuple(map(self.seen, value))
            return value if all(a is b for a, b in zip(inside, value, strict=True)) else inside
        return value

    def _record(self, value: Any) -> Any:
        changed: dict[str, Any] = {}
        lost = self._loss.of(id(value))
        for name, kind in FACTS[type(value)]:
            now = getattr(value, name)
            if kind not in lost:
                if MAY_HOLD[type(now)] and (left := self.seen(now)) is not now:
                    changed[name] = left
            elif kind in GAP_IN_OTHER_FIELD and now not in (None, ()):
                gap = _gap(kind)
                changed |= {
                    k: gap if v is Unknown else v for k, v in GAP_IN_OTHER_FIELD[kind].items()
                }
            elif isinstance(now, Known):
                changed[name] = _gap(kind)
        if not changed:
            return value
        made = {name: getattr(value, name) for name, _ in FACTS[type(value)]}
        return type(value)(**{**made, **changed})


def _gap(kind: str) -> Unknown:
    return Unknown(kind, Why.NOT_CAPTURED, "taken away by a test")


class ByType(dict[type, T]):
    """What a function returns for each type; millions of look-ups call it once per type."""

    def __init__(self, function: Callable[[type], T]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, kind: type) -> T:
        """Call the function, and keep what it returns."""
        self[kind] = value = self._function(kind)
        return value


def _facts_of(kind: type) -> tuple[tuple[str, str], ...]:
    return tuple((name, f"{kind.__name__}.{name}") for name in _fields(kind))


FACTS = ByType(_facts_of)
"""The fields of a record type, each with the name of its kind of fact."""
KINDS = ByType(lambda kind: frozenset(fact for _, fact in FACTS[kind]))
"""The kinds of the facts in the fields of a record type."""
MAY_HOLD = ByType(lambda kind: issubclass(kind, tuple | Known) or bool(FACTS[kind]))
"""Whether values of a type can contain facts; strings and numbers cannot."""


def _fields(kind: type) -> tuple[str, ...]:
    if issubclass(kind, Known | Unknown):
        return ()
    if is_dataclass(kind):
        return tuple(each.name for each in fields(kind))
    names: tuple[str, ...] = getattr(kind, "_fields", ()) if issubclass(kind, tuple) else ()
    return names
