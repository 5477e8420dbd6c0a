"""layout_advice: remedies for an existing filesystem, their costs, and what does not help."""

from __future__ import annotations

from itertools import chain, product
from math import gcd
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ext4audit.evidence import Known
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.layout import EVEN, LayoutAdvice, MetadataLayout, MkfsAdvice, Spread
from ext4audit.facts.superblock import Sizes, sizes_of
from ext4audit.layout.advice import advice_on, effectively, growth, growth_for, layout_advice
from ext4audit.layout.bitmap_placement import StripePeriod, measure, placement_of
from ext4audit.layout.byte_map import StackMap
from ext4audit.layout.group_search import (
    EVEN_AS_ADVISED,
    EVEN_IN_A_WINDOW,
    _flex_sizes,
    _group_sizes,
    advise,
    density_of,
    described,
    evenness,
)
from ext4audit.layout.groups import predict_table
from ext4audit.layout.levels import map_of
from ext4audit.layout.mkfs_parameters import DEFAULT_FEATURES, MkfsOptions, mke2fs_sizes
from ext4audit.layout.stack import map_stack
from support.builders import layout, sizes
from support.examples import examples, sample_of
from support.hosts.stacks import dm, md, sd
from support.images.mke2fs import (
    TWELVE_DISKS_BLOCKS,
    layout_of,
    measure_image,
    needs_e2fsprogs,
    read_superblock,
    run,
    sparse_image,
    striped_geometry,
)
from support.timing import relative_time

TIB = 1 << 40
TWELVE_DISKS_BYTES = TWELVE_DISKS_BLOCKS * 4096
BIGALLOC = DEFAULT_FEATURES | {"bigalloc"}


def made(size_bytes: int = TWELVE_DISKS_BYTES, **options: Any) -> Sizes:
    """Return the sizes of a filesystem made by mke2fs, of 1.2 TiB by default."""
    return mke2fs_sizes(size_bytes, MkfsOptions(**options))


def advised(
    members: int, chunk_kib: int, block: Sizes | None = None, level: str = "raid0"
) -> tuple[int, int, bool] | None:
    """Return the advised -g and -G, and whether they are the default."""
    advice = advise(map_of(striped_geometry(members, chunk_kib, level)), block or made())
    if advice is None:
        return None
    return advice.blocks_per_group_option, advice.flex_bg_groups, advice.is_default


@pytest.mark.parametrize("members", [2, 4, 8, 16, 64])
def test_a_power_of_two_of_members_needs_one_bitmap_byte_less(members: int) -> None:
    """With 512 KiB chunks: 32760 blocks per group, and the flex_bg size is unchanged."""
    assert advised(members, 512) == (32760, 16, False)


@pytest.mark.parametrize("members", [6, 10, 12, 14, 20, 24])
def test_other_even_numbers_of_members_need_the_well_known_size(members: int) -> None:
    """With 512 KiB chunks: 32744, because 16 * 32744 blocks are a prime number of chunks."""
    assert advised(members, 512) == (32744, 16, False)


@pytest.mark.parametrize("members", [3, 5, 7, 9, 11, 15, 63])
@pytest.mark.parametrize("chunk_kib", [64, 128, 256, 512, 1024])
def test_an_odd_number_of_members_keeps_the_defaults(members: int, chunk_kib: int) -> None:
    """The defaults step by a power of two of chunks, which reaches each of an odd number."""
    assert advised(members, chunk_kib) == (32768, 16, True)


@pytest.mark.parametrize(("chunk_kib", "flex_bg_groups"), [(256, 8), (128, 4), (64, 2)])
def test_a_smaller_chunk_needs_smaller_flex_groups(chunk_kib: int, flex_bg_groups: int) -> None:
    """No group size helps 12 members while the flex group exceeds an eighth of the chunk."""
    assert advised(12, chunk_kib) == (32744, flex_bg_groups, False)


