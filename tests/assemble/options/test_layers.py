from __future__ import annotations

import pytest

from ext4audit.assemble.options import option_layers
from ext4audit.evidence import Evidence, Known
from ext4audit.facts.host import Kernel
from ext4audit.facts.mount import Layer, Provenance
from ext4audit.facts.options import spec_named, words_of_string
from ext4audit.facts.superblock import Superblock
from support.builders import kernel, superblock, unknown
from support.options.evidence import unlisted

NO_SUPERBLOCK = unknown("superblock")
NO_KERNEL = unknown("kernel release")
DUMPE2FS = "dumpe2fs -h /dev/sda"


def layers(
    name: str,
    release: str | None = "6.1.192",
    fields: dict[str, object] | None = None,
    fstype: str | None = "ext4",
) -> list[tuple[Provenance, str]]:
    """Return the provenance and the token of each layer of an option."""
    on_kernel: Evidence[Kernel] = Known(kernel(release), "uname") if release else NO_KERNEL
    on_disk: Evidence[Superblock] = NO_SUPERBLOCK
    if fields is not None:
        on_disk = Known(superblock(**fields), DUMPE2FS)
    found = option_layers(spec_named(name), unlisted(on_kernel, on_disk, fstype))
    return [(layer.provenance, layer.token) for layer in found]


@pytest.mark.parametrize(
    ("name", "release", "token"),
    [
        ("barrier", "3.10.108", "barrier"),
        ("barrier", "7.2.13", "barrier"),
        ("delalloc", "4.14.67", "delalloc"),
        ("dioread_nolock", "5.5.19", "nodioread_nolock"),
        ("dioread_nolock", "5.6.0", "dioread_nolock"),
        ("auto_da_alloc", "4.19.222", "auto_da_alloc"),
        ("data", "6.1.192", "data=ordered"),
        ("commit", "6.1.192", "commit=5"),
        ("errors", "6.1.192", "errors=continue"),
        ("journal_async_commit", "6.1.192", ""),
    ],
)
def test_the_kernels_default_is_the_first_layer(name: str, release: str, token: str) -> None:
    """The kernel default is the lowest layer of every option with a verified default."""
    assert layers(name, release) == [(Provenance.KERNEL_DEFAULT, token)]


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("journal_checksum", "6.1.192"),  # on by default with metadata_csum
        ("block_validity", "4.4.302"),  # not verified for kernels this old
        ("prefetch_block_bitmaps", "5.4.286"),  # the option did not exist
        ("barrier", None),
    ],
)
def test_a_default_that_is_not_certain_is_no_layer(name: str, release: str | None) -> None:
    """A default that is not verified gives no layer."""
    assert layers(name, release) == []


def test_a_layer_names_where_it_was_read() -> None:
    """The default is cited by the kernel's release, the other layers by the superblock's origin."""
    on_disk = Known(superblock(default_mount_options=("nobarrier",)), DUMPE2FS)
    sources = unlisted(Known(kernel("6.1.192"), "uname"), on_disk)
    found = option_layers(spec_named("barrier"), sources)
    assert found == (
        Layer(Provenance.KERNEL_DEFAULT, "barrier", "Linux 6.1.192"),
        Layer(Provenance.SUPERBLOCK_BITS, "nobarrier", DUMPE2FS),
    )


@pytest.mark.parametrize("fstype", ["ext2", "ext3"])
def test_ext2_and_ext3_have_no_delayed_allocation_by_default(fstype: str) -> None:
    """The driver sets delalloc for filesystems mounted as ext4 only."""
    assert layers("delalloc", fstype=fstype) == [(Provenance.KERNEL_DEFAULT, "nodelalloc")]
    assert layers("barrier", fstype=fstype) == [(Provenance.KERNEL_DEFAULT, "barrier")]


def test_an_unknown_type_is_taken_for_ext4() -> None:
    """If no mount table shows the type, ext4 is the most likely one."""
    assert layers("delalloc", fstype=None) == [(Provenance.KERNEL_DEFAULT, "delalloc")]


