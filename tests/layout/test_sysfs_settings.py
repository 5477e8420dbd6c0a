"""The settings in /sys/fs/ext4 that a mount does not restore."""

from __future__ import annotations

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.facts.superblock import SETTINGS
from ext4audit.layout import CONSTANT_SETTINGS, changed_settings
from support.builders import disk, filesystem, known, options, superblock, unknown


def settings(**values: int) -> Filesystem:
    """Return a filesystem with these settings, on a rotational disk."""
    stack = known(disk())
    return filesystem(settings=known(tuple(values.items())), stack=stack)


@pytest.mark.parametrize(
    ("fs", "expected"),
    [
        (settings(mb_stats=0, err_ratelimit_interval_ms=1250, mb_stream_req=16), {}),
        (settings(mb_stats=1, mb_stream_req=8), {"mb_stats": 1, "mb_stream_req": 8}),
        (settings(mb_max_linear_groups=4), {}),
        (settings(mb_max_linear_groups=0), {"mb_max_linear_groups": 0}),
        (settings(mb_max_linear_groups=0)._replace(stack=unknown("stack")), {}),
        (settings(mb_to_come=1), {"mb_to_come": 1}),
        (
            settings(mb_prefetch=32)._replace(superblock=unknown("superblock")),
            {"mb_prefetch": 32},
        ),
        (filesystem(settings=unknown("settings")), {}),
        (filesystem(settings=known(())), {}),
    ],
)
def test_settings_that_differ_from_the_default_count_as_changed(
    fs: Filesystem, expected: dict[str, int]
) -> None:
    """A setting without a known default counts as changed: setting it again is harmless."""
    assert dict(changed_settings(fs)) == expected


def test_a_stripe_makes_the_preallocation_larger() -> None:
    """The default is a multiple of the stripe if a cluster is smaller."""
    fs = settings(mb_group_prealloc=576)._replace(superblock=known(superblock(cluster_blocks=1)))
    assert dict(changed_settings(fs)) == {"mb_group_prealloc": 576}
    assert changed_settings(fs._replace(options=known(options("stripe=96")))) == ()


def test_each_default_belongs_to_a_setting_that_is_read() -> None:
    """A misspelled name would never match a setting."""
    assert CONSTANT_SETTINGS.keys() <= set(SETTINGS)
    assert list(SETTINGS) == sorted(set(SETTINGS))
