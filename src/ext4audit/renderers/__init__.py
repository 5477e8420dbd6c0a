"""The output formats: each turns reports into one string. `formats()` finds them by name.

A format is a module or package here with `render(hosts, page) -> str`. Its name is the value of
`--format`. For `ext4audit plan` it has `render_plan(report, advice, page) -> str`.
"""

from __future__ import annotations

from pkgutil import iter_modules
from types import MappingProxyType

_NOT_FORMATS = frozenset({"shared", "layout", "difference", "catalogue", "probe"})
"""What the formats share, and the outputs of `layout`, `diff`, `rules`, `explain` and `probe`."""
_USER_NAMES = MappingProxyType({"json_v1": "json"})


def formats() -> dict[str, str]:
    """Return the module of each format by the name that users give it, in alphabetical order."""
    modules = [found.name for found in iter_modules(__path__) if found.name not in _NOT_FORMATS]
    return dict(sorted((_USER_NAMES.get(name, name), name) for name in modules))
