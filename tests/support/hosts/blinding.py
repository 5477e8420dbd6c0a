"""Take facts of a host away: the same host, seen by someone who knows less.

`losses` are the ways: one kind of fact everywhere (no table of any mapped device), the same fact of
one object only, and pairs of kinds. Where a gap is not the fact's own `Unknown` but stands beside
it, as `start_gap` beside `start_sectors`, `BESIDE` says so.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import combinations, islice
from typing import Any, NamedTuple

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.facts.host import Filesystem, Host

Subject = tuple[Filesystem | None, Host]
BESIDE: dict[str, dict[str, Any]] = {
    "BlockDevice.start_sectors": {"start_sectors": None, "start_gap": Unknown},
    "BlockDevice.udev": {"udev": (), "udev_gap": Unknown},
    "Filesystem.mounts": {"mounts": (), "unlisted": Unknown},
}
"""Facts whose gap is a field of its own, and the values of both without them."""
CROWD = 1500
"""So many facts make a crowded host."""
LEVELS = 40
"""No stack of devices is deeper; a cycle would be."""


class Place(NamedTuple):
    """A fact: its kind ("DmDevice.table"), and the identity of the object that has it."""

    kind: str
    owner: int


class Loss(NamedTuple):
    """Facts that are taken away: all of some kinds, or those of one object."""

    kinds: frozenset[str]
    owner: int | None = None

    def takes(self, kind: str, owner: int) -> bool:
        """Whether this fact of this object is lost."""
        return kind in self.kinds and self.owner in {None, owner}

    def __str__(self) -> str:
        """Return a name for people."""
        where = "" if self.owner is None else " of one of them"
        return f"without {' and '.join(sorted(self.kinds))}{where}"


def losses(subject: Subject, chance: random.Random, most: int | None) -> list[Loss]:
    """Return the ways to know less of a subject.

    Every kind of fact is among them; of single facts and of pairs of kinds at most so many. A
    host of hundreds of filesystems is there for its size, and is not looked at.
    """
    known = list(dict.fromkeys(islice(places(subject), CROWD)))
    if len(known) == CROWD:
        return []
    counted = Counter(place.kind for place in known)
    every = [Loss(frozenset({kind})) for kind in sorted(counted)]
    singles = [Loss(frozenset({p.kind}), p.owner) for p in known if counted[p.kind] > 1]
    pairs = [Loss(frozenset(pair)) for pair in combinations(sorted(counted), 2)]
    for more in (singles, pairs):
        every += more if most is None else chance.sample(more, min(most, len(more)))
    return every


def places(value: Any, level: int = LEVELS) -> Iterator[Place]:
    """Yield each fact inside a value that is known."""
    if level == 0:
        return
    if isinstance(value, Known):
        yield from places(value.value, level - 1)
    elif _is_record(value):
        for name, kind in _facts(type(value)):
            inside = getattr(value, name)
            if isinstance(inside, Known) or (kind in BESIDE and inside not in (None, ())):
                yield Place(kind, id(value))
            yield from places(inside, level - 1)
    elif isinstance(value, tuple):
        for each in value:
            yield from places(each, level - 1)


Kinds = Mapping[int, frozenset[str]]
"""The kinds of the facts inside each object of a subject, by the object's identity."""


def kinds_inside(value: Any, found: dict[int, frozenset[str]] | None = None) -> Kinds:
    """Return the kinds of the facts inside a value and inside everything that it has."""
    found = {} if found is None else found
    if id(value) in found:
        return found
    inside = value.value if isinstance(value, Known) else value
    facts = _facts(type(inside))
    parts = [getattr(inside, name) for name, _ in facts]
    if not facts and isinstance(inside, tuple):
        parts = list(inside)
    kinds = {kind for _, kind in facts}
    for part in parts:
        kinds |= kinds_inside(part, found)[id(part)]
    found[id(value)] = found[id(inside)] = frozenset(kinds)
    return found


def without(subject: Subject, loss: Loss, kinds: Kinds) -> Subject:
    """Return what is left of a subject; an object that it holds twice remains one object."""
    left: Subject = _Blinding(loss, kinds).seen(subject)
    return left


class _Blinding:
    def __init__(self, loss: Loss, kinds: Kinds) -> None:
        self._loss = loss
        self._kinds = kinds
        self._made: dict[int, Any] = {}

    def seen(self, value: Any) -> Any:
        """Return a value without what is lost, the same object where that is nothing."""
        if self._loss.kinds.isdisjoint(self._kinds[id(value)]):
            return value
        if id(value) not in self._made:
            self._made[id(value)] = self._seen(value)
        return self._made[id(value)]

    def _seen(self, value: Any) -> Any:
        if isinstance(value, Known):
            inside = self.seen(value.value)
            return value if inside is value.value else Known(inside, value.origin)
        if _is_record(value):
            return self._record(value)
        if type(value) is tuple:
            inside = tuple(map(self.seen, value))
            return value if all(a is b for a, b in zip(inside, value, strict=True)) else inside
        return value

    def _record(self, value: Any) -> Any:
        changed: dict[str, Any] = {}
        for name, kind in _facts(type(value)):
            now = getattr(value, name)
            if not self._loss.takes(kind, id(value)):
                left = self.seen(now)
                changed |= {name: left} if left is not now else {}
            elif kind in BESIDE and now not in (None, ()):
                gap = _gap(kind)
                changed |= {k: gap if v is Unknown else v for k, v in BESIDE[kind].items()}
            elif isinstance(now, Known):
                changed[name] = _gap(kind)
        if not changed:
            return value
        made = {name: getattr(value, name) for name, _ in _facts(type(value))}
        return type(value)(**{**made, **changed})


def _gap(kind: str) -> Unknown:
    return Unknown(kind, Why.NOT_CAPTURED, "taken away by a test")


def _is_record(value: Any) -> bool:
    return bool(_facts(type(value)))


_KNOWN_TYPES: dict[type, tuple[tuple[str, str], ...]] = {}


def _facts(kind: type) -> tuple[tuple[str, str], ...]:
    """Return the fields of a type of records, each with the name of its kind of fact."""
    if kind not in _KNOWN_TYPES:
        _KNOWN_TYPES[kind] = tuple((name, f"{kind.__name__}.{name}") for name in _fields(kind))
    return _KNOWN_TYPES[kind]


def _fields(kind: type) -> tuple[str, ...]:
    if issubclass(kind, Known | Unknown):
        return ()
    if is_dataclass(kind):
        return tuple(each.name for each in fields(kind))
    names: tuple[str, ...] = getattr(kind, "_fields", ()) if issubclass(kind, tuple) else ()
    return names