@pytest.mark.parametrize(
    ("level", "members", "options"),
    [
        ("raid10", 4, (32760, 16, False)),
        ("raid10", 12, (32744, 16, False)),
        ("raid10", 5, (32768, 16, True)),
        ("raid10", 6, (32768, 16, True)),
        ("raid5", 4, (32744, 16, False)),
        ("raid5", 5, (32768, 16, True)),
        ("raid5", 6, (32744, 16, False)),
        ("raid6", 4, (32760, 16, False)),
        ("raid6", 12, (32768, 16, True)),
        ("raid4", 5, (32760, 16, False)),
        ("raid4", 6, (32768, 16, True)),
    ],
)
def test_advice_for_other_levels_counts_mirrors_and_parity(
    level: str, members: int, options: tuple[int, int, bool]
) -> None:
    """RAID10 steps over its pairs; the rotating parity of a RAID6 of 12 evens the default out."""
    assert advised(members, 512, level=level) == options


@pytest.mark.parametrize(
    ("members", "chunk_kib", "block", "options"),
    [
        pytest.param(12, 512, made(flex_bg_groups=64), (32744, 16, False), id="-G 64"),
        pytest.param(
            12,
            512,
            made(features=BIGALLOC, cluster_bytes=65536),
            (32744, 1, False),
            id="bigalloc 64 KiB",
        ),
        pytest.param(
            12,
            512,
            made(features=BIGALLOC, cluster_bytes=262144),
            (1024, 256, False),
            id="bigalloc 256 KiB: far smaller groups",
        ),
        pytest.param(12, 512, made(block_bytes=1024), (8176, 16, False), id="blocks of 1 KiB"),
        pytest.param(12, 512, made(block_bytes=65536), (65528, 16, True), id="64 KiB, capped"),
        pytest.param(12, 8192, made(), (32752, 16, False), id="chunks of 8 MiB"),
        pytest.param(16, 16, made(), (32768, 32, False), id="a run as long as the stripe"),
        pytest.param(12, 2, made(), None, id="a chunk smaller than a block"),
    ],
)
def test_advice_depends_on_the_geometry(
    members: int, chunk_kib: int, block: Sizes, options: tuple[int, int, bool] | None
) -> None:
    """With bigalloc -g counts clusters; 64 KiB blocks are capped; some arrays have no advice."""
    assert advised(members, chunk_kib, block) == options


@pytest.mark.parametrize(("cluster_bytes", "flex_bg_groups"), [(8192, 8), (16384, 4), (65536, 1)])
def test_larger_clusters_need_smaller_flex_groups(cluster_bytes: int, flex_bg_groups: int) -> None:
    """A group of as many larger clusters is longer, so a flex group of 16 steps further."""
    block = made(features=BIGALLOC, cluster_bytes=cluster_bytes)
    assert advised(6, 512, block, "raid6") == (32744, flex_bg_groups, False)


def test_group_sizes_that_are_even_only_on_infinite_devices_are_refused() -> None:
    """With 8 MiB chunks, 32760 stays on one of 8 members for 32 GiB before it moves on."""
    eight = map_of(striped_geometry(8, 8192))
    assert evenness(eight, made(group_option=32760)) > 0.95
    assert advised(8, 8192) == (32720, 16, False)


def test_a_group_size_that_mke2fs_would_lower_is_not_advised() -> None:
    """A group has at most 32768 inodes, and 32768 blocks with an inode per 4000 bytes have more."""
    block = made(20 << 30, bytes_per_inode=4000)
    assert block.blocks_per_group == 32152
    advice = advise(map_of(striped_geometry(12, 512)), block)
    assert advice is not None
    options = MkfsOptions(
        group_option=advice.blocks_per_group_option,
        flex_bg_groups=advice.flex_bg_groups,
        bytes_per_inode=density_of(block).bytes_per_inode,
    )
    assert mke2fs_sizes(20 << 30, options).blocks_per_group == advice.blocks_per_group_option


@pytest.mark.parametrize(("group_blocks", "ratio"), [(32768, 16384), (32744, 16372)])
def test_the_inode_ratio_is_kept(group_blocks: int, ratio: int) -> None:
    """The ratio is the bytes of a group divided by its inodes."""
    made = sizes(blocks_per_group=group_blocks, inode_count=1)
    assert density_of(made) == (ratio, None)


@pytest.mark.parametrize(
    ("group_blocks", "density"), [(32768, (64 << 20, None)), (32769, (None, 2))]
)
def test_beyond_the_largest_ratio_inodes_are_counted(
    group_blocks: int, density: tuple[int | None, int | None]
) -> None:
    """`mke2fs -i` takes at most 64 MiB per inode."""
    made = sizes(blocks_per_group=group_blocks, inodes_per_group=2, inode_count=2)
    assert density_of(made) == density


