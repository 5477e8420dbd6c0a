"""Random options for mke2fs: the words on its command line, and their meaning."""

from __future__ import annotations

from hypothesis import strategies as st

from ext4audit.layout.mkfs_parameters import DEFAULT_FEATURES, MkfsOptions

MIB = 1 << 20
LARGE_BLOCK_BYTES = 4096
FEATURE_SETS = [
    "",
    "",
    "",
    "meta_bg,^resize_inode",
    "^resize_inode",
    "sparse_super2",
    "sparse_super2,^resize_inode",
    "^sparse_super,^resize_inode",
    "^64bit",
    "^flex_bg",
    "bigalloc",
    "bigalloc,^64bit",
]


@st.composite
def mkfs_cases(draw: st.DrawFn) -> tuple[int, str, MkfsOptions]:
    """Draw a size in bytes, and options both as words for mke2fs and as `MkfsOptions`."""
    block_bytes = draw(st.sampled_from([1024, 2048, 4096, 4096, 65536]))
    features = draw(st.sampled_from(FEATURE_SETS))
    size_bytes = 64 * MIB + draw(
        st.integers(0, 1 << draw(st.integers(20, _power(block_bytes, features))))
    )
    is_clustered = "bigalloc" in features
    options = MkfsOptions(
        features=_features(f"^has_journal,{features}"),
        block_bytes=block_bytes,
        group_option=draw(st.none() | st.integers(0, 40).map(lambda n: 8 * block_bytes - 8 * n)),
        flex_bg_groups=16
        if "^flex_bg" in features
        else draw(st.sampled_from([1, 2, 4, 8, 16, 16, 32, 64, 256])),
        bytes_per_inode=draw(st.none() | st.sampled_from([65536, 1 << 17, 1 << 20])),
        inode_bytes=draw(st.sampled_from([128, 256, 256, 512])),
        cluster_bytes=block_bytes * draw(st.sampled_from([2, 4, 16])) if is_clustered else None,
        backup_superblocks=draw(st.integers(0, 2)) if "sparse_super2" in features else 2,
        stride_blocks=draw(st.sampled_from([0, 0, 16, 130])),
    )
    return size_bytes, _words(options, features), options


def _power(block_bytes: int, features: str) -> int:
    """Return the exponent of the maximum size, a power of two.

    Copies of the descriptors take memory, because the file is in memory: at 1 TiB in blocks of
    1 KiB without sparse_super, they take 8 MiB in each of 131,072 groups.
    """
    if "^sparse_super" in features:
        return 32
    return 40 if block_bytes >= LARGE_BLOCK_BYTES else 36


def _features(words: str) -> frozenset[str]:
    names = [word for word in words.split(",") if word]
    cleared = {name[1:] for name in names if name.startswith("^")}
    return (DEFAULT_FEATURES | {name for name in names if not name.startswith("^")}) - cleared


def _words(options: MkfsOptions, features: str) -> str:
    extended = [f"stride={options.stride_blocks}", "lazy_itable_init=1", "nodiscard"]
    if "sparse_super2" in features:
        extended.append(f"num_backup_sb={options.backup_superblocks}")
    words = [f"-b {options.block_bytes} -I {options.inode_bytes}"]
    words += [f"-O ^has_journal{',' + features if features else ''}"]
    words += [f"-g {options.group_option}"] * (options.group_option is not None)
    words += [f"-G {options.flex_bg_groups}"] * ("^flex_bg" not in features)
    words += [f"-i {options.bytes_per_inode}"] * (options.bytes_per_inode is not None)
    words += [f"-C {options.cluster_bytes}"] * (options.cluster_bytes is not None)
    return " ".join([*words, f"-E {','.join(extended)}"])