@pytest.mark.parametrize(
    ("name", "word", "token"),
    [
        ("barrier", "nobarrier", "nobarrier"),
        ("delalloc", "nodelalloc", "nodelalloc"),
        ("data", "journal_data", "data=journal"),
        ("data", "journal_data_ordered", "data=ordered"),
        ("data", "journal_data_writeback", "data=writeback"),
        ("discard", "discard", "discard"),
        ("grpid", "bsdgroups", "grpid"),
        ("nouid32", "uid16", "nouid32"),
        ("debug", "debug", "debug"),
        ("block_validity", "block_validity", "block_validity"),
    ],
)
def test_words_of_the_bit_field_are_options(name: str, word: str, token: str) -> None:
    """`Default mount options:` has its own vocabulary."""
    found = layers(name, fields={"default_mount_options": ("user_xattr", word)})
    assert found[-1] == (Provenance.SUPERBLOCK_BITS, token)


@pytest.mark.parametrize(
    ("string", "name", "token"),
    [
        ("nobarrier", "barrier", "nobarrier"),
        ("barrier=0", "barrier", "nobarrier"),
        ("noauto_da_alloc,nodelalloc,commit=30", "auto_da_alloc", "noauto_da_alloc"),
        ("noauto_da_alloc,nodelalloc,commit=30", "delalloc", "nodelalloc"),
        ("noauto_da_alloc,nodelalloc,commit=30", "commit", "commit=30"),
        ("commit=0", "commit", "commit=5"),
        ("commit=0x1e", "commit", "commit=30"),
        ("barrier=2", "barrier", "barrier"),
        ("dioread_lock", "dioread_nolock", "nodioread_nolock"),
        ("noload", "norecovery", "norecovery"),
        ("barrier,nobarrier", "barrier", "nobarrier"),
    ],
)
def test_the_string_is_a_list_of_mount_options(string: str, name: str, token: str) -> None:
    """`Mount options:` holds options of mount(8), and the last one wins."""
    assert layers(name, fields={"mount_option_string": string})[-1] == (
        Provenance.SUPERBLOCK_STRING,
        token,
    )


@pytest.mark.parametrize("string", ["", "nobarrierx", "xnobarrier", "resv_strict", ",,"])
def test_only_whole_words_of_the_string_count(string: str) -> None:
    """`nobarrier` is not matched inside a longer word."""
    assert layers("barrier", fields={"mount_option_string": string}) == [
        (Provenance.KERNEL_DEFAULT, "barrier")
    ]


@pytest.mark.parametrize(
    ("release", "word", "fstype", "has_layer"),
    [
        ("6.18.44", "nouid32", "ext4", True),
        ("6.18.44", "noatime", "ext4", False),
        ("6.18.44", "ro", "ext4", False),
        ("6.18.44", "commit=x", "ext4", False),
        ("6.18.44", "noacl", "ext4", False),
        ("5.10.262", "noacl", "ext4", True),
        ("5.16.20", "noacl", "ext4", True),  # not known: no kernel near it was tested
        ("6.18.44", "prjquota", "ext4", False),
        ("6.18.44", "journal_ioprio=3", "ext4", True),
        ("6.18.44", "journal_ioprio=3", "ext2", False),
        ("6.18.44", "journal_ioprio=3", None, True),
        (None, "noatime", "ext4", True),
    ],
)
def test_a_word_that_the_kernel_refuses_voids_the_string(
    release: str | None, word: str, fstype: str | None, *, has_layer: bool
) -> None:
    """Since Linux 5.17, none of the words is applied (5.10, 6.1 and 6.18 mounted)."""
    found = layers("barrier", release, {"mount_option_string": f"nobarrier,{word}"}, fstype)
    strings = [token for provenance, token in found if provenance is Provenance.SUPERBLOCK_STRING]
    assert strings == (["nobarrier"] if has_layer else [])


def test_older_kernels_apply_the_words_before_a_refused_one() -> None:
    """Linux 5.10 parses one word after the other, and applies each at once."""
    fields: dict[str, object] = {"mount_option_string": "nodelalloc,noatime,nobarrier"}
    assert layers("delalloc", "5.10.262", fields)[-1][0] is Provenance.SUPERBLOCK_STRING
    assert layers("barrier", "5.10.262", fields) == [(Provenance.KERNEL_DEFAULT, "barrier")]


