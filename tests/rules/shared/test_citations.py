"""A field that a superblock does not tell: what would make it readable."""

from __future__ import annotations

import pytest

from ext4audit.evidence import Evidence, Unknown, Why
from ext4audit.facts.superblock import PrimarySuperblock
from ext4audit.rules.shared import superblock_field
from support.builders import filesystem, known, superblock


@pytest.mark.parametrize(
    ("primary", "hint"),
    [
        (known(PrimarySuperblock()), "run as root, with dumpe2fs"),
        (Unknown("/dev/sda", Why.DENIED, hint=""), "run as root, with dumpe2fs"),
        (Unknown("/dev/sda", Why.DENIED, hint="run on the host"), "run on the host"),
    ],
    ids=["readable", "no hint", "in a container"],
)
def test_the_hint_is_that_of_the_device(primary: Evidence[PrimarySuperblock], hint: str) -> None:
    """Root in a container is not told to become root."""
    fs = filesystem(superblock=known(superblock()))._replace(primary=primary)
    found: Evidence[int] = superblock_field(fs, "reserved blocks", lambda _: None)
    assert isinstance(found, Unknown)
    assert (found.why, found.hint) == (Why.NOT_CAPTURED, hint)
