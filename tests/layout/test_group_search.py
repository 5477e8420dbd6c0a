"""The search for even groups: no group size beats its advice, and mke2fs makes what it predicts.

`EXT4AUDIT_RANDOM_CASES=500` compares more random arrays with all group sizes (half a second each).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

from ext4audit.facts.layout import EVEN, MkfsAdvice, StripeGeometry
from ext4audit.facts.superblock import Sizes
from ext4audit.layout import bitmap_placement
from ext4audit.layout.bitmap_placement import StripePeriod, placement_of
from ext4audit.layout.byte_map import StackMap
from ext4audit.layout.group_search import (
    EVEN_IN_A_WINDOW,
    _evenness,
    _keeps,
    _looks,
    _option,
    _tried,
    advise,
    evenness,
    evenness_with_stride,
)
from ext4audit.layout.levels import map_of
from ext4audit.layout.mkfs_parameters import DEFAULT_FEATURES, MkfsOptions, mke2fs_sizes
from support.examples import examples
from support.images.mke2fs import layout_of, needs_e2fsprogs, striped_geometry

LEAST_MEMBERS = {"raid6": 4, "raid5": 3, "raid4": 3}
BLOCKS = 314572800
"""1200 GiB in blocks of 4 KiB."""


class Case(NamedTuple):
    """A filesystem on an array."""

    geometry: StripeGeometry
    block: Sizes


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw an array and a filesystem that LAY001 judges: one with enough groups for the members."""
    level = draw(st.sampled_from(("raid0", "raid0", "raid10", "raid5", "raid6", "raid4")))
    members = draw(st.integers(LEAST_MEMBERS.get(level, 2), 32))
    odd = (508, 520) if level == "raid0" else ()
    chunk_kib = draw(st.sampled_from((4, 8, 16, 32, 64, 128, 256, 512, 1024, *odd)))
    block_bytes = draw(st.sampled_from((1024, 2048, 4096, 4096, 4096, 16384, 65536)))
    flex = draw(st.sampled_from((0, 1, 1, 2, 4, 8, 16, 16, 16, 32, 64, 256)))
    clusters = draw(st.sampled_from((1, 1, 1, 1, 2, 4, 16)))
    features = DEFAULT_FEATURES | ({"bigalloc"} if clusters > 1 else set())
    options = MkfsOptions(
        features=features if flex else features - {"flex_bg"},
        block_bytes=block_bytes,
        flex_bg_groups=flex or 1,
        cluster_bytes=block_bytes * clusters,
    )
    size_bytes = int((64 << 30) * 256 ** draw(st.floats(0, 1)))
    try:
        block = mke2fs_sizes(size_bytes, options)
    except ValueError:
        assume(condition=False)
        raise
    groups = block.groups
    assume(groups >= 64 and groups >= 4 * members * (flex or 1))
    assume(chunk_kib * 1024 % block_bytes == 0)
    return Case(striped_geometry(members, chunk_kib, level), block)


def most_even(stack_map: StackMap, block: Sizes, flex_sizes: set[int]) -> float:
    """Return the best index of all multiples of 8, for some flex_bg sizes."""
    block_bytes, best = block.block_bytes, 0.0
    period = StripePeriod(stack_map, block_bytes)
    for flex in flex_sizes:
        for option in range(256, min(8 * block_bytes, 65528) + 1, 8):
            made = _tried(block, option, flex, None)
            if made is not None and _option(made) == option and _keeps(block, made):
                found = _evenness(period, placement_of(made))
                if found.window >= EVEN_IN_A_WINDOW:
                    best = max(best, found.whole)
    return best


