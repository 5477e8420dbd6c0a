"""Recreating a filesystem with parameters that spread its bitmaps, as exact commands."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.facts.layout import MetadataLayout
from ext4audit.facts.superblock import Superblock, sizes_of
from ext4audit.finding import Disruption, Phase, Remedy
from ext4audit.layout.advice import advice_for
from ext4audit.parsers.superblock import parse_raw_superblock
from ext4audit.remedies.mkfs import even_out_bitmaps, mkfs_line
from support.builders import layout, superblock
from support.images.mke2fs import (
    measure_image,
    needs_e2fsprogs,
    read_superblock,
    run,
    sparse_image,
)

FEATURES = superblock().features
FAST_COMMIT = FEATURES | {"fast_commit"}
SIX_MIRRORS = tuple((f"vd{a}", f"vd{b}") for a, b in zip("bdfhjl", "cegikm", strict=True))
GROWN: dict[str, Any] = {"reserved_gdt_blocks": 256 - 13}
"""From 2 GiB, with which mke2fs reserves 255 blocks beside one of descriptors."""
CONVERTED: dict[str, Any] = {
    "features": FEATURES - {"resize_inode"} | {"meta_bg"},
    "first_meta_bg": 256,
    "reserved_gdt_blocks": 0,
    "size_blocks": 1 << 30,
}
"""From 2 GiB to 4 TiB: the blocks of descriptors reached as far as 2 TiB."""
EVEN_LOADS = (1599,) * 12
HOT = (6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0)


UUID_OF_C0FF = " -J device=UUID=c0-ff "


def striped(members: int = 12, **geometry: Any) -> MetadataLayout:
    """Build the layout of mke2fs's defaults on an array with chunks of 512 KiB."""
    found = layout(HOT[:members])
    assert found.geometry is not None
    return found._replace(geometry=found.geometry._replace(**geometry))


def remedies(of: MetadataLayout, made: Superblock | None = None) -> list[Remedy]:
    """Return the remedies for /dev/md0."""
    return list(even_out_bitmaps("/dev/md0", of, made or superblock()))


def recreated(of: MetadataLayout, made: Superblock | None = None) -> list[str]:
    """Return the commands of the remedy that recreates the filesystem."""
    return [s.command for r in remedies(of, made) if r.destructive for s in r.steps]


@pytest.mark.parametrize(
    ("geometry", "columns"),
    [
        ({}, 12),
        ({"level": "raid10", "layout": None}, 6),
        ({"level": "raid10", "layout": 0x102}, 6),
        ({"level": "raid10", "layout": 0x103}, 4),
        ({"components": SIX_MIRRORS}, 6),
        ({"level": "raid5", "layout": 2, "components": SIX_MIRRORS}, 5),
    ],
)
def test_the_stripe_width_counts_members_with_data(geometry: dict[str, Any], columns: int) -> None:
    """A RAID10 has as many as its near copies leave; two are mdadm's default."""
    command, *_ = recreated(striped(**geometry))
    stride = 0 if " -G 1 " in command else 128
    assert command.endswith(f"-E stride={stride},stripe_width={128 * columns} /dev/md0")


