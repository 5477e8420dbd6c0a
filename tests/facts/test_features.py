"""The features that versions of e2fsprogs set by default."""

from __future__ import annotations

import pytest

from ext4audit.facts.features_and_bugs import (
    E2fsprogsVersion,
    feature_arguments,
    features_to_add,
    parse_banner,
    parse_version,
)

V42, V45, V46, V47 = (1, 42, 13), (1, 45, 6), (1, 46, 5), (1, 47, 0)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.46.5", (1, 46, 5)),
        ("1.43", (1, 43, 0)),
        ("1.47.4", (1, 47, 4)),
        ("1.41.12", (1, 41, 12)),
    ],
)
def test_known_and_older_versions(text: str, version: E2fsprogsVersion) -> None:
    """A version older than all known ones is parsed, and doubted elsewhere."""
    assert parse_version(text) == version


@pytest.mark.parametrize("text", ["1.47.9", "1.48", "2.0", "1.46.5-rc1", "", "x", "1.46.5.1"])
def test_unknown_versions_are_refused(text: str) -> None:
    """The default features of an unknown version are unknown."""
    with pytest.raises(ValueError, match=r"version|known"):
        parse_version(text)


def test_the_banner_of_mke2fs() -> None:
    """It is printed on standard error; distributions add a suffix to the number."""
    text = "mke2fs 1.47.0 (5-Feb-2023)\n\tUsing EXT2FS Library version 1.47.0\n"
    assert parse_banner(text) == (1, 47, 0)
    assert parse_banner("mke2fs 1.47-WIP (1-Jan-2022)\n") == (1, 47, 0)
    with pytest.raises(ValueError, match="no version"):
        parse_banner("usage: mke2fs")


@pytest.mark.parametrize(
    ("local", "target", "arguments", "added"),
    [
        (V47, V46, ("^metadata_csum_seed", "^orphan_file"), frozenset()),
        (
            V47,
            V42,
            ("^64bit", "^metadata_csum", "uninit_bg", "^metadata_csum_seed", "^orphan_file"),
            frozenset(),
        ),
        (V45, V47, (), frozenset({"metadata_csum_seed", "orphan_file"})),
        (V42, V45, ("64bit", "metadata_csum", "^metadata_csum_seed", "^orphan_file"), frozenset()),
    ],
)
def test_options_that_make_the_features_of_another_version(
    local: E2fsprogsVersion,
    target: E2fsprogsVersion,
    arguments: tuple[str, ...],
    added: frozenset[str],
) -> None:
    """Features that move no metadata are added afterwards: mke2fs may not know them."""
    assert feature_arguments(local, target) == arguments
    assert features_to_add(local, target) == added