@examples(
    12,
    "EXT4AUDIT_RANDOM_CASES",
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(cases())
def test_no_group_size_beats_the_advice(case: Case) -> None:
    """Multiples of 8, with the present and the advised flex_bg size, are better by 0.03 at most."""
    stack_map, present = map_of(case.geometry), case.block.flex_bg_groups
    advice = advise(stack_map, case.block)
    if advice is None:
        period = StripePeriod(stack_map, case.block.block_bytes)
        advice = MkfsAdvice(0, present, _evenness(period, placement_of(case.block)).whole, False)
    if advice.evenness < 0.97:  # otherwise nothing can beat it by so much
        flex_sizes = {present, advice.flex_bg_groups}
        assert most_even(stack_map, case.block, flex_sizes) <= advice.evenness + 0.03


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("level", "members", "chunk_kib", "mkfs"),
    [
        ("raid0", 24, 4, "-G 1"),
        ("raid0", 16, 16, "-O ^flex_bg"),
        ("raid5", 12, 512, "-O bigalloc"),
        ("raid5", 12, 512, "-O bigalloc -G 1"),
        ("raid0", 12, 256, ""),
        ("raid10", 10, 128, "-G 64"),
        ("raid6", 8, 64, "-O bigalloc -C 32768"),
    ],
)
def test_mke2fs_makes_what_is_advised(level: str, members: int, chunk_kib: int, mkfs: str) -> None:
    """The options are those of the advice, with a stride as mke2fs takes it from the array."""
    packed = "^flex_bg" not in mkfs
    clusters = "-O bigalloc" in mkfs
    flex = re.search(r"-G ([0-9]+)", mkfs)
    features = DEFAULT_FEATURES | ({"bigalloc"} if clusters else set())
    options = MkfsOptions(
        features=features if packed else features - {"flex_bg"},
        flex_bg_groups=int(flex[1]) if flex else 16 if packed else 1,
        cluster_bytes=32768 if "-C " in mkfs else None,
    )
    advice = advise(
        map_of(striped_geometry(members, chunk_kib, level)), mke2fs_sizes(BLOCKS * 4096, options)
    )
    assert advice is not None
    assert advice.evenness >= 0.95
    kept = f"-O bigalloc {'-C 32768' if '-C ' in mkfs else ''}" if clusters else ""
    advised = advice.options.replace("-E stride=0", "")
    made = layout_of(f"{kept} {advised}", members, chunk_kib, BLOCKS, level)
    assert made.evenness == pytest.approx(advice.evenness, abs=0.01)


@pytest.mark.parametrize(("option", "is_even"), [(4096, False), (4088, True)])
def test_a_default_that_mke2fs_refuses_is_not_advised(option: int, *, is_even: bool) -> None:
    """With clusters, the inodes of a group of the usual size do not fit: -g is required."""
    options = MkfsOptions(
        features=DEFAULT_FEATURES | {"bigalloc"},
        cluster_bytes=65536,
        bytes_per_inode=8192,
        flex_bg_groups=1,
    )
    with pytest.raises(ValueError, match="too many inodes"):
        mke2fs_sizes(BLOCKS * 4096, options)
    made = mke2fs_sizes(BLOCKS * 4096, replace(options, group_option=option))
    stack_map = map_of(striped_geometry(4, 512))
    assert (evenness(stack_map, made) >= EVEN) is is_even
    advice = advise(stack_map, made)
    assert advice is not None
    assert advice.evenness >= EVEN
    assert (advice.blocks_per_group_option, advice.is_default) == (4088, False)


@needs_e2fsprogs
def test_a_stride_moves_bitmaps_that_are_not_packed() -> None:
    """On 16 disks with chunks of 16 KiB, the evenness is 0.06, or at least 0.95 with a stride."""
    block = mke2fs_sizes(
        BLOCKS * 4096, MkfsOptions(features=DEFAULT_FEATURES - {"flex_bg"}, flex_bg_groups=1)
    )
    expected = evenness_with_stride(map_of(striped_geometry(16, 16)), block, 4)
    made = layout_of("-O ^flex_bg -E stride=4", 16, 16, BLOCKS)
    plain = layout_of("-O ^flex_bg", 16, 16, BLOCKS)
    assert round(plain.evenness, 2) == 0.06
    assert made.evenness >= 0.95
    assert expected == pytest.approx(made.evenness, abs=0.02)


@pytest.mark.parametrize(
    ("geometry", "size_tib", "options"),
    [
        (striped_geometry(12, 512), 1, MkfsOptions()),
        (striped_geometry(16, 16), 1, MkfsOptions()),
        (striped_geometry(24, 4), 1, MkfsOptions(flex_bg_groups=1)),
        (striped_geometry(9, 520, "raid6"), 1, MkfsOptions()),
        (striped_geometry(12, 512, "raid5"), 64, MkfsOptions()),
        (striped_geometry(7, 64, "raid5"), 16, MkfsOptions(group_option=32744)),
        (striped_geometry(5, 4), 1, MkfsOptions(group_option=32760, flex_bg_groups=64)),
    ],
)
def test_the_cost_of_a_search_is_estimated(
    geometry: StripeGeometry, size_tib: int, options: MkfsOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The estimate that limits the search is between half and nine times the number of counts."""
    counted: Counter[str] = Counter()

    def counting_add(one: int, other: int) -> int:
        counted["parts"] += 1
        return one + other

    monkeypatch.setattr(bitmap_placement, "add", counting_add)
    period = StripePeriod(map_of(geometry), 4096)
    placement = placement_of(mke2fs_sizes(size_tib << 40, options))
    _evenness(period, placement)
    assert counted["parts"] / 2 <= _looks(period, placement) <= counted["parts"] * 9
