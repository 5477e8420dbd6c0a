"""Which versions of kernel, e2fsprogs and GRUB support an ext4 feature, and mke2fs's defaults.

Sources: ext4(5), "KERNEL SUPPORT"; doc/RelNotes of e2fsprogs; grub-core/fs/ext2.c of GRUB 2.06 and
2.12; grub-fstest of Debian's 2.06-13+deb12u2 on filesystems with each feature. A bound that is None
is not established, and nothing is concluded from it.

Distributions change mke2fs.conf: Debian 12 leaves both features of 1.47.0 off. Where this machine
has the planned version of e2fsprogs, its own mke2fs.conf counts instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts import read_table
from ext4audit.facts.host import Kernel
from ext4audit.facts.versions import (
    ANY,
    BOUNDS,
    DEBIAN,
    UPSTREAM,
    Exposure,
    KernelRange,
    KernelTree,
    compare_dpkg,
    identify,
)

Version = tuple[int, ...]


class MinimumVersions(NamedTuple):
    """The first versions that support a feature; the kernel's in upstream numbers."""

    kernel: Version | None
    e2fsprogs: Version | None


FEATURES: Mapping[str, MinimumVersions] = MappingProxyType(
    {
        "64bit": MinimumVersions((2, 6, 28), (1, 42, 0)),
        "metadata_csum": MinimumVersions((3, 18), (1, 43, 0)),
        "metadata_csum_seed": MinimumVersions((4, 4), (1, 43, 0)),
        "project": MinimumVersions((4, 5), None),
        "large_dir": MinimumVersions((4, 13), None),
        "ea_inode": MinimumVersions((4, 13), None),
        "casefold": MinimumVersions((5, 2), (1, 45, 0)),
        "verity": MinimumVersions((5, 4), None),
        "stable_inodes": MinimumVersions((5, 5), None),
        "fast_commit": MinimumVersions((5, 10), (1, 46, 0)),
        "orphan_file": MinimumVersions((5, 15), (1, 47, 0)),
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
"""Features for which GRUB up to 2.06 refuses a filesystem, and the first release that reads them.

None: no release is known to read it. orphan_file is not here: GRUB ignores it. Of bigalloc it is
the block size that decides (`grub_obstacles`).
"""
GRUB_BIGALLOC_FAILS = 1024
"""The block size with which GRUB does not find the group descriptors of a bigalloc filesystem:
their place depends on s_first_data_block, which is 0 with bigalloc."""

DEBIAN_GRUB_BACKPORTS = frozenset({"metadata_csum_seed", "large_dir"})
DEBIAN_GRUB_SINCE = "2.06-8"
"""The features that Debian backported to its GRUB, and since which package: bug 1030846."""
_DEBIAN_REVISION = r"[0-9][^-]*-[^-]+"


def grub_obstacles(features: frozenset[str], block_bytes: int) -> tuple[str, ...]:
    """Return the features of a filesystem that some or all releases of GRUB do not read."""
    found = GRUB_SINCE.keys() & features
    if block_bytes != GRUB_BIGALLOC_FAILS:
        found -= {"bigalloc"}
    return tuple(sorted(found))


def grub_reads(package: str, feature: str) -> bool:
    """Whether the GRUB of a package ("2.06-13+deb12u1") is known to read a feature."""
    version, first = grub_version(package), GRUB_SINCE.get(feature)
    if version is not None and first is not None and version >= first:
        return True
    is_debian = re.fullmatch(_DEBIAN_REVISION, package) is not None and "ubuntu" not in package
    return (
        is_debian
        and feature in DEBIAN_GRUB_BACKPORTS
        and compare_dpkg(package, DEBIAN_GRUB_SINCE) >= 0
    )


def grub_version(text: str) -> Version | None:
    """Parse "2.06-13+deb12u1" to (2, 6); None for a text that does not start with a number."""
    match = re.match(r"([0-9]+)\.([0-9]+)", text)
    return (int(match[1]), int(match[2])) if match else None


E2fsprogsVersion = tuple[int, int, int]

_VERSION = r"1\.([0-9]{1,2})(?:\.([0-9]{1,2}))?"
LAST_PATCH = {42: 13, 43: 9, 44: 6, 45: 7, 46: 6, 47: 4}
"""The releases of each series that are known (doc/RelNotes of e2fsprogs)."""
OLDEST = (1, 42, 0)


class FeatureDefault(NamedTuple):
    """A feature that `mke2fs -t ext4` sets from a version on.

    `instead` is the default before. `moves_metadata` means that the places of the block groups'
    metadata depend on it.
    """

    feature: str
    since: E2fsprogsVersion
    moves_metadata: bool
    instead: str = ""


FEATURE_DEFAULTS = (
    # doc/RelNotes/v1.43.0.txt
    FeatureDefault("64bit", (1, 43, 0), moves_metadata=True),
    FeatureDefault("metadata_csum", (1, 43, 0), moves_metadata=True, instead="uninit_bg"),
    # doc/RelNotes/v1.47.0.txt; both are placed behind the metadata of block groups.
    FeatureDefault("metadata_csum_seed", (1, 47, 0), moves_metadata=False),
    FeatureDefault("orphan_file", (1, 47, 0), moves_metadata=False),
)


def parse_version(text: str) -> E2fsprogsVersion:
    """Parse "1.46.5" or "1.43"; raises ValueError for a version that is not known.

    A version older than `OLDEST` is returned too: only its details are not known.
    """
    match = re.fullmatch(_VERSION, text)
    if match is None:
        raise ValueError("not a version of e2fsprogs (1.46.5)")
    version = (1, int(match[1]), int(match[2] or 0))
    if version >= OLDEST and version[2] > LAST_PATCH.get(version[1], -1):
        known = f"{OLDEST[0]}.{OLDEST[1]} to 1.{max(LAST_PATCH)}.{LAST_PATCH[max(LAST_PATCH)]}"
        raise ValueError(f"not known here; known are {known}")
    return version


def parse_banner(text: str) -> E2fsprogsVersion:
    """Parse the output of `mke2fs -V`: "mke2fs 1.47.0 (5-Feb-2023)"; ValueError."""
    match = re.search(r"^mke2fs (1)\.([0-9]+)(?:\.([0-9]+))?", text, re.MULTILINE)
    if match is None:
        raise ValueError("mke2fs -V names no version")
    return 1, int(match[2]), int(match[3] or 0)


def feature_arguments(local: E2fsprogsVersion, target: E2fsprogsVersion) -> tuple[str, ...]:
    """Return the -O arguments that make mke2fs `local` set what `target` sets."""
    names = []
    for each in FEATURE_DEFAULTS:
        if target < each.since:
            names += [f"^{each.feature}", each.instead]
        elif local < each.since and each.moves_metadata:
            names.append(each.feature)
    return tuple(name for name in names if name)


def features_to_add(local: E2fsprogsVersion, target: E2fsprogsVersion) -> frozenset[str]:
    """Return the features that the target sets and this machine's mke2fs may not know."""
    return frozenset(
        each.feature
        for each in FEATURE_DEFAULTS
        if local < each.since <= target and not each.moves_metadata
    )


TABLE = "kernel_bugs.toml"
WORST_OF = {"confirmed": "high", "likely": "medium", "possible": "low"}
"""The worst severity for each confidence."""
LEVELS = ("critical", "high", "medium", "low", "info")
UNAFFECTED_NOTE = "outside all kernel ranges that are known to be affected"
VERSION_HINT = "check uname -v or /proc/version_signature; in a plan, use --kernel 6.1.76"
UNKNOWN_VENDOR_FIX = "its vendor may have backported the fix"


def exposure(code: str, kernel: Evidence[Kernel]) -> Evidence[Exposure]:
    """Return whether a kernel has the bug of a rule.

    The ranges of its own tree count first, then those for any tree. Without either, upstream's
    ranges decide: likely for Debian, whose kernels follow the stable updates, and possible at best
    for other vendors, whose backports are not known. Unknown where a range begins or ends inside
    a series and the kernel's stable update is not known.
    """
    if isinstance(kernel, Unknown):
        return kernel
    tree = identify(kernel.value)
    ranges = all_ranges()[code]
    own = (r for r in ranges if r.tree in {tree.name, ANY} and r.holds(tree))
    found = next(own, None)
    if found is not None:
        return Known(found.exposure, kernel.origin)
    return _by_upstream(ranges, tree, kernel.origin)


def _by_upstream(
    ranges: tuple[KernelRange, ...], tree: KernelTree, origin: str
) -> Evidence[Exposure]:
    """Return the exposure of a kernel of another tree by upstream's ranges."""
    bad = [r for r in ranges if r.tree == UPSTREAM and r.exposure.affected and r.may_hold(tree)]
    if not bad:
        return Known(Exposure(affected=False, note=UNAFFECTED_NOTE), origin)
    lowest, highest = (next((r for r in bad if r.holds(end)), None) for end in tree.ends())
    if lowest is None or highest is None:
        what, detail = "stable update of the kernel", f"{tree.package} does not show it"
        return Unknown(what, Why.ABSENT, detail, VERSION_HINT)
    order = tuple(WORST_OF)
    found = max(lowest.exposure, highest.exposure, key=lambda one: order.index(one.confidence))
    if tree.name == DEBIAN:
        return Known(_capped(found, "likely"), origin)
    found = _capped(found, "possible")
    return Known(found._replace(note=f"{found.note}; {UNKNOWN_VENDOR_FIX}"), origin)


def _capped(found: Exposure, confidence: str) -> Exposure:
    """Return an exposure with at most this confidence, and the severity that goes with it."""
    order = tuple(WORST_OF)
    lower = max(found.confidence, confidence, key=order.index)
    severity = max(found.severity, WORST_OF[lower], key=LEVELS.index)
    return found._replace(confidence=lower, severity=severity)


@cache
def all_ranges() -> Mapping[str, tuple[KernelRange, ...]]:
    """Return the ranges by the code of the rule, in the order in which they are tried."""
    return {code: tuple(_ranges(bug)) for code, bug in read_table(TABLE).items()}


def _ranges(bug: Mapping[str, Any]) -> Iterator[KernelRange]:
    shared = {name: bug[name] for name in ("symptom", "condition", "fix", "source") if name in bug}
    for entry in bug["range"]:
        bounds = {name: entry[name] for name in BOUNDS if name in entry}
        rest = {name: value for name, value in entry.items() if name not in bounds}
        bounds["exposure"] = Exposure(**{"affected": True, **shared, **rest})
        yield KernelRange(**bounds)
