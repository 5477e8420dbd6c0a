from __future__ import annotations

import pytest

from ext4audit.assemble.options.listings import (
    OptionSources,
    provenance_of_listed,
    read_tokens,
    table_is_unreliable,
    unlisted_layer,
)
from ext4audit.facts.mount import Layer, Provenance
from ext4audit.facts.options import spec_named
from support.builders import kernel, known, mount, superblock

DEFAULT, BITS, STRING, FIELD = (
    Provenance.KERNEL_DEFAULT,
    Provenance.SUPERBLOCK_BITS,
    Provenance.SUPERBLOCK_STRING,
    Provenance.SUPERBLOCK_FIELD,
)
LIE = {"block_validity": "block_validity", "barrier": "barrier", "acl": "acl"}


@pytest.mark.parametrize(
    ("name", "layers", "expected"),
    [
        ("barrier", [(DEFAULT, "barrier")], "barrier"),
        ("barrier", [(DEFAULT, "barrier"), (BITS, "nobarrier")], "nobarrier"),
        ("barrier", [(BITS, "nobarrier"), (STRING, "barrier")], "barrier"),
        ("data", [(DEFAULT, "data=ordered"), (BITS, "data=writeback")], "data=writeback"),
        ("debug", [(DEFAULT, ""), (BITS, "debug")], "debug"),
        ("errors", [(FIELD, "errors=panic"), (STRING, "errors=continue")], "errors=panic"),
        ("errors", [(DEFAULT, "errors=continue")], None),
        ("commit", [(DEFAULT, "commit=5"), (STRING, "commit=30")], "commit=5"),
        ("stripe", [(DEFAULT, "stripe=0"), (FIELD, "stripe=64")], "stripe=0"),
        ("commit", [(STRING, "commit=30")], None),
        ("init_itable", [(DEFAULT, "init_itable=10")], "init_itable=10"),
        ("init_itable", [(DEFAULT, "init_itable=10"), (STRING, "noinit_itable")], None),
        ("data_err", [(STRING, "data_err=abort")], None),
        ("usrquota", [(STRING, "usrquota")], None),
        ("barrier", [], None),
    ],
)
def test_meaning_of_an_unlisted_option(
    name: str, layers: list[tuple[Provenance, str]], expected: str | None
) -> None:
    """The kernel compares a switch with all layers together, but a value with one layer only."""
    found = unlisted_layer(
        spec_named(name), [Layer(provenance, token, "") for provenance, token in layers]
    )
    assert (found.token if found else None) == expected


@pytest.mark.parametrize(
    ("shown", "upstream", "has_journal", "expected"),
    [
        (LIE, (4, 14, 67), False, True),
        (LIE, (4, 4, 0), False, True),
        (LIE, (5, 1, 21), False, True),
        (LIE, (4, 4), False, True),
        (LIE, (5, 2), False, False),
        (LIE, (4, 3, 6), False, False),
        (LIE, (5, 2, 0), False, False),
        (LIE, None, False, True),
        (LIE, (4, 14, 67), True, False),
        ({}, (4, 14, 67), False, False),
        ({"barrier": "nobarrier"}, (4, 19, 222), False, False),
    ],
)
def test_mount_table_without_a_journal_is_unreliable_from_4_4_to_5_1(
    shown: dict[str, str], upstream: tuple[int, ...] | None, *, has_journal: bool, expected: bool
) -> None:
    """The unreliable table is recognized by options that a correct table hardly ever prints."""
    assert table_is_unreliable(shown, upstream, has_journal=has_journal) is expected


@pytest.mark.parametrize(
    ("name", "word", "upstream", "superblock_read", "provenance"),
    [
        ("barrier", "nobarrier", (4, 14, 67), False, Provenance.MOUNT),
        ("data", "data=writeback", (4, 14, 67), False, Provenance.MOUNT),
        ("data", "data=ordered", (4, 14, 67), True, Provenance.KERNEL_DEFAULT),
        ("data", "data=ordered", (3, 10, 0), False, Provenance.KERNEL_DEFAULT),
        ("data", "data=ordered", (4, 16, 18), False, Provenance.KERNEL_DEFAULT),
        ("data", "data=ordered", (4, 17), False, Provenance.MOUNT),
        ("data", "data=ordered", (4, 17, 0), False, Provenance.MOUNT),
        ("barrier", "barrier", (2, 6, 32), True, Provenance.UNKNOWN),
        ("barrier", "nobarrier", (2, 6, 32), True, Provenance.MOUNT),
        ("barrier", "barrier", (3, 4), True, Provenance.MOUNT),
        ("commit", "commit=30", (6, 1, 0), True, Provenance.MOUNT),
        ("commit", "commit=30", (6, 1, 0), False, Provenance.UNKNOWN),
        ("stripe", "stripe=64", (6, 1, 0), False, Provenance.UNKNOWN),
        ("resuid", "resuid=1", (6, 1, 0), True, Provenance.UNKNOWN),
        ("init_itable", "init_itable=20", (6, 1, 0), False, Provenance.UNKNOWN),
    ],
)
def test_not_all_that_is_shown_was_given_to_mount(
    name: str,
    word: str,
    upstream: tuple[int, ...],
    *,
    superblock_read: bool,
    provenance: Provenance,
) -> None:
    """A value may come from a superblock that was not read; old kernels listed some defaults."""
    found = provenance_of_listed(
        spec_named(name),
        word,
        upstream,
        superblock_read=superblock_read,
        is_default=word == "data=ordered",
    )
    assert found is provenance


@pytest.mark.parametrize(
    ("upstream", "believed"),
    [((4, 16, 18), True), ((4, 17, 0), False), ((5, 7, 19), False), ((5, 8, 0), True)],
)
def test_a_false_token_of_the_file_is_left_out(
    upstream: tuple[int, int, int], *, believed: bool
) -> None:
    """From 4.17 to 5.7 the file lists dax on kernels that were built without it."""
    by = kernel()._replace(upstream=upstream)
    sources = OptionSources(known(("dax",)), known(mount()), known(superblock()), known(by))
    assert ("dax" in (read_tokens(sources).in_file or {})) is believed


def test_data_ordered_of_an_unknown_kernel_has_no_origin() -> None:
    """Without the kernel's version, data=ordered may be the kernel's own default."""
    found = provenance_of_listed(
        spec_named("data"), "data=ordered", None, superblock_read=True, is_default=False
    )
    assert found is Provenance.UNKNOWN


def test_a_word_that_no_table_knows_was_given_to_mount() -> None:
    """Options that only a vendor's kernel lists were set explicitly."""
    found = provenance_of_listed(
        None, "synoacl", (4, 4, 0), superblock_read=False, is_default=False
    )
    assert found is Provenance.MOUNT
