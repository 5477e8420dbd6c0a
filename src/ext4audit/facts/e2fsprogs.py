"""What versions of e2fsprogs set by default, as upstream releases them.

Distributions change mke2fs.conf: Debian 12 leaves both features of 1.47.0 off. Where this machine
has the very version that is planned for, its own file is the better witness.
"""

from __future__ import annotations

import re

from ext4audit.records import dataclass

Version = tuple[int, int, int]

_VERSION = re.compile(r"1\.([0-9]{1,2})(?:\.([0-9]{1,2}))?")
LAST_PATCH = {42: 13, 43: 9, 44: 6, 45: 7, 46: 6, 47: 4}
"""The releases of each series that are known (doc/RelNotes of e2fsprogs)."""
OLDEST = (1, 42, 0)


@dataclass(frozen=True, slots=True)
class FeatureDefault:
    """A feature that `mke2fs -t ext4` sets from a version on.

    `instead` stands in its place before. `moves_metadata` says that the places of the block
    groups' metadata depend on it.
    """

    feature: str
    since: Version
    moves_metadata: bool
    instead: str = ""


FEATURE_DEFAULTS = (
    # doc/RelNotes/v1.43.0.txt
    FeatureDefault("64bit", (1, 43, 0), moves_metadata=True),
    FeatureDefault("metadata_csum", (1, 43, 0), moves_metadata=True, instead="uninit_bg"),
    # doc/RelNotes/v1.47.0.txt; both are placed after all that belongs to block groups.
    FeatureDefault("metadata_csum_seed", (1, 47, 0), moves_metadata=False),
    FeatureDefault("orphan_file", (1, 47, 0), moves_metadata=False),
)


def parse_version(text: str) -> Version:
    """Parse "1.46.5" or "1.43"; raises ValueError for a version that is not known.

    A version older than `OLDEST` is returned: what it does is only not known in detail.
    """
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError("not a version of e2fsprogs (1.46.5)")
    version = (1, int(match[1]), int(match[2] or 0))
    if version >= OLDEST and version[2] > LAST_PATCH.get(version[1], -1):
        known = f"{OLDEST[0]}.{OLDEST[1]} to 1.{max(LAST_PATCH)}.{LAST_PATCH[max(LAST_PATCH)]}"
        raise ValueError(f"not known here; known are {known}")
    return version


def parse_banner(text: str) -> Version:
    """Parse what `mke2fs -V` prints: "mke2fs 1.47.0 (5-Feb-2023)"; ValueError."""
    match = re.search(r"^mke2fs (1)\.([0-9]+)(?:\.([0-9]+))?", text, re.MULTILINE)
    if match is None:
        raise ValueError("mke2fs -V names no version")
    return 1, int(match[2]), int(match[3] or 0)


def features_to_say(local: Version, target: Version) -> tuple[str, ...]:
    """Return the words of -O that make the mke2fs of one version set what another's would."""
    words = []
    for each in FEATURE_DEFAULTS:
        if target < each.since:
            words += [f"^{each.feature}", each.instead]
        elif local < each.since and each.moves_metadata:
            words.append(each.feature)
    return tuple(word for word in words if word)


def features_to_add(local: Version, target: Version) -> frozenset[str]:
    """Return the features that the target sets, and that this machine's mke2fs may not know."""
    return frozenset(
        each.feature
        for each in FEATURE_DEFAULTS
        if local < each.since <= target and not each.moves_metadata
    )