@pytest.mark.parametrize(
    ("members", "level", "block", "grown"),
    [
        pytest.param(12, "raid0", made(), 13, id="12 to 13"),
        pytest.param(3, "raid0", made(group_option=32760), 4, id="3 is bad for 32760"),
        pytest.param(13, "raid0", made(group_option=32760), 16, id="three more members are near"),
        pytest.param(12, "raid0", made(group_option=32760), None, id="four more members are not"),
        pytest.param(12, "raid10", made(), None, id="only RAID0 grows by a member"),
        pytest.param(12, "dm-striped", made(), None, id="LVM does not grow in width"),
    ],
)
def test_advice_names_the_evenness_with_more_members(
    members: int, level: str, block: Sizes, grown: int | None
) -> None:
    """The groups are unchanged, and the stripe becomes wider."""
    found = growth(striped_geometry(members, 512, level), block)
    assert (found.members if found else None) == grown


@pytest.mark.parametrize(
    ("size", "tried"),
    [
        (16, [16, 8, 4, 2, 1, 32, 64, 128, 256]),
        (128, [128, 64, 32, 16, 8, 4, 2, 1, 256]),
        (256, [256, 128, 64, 32, 16, 8, 4, 2, 1]),
        (2, [2, 1, 4, 8, 16, 32, 64, 128, 256]),
        (1, [1, 2, 4, 8, 16, 32, 64, 128, 256]),
    ],
)
def test_smaller_flex_groups_are_tried_before_larger_ones(size: int, tried: list[int]) -> None:
    """Sizes up to 256 are tried, even if nothing is packed yet."""
    assert list(_flex_sizes(size)) == tried


def test_group_sizes_are_tried_down_to_seven_eighths() -> None:
    """The steps are of 8; they start at the clusters in a bitmap block, or at the 16-bit limit."""
    small, large = list(_group_sizes(4096)), list(_group_sizes(65536))
    assert (small[0], small[1], small[-1]) == (32768, 32760, 28680)
    assert (large[0], large[-1]) == (65528, 57344)


def test_growing_a_stripe_of_odd_chunks_is_not_computed() -> None:
    """Chunks smaller than a block have no period of blocks."""
    assert growth(striped_geometry(4, 2), made()) is None


def test_a_stripe_over_arrays_does_not_grow_by_a_disk() -> None:
    """md127 of two RAID0s has two members, not the four disks below them."""
    assert growth(striped_geometry(4, 512, components=(("m0", "m1"), ("m2", "m3"))), made()) is None


MIRRORS = (md(sd(a), sd(b), level="raid1", number=ord(a)) for a, b in ("bc", "de", "fg"))
RAID5S = (
    md(*map(sd, names), level="raid5", layout=2, number=ord(names[0]), chunk_bytes=256 << 10)
    for names in ("abcd", "efgh")
)


@pytest.mark.parametrize(
    "stack",
    [
        pytest.param(md(sd("a"), *MIRRORS, chunk_bytes=512 << 10), id="one has lost its mirror"),
        pytest.param(md(*RAID5S, chunk_bytes=512 << 10), id="chunks below are smaller"),
    ],
)
def test_a_stripe_over_arrays_is_as_even_as_promised(stack: BlockDevice) -> None:
    """Their disks are not the columns of one stripe: the first case has 4 columns and 7 disks."""
    found = map_stack(stack)
    assert isinstance(found, Known)
    hot = measure(predict_table(made(100 << 30)), made(100 << 30), found.value)
    advice = layout_advice(hot, made(100 << 30)).advice
    assert advice is not None
    new = as_advised(made(100 << 30), advice)
    evenness = measure(predict_table(new), new, found.value).evenness
    assert evenness == pytest.approx(advice.evenness, abs=0.01)
    assert evenness > hot.evenness + 0.2


