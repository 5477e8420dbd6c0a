"""A field that a superblock does not tell: what would make it readable."""

from __future__ import annotations

import pytest

from ext4audit.evidence import Evidence, Unknown, Why
from ext4audit.facts.superblock import PrimarySuperblock
from ext4audit.rules.shared import superblock_field
from ext4audit.sources import denied_hint
from support.builders import filesystem, known, superblock


@pytest.mark.parametrize(
    ("primary", "hint"),
    [
        (known(PrimarySuperblock()), "install e2fsprogs"),
        (
            known(PrimarySuperblock("it is zeroed", Unknown("dumpe2fs", Why.FAILED))),
            "repair the superblock on the device (HLT007)",
        ),
        (
            known(PrimarySuperblock(failed=Unknown("dumpe2fs", Why.TIMED_OUT, hint="wait"))),
            "wait",
        ),
        (Unknown("/dev/sda", Why.FAILED, "Input/output error"), ""),
        (Unknown("/dev/sda", Why.DENIED, hint=denied_hint(is_root=False)), "run as root"),
        (
            Unknown("/dev/sda", Why.DENIED, hint=denied_hint(is_root=True)),
            "run on the host, outside containers",
        ),
    ],
    ids=[
        "readable",
        "damaged",
        "dumpe2fs hung",
        "root whose device fails",
        "no root",
        "root in a container",
    ],
)
def test_the_hint_is_that_of_the_device(primary: Evidence[PrimarySuperblock], hint: str) -> None:
    """Root in a container is not told to become root."""
    own = known(superblock(), "EXT4_IOC_GET_TUNE_SB_PARAM")
    fs = filesystem(superblock=own)._replace(primary=primary)
    found: Evidence[int] = superblock_field(fs, "reserved blocks", lambda _: None)
    assert isinstance(found, Unknown)
    assert (found.why, found.hint) == (Why.NOT_CAPTURED, hint)


def test_dumpe2fs_is_not_installed_where_it_has_run() -> None:
    """What it does not print is not in the superblock."""
    own = known(superblock(), "dumpe2fs -h /dev/sda")
    fs = filesystem(superblock=own)._replace(primary=known(PrimarySuperblock()))
    found: Evidence[int] = superblock_field(fs, "reserved blocks", lambda _: None)
    assert isinstance(found, Unknown)
    assert found.hint == ""
