"""Whether values have the types that their classes declare: what a rule of a site makes is checked.

Nothing else checks it, and a report shows, pickles and runs what it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

_LONGEST = 80
"""Characters of a value in a sentence."""


@cache
def declared(owner: type) -> Mapping[str, Any]:
    """Return the types of the fields of a NamedTuple."""
    return get_type_hints(owner)


def misfits(value: object, hint: Any, name: str) -> Iterator[str]:  # noqa: ANN401 - any type
    """Yield in sentences what of a value, and of all that it holds, is not as its type says.

    The types are those that our NamedTuples use: classes, unions, tuples of any length, callables.
    """
    kinds = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    kind = next((each for each in kinds if _is(value, each)), None)
    if kind is None:
        yield f"{name} is {value!r:.{_LONGEST}}"
    elif isinstance(value, tuple) and get_origin(kind) is tuple:
        for each in value:
            yield from misfits(each, get_args(kind)[0], f"one of the {name}")
    elif isinstance(kind, type) and hasattr(kind, "_fields"):
        for field, declared_type in declared(kind).items():
            yield from misfits(
                getattr(value, field), declared_type, f"{field} of a {kind.__name__}"
            )


def _is(value: object, kind: Any) -> bool:  # noqa: ANN401 - any type
    origin = get_origin(kind)
    if origin is None or origin is tuple:
        return isinstance(value, origin or kind)
    return callable(value)