@pytest.mark.parametrize(
    ("level", "layout", "last", "judged"),
    [
        ("raid4", 0, md(sd("e"), sd("f"), level="raid1", number=1), "abcd"),
        ("raid4", 0, sd("e"), "abcd"),
        ("raid5", 4, sd("e"), "bcde"),
        ("raid5", 5, sd("e"), "abcd"),
        ("raid6", 5, sd("e"), "abc"),
        ("raid6", 16, sd("e"), "abcd"),
        ("raid6", 20, sd("e"), "bcd"),
        ("raid6", 8, sd("e"), "abcde"),
    ],
)
def test_parity_disks_are_not_counted_as_data_disks(
    level: str, layout: int, last: BlockDevice, judged: str
) -> None:
    """It holds all parity, whatever the groups, so its share does not call for new groups."""
    disks = (*map(sd, "abcd"), last)
    found = map_stack(md(*disks, level=level, layout=layout, chunk_bytes=512 << 10))
    assert isinstance(found, Known)
    of = made(300 << 30)
    now = measure(predict_table(of), of, found.value)
    assert [member.name for member in now.judged] == [f"sd{letter}" for letter in judged]
    advice = layout_advice(now, of).advice
    assert advice is not None
    assert advice.evenness == pytest.approx(1, abs=0.02)
    new = as_advised(of, advice)
    assert measure(predict_table(new), new, found.value).evenness > EVEN


@pytest.mark.parametrize(
    ("level", "layout", "judged"),
    [
        ("raid4", 0, "abcdfghi"),
        ("raid5", 2, "abcdefghij"),
        ("raid5", 4, "bcdeghij"),
        ("raid5", 5, "abcdfghi"),
        ("raid6", 5, "abcfgh"),
        ("raid6", 16, "abcdfghi"),
        ("raid6", 20, "bcdghi"),
    ],
)
@pytest.mark.parametrize("upper", ["md", "LVM"])
def test_parity_disks_below_a_stripe_are_not_counted_as_data_disks(
    level: str, layout: int, judged: str, upper: str
) -> None:
    """They counted as disks that no layout reaches: of RAID 40 nothing was advised."""
    options: dict[str, Any] = {"level": level, "layout": layout, "chunk_bytes": 64 << 10}
    one = md(*map(sd, "abcde"), number=1, **options)
    other = md(*map(sd, "fghij"), number=2, **options)
    lines = "0 1000000000 striped 2 128 9:1 0 9:2 0"
    over = dm(lines, one, other) if upper == "LVM" else md(one, other, chunk_bytes=64 << 10)
    found = map_stack(over)
    assert isinstance(found, Known)
    of = made(300 << 30, group_option=32760)
    now = measure(predict_table(of), of, found.value)
    assert [member.name for member in now.judged] == [f"sd{letter}" for letter in judged]
    advice = layout_advice(now, of).advice
    assert advice is not None
    new = as_advised(of, advice)
    assert measure(predict_table(new), new, found.value).evenness > EVEN > now.evenness


def test_growth_over_arrays_with_a_long_common_period_is_not_computed() -> None:
    """A search over such arrays would take minutes."""
    names = [tuple(f"{disks}.{slot}" for slot in range(disks)) for disks in (7, 11, 13, 17, 19)]
    arrays = tuple(
        striped_geometry(1, 4, "raid6", layout=2)._replace(members=each) for each in names
    )
    over = striped_geometry(1, 512, components=arrays)._replace(members=tuple(chain(*names)))
    few = made(1 << 30)
    found = layout_advice(measure(predict_table(few), few, map_of(over)), few)
    assert found.curable.startswith("No group size is advised: none is computed")


def test_growth_of_a_volume_of_two_arrays_is_promised_for_the_first_only() -> None:
    """The figures of one array do not apply to all members."""
    pairs = ((1, "ab"), (2, "cd"))
    first, second = (md(*map(sd, names), number=n, chunk_bytes=512 << 10) for n, names in pairs)
    volume = map_stack(
        dm("0 99999744 linear 9:1 0\n99999744 999999999 linear 9:2 0", first, second)
    )
    assert isinstance(volume, Known)
    hot = measure(predict_table(made(100 << 30)), made(100 << 30), volume.value)
    curable = layout_advice(hot, made(100 << 30)).curable
    assert curable == "The bitmaps on md1: -g 32760 -G 16 spreads them over all disks of it."


