"""without_mke2fs: what mke2fs will make, computed by the rules of upstream."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ext4audit.assemble.planned.closed_form import EXTENDED, WITH_VALUE, without_mke2fs
from ext4audit.evidence import Known, Unknown, Why
from ext4audit.facts.plan import Plan
from ext4audit.facts.superblock import Sizes, Superblock
from support.examples import examples
from support.hosts.plans import disk_plan, plan, predict
from support.images.mke2fs import needs_e2fsprogs

GIB, TIB = 1 << 30, 1 << 40
NO_MKE2FS = Unknown("mke2fs", Why.ABSENT, "not found")
NEWER = {"metadata_csum_seed", "orphan_file"}


def superblock_of(of: Plan, *, simulated: bool = False) -> Superblock:
    """Return the superblock, which must be known."""
    found = (predict(of) if simulated else without_mke2fs(of, NO_MKE2FS)).superblock
    assert isinstance(found, Known), found
    return found.value


@pytest.mark.parametrize(
    ("of", "stride", "width"),
    [
        (plan(), 128, 1536),
        (plan(level="raid5", members=4), 128, 384),
        (plan("-O bigalloc", level="raid5", members=4, chunk_bytes=32 << 10), 8, 48),
        (disk_plan(), 0, 0),
    ],
)
def test_the_stripe_of_an_array_is_computed_without_mke2fs(
    of: Plan, stride: int, width: int
) -> None:
    """A chunk, and the chunks of data in a stripe; one disk has none."""
    made = superblock_of(of)
    assert (made.stride_blocks, made.stripe_width_blocks) == (stride, width)


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        ("-b 1000", "1000 is not a size of blocks"),
        ("-i x", "-i x: not a number"),
        ("-N 5m", "-N 5m: not a number"),
        ("-m 51", "-m 51: not a percentage of at most 50"),
        ("-E num_backup_sb=x", "num_backup_sb= x: not a number"),
        ("-E resize=x", "-E resize x: not a number"),
        ("-E resize=1000", "-E resize: it must be more than the size"),
        ("-E desc_size=48", "48 is not a size of group descriptors"),
        ("-E desc_size=128 -O ^64bit", "-E desc_size needs 64bit"),
        ("-E resize=1g,desc-size=128 -b 1k", "-E desc_size must be before resize"),
        ("-O meta_bg", "meta_bg and resize_inode exclude each other"),
        ("-E resize=1g -O meta_bg,^resize_inode", "meta_bg and resize_inode exclude each other"),
        ("-O ^sparse_super", "-O resize_inode needs sparse_super"),
        ("-t ext3 -O bigalloc", "-O bigalloc needs extent"),
        ("-t ext2 -O 64bit", "-O 64bit needs extent"),
        ("-C 64k", "-C needs bigalloc"),
        ("-O bigalloc -C 1k", "1024 is not a size of clusters"),
        ("-O bigalloc -b 4k -C 2k", "-C 2048: a cluster is not smaller than a block"),
        ("-t ext3 -G 16", "-G needs flex_bg"),
        ("-G 12", "-G 12: not a power of two"),
        ("-i 1023", "-i 1023: not a ratio from 1024 to 67108864"),
        ("-I 200", "-I 200: not a power of two from 128 to 1024"),
        ("-I 2048", "-I 2048: not a power of two from 128 to 1024"),
        ("-I 128 -O project", "-O project: inodes of 128 bytes are too small"),
        ("-I 128 -E quotatype=prjquota", "-O project: inodes of 128 bytes are too small"),
        ("-N 4294967296", "4294967296 inodes are too many for 32 bits"),
        ("-J size=900", "a journal of 921600 blocks is too large"),
        ("-b 4k -J size=3", "-J size: 768 blocks are not 1024 to 10240000"),
        ("-E num_backup_sb=3", "num_backup_sb=3: not 0, 1 or 2"),
        ("-E strides=16", "-E strides=16: not a parameter that mke2fs takes"),
        ("-E stride=16,lazy-itable-init=0", "-E lazy-itable-init=0: not a parameter"),
        ("-E resize", "-E resize: not a parameter that mke2fs takes"),
        ("-O bigalloc -C 8M -N 64", "12 clusters may be too few for a filesystem"),
        ("-E desc_size=2048", "descriptors of 2048 bytes fill no block"),
        ("-O compression", "-O compression: not a feature that mke2fs sets"),
        ("-O metadata_csum_seed,^metadata_csum", "metadata_csum_seed needs metadata_csum"),
        ("-O orphan_file,^has_journal", "-O orphan_file needs has_journal"),
    ],
)
def test_without_mke2fs_a_refusal_names_the_option(words: str, reported: str) -> None:
    """And not a function of Python."""
    found = without_mke2fs(disk_plan(words, size_bytes=100 << 20), NO_MKE2FS).superblock
    assert isinstance(found, Unknown)
    assert reported in found.detail


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("words", "size_bytes"),
    [
        ("-i 8M -I 128", 4 << 20),
        ("-i 64k", 512 << 10),
        ("-b 4096 -I 2048", 8 << 20),
        ("-b 1024 -J size=30", 66334712),
        ("-b 1024 -J size=31", 66334712),
        ("-b 4k -N 32", 200 << 10),
        ("-b 4k -N 32", 300 << 10),
        ("-O ^flex_bg -E stride=70000", GIB),
        ("-O uninit_bg", GIB),
        ("-O uninit_bg,^metadata_csum", GIB),
        ("-E quotatype=prjquota,encoding=utf8", GIB),
        ("-O fast_commit -J size=8,fast_commit_size=100", GIB),
        ("-O fast_commit -J fast_commit_size=100", GIB),
        ("-O bigalloc,meta_bg -C 64k", 17 * TIB),
        ("-O ^64bit", 16 * TIB),
        ("-O ^64bit", 16 * TIB - 4096),
        ("-t ext3", 17 * TIB),
        ("-i 4096", 20 * TIB),
        ("-b 8k -i 2048", 48 * TIB),
        ("-O bigalloc,^sparse_super", 17 * TIB),
        ("-O bigalloc -E resize=5000000000", 17 * TIB),
        ("-O bigalloc,meta_bg -E resize=5000000000", 17 * TIB),
    ],
)
def test_without_mke2fs_what_it_changes_by_itself_is_known(words: str, size_bytes: int) -> None:
    """Or both refuse: with few inodes or blocks, or what a number beyond 32 bits clears."""
    of = disk_plan(words, size_bytes=size_bytes)
    assert_alike(of)


def assert_alike(of: Plan) -> bool:
    """Compare the superblock with that of mke2fs; return False if both refuse."""
    one, other = predict(of), without_mke2fs(of, NO_MKE2FS)
    assert isinstance(one.superblock, Known) == isinstance(other.superblock, Known), (one, other)
    if isinstance(one.superblock, Unknown):
        return False
    made, computed = superblock_of(of, simulated=True), superblock_of(of)
    for name in (*Sizes._fields, "journal_bytes", "reserved_blocks"):
        if name != "features":
            assert getattr(made, name) == getattr(computed, name), name
    assert made.features - NEWER == computed.features - NEWER
    return True


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("words", "is_taken"),
    [
        *((each, True) for each in sorted(EXTENDED - WITH_VALUE)),
        *((each, False) for each in sorted(WITH_VALUE)),
        ("stripe-width=8,desc-size=64,hash_seed=c0ffee00-1111-2222-3333-444455556666", True),
        ("encoding=utf8,encoding_flags=strict,quotatype=usrquota,orphan_file_size=4M", True),
        ("num-backup-sb=1", False),
        ("packed-meta-blocks=1", False),
        ("revision=1", False),
    ],
)
def test_without_mke2fs_parameters_of_e_are_those_of_mke2fs(words: str, *, is_taken: bool) -> None:
    """Only two have a spelling with a hyphen, and some need a value."""
    assert assert_alike(disk_plan(f"-E {words}", size_bytes=GIB)) is is_taken


@needs_e2fsprogs
@pytest.mark.parametrize(
    "words",
    [
        "-t ext3",
        "-t ext2 -J size=64",
        "-t ext3 -O extents,64bit",
        "-b 4k -i 16k -E stride=16,stripe-width=64",
        "-O bigalloc -C 64k",
        "-i 1M -J size=64 -m 0.5",
    ],
)
def test_without_mke2fs_options_are_read_as_mke2fs_reads_them(words: str) -> None:
    """Units, and the features of each type."""
    of = disk_plan(words, size_bytes=40 * GIB)
    one, other = superblock_of(of, simulated=True), superblock_of(of)
    names = "block_bytes cluster_blocks inode_count journal_bytes groups reserved_blocks".split()
    names += ["stride_blocks", "stripe_width_blocks"]
    assert [getattr(one, name) for name in names] == [getattr(other, name) for name in names]
    assert one.features - NEWER == other.features - NEWER


def test_without_mke2fs_usage_types_are_unknown() -> None:
    """What -T means is in a file of mke2fs."""
    found = without_mke2fs(disk_plan("-T largefile4"), NO_MKE2FS).superblock
    assert isinstance(found, Unknown)
    assert (found.why, found.hint) == (Why.UNSUPPORTED, "install e2fsprogs")


FEATURES = (
    "",
    "^resize_inode",
    "^64bit",
    "bigalloc",
    "sparse_super2",
    "^sparse_super",
    "meta_bg",
    "meta_bg,^resize_inode",
    "^flex_bg",
    "^has_journal",
    "fast_commit",
    "project",
)
LEAST_CLUSTERS = 64
"""With fewer, mke2fs may find no room for the root directory."""
FLAGS = {
    "-G": st.sampled_from((1, 2, 64, 100)),
    "-I": st.sampled_from((128, 512, 1024, 2048, 300)),
    "-i": st.integers(4096, 1 << 20) | st.sampled_from((1023, 1 << 23, 1 << 26, (1 << 26) + 1)),
    "-N": st.integers(1, 1 << 12),
    "-C": st.sampled_from((1024, 4096, 65536)),
    "-J": st.integers(1, 64).map("size={}".format),
}


@st.composite
def cases(draw: st.DrawFn) -> Plan:
    """Draw a plan from what decides how many descriptors and blocks mke2fs reserves."""
    block_bytes = draw(st.sampled_from((1024, 2048, 4096)))
    size_bytes = draw(st.integers(1 << 23, 1 << draw(st.integers(24, 35))))
    extended = draw(st.sampled_from(((), (), ("desc_size=128",), ("desc_size=1024",))))
    times = draw(st.none() | st.floats(1.1, 4000))
    if times is not None:
        kib = draw(st.booleans())
        most = int(size_bytes * times) // (1024 if kib else block_bytes)
        extended = (*extended, f"resize={most}{'k' if kib else ''}")
    words = [f"-b {block_bytes} -m {draw(st.sampled_from(('5', '1', '7.3')))}"]
    feature = draw(st.sampled_from(FEATURES))
    words += [f"-O {feature}"] * bool(feature)
    size_bytes += (LEAST_CLUSTERS << 16) * (feature == "bigalloc")
    words += [f"-g {8 * draw(st.integers(100, block_bytes))}"] * draw(st.booleans())
    for flag in draw(st.lists(st.sampled_from(sorted(FLAGS)), max_size=2, unique=True)):
        words.append(f"{flag} {draw(FLAGS[flag])}")
    words += [f"-E {','.join(extended)}"] * bool(extended)
    return disk_plan(" ".join(words), size_bytes=size_bytes)


@needs_e2fsprogs
@examples(60)
@given(cases())
@example(disk_plan("-b 4096", size_bytes=408604911))  # with smaller groups than at first
def test_without_mke2fs_the_sizes_are_those_of_mke2fs(of: Plan) -> None:
    """-E resize, -E desc_size and 64bit, and a last group that is left out; or both refuse."""
    assume(assert_alike(of))
