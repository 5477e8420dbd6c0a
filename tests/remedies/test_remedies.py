"""The package of remedies: its modules load when they are used."""

from __future__ import annotations

import pytest

from ext4audit import remedies


def test_a_module_is_an_attribute_of_the_package() -> None:
    """A rule names it without importing it."""
    assert remedies.__getattr__("mkfs").__name__ == "ext4audit.remedies.mkfs"


@pytest.mark.parametrize("name", ["no_such_remedy", "_private", "__path_of_nothing__"])
def test_what_is_no_module_is_no_attribute(name: str) -> None:
    """The error is that of any module."""
    with pytest.raises(AttributeError, match=f"'ext4audit.remedies' has no attribute '{name}'"):
        getattr(remedies, name)
