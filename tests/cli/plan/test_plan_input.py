"""Values of a plan, as people write them."""

from __future__ import annotations

import re

import pytest

from ext4audit.cli.plans.values import chunk_of, count_of, mount_options_of, path_of, size_of
from ext4audit.parsers.storage_class import size_of_quantity


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("314376192", 314376192),
        ("512K", 524288),
        ("512k", 524288),
        ("512KiB", 524288),
        ("1200G", 1288490188800),
        ("64 GiB", 68719476736),
        ("100Gi", 107374182400),
        ("1.5Ti", 1649267441664),
        ("1.5T", 1649267441664),
        ("0.5K", 512),
        ("16T", 17592186044416),
        ("1P", 1125899906842624),
    ],
)
def test_sizes_are_binary(text: str, size_bytes: int) -> None:
    """Sizes are counted as in mke2fs and mdadm."""
    assert size_of(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("2TB", 2000000000000), ("64 GB", 64000000000), ("1.5kb", 1024), ("512B", 512)],
)
def test_units_with_a_B_are_decimal(text: str, size_bytes: int) -> None:  # noqa: N802 - the unit
    """They are decimal as on a disk's label, rounded to whole sectors."""
    assert size_of(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("100Gi", 100 << 30),
        ("1.5Ti", 3 << 39),
        ("1000Mi", 1000 << 20),
        ("512Ki", 512 << 10),
        ("1Pi", 1 << 50),
        ("100G", 100 * 10**9),
        ("5k", 5 * 10**3 // 512 * 512),
        ("5e10", 5 * 10**10),
        ("107374182400", 100 << 30),
        ("107374182400000m", 100 << 30),
    ],
)
def test_kubernetes_quantities(text: str, size_bytes: int) -> None:
    """A plan reads what the manifest parser returns."""
    assert size_of(size_of_quantity(text)) == size_bytes


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5.5T", "1E", "12 34", "2P", "9" * 20, "١٢"])
def test_other_sizes_are_refused(text: str) -> None:
    """Ambiguous sizes are not guessed."""
    with pytest.raises(ValueError, match=r"not a size|1 PiB"):
        size_of(text)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("512KB", "512KB is 512000 bytes; chunks are binary: 512K"),
        ("64 kb", "64 kb is 64000 bytes; chunks are binary: 64 k"),
        ("512", "512 is not a multiple of 4096 bytes (512K?)"),
        ("1K", "1K is not a multiple of 4096 bytes"),
        ("0", "0 is not between"),
    ],
)
def test_invalid_chunk_is_refused(text: str, reported: str) -> None:
    """People write 512KB for mdadm's 512K; stride=125 would not fit any disk."""
    with pytest.raises(ValueError, match=re.escape(reported)):
        chunk_of(text)
    assert [chunk_of(each) for each in ("64K", "512KiB", "520K")] == [65536, 524288, 532480]


@pytest.mark.parametrize(
    ("text", "path"), [("/data", "/data"), ("//srv/./a/", "/srv/a"), ("/", "/"), ("/a b", "/a b")]
)
def test_paths_are_normalized_like_the_kernel(text: str, path: str) -> None:
    """Otherwise the fstab entry would not match the mount."""
    assert path_of(text) == path


@pytest.mark.parametrize("text", ["", "data", "-x", "/a\nb", "/a\x1b[31m", "/\udcff"])
def test_paths_that_cannot_be_printed_are_refused(text: str) -> None:
    """They are part of commands that people copy."""
    with pytest.raises(ValueError, match="not an absolute path"):
        path_of(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ()),
        ("defaults", ()),
        ("defaults,noatime", ("noatime",)),
        ("noatime,,nobarrier", ("noatime", "nobarrier")),
        ('context="a:b,c",ro', ('context="a:b,c"', "ro")),
    ],
)
def test_quoted_commas_do_not_split_mount_options(text: str, words: tuple[str, ...]) -> None:
    """SELinux contexts may contain commas."""
    assert mount_options_of(text) == words


@pytest.mark.parametrize("text", ["a b", "a\tb", "a\nb", "\udcff"])
def test_mount_options_that_fstab_cannot_hold_are_refused(text: str) -> None:
    """A blank would start the next field."""
    with pytest.raises(ValueError, match="cannot contain blanks"):
        mount_options_of(text)


@pytest.mark.parametrize("word", ["data=bogus", "data", "errors=", "errors=stop"])
def test_option_that_every_kernel_refuses(word: str) -> None:
    """The mount line of such a plan would fail."""
    with pytest.raises(ValueError, match="the kernel refuses it"):
        mount_options_of(f"noatime,{word}")


@pytest.mark.parametrize("word", ["remount", "bind", "rbind", "move"])
def test_mount_operations_are_refused(word: str) -> None:
    """`mount -o remount` mounts nothing new, and `bind` does not mount a filesystem."""
    with pytest.raises(ValueError, match="an operation of mount"):
        mount_options_of(f"noatime,{word}")


@pytest.mark.parametrize("text", ["-1", "x", "1.5", ""])
def test_negative_limits_are_refused(text: str) -> None:
    """Flags and files have the same limits."""
    assert count_of("0") == 0
    assert count_of(256) == 256
    with pytest.raises(ValueError, match=r"negative|whole number"):
        count_of(text)
