"""Frozen records: the standard library's `dataclass(frozen=True, slots=True)`, made in less time.

`dataclasses` compiles six functions a class. Seventy classes took 34 ms, a quarter of what a
scan spent before it read anything (Python 3.11). Here a class compiles nothing: it renames what
was compiled once for its number of fields, and shares the other functions. Type checkers see the
standard library's own decorator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

C = TypeVar("C", bound=type)


def _frozen_with_slots(plain: C) -> C:
    """Return the class anew with slots for its annotated names, which nothing can set again."""
    names = tuple(plain.__annotations__)
    defaults = {name: plain.__dict__[name] for name in names if name in plain.__dict__}
    own = {
        name: value
        for name, value in plain.__dict__.items()
        if name not in names and name not in {"__dict__", "__weakref__"}
    }
    made = {
        "__slots__": names,
        "__match_args__": names,
        "__init__": _initializer(names, defaults),
        "__dataclass_fields__": _OfTwin("__dataclass_fields__"),
        "__dataclass_params__": _OfTwin("__dataclass_params__"),
    }
    record: C = type(plain)(plain.__name__, plain.__bases__, {**_SHARED, **own, **made})
    record.__qualname__ = plain.__qualname__
    return record


def _initializer(names: tuple[str, ...], defaults: Mapping[str, object]) -> Callable[..., None]:
    """Return `__init__`: a signature of its own refuses a wrong call by the field's name."""
    required = len(names) - len(defaults)
    if names[required:] != tuple(defaults):
        raise TypeError(f"fields without a default follow those with one: {', '.join(names)}")
    made = FunctionType(_code_of(names), {"_set": object.__setattr__}, "__init__")
    made.__defaults__ = tuple(defaults.values()) or None
    return made


def _code_of(names: tuple[str, ...]) -> CodeType:
    """Return the code that sets these fields: that of as many others, with their names changed.

    Compiling is most of what a class costs, and two hundred classes have thirty lengths.
    """
    template = _template(len(names))
    renamed = dict(zip(_placeholders(len(names)), names, strict=True))
    return template.replace(
        co_varnames=tuple(renamed.get(name, name) for name in template.co_varnames),
        co_consts=tuple(
            renamed.get(const, const) if isinstance(const, str) else const
            for const in template.co_consts
        ),
    )


@cache
def _template(count: int) -> CodeType:
    """Compile the function that sets as many fields."""
    fields = _placeholders(count)
    lines = "".join(f"\n _set(self, {field!r}, {field})" for field in fields)
    scope: dict[str, Any] = {}
    exec(f"def __init__(self{''.join(f', {f}' for f in fields)}):{lines or ' pass'}", scope)  # noqa: S102 - no names but our own
    code: CodeType = scope["__init__"].__code__
    return code


def _placeholders(count: int) -> tuple[str, ...]:
    return tuple(f"_field{number}" for number in range(count))


def _values(record: Any) -> tuple[object, ...]:  # noqa: ANN401 - any record
    return tuple([getattr(record, name) for name in record.__match_args__])


def _equals(self: object, other: object) -> object:
    """Compare records of one class: `ReadFile("x")` is not `ListDir("x")`."""
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _values(self) == _values(other)


def _hash(self: object) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:  # noqa: ANN401 - any record
    pairs = zip(self.__match_args__, _values(self), strict=True)
    return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"


def _reduce(self: object) -> tuple[type, tuple[object, ...]]:
    """Copy by making anew: a copy cannot be filled in afterwards."""
    return type(self), _values(self)


def _refuse(_self: object, name: str, *_value: object) -> None:
    from dataclasses import FrozenInstanceError  # noqa: PLC0415 - a mistake pays, not the start

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


class _OfTwin:
    """What the functions of `dataclasses`, and pprint, look for; made when one of them asks.

    The twin's fields have their names and types, and no defaults.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, _record: object, owner: type) -> object:
        from dataclasses import make_dataclass  # noqa: PLC0415 - tests pay, not the start

        twin = make_dataclass(owner.__name__, owner.__annotations__.items(), frozen=True)
        return getattr(twin, self._name)


_SHARED = {
    "__eq__": _equals,
    "__hash__": _hash,
    "__repr__": _repr,
    "__reduce__": _reduce,
    "__setattr__": _refuse,
    "__delattr__": _refuse,
}

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - handed on by this name
    from dataclasses import replace as replace  # noqa: PLC0414
else:

    def dataclass(*, frozen: bool, slots: bool) -> Callable[[C], C]:
        """Decorate a class of annotated fields; defaults are values that nothing can change."""
        if not (frozen and slots):
            raise TypeError("a record is frozen and has slots; dataclasses makes the others")
        return _frozen_with_slots

    def replace(record: object, /, **changes: object) -> object:
        """Return a copy with some fields changed, as `dataclasses.replace`."""
        kept = zip(record.__match_args__, _values(record), strict=True)
        return type(record)(**{**dict(kept), **changes})