@pytest.mark.parametrize(
    ("word", "listed", "applied"),
    [
        ("vendor_word", None, True),  # a vendor's kernel may take it
        ("vendor_word", ("barrier", "vendor_word"), True),
        ("vendor_word", ("barrier",), False),
        ("noacl", ("noacl",), True),  # a vendor's kernel still takes it
        ("noacl", ("acl",), False),
    ],
)
def test_the_options_file_shows_whether_a_vendors_kernel_takes_a_word(
    word: str, listed: tuple[str, ...] | None, *, applied: bool
) -> None:
    """A word that upstream does not have is refused if the file does not list it."""
    on_disk = superblock(mount_option_string=f"nobarrier,{word}")
    found = words_of_string(on_disk, (6, 18), "ext4", listed)
    assert found == ((("nobarrier", word), "") if applied else ((), word))


def test_the_layers_stand_in_the_order_of_application() -> None:
    """Default, then bits or field, then string: the last one wins."""
    fields: dict[str, object] = {"errors": "remount-ro", "mount_option_string": "errors=panic"}
    assert layers("errors", fields=fields) == [
        (Provenance.KERNEL_DEFAULT, "errors=continue"),
        (Provenance.SUPERBLOCK_FIELD, "errors=remount-ro"),
        (Provenance.SUPERBLOCK_STRING, "errors=panic"),
    ]


@pytest.mark.parametrize(
    ("width", "stride", "blocks_per_group", "token"),
    [
        (1536, 128, 32768, "stripe=1536"),
        (0, 128, 32768, "stripe=128"),
        (0, 0, 32768, None),
        # mke2fs on a disk that reports 4 KiB as its optimal I/O size.
        (1, 1, 32768, None),
        # A stripe wider than a block group is skipped, and the stride is used.
        (65536, 128, 32768, "stripe=128"),
        (65536, 65536, 32768, None),
        # The ioctl does not return the group size.
        (1536, 128, None, "stripe=1536"),
    ],
)
def test_the_stripe_is_taken_from_the_fields_as_the_kernel_takes_it(
    width: int, stride: int, blocks_per_group: int | None, token: str | None
) -> None:
    """ext4_get_stripe_size(): the width, else the stride, if it fits; one block is no stripe."""
    fields: dict[str, object] = {
        "stripe_width_blocks": width,
        "stride_blocks": stride,
        "blocks_per_group": blocks_per_group,
    }
    expected = [(Provenance.KERNEL_DEFAULT, "stripe=0")]
    if token is not None:
        expected.append((Provenance.SUPERBLOCK_FIELD, token))
    assert layers("stripe", fields=fields) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"features": frozenset()},
        {"features": frozenset(), "default_mount_options": ("journal_data_writeback",)},
        {"features": frozenset(), "mount_option_string": "data=journal"},
    ],
)
def test_no_data_mode_layers_without_a_journal(fields: dict[str, object]) -> None:
    """The kernel clears the mode, whatever the bits are."""
    assert layers("data", fields=fields) == []


@pytest.mark.parametrize(
    ("release", "block_bytes", "token"),
    [
        ("5.6.19", 1024, "dioread_nolock"),
        ("5.7.0", 1024, None),
        ("6.7.12", 1024, None),
        ("6.8.0", 1024, "dioread_nolock"),
        ("6.7.12", 4096, "dioread_nolock"),
        ("6.1.0-18-arm64", 4096, None),
        ("5.14.0-427.el9.aarch64", 4096, None),
        ("6.5.0-ppc64le", 4096, None),
        ("6.6.31+rpt-rpi-2712", 4096, None),
        ("6.5.0-1013-raspi", 4096, None),
        ("6.5.0-15-generic-64k", 4096, None),
        ("6.5.0-15-generic", 4096, "dioread_nolock"),
        ("6.1.0-18-amd64", 4096, "dioread_nolock"),
    ],
)
def test_small_blocks_had_another_default_of_dioread_nolock(
    release: str, block_bytes: int, token: str | None
) -> None:
    """From 5.7 to 6.7 dioread_nolock was the default only for blocks as large as a page."""
    found = layers("dioread_nolock", release, {"block_bytes": block_bytes})
    assert found == ([(Provenance.KERNEL_DEFAULT, token)] if token else [])


def test_an_unread_block_size_leaves_the_default_of_those_kernels_open() -> None:
    """Without the superblock the block size is unknown."""
    assert layers("dioread_nolock", "6.1.192") == []
    assert layers("dioread_nolock", "6.12.94") == [(Provenance.KERNEL_DEFAULT, "dioread_nolock")]
