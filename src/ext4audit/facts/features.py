"""What reads which ext4 feature, and which features each e2fsprogs sets by default.

Sources: ext4(5), "KERNEL SUPPORT"; doc/RelNotes of e2fsprogs; grub-core/fs/ext2.c of GRUB 2.06 and
2.12; grub-fstest of Debian's 2.06-13+deb12u2 on filesystems with each feature. A bound that is None
is not established, and nothing is concluded from it.

Distributions change mke2fs.conf: Debian 12 leaves both features of 1.47.0 off. Where this machine
has the very version that is planned for, its own file is the better witness.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ext4audit.facts.versions.packages import compare_dpkg

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Needs:
    """The first versions that support a feature; the kernel's in upstream numbers."""

    kernel: Version | None
    e2fsprogs: Version | None


FEATURES: Mapping[str, Needs] = MappingProxyType(
    {
        "64bit": Needs((2, 6, 28), (1, 42, 0)),
        "metadata_csum": Needs((3, 18), (1, 43, 0)),
        "metadata_csum_seed": Needs((4, 4), (1, 43, 0)),
        "project": Needs((4, 5), None),
        "large_dir": Needs((4, 13), None),
        "ea_inode": Needs((4, 13), None),
        "casefold": Needs((5, 2), (1, 45, 0)),
        "verity": Needs((5, 4), None),
        "stable_inodes": Needs((5, 5), None),
        "fast_commit": Needs((5, 10), (1, 46, 0)),
        "orphan_file": Needs((5, 15), (1, 47, 0)),
    }
)

GRUB_SINCE: Mapping[str, Version | None] = MappingProxyType(
    {
        "metadata_csum_seed": (2, 12),
        "large_dir": (2, 12),
        "inline_data": None,
        "casefold": None,
        "ea_inode": None,
        "bigalloc": None,
    }
)
"""Features for which GRUB up to 2.06 refuses a filesystem, and the first that reads them.

orphan_file is none: GRUB does not look at it. None: no release is known to read it.
"""

IN_DEBIANS_GRUB = frozenset({"metadata_csum_seed", "large_dir"})
DEBIANS_GRUB = "2.06-8"
"""What Debian put back into its GRUB, and with which package: bug 1030846."""
_DEBIAN_REVISION = re.compile(r"[0-9][^-]*-[^-]+")


def grub_reads(package: str, feature: str) -> bool:
    """Whether the GRUB of a package ("2.06-13+deb12u1") is known to read a feature."""
    version, first = grub_version(package), GRUB_SINCE.get(feature)
    if version is not None and first is not None and version >= first:
        return True
    is_debian = _DEBIAN_REVISION.fullmatch(package) is not None and "ubuntu" not in package
    return is_debian and feature in IN_DEBIANS_GRUB and compare_dpkg(package, DEBIANS_GRUB) >= 0


def grub_version(text: str) -> Version | None:
    """Parse "2.06-13+deb12u1" to (2, 6); None where no number begins it."""
    match = re.match(r"([0-9]+)\.([0-9]+)", text)
    return (int(match[1]), int(match[2])) if match else None


E2fsprogsVersion = tuple[int, int, int]

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
    since: E2fsprogsVersion
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


def parse_version(text: str) -> E2fsprogsVersion:
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


def parse_banner(text: str) -> E2fsprogsVersion:
    """Parse what `mke2fs -V` prints: "mke2fs 1.47.0 (5-Feb-2023)"; ValueError."""
    match = re.search(r"^mke2fs (1)\.([0-9]+)(?:\.([0-9]+))?", text, re.MULTILINE)
    if match is None:
        raise ValueError("mke2fs -V names no version")
    return 1, int(match[2]), int(match[3] or 0)


def feature_arguments(local: E2fsprogsVersion, target: E2fsprogsVersion) -> tuple[str, ...]:
    """Return the words of -O that make the mke2fs of one version set what another's would."""
    words = []
    for each in FEATURE_DEFAULTS:
        if target < each.since:
            words += [f"^{each.feature}", each.instead]
        elif local < each.since and each.moves_metadata:
            words.append(each.feature)
    return tuple(word for word in words if word)


def features_to_add(local: E2fsprogsVersion, target: E2fsprogsVersion) -> frozenset[str]:
    """Return the features that the target sets, and that this machine's mke2fs may not know."""
    return frozenset(
        each.feature
        for each in FEATURE_DEFAULTS
        if local < each.since <= target and not each.moves_metadata
    )