def test_an_array_of_unequal_disks_does_not_grow() -> None:
    """The kernel can only take over a RAID0 of one zone."""
    assert (
        growth(striped_geometry(4, 512, layout=2, member_bytes=(TIB, TIB, TIB // 2, TIB)), made())
        is None
    )


def test_the_evenness_of_growth_is_that_of_the_wider_array() -> None:
    """Four disks have the default's bitmaps on one; five spread them."""
    found = growth(striped_geometry(4, 512), made())
    assert found is not None
    assert (found.members, round(found.evenness, 2)) == (5, 1.0)
    assert round(evenness(map_of(striped_geometry(4, 512)), made()), 2) == 0.25


@needs_e2fsprogs
@pytest.mark.parametrize(("options", "members"), [("", 5), ("-E packed_meta_blocks=1", None)])
def test_growth_is_not_promised_for_packed_bitmaps(options: str, members: int | None) -> None:
    """They fill a few chunks, on five disks as on four: an evenness of 0.6, not of 0.97."""
    with sparse_image(48 << 30) as image:
        run(f"mkfs.ext4 -q -b 4096 -O bigalloc -C 8192 {options} {image}")
        found = growth_for(measure_image(image, 4, 512), sizes_of(read_superblock(image)))
    assert (found.members if found else None) == members


@needs_e2fsprogs
def test_packed_bitmaps_are_even_until_the_filesystem_grows() -> None:
    """LAY001's page states this: resize2fs places added groups where mke2fs does by default."""
    with sparse_image(64 << 30) as image:
        run(f"mkfs.ext4 -q -b 4096 -E packed_meta_blocks=1,lazy_itable_init=1 {image} 16G")
        packed = measure_image(image, 8, 64)
        run(f"e2fsck -fp {image} && resize2fs {image} 64G")
        grown = measure_image(image, 8, 64)
    assert (packed.groups, grown.groups) == (128, 512)
    assert packed.evenness > EVEN
    assert round(grown.evenness, 1) == 0.4


GEOMETRIES = st.builds(
    striped_geometry,
    st.integers(4, 24),
    st.sampled_from([16, 32, 64, 128, 256, 508, 512, 520, 1024]),
    st.sampled_from(["raid0", "raid10", "raid5", "raid6"]),
)
FILESYSTEMS = st.builds(
    lambda size, block_bytes, flex: made(size, block_bytes=block_bytes, flex_bg_groups=flex),
    st.integers(TIB, 4 * TIB),
    st.sampled_from([2048, 4096, 4096]),
    st.sampled_from([1, 2, 8, 16, 16, 32, 64]),
)


def as_advised(block: Sizes, advice: MkfsAdvice) -> Sizes:
    """Return the filesystem that mke2fs makes with the advice."""
    options = MkfsOptions(
        block_bytes=block.block_bytes,
        group_option=advice.blocks_per_group_option,
        flex_bg_groups=advice.flex_bg_groups,
    )
    return mke2fs_sizes(block.size_blocks * block.block_bytes, options)


def evenness_in_window(stack_map: StackMap, block: Sizes) -> float:
    """Return the evenness of the first 2N flex groups, which that of the whole may hide."""
    period = StripePeriod(stack_map, block.block_bytes)
    return period.spread(placement_of(block), 2 * period.members * block.flex_bg_groups).evenness


@examples(30)
@given(GEOMETRIES, FILESYSTEMS)
@example(striped_geometry(9, 520, "raid6"), made(TIB, flex_bg_groups=8))
@example(striped_geometry(18, 128, "raid5"), made(TIB))
def test_advice_is_legal_and_never_worse_than_the_default(geometry: Any, block: Sizes) -> None:
    """mke2fs accepts it, and neither the whole filesystem nor its first part becomes less even.

    The examples are a default that is even as a whole but not in its first 2N flex groups, and
    one that is fairly even in both.
    """
    stack_map = map_of(geometry)
    advice = advise(stack_map, block)
    if advice is None:
        return
    assert advice.blocks_per_group_option % 8 == 0
    assert 256 <= advice.blocks_per_group_option <= 8 * block.block_bytes
    assert advice.flex_bg_groups & (advice.flex_bg_groups - 1) == 0
    after = as_advised(block, advice)
    assert after.flex_bg_groups == advice.flex_bg_groups
    assert after.blocks_per_group == advice.blocks_per_group_option
    assert evenness_in_window(stack_map, after) >= EVEN_IN_A_WINDOW
    assert evenness_in_window(stack_map, after) >= evenness_in_window(stack_map, block)
    assert evenness(stack_map, after) >= (EVEN if advice.is_default else EVEN_AS_ADVISED)
    assert evenness(stack_map, after) >= evenness(stack_map, block)
    assert advice.evenness == evenness(stack_map, after)


@examples(30)
@given(GEOMETRIES, FILESYSTEMS)
@example(striped_geometry(9, 520, "raid6"), made(TIB, flex_bg_groups=8))
def test_advice_is_even_when_each_bitmap_is_counted(geometry: Any, block: Sizes) -> None:
    """Advice treats groups with a superblock backup as ordinary ones, an error of 0.01 at most."""
    stack_map = map_of(geometry)
    advice = advise(stack_map, block)
    if advice is None:
        return
    after = as_advised(block, advice)
    even = measure(predict_table(after), after, stack_map).evenness
    assert even == pytest.approx(advice.evenness, abs=0.01)
    assert even >= measure(predict_table(block), block, stack_map).evenness - 0.01


def test_advice_for_a_default_that_is_a_hotspot_at_first_is_even_as_a_whole() -> None:
    """With a RAID6 of 9, the default has 1.00 on the whole of 1 TiB, and 0.50 at first."""
    stack_map, block = map_of(striped_geometry(9, 520, "raid6")), made(TIB, flex_bg_groups=8)
    assert round(evenness(stack_map, block), 2) == 1.0
    assert round(evenness_in_window(stack_map, block), 2) == 0.5
    advice = advise(stack_map, block)
    assert advice is not None
    after = as_advised(block, advice)
    assert round(evenness(stack_map, after), 2) == 1.0
    assert round(evenness_in_window(stack_map, after), 2) == 0.9


@examples(60)
@given(
    st.integers(2, 24),
    st.sampled_from([64, 128, 256, 512, 1024]),
    st.integers(0, 60).map(lambda n: 32768 - 8 * n),
    st.sampled_from([1, 2, 4, 8, 16, 32]),
)
@example(5, 512, 32672, 1)
def test_group_size_with_gcd_1_is_even_over_whole_periods(
    members: int, chunk_kib: int, option: int, flex: int
) -> None:
    """After whole periods, N_eff is at least 0.97 of N, bitmap by bitmap.

    Backups of the superblock move the bitmaps of b of G groups, at worst all from one member to one
    other: N_eff >= N / (1 + 2 N (b / G)^2). With flex groups only the first one is moved; without
    them, 64 groups per member are enough to outweigh the few that have a backup.
    """
    stack_map = map_of(striped_geometry(members, chunk_kib))
    period = StripePeriod(stack_map, 4096)
    strides = period.period_blocks // gcd(option * flex, period.period_blocks)
    blocks = max(4 * strides, (64 if flex == 1 else 16) * members) * option * flex
    block = made(blocks * 4096, group_option=option, flex_bg_groups=flex)
    if period.covers_all_chunks(option * flex, flex):
        measured = measure(predict_table(block), block, stack_map)
        assert measured.effective_members >= 0.97 * members


def test_searches_are_cached_by_stripe() -> None:
    """A rule, its remedies and the layout page need the same result."""
    stripe_of_12, sizes = striped_geometry(12, 512), made(1 << 40)
    assert advice_on(stripe_of_12, sizes) is advice_on(stripe_of_12, sizes)


@pytest.mark.parametrize("size_tib", [1, 16, 64])
@pytest.mark.parametrize(
    ("members", "chunk_kib", "level"),
    [(12, 512, "raid0"), (64, 512, "raid0"), (64, 64, "raid0"), (12, 512, "raid5")],
)
def test_advice_takes_milliseconds(size_tib: int, members: int, chunk_kib: int, level: str) -> None:
    """Neither the filesystem's size nor its number of groups matters: 5 are about 10 ms."""
    stack_map, block = map_of(striped_geometry(members, chunk_kib, level)), made(size_tib * TIB)
    assert relative_time(lambda: advise(stack_map, block), rounds=5) < 5


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("members", "chunk_kib"),
    sample_of(product([2, 3, 8, 12], [32, 64, 256, 512, 1024]), "usual arrays"),
)
def test_mke2fs_makes_an_even_layout_of_the_advice(members: int, chunk_kib: int) -> None:
    """On the real layout of 1.2 TiB the advice is even, for all usual arrays."""
    advice = advise(map_of(striped_geometry(members, chunk_kib)), made())
    assert advice is not None
    options = f"-g {advice.blocks_per_group_option} -G {advice.flex_bg_groups}"
    measured = layout_of(options, members, chunk_kib, TWELVE_DISKS_BLOCKS)
    assert measured.evenness >= 0.97
    assert measured.evenness == pytest.approx(advice.evenness, abs=0.02)


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("level", "members"), [("raid10", 4), ("raid5", 4), ("raid5", 12), ("raid6", 8)]
)
def test_mke2fs_makes_an_even_layout_on_other_levels(level: str, members: int) -> None:
    """All writes are even, including those of parity and mirrors."""
    advice = advise(map_of(striped_geometry(members, 512, level)), made())
    assert advice is not None
    options = f"-g {advice.blocks_per_group_option} -G {advice.flex_bg_groups}"
    measured = layout_of(options, members, 512, TWELVE_DISKS_BLOCKS, level)
    assert measured.evenness >= 0.97


@needs_e2fsprogs
def test_mke2fs_makes_an_even_layout_of_the_advice_with_clusters() -> None:
    """With bigalloc, -g counts clusters."""
    measured = layout_of("-O bigalloc -C 65536 -g 32744 -G 1", 12, 512, TWELVE_DISKS_BLOCKS)
    assert measured.evenness >= 0.95
    assert measured.blocks_per_group == 32744 * 16


def planned_advice(
    members: int, size_bytes: int = TWELVE_DISKS_BLOCKS * 4096, **options: Any
) -> LayoutAdvice:
    """Return the advice for a filesystem on a RAID0 with chunks of 512 KiB."""
    block = mke2fs_sizes(size_bytes, MkfsOptions(**options))
    measured = measure(predict_table(block), block, map_of(striped_geometry(members, 512)))
    return layout_advice(measured, block)


def rounded_advice(advice: MkfsAdvice) -> MkfsAdvice:
    """Return the advice with its evenness rounded to two digits."""
    return advice._replace(evenness=round(advice.evenness, 2))


def test_the_advice_for_the_default_on_twelve_disks() -> None:
    """It has the sentence, the options, the growth and the costs of each."""
    advice = planned_advice(12)
    assert advice.sentence == "Effectively 3 of 12 disks serve this metadata."
    assert advice.advice is not None
    assert rounded_advice(advice.advice) == MkfsAdvice(32744, 16, 1.0, is_default=False)
    assert advice.growth is not None
    assert advice.growth.members == 13
    assert advice.curable == (
        "The bitmaps: -g 32744 -G 16 spreads them over all disks, evenness 1.00 instead of 0.25."
    )
    assert advice.recreate == (
        "Back up, recreate the filesystem with -g 32744 -G 16, restore; it gets a new UUID. "
        "Nothing smaller changes the groups."
    )
    assert advice.in_place is not None
    assert advice.in_place.startswith("Grow md127 from 12 to 13 members")
    assert "back up first" in advice.in_place


@pytest.mark.parametrize(
    ("flex_bg_groups", "members", "chunk_kib", "stride"),
    [
        (1, 16, 16, " Or keep the groups and set -E stride=4: "),
        (1, 16, 512, " Or keep the groups and set -E stride=128: "),
        (1, 12, 1024, ""),
        (16, 16, 64, ""),
    ],
    ids=["small chunks", "large chunks", "it does not help", "packed"],
)
def test_stride_is_advised_for_groups_that_are_not_packed(
    flex_bg_groups: int, members: int, chunk_kib: int, stride: str
) -> None:
    """With a stride of one chunk, the bitmaps move from disk to disk."""
    block = made(flex_bg_groups=flex_bg_groups)
    measured = measure(predict_table(block), block, map_of(striped_geometry(members, chunk_kib)))
    recreate = layout_advice(measured, block).recreate or ""
    assert "Back up, recreate" in recreate
    assert ("Or keep the groups" in recreate) is bool(stride)
    assert stride in recreate


def test_the_advice_names_what_does_not_help() -> None:
    """Stride, flex_bg, tune2fs, resize2fs and a chunk of another power of two."""
    advice = " ".join(planned_advice(12).no_help)
    for word in ("stride", "flex_bg", "tune2fs", "resize2fs", "chunk"):
        assert word in advice
    assert "journal" in planned_advice(12).mitigations[0]


@pytest.mark.parametrize(
    ("size_tib", "expected"),
    [
        (1.2, "Effectively 1.4 of 12 disks serve the descriptor table, and no -g moves it"),
        (24, "The descriptor table is spread over all disks because the filesystem is large"),
    ],
)
def test_advice_does_not_spread_the_descriptor_table(size_tib: float, expected: str) -> None:
    """One chunk per TiB: it reaches all of 12 disks at 12 TiB, and then needs no remedy."""
    assert planned_advice(12, int(size_tib * TIB), group_option=32744).incurable.startswith(
        expected
    )


def test_the_descriptor_table_is_even_from_a_certain_size() -> None:
    """12 chunks of 8192 descriptors, each of 128 MiB: 12 TiB."""
    assert planned_advice(12).incurable.endswith("reaches all disks from 12 TiB.")


def test_an_even_layout_needs_no_advice() -> None:
    """The default is kept on an odd number of disks, and nothing has to be done."""
    advice = planned_advice(5)
    assert advice.is_even
    assert advice.advice is not None
    assert rounded_advice(advice.advice) == MkfsAdvice(32768, 16, 1.0, is_default=True)
    assert (advice.recreate, advice.in_place, advice.growth) == (None, None, None)
    assert (advice.no_help, advice.mitigations) == ((), ())
    assert advice.curable == "The bitmaps are spread over all disks."


@pytest.mark.parametrize(("members", "even"), [(20, True), (19, False)])
def test_a_layout_counts_as_even_from_095(members: int, *, even: bool) -> None:
    """One empty member of n gives an index of (n - 1) / n: 0.95 of 20, 0.947 of 19."""
    found = layout([100] * (members - 1) + [0])
    advice = layout_advice(found, sizes())
    assert advice.is_even is even
    assert (advice.curable == "The bitmaps are spread over all disks.") is even
    assert (advice.no_help == ()) is even


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"chunk_bytes": 2048}, "No group size", id="chunk smaller than a block"),
        pytest.param({"blocks_per_group": 1 << 40}, "No group size", id="an invented group size"),
    ],
)
def test_missing_advice_is_reported(changes: dict[str, int], expected: str) -> None:
    """An invented superblock must neither crash the search nor make it run for hours."""
    advice = layout_advice(layout([100, 0], **changes), sizes())
    assert advice.curable.startswith(expected)
    assert (advice.advice, advice.growth, advice.recreate) == (None, None, None)