def test_a_stride_that_its_field_cannot_hold_is_none() -> None:
    """It has 16 bits, and the stripe width 32: mke2fs 1.47.0 stores the low 16 of the stride."""
    command, *_ = recreated(striped(4, chunk_bytes=512 << 20))
    assert " -G 1 " not in command
    assert f"-E stride=0,stripe_width={4 << 17} " in command


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "-g 32744 -G 16 -i 16384 -E"),
        ({"inode_bytes": 512}, " -I 512 "),
        ({"inodes_per_group": 1, "inode_count": 9594}, " -N 9594 "),
        ({"inode_count": 100_000_000}, f" -i {9594 * 32768 * 4096 // 100_000_000} "),
        ({"reserved_blocks": 0}, " -m 0 "),
        ({"size_blocks": 1000, "reserved_blocks": 5}, " -m 0.5 "),
        (
            {"size_blocks": 1000, "reserved_blocks": 50, "journal_bytes": None},
            "-G 16 -I 256 -i 16384 -E",  # mke2fs 1.46.2 makes 128 bytes of so small a filesystem
        ),
        ({"errors": "remount-ro"}, " -e remount-ro "),
        ({"errors": "Unknown (7)"}, "-G 16 -i 16384 -E"),
        ({"label": "my data"}, " -L 'my data' "),
        ({"journal_bytes": 2 << 30}, " -J size=2048 "),
        ({"journal_bytes": 64 << 20}, " -J size=64 "),
        ({"journal_bytes": 64 << 20, **GROWN}, "-G 16 -i 16384 -E"),
        ({"journal_bytes": 65 << 20, **GROWN}, " -J size=65 "),
        ({"journal_bytes": 256 << 20, **GROWN}, " -J size=256 "),  # not that of 2 GiB
        ({"journal_bytes": 64 << 20, **CONVERTED}, "-G 16 -O meta_bg,^resize_inode -i"),
        ({"journal_bytes": 16 << 20, **CONVERTED}, " -J size=16 "),
        ({"reserved_blocks": 1309619}, "-G 16 -i 16384 -E"),  # resize2fs rounds 5 % of 26214400
        ({"journal_bytes": 128 << 20}, "-G 16 -i 16384 -E"),
        ({"journal_bytes": 128 << 20, "size_blocks": 1 << 18}, " -J size=128 "),
        ({"journal_bytes": None, "journal_device": 0x800, "journal_uuid": "c0-ff"}, UUID_OF_C0FF),
        ({"journal_bytes": 512 << 20}, "-G 16 -i 16384 -E"),
        ({"journal_bytes": (2 << 30) + 4096}, "-G 16 -i 16384 -E"),
        ({"journal_bytes": 520 << 20, "features": FAST_COMMIT}, "-G 16 -O fast_commit -i"),
        ({"journal_bytes": 2056 << 20, "features": FAST_COMMIT}, " -J size=2048 "),
        ({"journal_bytes": None}, "-G 16 -i 16384 -E"),
        ({"label": "x\n"}, "-G 16 -i 16384 -E"),
        ({"features": FEATURES | {"casefold", "sparse_super2"}}, " -O casefold,sparse_super2 "),
        ({"features": FEATURES - {"64bit", "has_journal"}}, " -O ^64bit,^has_journal "),
        ({"features": FEATURES - {"flex_bg"}, "flex_bg_groups": 1}, "-g 32744 -G 16 -i"),
        (
            {"features": FEATURES | {"sparse_super2"}, "backup_bgs": ()},
            "stripe_width=1536,num_backup_sb=0 ",
        ),
    ],
)
def test_what_is_recreated_stays_as_it_is(changes: dict[str, Any], words: str) -> None:
    """Only what differs from mke2fs's choice is in the line."""
    command, *_ = recreated(striped(), superblock(**changes))
    assert words in command


def test_an_external_journal_is_emptied_first() -> None:
    """It names its filesystem, and the kernel mounts neither of two that share a journal."""
    outside = superblock(journal_bytes=None, journal_device=0x800, journal_uuid="c0-ff")
    command, *_ = recreated(striped(), outside)
    first, second = command.split(" && ")
    assert first == 'mke2fs -b 4096 -O journal_dev -U c0-ff "$(blkid -U c0-ff)"'
    assert second.startswith("mkfs.ext4 ")
    assert recreated(striped(), outside._replace(journal_uuid=None)) == []


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("size", "members", "chunk_kib", "options"),
    [
        (356839424, 32, 32, "-m 50 -i 16384"),
        (70 << 30, 24, 512, "-b 1024 -N 146800640"),
        (1 << 40, 4, 512, "-N 2000 -O ^has_journal"),
        (1 << 30, 4, 64, "-b 1024 -J size=16"),
        (100 << 30, 12, 512, "-O fast_commit -J size=64"),
        (100 << 30, 12, 512, "-O fast_commit"),
    ],
)
def test_small_groups_and_odd_densities_keep_what_they_have(
    size: int, members: int, chunk_kib: int, options: str
) -> None:
    """mke2fs drops resize_inode for small groups, and refuses some densities as -i."""
    with sparse_image(size) as image:
        run(f"mkfs.ext4 -q -E lazy_itable_init=1,nodiscard -b 4096 {options} {image}")
        old = read_superblock(image)
        command = mkfs_line(str(image), measure_image(image, members, chunk_kib), old)
        assert command is not None
        run(command.replace(" -E ", " -E lazy_itable_init=1,nodiscard,"))
        new = read_superblock(image)
    assert new.features == old.features
    assert new.journal_bytes == old.journal_bytes
    assert (new.inode_count or 0) == pytest.approx(old.inode_count, rel=0.05)


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("gib", "grown_gib", "options", "words"),
    [
        pytest.param(2, 100, "", "", id="grown"),
        pytest.param(2, 100, "-J size=16", " -J size=16 ", id="that of fewer than 2 GiB"),
        pytest.param(100, 100, "-J size=64 -E resize=52428800", " -J size=64 ", id="-E resize"),
        pytest.param(100, 100, "-J size=64 -E resize=805306368", " -J size=64 ", id="of 3 GiB"),
        pytest.param(3, 100, "", "", id="grown from 3 GiB"),
        pytest.param(3, 100, "-G 64", "", id="grown in large flex groups"),
        pytest.param(3, 100, "-O ^flex_bg", "", id="grown without flex groups"),
        pytest.param(50, 100, "-E resize=52428800", " -J size=256 ", id="a step of -E resize"),
        pytest.param(2, 100, "-O ^resize_inode", " -J size=64 ", id="no trace"),
        pytest.param(2, 100, "-O meta_bg,^resize_inode", " -J size=64 ", id="no trace in meta_bg"),
    ],
)
def test_the_journal_of_a_grown_filesystem_was_chosen_where_the_first_size_has_another(
    gib: int, grown_gib: int, options: str, words: str
) -> None:
    """What -E resize reserves looks like growth, but its journal is in the middle."""
    with sparse_image(gib << 30) as image:
        run(f"mkfs.ext4 -q -b 4096 -E lazy_itable_init=1,nodiscard {options} {image}")
        run(f"truncate -s {grown_gib}G {image} && resize2fs {image}")
        with image.open("rb") as file:
            file.seek(1024)
            old = parse_raw_superblock(file.read(1024))
        command = mkfs_line(str(image), measure_image(image, 12, 512), old)
    assert command is not None
    assert words in command
    assert bool(words) == (" -J " in command)


