"""Bars of text."""

from __future__ import annotations

import pytest

from ext4audit.evidence import Unknown, Why
from ext4audit.facts.devices import BlockDevice, DmDevice
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Disruption, Phase, Remedy
from ext4audit.renderers.shared.words import (
    DISRUPTION_WORDS,
    PHASE_WORDS,
    WHY_WORDS,
    bar,
    binary_size,
    chunk_bytes,
    counted,
    disruption_words,
    listed,
    stack_words,
    why_words,
)
from support.builders import UNREAD, disk, filesystem, known, layout, loop, raid
from support.formats.sample_reports import boot, md127, root


@pytest.mark.parametrize(
    ("size_bytes", "words"),
    [
        (0, "0 bytes"),
        (512, "512 bytes"),
        (4096, "4 KiB"),
        (524288, "512 KiB"),
        (1 << 20, "1 MiB"),
        (1536, "1536 bytes"),
        (1 << 60, "1024 PiB"),
    ],
)
def test_sizes_are_whole_numbers_of_the_largest_unit(size_bytes: int, words: str) -> None:
    """A size is exact: the largest binary unit that leaves a whole number."""
    assert binary_size(size_bytes) == words


@pytest.mark.parametrize(("number", "words"), [(0, "0 disks"), (1, "1 disk"), (12, "12 disks")])
def test_nouns_follow_their_number(number: int, words: str) -> None:
    """One is singular, all else plural."""
    assert counted(number, "disk") == words


@pytest.mark.parametrize(
    ("limit", "words"), [(None, "a, b, c"), (3, "a, b, c"), (2, "a, b and 1 more")]
)
def test_long_lists_say_how_much_more_there_is(limit: int | None, words: str) -> None:
    """Names beyond the limit are counted, never dropped."""
    assert listed(("a", "b", "c"), limit) == words


@pytest.mark.parametrize(
    ("disruption", "destructive", "words"),
    [
        (Disruption.ONLINE, False, "online"),
        (Disruption.REMOUNT, False, "needs a remount"),
        (Disruption.UNMOUNT, False, "needs an unmount"),
        (Disruption.REBOOT, False, "needs a reboot"),
        (Disruption.RECREATE, True, "destroys and recreates the filesystem"),
        (Disruption.UNMOUNT, True, "needs an unmount, destroys data"),
    ],
)
def test_disruption_is_said_in_plain_words(
    disruption: Disruption, destructive: bool, words: str
) -> None:
    """A remedy says what it stops, and whether it destroys data."""
    assert disruption_words(Remedy("x", disruption, destructive=destructive)) == words


@pytest.mark.parametrize(
    ("why", "detail", "words"),
    [
        (Why.DENIED, "Permission denied", "Permission denied"),
        (Why.DENIED, "", "no permission"),
        (Why.TIMED_OUT, "after 10 s", "timed out: after 10 s"),
        (Why.NOT_CAPTURED, "", "not captured"),
        (Why.UNPARSABLE, "ValueError: abc", "not understood: ValueError: abc"),
    ],
)
def test_reasons_keep_the_words_of_the_host(why: Why, detail: str, words: str) -> None:
    """The host's own words are shown, after ours where they alone do not say it."""
    assert why_words(Unknown("x", why, detail)) == words


def test_every_closed_set_has_its_words() -> None:
    """No disruption, phase or reason is without a word."""
    assert set(DISRUPTION_WORDS) == set(Disruption)
    assert set(PHASE_WORDS) == set(Phase)
    assert set(WHY_WORDS) == set(Why)


DISKS = tuple(disk(f"vd{letter}", DeviceNumber(253, 16 * n)) for n, letter in enumerate("bcdef", 1))
PARTITION = disk("vdb1", DeviceNumber(253, 17), kind="partition", below=known((DISKS[0],)))
ARRAY = raid(DISKS)
MIRROR = raid(DISKS[:2], level="raid1", chunk_bytes=0)


def dm(kind: str, uuid: str, *below: BlockDevice) -> BlockDevice:
    """Build a device-mapper device."""
    device = DmDevice("x", uuid, UNREAD)
    return disk("dm-0", DeviceNumber(254, 0), kind=kind, below=known(below), dm=device)


