"""The primary superblock as stored on the device, whatever other readers return."""

from __future__ import annotations

import pytest

from ext4audit.assemble.superblock import read_primary
from ext4audit.evidence import Evidence, Known, Unknown, Why, need
from ext4audit.facts.mount import DeviceNumber, Mount
from ext4audit.facts.superblock import PrimarySuperblock
from ext4audit.sources import CapturedDumpe2fs, ReadBytes, TuneSuperblock
from support.builders import mount
from support.hosts.evidence_host import (
    HostEvidence,
    absent,
    debian_host,
    denied,
    dumpe2fs_text,
    failed,
)
from support.images.partitioned import superblock_bytes

SDB = DeviceNumber(8, 16)
DATA: Mount = mount("/data", number=SDB, mount_id=30)
PRINTED, STORED = "dumpe2fs -h /dev/sdb", "1024 bytes at 1024 of /dev/sdb"
NO_MAGIC = "Bad magic number in super-block"
BAD_CHECKSUM = "Superblock checksum does not match superblock"
HUNG = Unknown(PRINTED, Why.TIMED_OUT, "no answer within 10 s")
CRASHED = failed(PRINTED, "killed by signal 11")
WHOLE = bytearray(superblock_bytes(2))
WHOLE[:4] = (2 * 8192).to_bytes(4, "little")
WRONG_MAGIC = bytes(WHOLE[:0x38]) + b"\x34\x12" + bytes(WHOLE[0x3A:])


def at(reading: int = 0) -> ReadBytes:
    """Return the ask for the superblock of /dev/sdb."""
    return ReadBytes("/dev/sdb", 1024, 1024, reading)


def primary(host: HostEvidence, *, alive: bool = True) -> Evidence[PrimarySuperblock]:
    """Read the primary superblock of /dev/sdb."""
    return read_primary(host.source(), "/dev/sdb", SDB, (DATA,), alive=alive)


def having(printed: str | Unknown, *stored: bytes | Unknown) -> HostEvidence:
    """Return a host with this dumpe2fs output and these device bytes, one answer per reading."""
    host = debian_host().dumpe2fs("/dev/sdb", printed)
    for reading, answer in enumerate(stored):
        host.answer(at(reading), answer)
    return host


def test_where_dumpe2fs_succeeds_nothing_else_is_read() -> None:
    """dumpe2fs has verified the checksum."""
    found = primary(having(dumpe2fs_text(), bytes(1024)))
    assert found == Known(PrimarySuperblock(is_printed=True), PRINTED)


@pytest.mark.parametrize(
    ("stored", "damage"),
    [
        (bytes(1024), "it is zeroed"),
        (WRONG_MAGIC, "the magic number is 0x1234 and not 0xef53"),
    ],
)
@pytest.mark.parametrize("printed", [failed(PRINTED, NO_MAGIC), HUNG, absent(), "garbage"])
def test_the_bytes_show_the_damage(printed: str | Unknown, stored: bytes, damage: str) -> None:
    """The damage is reported whatever dumpe2fs does, and the kernel is asked for its copy."""
    found = primary(having(printed, stored, stored, stored))
    assert isinstance(found, Known)
    assert (found.value.damage, found.origin) == (damage, STORED)
    assert (found.value.failed is None) == (printed == absent())
    assert isinstance(found.value.kernel, Unknown)


def test_the_kernel_still_answers() -> None:
    """The kernel's copy is evidence as well."""
    host = having(failed(PRINTED, NO_MAGIC), bytes(1024))
    answer = bytearray(232)
    answer[32:40] = (6553600).to_bytes(8, "little")
    found = need(primary(host.answer(TuneSuperblock("/data"), bytes(answer))))
    assert isinstance(found.kernel, Known)
    assert found.kernel.value.size_blocks == 6553600


def test_a_checksum_that_is_right_in_a_later_reading_is_no_damage() -> None:
    """The first reading may have met a write by the kernel."""
    host = having(absent(), WRONG_MAGIC, WRONG_MAGIC, bytes(WHOLE))
    assert primary(host) == Known(PrimarySuperblock(), STORED)