@pytest.mark.parametrize(
    ("blocks_per_group", "cluster_blocks", "possible"),
    [(32768, 1, True), (32776, 1, False), (32768 * 16, 16, True), (32768 * 16 + 8, 16, False)],
)
def test_a_block_of_bitmap_describes_as_many_clusters_as_it_has_bits(
    blocks_per_group: int, cluster_blocks: int, *, possible: bool
) -> None:
    """Larger groups are invalid evidence."""
    of = layout([1, 1])._replace(blocks_per_group=blocks_per_group, cluster_blocks=cluster_blocks)
    if possible:
        assert described(of, sizes()).cluster_blocks == cluster_blocks
    else:
        with pytest.raises(ValueError, match="does not describe"):
            described(of, sizes())


def test_without_a_stripe_there_is_no_advice() -> None:
    """With one disk there is nothing to spread over."""
    bare: MetadataLayout = layout([1])._replace(geometry=None)
    with pytest.raises(ValueError, match="not on a stripe"):
        layout_advice(bare, sizes())


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        ((1, 0, 0), "Effectively 1 of 3 disks serves"),
        ((3, 1, 0), "Effectively 1.6 of 3 disks serve"),
        ((1, 1, 1), "Effectively 3 of 3 disks serve"),
    ],
)
def test_the_sentence_counts_disks(loads: tuple[int, ...], expected: str) -> None:
    """The number has at most one decimal digit, and the verb agrees with it."""
    assert effectively(Spread(loads)) == expected