def on(device: BlockDevice) -> Filesystem:
    """Build a filesystem on a device."""
    return filesystem(stack=known(device))


@pytest.mark.parametrize(
    ("fs", "words"),
    [
        (on(disk()), "disk"),
        (on(disk(model="Samsung SSD 990")), "disk (Samsung SSD 990)"),
        (boot(), "partition of nvme0n1"),
        (on(disk(kind="partition", below=UNREAD)), "partition of a disk"),
        (
            on(disk("md127p1", kind="partition", below=known((ARRAY,)))),
            "partition on raid0 of 5 disks, 512 KiB chunk",
        ),
        (
            on(disk("loop0p1", kind="partition", below=known((loop(),)))),
            "partition on loop over /var/lib/image.img",
        ),
        (md127(), "raid0 of 2 disks, 512 KiB chunk"),
        (root(), "lvm (dm-linear) on nvme0n1p2"),
        (on(MIRROR), "raid1 of 2 disks"),
        (on(raid([PARTITION])), "raid0 of 1 partition, 512 KiB chunk"),
        (on(raid([PARTITION, DISKS[1]])), "raid0 of 2 devices, 512 KiB chunk"),
        (on(disk("md0", kind="raid5", md=UNREAD, below=known(DISKS))), "raid5 of 5 disks"),
        (on(loop()), "loop over /var/lib/image.img"),
        (on(dm("dm-crypt", "CRYPT-LUKS2-x", PARTITION)), "crypt (dm-crypt) on vdb1"),
        (on(dm("dm-multipath", "mpath-x", *DISKS[:2])), "multipath (dm-multipath) on vdb, vdc"),
        (on(dm("dm-linear", "LVM-x", *DISKS)), "lvm (dm-linear) on vdb, vdc, vdd and 2 more"),
        (on(dm("dm-delay", "", DISKS[0])), "dm-delay on vdb"),
        (on(dm("dm", "LVM-x")), "lvm (dm)"),
        (
            on(dm("dm-linear", "LVM-x", ARRAY)),
            "lvm (dm-linear) on raid0 of 5 disks, 512 KiB chunk",
        ),
        (filesystem(stack=UNREAD), "device stack not known"),
    ],
)
def test_a_stack_is_described_from_the_top_down(fs: Filesystem, words: str) -> None:
    """Each kind of stack is named, down to devices whose names suffice."""
    assert stack_words(fs) == words


def test_the_chunk_of_a_stripe_that_is_not_md_comes_from_the_layout() -> None:
    """An LVM stripe shows the chunk that its layout was computed with."""
    stripe = disk("md127", kind="dm-striped", below=known(DISKS[:2]))
    fs = filesystem(stack=known(stripe), layout=known(layout([1, 1], chunk_bytes=65536)))
    assert chunk_bytes(fs, stripe) == 65536
    assert stack_words(fs) == "dm-striped of 2 disks, 64 KiB chunk"


@pytest.mark.parametrize("device", [disk(), MIRROR], ids=["disk", "mirror"])
def test_a_device_without_chunks_has_none(device: BlockDevice) -> None:
    """Neither a disk nor a mirror (md says 0) has a chunk."""
    assert chunk_bytes(filesystem(), device) is None


@pytest.mark.parametrize(
    ("value", "largest", "columns", "drawn"),
    [
        (8, 8, 4, "████"),
        (4, 8, 4, "██"),
        (5, 8, 4, "██▌"),
        (1, 64, 8, "▏"),
        (1, 100_000, 8, "▏"),
        (0, 8, 4, ""),
        (9, 8, 4, "████"),
        (0, 0, 4, ""),
    ],
)
def test_a_bar_is_drawn_in_eighths(value: int, largest: int, columns: int, drawn: str) -> None:
    """A bar fills its columns in eighths; what is not zero shows, and nothing overflows."""
    assert bar(value, largest, columns, ascii_only=False) == drawn


@pytest.mark.parametrize(
    ("value", "drawn"), [(8, "####"), (4, "##"), (1, "#"), (0.01, "#"), (0, "")]
)
def test_where_blocks_cannot_be_shown_the_bar_is_ascii(value: float, drawn: str) -> None:
    """Without Unicode a bar is made of whole columns of #."""
    assert bar(value, 8, 4, ascii_only=True) == drawn
