"""Frozen values in the kernel's terms, and the tables of data beside them (TOML)."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pkgutil import get_data
from types import ModuleType
from typing import Any

MOST_DOTS = 64
"""In a line of TOML: tomllib takes 50 s for a key of 50,000 parts."""


def parse_toml(text: str) -> dict[str, Any]:
    """Return what a TOML file holds; raises ValueError, also for what would take long to read."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > MOST_DOTS and not line.lstrip().startswith("#"):
            raise ValueError(f"line {number} has more than {MOST_DOTS} dots")
    try:
        table: dict[str, Any] = toml_reader().loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deep") from None
    return table


def toml_reader() -> ModuleType:
    """Return tomllib, or on Python 3.10 its backport; imported late, as few scans need it."""
    return importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


@cache
def read_table(name: str) -> dict[str, Any]:
    """Return a TOML file that lies beside this module, by its name ("profiles.toml").

    Raises FileNotFoundError where the package was installed without it.
    """
    # get_data also reads from a zip archive, at half the start-up cost of importlib.resources.
    data = get_data("ext4audit.facts", name)
    if data is None:
        raise FileNotFoundError(name)
    return parse_toml(data.decode("utf-8"))
