from __future__ import annotations

import pytest

from ext4audit.assemble.filesystem import read_journal_errno
from ext4audit.evidence import Evidence, Known, Unknown, Why, need
from ext4audit.facts.superblock import Superblock
from ext4audit.sources import ReadBytes
from support.builders import superblock
from support.hosts.evidence_host import debian_host, denied, dumpe2fs_text

DEVICE = "/dev/sdb"
JOURNAL = b"\xc0\x3b\x39\x98\0\0\0\4".ljust(0x20, b"\0") + b"\xff\xff\xff\xfb".ljust(992, b"\0")


def known(**changes: object) -> Known[Superblock]:
    """Return a superblock of 4 KiB blocks with an internal journal."""
    given = {"features": frozenset({"has_journal"}), "block_bytes": 4096, **changes}
    return Known(superblock(**given), "superblock")


def why(found: Evidence[int]) -> Why:
    """Return why the error number is unknown."""
    assert isinstance(found, Unknown)
    return found.why


def test_dumpe2fs_tells_it() -> None:
    """dumpe2fs was run for the superblock anyway: nothing more is read."""
    host = debian_host()
    assert need(read_journal_errno(host.source(), DEVICE, known())) == 0
    host.dumpe2fs(DEVICE, dumpe2fs_text() + "Journal errno:            -5\n")
    assert need(read_journal_errno(host.source(), DEVICE, known())) == -5


def test_without_dumpe2fs_the_journal_itself_tells_it() -> None:
    """The superblock gives the first block of the journal, which is read."""
    host = debian_host().dumpe2fs(DEVICE, denied())
    host.answer(ReadBytes(DEVICE, 77 * 4096, 1024), JOURNAL)
    found = read_journal_errno(host.source(), DEVICE, known(journal_first_block=77))
    assert need(found) == -5


@pytest.mark.parametrize("first_block", [None, 77])
def test_a_refusal_is_not_zero(first_block: int | None) -> None:
    """Without root the error number is unknown."""
    host = debian_host().as_user()
    at = known(journal_first_block=first_block)
    assert why(read_journal_errno(host.source(), DEVICE, at)) is Why.DENIED


def test_no_journal_has_no_error() -> None:
    """The superblock shows this, even without root."""
    host = debian_host().as_user()
    found = read_journal_errno(host.source(), DEVICE, known(features=frozenset()))
    assert need(found) == 0


def test_a_journal_on_another_device_is_not_read() -> None:
    """The journal's superblock is on the other device."""
    host = debian_host()
    away = known(journal_device=0x801)
    assert why(read_journal_errno(host.source(), DEVICE, away)) is Why.UNSUPPORTED