@needs_e2fsprogs
@pytest.mark.parametrize(
    "options",
    [
        "-I 512 -m 0 -L 'my data' -e remount-ro -O ^64bit,^resize_inode,quota",
        "-m 0.5 -O ^has_journal,casefold,meta_bg,^resize_inode",
        "-O sparse_super2 -E num_backup_sb=1",
        "-O ^flex_bg,uninit_bg,^metadata_csum -E stride=0",
        "-O bigalloc -C 65536 -b 2048 -I 1024",
        "-O bigalloc -C 262144",
        "-J size=2048",
        "-t ext3",
    ],
)
def test_a_recreated_filesystem_has_all_properties_of_the_old_one(options: str) -> None:
    """mke2fs runs the printed line; only groups, flex groups and the stripe differ."""
    with sparse_image(100 << 30) as image:
        run(f"mkfs.ext4 -q {options} {image}")
        old = read_superblock(image)
        on_array = measure_image(image, 12, 512)
        (remedy, *_) = even_out_bitmaps(str(image), on_array, old)
        run(remedy.steps[0].command)
        new = read_superblock(image)
        assert (new.inode_bytes, new.label, new.errors) == (old.inode_bytes, old.label, old.errors)
        assert new.journal_bytes == old.journal_bytes
        assert new.features - {"flex_bg"} == old.features - {"flex_bg"}
        assert (new.inode_count or 0) > (old.inode_count or 0) * 0.97
        assert new.backup_bgs is None or old.backup_bgs is not None
        assert len(new.backup_bgs or ()) == len(old.backup_bgs or ())
        assert (
            abs((new.reserved_blocks or 0) - (old.reserved_blocks or 0)) <= old.size_blocks // 500
        )


def test_the_check_reads_the_size_of_groups() -> None:
    """mke2fs may lower it silently."""
    remedy, *_ = remedies(striped())
    assert (remedy.disruption, remedy.destructive) == (Disruption.RECREATE, True)
    assert [step.phase for step in remedy.steps] == [Phase.PERSISTENT, Phase.VERIFY]
    assert remedy.steps[1].command == (
        "dumpe2fs -h /dev/md0 2>/dev/null | grep -Eq '^Blocks per group: +32744$'"
    )


def test_a_name_that_no_shell_takes_has_no_command() -> None:
    """The advice stands."""
    (remedy, *_) = even_out_bitmaps("/dev/m\n", striped(), superblock())
    assert remedy.steps == ()
    assert "DESTROYS all data" in remedy.summary


def test_without_a_stripe_there_is_no_remedy() -> None:
    """One disk has nothing to spread over."""
    assert remedies(striped()._replace(geometry=None)) == []


@pytest.mark.parametrize(
    ("more_blocks", "more_flex", "stride", "loads", "offered"),
    [
        (0, 0, 0, EVEN_LOADS, False),
        (0, 0, 16, EVEN_LOADS, False),
        (8, 0, 0, EVEN_LOADS, True),
        (0, 16, 0, EVEN_LOADS, True),
        (0, 0, 0, HOT, True),
    ],
)
def test_what_is_as_advised_is_not_recreated(
    more_blocks: int, more_flex: int, stride: int, loads: tuple[int, ...], *, offered: bool
) -> None:
    """Groups, packing and the places of the bitmaps; a stride moves nothing that is packed.

    The places differ with -E packed_meta_blocks=1.
    """
    made = superblock(stride_blocks=stride)
    advice = advice_for(striped(), sizes_of(made))
    assert advice is not None
    as_advised = layout(loads)._replace(
        blocks_per_group=advice.blocks_per_group_option + more_blocks,
        flex_bg_groups=advice.flex_bg_groups + more_flex,
    )
    assert bool(recreated(as_advised, made)) is offered


def test_growth_is_reported_with_the_width_that_it_makes() -> None:
    """Blocks of all members: 13 chunks of 128."""
    (grow,) = [remedy for remedy in remedies(striped()) if not remedy.destructive]
    assert grow.summary == "Grow the array from 12 to 13 members with mdadm, online."
    assert grow.disruption is Disruption.ONLINE
    assert "Then set the stripe width of the superblock to 1664 blocks" in (grow.trade_off or "")
