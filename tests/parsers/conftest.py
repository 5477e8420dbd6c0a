"""A fixture that reads stored texts for the tests of parsers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

TEXTS = Path(__file__).parents[2] / "fixtures" / "texts"


@pytest.fixture(scope="session")
def stored() -> Callable[[str], str]:
    """Read a stored text as a source does: bytes, decoded as UTF-8 with surrogateescape."""

    def read(name: str) -> str:
        return (TEXTS / name).read_bytes().decode("utf-8", "surrogateescape")

    return read
