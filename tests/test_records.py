"""Frozen records behave as the standard library's frozen dataclasses with slots."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import pprint
from collections.abc import Callable
from typing import Generic, TypeVar

import pytest

from ext4audit.records import dataclass, replace

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Point:
    """Two numbers, one with a default, and what is computed of them."""

    x: int
    y: int = 2

    @property
    def total(self) -> int:
        """Their sum."""
        return self.x + self.y


@dataclass(frozen=True, slots=True)
class OtherPoint:
    """The same fields in another class."""

    x: int
    y: int = 2


@dataclass(frozen=True, slots=True)
class Nothing:
    """No field at all."""


@dataclass(frozen=True, slots=True)
class Box(Generic[T]):
    """A field of any type."""

    content: T


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    """What the standard library makes."""

    x: int
    y: int = 2


def test_fields_are_given_by_place_or_by_name() -> None:
    """Both calls make the same record; a default stands in for what is not given."""
    assert Point(1) == Point(x=1, y=2) == Point(1, 2)
    assert Point(1, 3).total == 4
    assert Box[str]("a").content == "a"


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: Point(y=1), "'x'"),  # type: ignore[call-arg]
        (lambda: Point(1, z=3), "'z'"),  # type: ignore[call-arg]
        (lambda: Point(1, 2, 3), "4 were given"),  # type: ignore[call-arg]
    ],
)
def test_a_wrong_call_is_refused_by_name(call: Callable[[], Point], named: str) -> None:
    """A missing, an unknown and a superfluous field are TypeErrors that say which."""
    with pytest.raises(TypeError, match=named):
        call()


def test_a_record_equals_only_records_of_its_class() -> None:
    """Equal fields of another class, or a tuple of them, are not equal."""
    assert Point(1, 2) != Point(1, 3)
    others: tuple[object, ...] = (OtherPoint(1, 2), (1, 2))
    assert Point(1, 2) not in others
    assert Nothing() == Nothing()


def test_equal_records_are_one_key() -> None:
    """Records of equal fields have one hash, that of the standard library."""
    assert {Point(1, 2): "a"}[Point(1)] == "a"
    assert hash(Point(1, 2)) == hash(Standard(1, 2))


def test_nothing_can_be_set_or_deleted_or_added() -> None:
    """Each of them raises FrozenInstanceError, and there is no room for another attribute."""
    point = Point(1)
    changes: list[Callable[[], None]] = [
        lambda: setattr(point, "x", 3),
        lambda: setattr(point, "other", 3),
        lambda: delattr(point, "x"),
    ]
    for change in changes:
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert point == Point(1, 2)
    assert not hasattr(point, "__dict__")


def test_a_record_is_printed_as_the_standard_library_prints_it() -> None:
    """The repr names the class and each field."""
    assert repr(Point(1)) == "Point(x=1, y=2)"
    assert repr(Nothing()) == "Nothing()"


def test_a_record_is_matched_by_place() -> None:
    """`case Point(x, y)` takes a record apart."""
    match Point(3, 4):
        case Point(x, y):
            assert (x, y) == (3, 4)


@pytest.mark.parametrize("replaced", [replace, dataclasses.replace])
def test_a_copy_can_have_other_fields(replaced: Callable[..., Point]) -> None:
    """Our `replace` and the standard library's change a copy only, and refuse other names."""
    point = Point(1, 5)
    assert replaced(point, x=9) == Point(9, 5)
    assert point == Point(1, 5)
    with pytest.raises(TypeError, match="z"):
        replaced(point, z=1)


def test_copies_are_equal() -> None:
    """Copying and pickling make records anew: nothing could be filled in afterwards."""
    box = Box([1])
    assert copy.deepcopy(box) == box
    assert copy.deepcopy(box).content is not box.content
    assert pickle.loads(pickle.dumps(Point(1))) == Point(1)  # noqa: S301 - our own


def test_the_fields_can_be_listed() -> None:
    """`dataclasses.fields` names them in order."""
    assert [field.name for field in dataclasses.fields(Point)] == ["x", "y"]


@pytest.mark.parametrize("frozen", [True, False])
def test_other_kinds_of_dataclasses_are_refused(frozen: bool) -> None:
    """A record that could be changed, or has no slots, is a mistake."""
    with pytest.raises(TypeError, match="frozen and has slots"):
        dataclass(frozen=frozen, slots=not frozen)


def test_records_can_be_printed_prettily() -> None:
    """Pprint takes them for dataclasses, and so does the report of a failed test."""
    assert pprint.pformat(Point(1, 5), width=9) == "Point(x=1, y=5)"