def test_nobody_writes_what_is_not_alive() -> None:
    """The bytes of an unmounted filesystem are read once."""
    host = having(absent(), WRONG_MAGIC, bytes(WHOLE))
    assert need(primary(host, alive=False)).damage


def test_where_it_cannot_be_read_again_the_first_reading_counts() -> None:
    """A snapshot may hold fewer readings."""
    assert need(primary(having(absent(), WRONG_MAGIC))).damage


@pytest.mark.parametrize("printed", [failed(PRINTED, "Device busy"), HUNG, CRASHED])
def test_a_dumpe2fs_that_fails_on_a_whole_superblock_is_reported(printed: Unknown) -> None:
    """The failure stays evidence beside the intact bytes."""
    found = need(primary(having(printed, bytes(WHOLE))))
    assert found.damage == ""
    assert found.failed is not None
    assert (found.failed.why, found.failed.detail) == (printed.why, printed.detail)


def test_garbage_of_dumpe2fs_is_a_failure() -> None:
    """Exit status 0 alone does not prove success."""
    found = need(primary(having("Segmentation fault?\n", bytes(WHOLE))))
    assert found.failed is not None
    assert found.failed.why is Why.UNPARSABLE


@pytest.mark.parametrize("printed", [absent(), denied()])
def test_a_host_without_dumpe2fs_is_judged_by_the_bytes(printed: Unknown) -> None:
    """A missing dumpe2fs is not a failure."""
    assert primary(having(printed, bytes(WHOLE))) == Known(PrimarySuperblock(), STORED)


@pytest.mark.parametrize("message", [NO_MAGIC, BAD_CHECKSUM])
def test_without_bytes_the_message_of_dumpe2fs_is_the_evidence(message: str) -> None:
    """An archive, for example, has no bytes of the device."""
    printed = failed(PRINTED, f"dumpe2fs: {message} while trying to open /dev/sdb")
    found = primary(having(printed, denied(STORED)))
    assert isinstance(found, Known)
    assert (found.value.damage, found.origin) == (message, PRINTED)


def test_what_a_capture_holds_has_been_printed() -> None:
    """The output of dumpe2fs in an archive is dumpe2fs's, whatever its origin is called."""
    host = having(absent())
    host.answer(CapturedDumpe2fs("/dev/sdb"), dumpe2fs_text())
    assert need(primary(host)) == PrimarySuperblock(is_printed=True)
    assert not need(primary(having(absent(), bytes(WHOLE)))).is_printed


def test_a_message_beside_the_header_is_evidence() -> None:
    """Archives join both output streams of a failed dumpe2fs into one text."""
    text = f"dumpe2fs: {BAD_CHECKSUM} while trying to open /dev/sdb\n{dumpe2fs_text()}"
    assert need(primary(having(text))).damage == BAD_CHECKSUM
    host = having(absent())
    host.answer(CapturedDumpe2fs("/dev/sdb"), text)
    assert need(primary(host)).damage == BAD_CHECKSUM


def test_a_label_is_no_message() -> None:
    """A string in the superblock may look like a message."""
    named = dumpe2fs_text(string=BAD_CHECKSUM)
    assert primary(having(named)) == Known(PrimarySuperblock(is_printed=True), PRINTED)


@pytest.mark.parametrize(
    ("printed", "stored", "reported"),
    [
        (denied(PRINTED), denied(STORED), denied(PRINTED)),
        (absent(), denied(STORED), denied(STORED)),
        (HUNG, denied(STORED), HUNG),
    ],
)
def test_what_nothing_shows_is_unknown(
    printed: Unknown, stored: Unknown, reported: Unknown
) -> None:
    """The Unknown that can be acted on is returned."""
    assert primary(having(printed, stored)) == reported


def test_another_device_of_that_name_is_not_read() -> None:
    """In a container, /dev/sdb may be another device."""
    host = having(dumpe2fs_text()).node("/dev/sdb", "8:32")
    found = primary(host)
    assert isinstance(found, Unknown)
    assert "is not the block device 8:16" in found.detail
