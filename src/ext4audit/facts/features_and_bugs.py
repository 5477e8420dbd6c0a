"""Versions and ext4: the features of kernels, e2fsprogs and GRUB, and what kernels refuse or break.

`exposure` judges a kernel by kernel_bugs.toml. The features, and those that mke2fs sets by default,
are in features.toml, each with its source; a bound that is None is unknown, and nothing is
concluded from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts import TableView, cached_by_identity, read_table
from ext4audit.facts.host import Kernel
from ext4audit.facts.versions import (
    ANY,
    ARCHITECTURE,
    BOUNDS,
    DEBIAN,
    RPM_TREES,
    UPSTREAM,
    Exposure,
    KernelRange,
    KernelTree,
    compare_dpkg,
    identify,
)

Version = tuple[int, ...]

REFUSED_BY_REMOUNT: Mapping[str, Version] = MappingProxyType(
    {"data": (), "nombcache": (), "dax": (5, 8), "delalloc": (6, 13)}
)
"""Options that make a remount to another state fail, with the first kernel that refuses it, () for
all (5.10, 6.1, 6.12, 6.18 and 7.2 booted). No kernel refuses delalloc itself."""
NOT_BY_REMOUNT = frozenset({*REFUSED_BY_REMOUNT, "journal_async_commit"})
"""These, and journal_async_commit, which a remount refuses only if data is ordered."""


class MinimumVersions(NamedTuple):
    """The first versions that support a feature, None if unknown; the kernel's is upstream's."""

    kernel: Version | None
    e2fsprogs: Version | None


@cached_by_identity
def _minimum_versions(table: dict[str, Any]) -> Mapping[str, MinimumVersions]:
    return {
        name: MinimumVersions(_since(entry, "kernel"), _since(entry, "e2fsprogs"))
        for name, entry in table.items()
        if {"kernel", "e2fsprogs"} & entry.keys()
    }


def newer_features(features: frozenset[str], kernel: Kernel) -> tuple[str, ...]:
    """Return the features that are known to be newer than a kernel, sorted."""
    known = {name: needs.kernel for name, needs in FEATURES.items() if name in features}
    return tuple(name for name, since in sorted(known.items()) if since and kernel.upstream < since)


LARGE_BLOCKS_SINCE: Version = (6, 19)
"""The first kernel that mounts blocks larger than a page, if CONFIG_TRANSPARENT_HUGEPAGE is set:
"ext4: enable block size larger than page size" (cab8cbcb923a, merged for 6.19)."""
INCOMPATIBLE_OF_TYPE: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        fstype: frozenset(
            "64bit bigalloc casefold dir_nlink ea_inode encrypt extent extra_isize flex_bg "
            "huge_file inline_data large_dir metadata_csum metadata_csum_seed mmp orphan_present "
            "project quota replica uninit_bg verity".split()
        )
        for fstype in ("ext2", "ext3")
    }
)
"""Features with which the ext4 driver refuses a writable mount as ext2 or ext3
(fs/ext4/super.c: ext2_feature_set_ok, ext3_feature_set_ok)."""


@cached_by_identity
def _grub_since(table: dict[str, Any]) -> Mapping[str, Version | None]:
    return {name: _since(entry, "grub") for name, entry in table.items() if "grub" in entry}


def _since(entry: Mapping[str, Any], reader: str) -> Version | None:
    """Return the first version of a reader, None if it is unknown or there is none."""
    text = entry[reader]["since"] if reader in entry else ""
    return tuple(map(int, text.split("."))) if text else None


FEATURE_TABLE = "features.toml"
FEATURES: Mapping[str, MinimumVersions] = TableView(
    lambda: _minimum_versions(read_table(FEATURE_TABLE))
)
GRUB_SINCE: Mapping[str, Version | None] = TableView(lambda: _grub_since(read_table(FEATURE_TABLE)))
"""Features that keep GRUB from reading a filesystem, and the first release that supports each.

None means that no release is known to support it. orphan_file is not listed: GRUB ignores it.
bigalloc is an obstacle only with one block size (`grub_obstacles`).
"""
GRUB_BIGALLOC_FAILS = 1024
"""The block size with which GRUB cannot find the group descriptors of a bigalloc filesystem:
their location depends on s_first_data_block, which is 0 with bigalloc."""

_DEBIAN_REVISION = r"[0-9][^-]*-[^-]+"


def grub_obstacles(features: frozenset[str], block_bytes: int) -> tuple[str, ...]:
    """Return the features of a filesystem that some or all GRUB releases cannot read, sorted."""
    found = GRUB_SINCE.keys() & features
    if block_bytes != GRUB_BIGALLOC_FAILS:
        found -= {"bigalloc"}
    return tuple(sorted(found))


def grub_reads(package: str, feature: str) -> bool:
    """Whether a GRUB package version ("2.06-13+deb12u1") is known to support a feature."""
    version, first = grub_version(package), GRUB_SINCE.get(feature)
    if version is not None and first is not None and version >= first:
        return True
    is_debian = re.fullmatch(_DEBIAN_REVISION, package) is not None and "ubuntu" not in package
    backport = read_table(FEATURE_TABLE).get(feature, {}).get("debian_grub")
    return is_debian and bool(backport) and compare_dpkg(package, backport["since"]) >= 0


def grub_version(text: str) -> Version | None:
    """Parse "2.06-13+deb12u1" as (2, 6); return None if the text has no version at its start."""
    match = re.match(r"([0-9]{1,9})\.([0-9]{1,9})", text)
    return (int(match[1]), int(match[2])) if match else None


E2fsprogsVersion = tuple[int, int, int]

_VERSION = r"1\.([0-9]{1,2})(?:\.([0-9]{1,2}))?"
LAST_PATCH = {42: 13, 43: 9, 44: 6, 45: 7, 46: 6, 47: 4}
"""The last known patch release of each 1.x series (doc/RelNotes of e2fsprogs)."""
OLDEST = (1, 42, 0)


class FeatureDefault(NamedTuple):
    """A feature that `mke2fs -t ext4` sets by default since some version.

    `instead` is the earlier default. `moves_metadata` means that the location of block-group
    metadata depends on it.
    """

    feature: str
    since: E2fsprogsVersion
    moves_metadata: bool
    instead: str = ""


@cached_by_identity
def _feature_defaults(table: dict[str, Any]) -> tuple[FeatureDefault, ...]:
    lines = ((name, entry["default"]) for name, entry in table.items() if "default" in entry)
    return tuple(
        FeatureDefault(
            name, parse_version(line["since"]), line["moves_metadata"], line.get("instead", "")
        )
        for name, line in lines
    )


def feature_defaults() -> tuple[FeatureDefault, ...]:
    """Return the features that newer mke2fs versions set by default, in table order."""
    return _feature_defaults(read_table(FEATURE_TABLE))


def parse_version(text: str) -> E2fsprogsVersion:
    """Parse "1.46.5" or "1.43"; raises ValueError for a version that is not known.

    Versions older than `OLDEST` are accepted, although their details are not known.
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
    """Parse the output of `mke2fs -V`, "mke2fs 1.47.0 (5-Feb-2023)"; raises ValueError."""
    match = re.search(r"^mke2fs (1)\.([0-9]+)(?:\.([0-9]+))?", text, re.MULTILINE)
    if match is None:
        raise ValueError("mke2fs -V names no version")
    return 1, int(match[2]), int(match[3] or 0)


def feature_arguments(local: E2fsprogsVersion, target: E2fsprogsVersion) -> tuple[str, ...]:
    """Return the -O arguments with which mke2fs `local` sets the features that `target` sets."""
    names = []
    for each in feature_defaults():
        if target < each.since:
            names += [f"^{each.feature}", each.instead]
        elif local < each.since and each.moves_metadata:
            names.append(each.feature)
    return tuple(name for name in names if name)


def features_to_add(local: E2fsprogsVersion, target: E2fsprogsVersion) -> frozenset[str]:
    """Return the features that the target sets and the local mke2fs may not support."""
    return frozenset(
        each.feature
        for each in feature_defaults()
        if local < each.since <= target and not each.moves_metadata
    )


TABLE = "kernel_bugs.toml"
WORST_OF = {"confirmed": "high", "likely": "medium", "possible": "low"}
"""The worst severity for each confidence."""
LEVELS = ("critical", "high", "medium", "low", "info")
UNAFFECTED_NOTE = "outside all kernel ranges that are known to be affected"
VERSION_HINT = "check uname -v or /proc/version_signature; in a plan, use --kernel 6.1.76"
CHANGELOG_HINT = (
    "look for them in the changelog of its package (rpm -q --changelog), or ask its vendor; where "
    "it has neither or both, --ignore the rule"
)
"""For packages whose stable update number never changes: openEuler keeps 5.10.0 for the life of a
series (https://mailweb.openeuler.org/hyperkitty/list/tc@openeuler.org/thread/KOHJNCRI376SB6NC5J65MR4JZ3EIIPLU/)
and backports single fixes. Which stable updates its kernels include is not published in a form
that a release could be compared with."""
UNKNOWN_VENDOR_FIX = "its vendor may have backported the fix"


def exposure(code: str, kernel: Evidence[Kernel]) -> Evidence[Exposure]:
    """Return whether a kernel has the bug of a rule.

    The ranges of the kernel's own tree and of any tree decide first. If none matches, upstream's
    ranges decide, with a confidence of at most "likely" for Debian, whose kernels follow stable
    updates, and "possible" for other vendors, whose backports are not known. The result is unknown
    if a range begins or ends within a series and the kernel's stable update is not known.
    """
    if isinstance(kernel, Unknown):
        return kernel
    tree = identify(kernel.value)
    ranges = ranges_of_rule(code)
    own = (r for r in ranges if r.tree in {tree.name, ANY} and r.holds(tree))
    found = next(own, None)
    if found is not None:
        return Known(found.exposure, kernel.origin)
    return _by_upstream(ranges, tree, kernel.origin)


def _by_upstream(
    ranges: tuple[KernelRange, ...], tree: KernelTree, origin: str
) -> Evidence[Exposure]:
    """Return the exposure of a kernel by upstream's ranges, with capped confidence."""
    bad = [r for r in ranges if r.tree == UPSTREAM and r.exposure.affected and r.may_hold(tree)]
    if not bad:
        return Known(Exposure(affected=False, note=UNAFFECTED_NOTE), origin)
    lowest, highest = (next((r for r in bad if r.holds(end)), None) for end in tree.ends())
    if lowest is None or highest is None:
        return _unknown_update(tree, next(r for r in bad if r.may_hold(tree)))
    order = tuple(WORST_OF)
    found = max(lowest.exposure, highest.exposure, key=lambda one: order.index(one.confidence))
    if tree.name == DEBIAN:
        return Known(_capped(found, "likely"), origin)
    found = _capped(found, "possible")
    return Known(found._replace(note=f"{found.note}; {UNKNOWN_VENDOR_FIX}"), origin)


def _unknown_update(tree: KernelTree, where: KernelRange) -> Unknown:
    """Return the unknown for a release that does not show its stable update."""
    detail = f"{tree.package} does not show it"
    if tree.name not in RPM_TREES and not re.search(ARCHITECTURE, tree.package):
        return Unknown("stable update of the kernel", Why.ABSENT, detail, VERSION_HINT)
    detail = f"{detail}; {where.exposure.note}"
    return Unknown("stable update of the kernel", Why.ABSENT, detail, CHANGELOG_HINT)


def _capped(found: Exposure, confidence: str) -> Exposure:
    """Return an exposure with its confidence capped, and its severity capped to match."""
    order = tuple(WORST_OF)
    lower = max(found.confidence, confidence, key=order.index)
    severity = max(found.severity, WORST_OF[lower], key=LEVELS.index)
    return found._replace(confidence=lower, severity=severity)


def all_ranges() -> Mapping[str, tuple[KernelRange, ...]]:
    """Return the ranges of all rules by rule code, in the order in which they are tried."""
    return {code: ranges_of_rule(code) for code in read_table(TABLE)}


def ranges_of_rule(code: str) -> tuple[KernelRange, ...]:
    """Return the ranges of one rule; raises KeyError if the table does not have the rule."""
    return _builder(read_table(TABLE))(code)


@cached_by_identity
def _builder(table: dict[str, Any]) -> Callable[[str], tuple[KernelRange, ...]]:
    return cache(lambda code: tuple(ranges_of(table[code])))


SHARED = ("symptom", "condition", "fix", "source", "confirmed")
"""The fields that a range inherits from its bug unless it sets them."""


def ranges_of(bug: Mapping[str, Any]) -> Iterator[KernelRange]:
    """Yield the ranges of one entry of kernel_bugs.toml."""
    shared = {name: bug[name] for name in SHARED if name in bug}
    for entry in bug["range"]:
        bounds = {name: entry[name] for name in BOUNDS if name in entry}
        rest = {name: value for name, value in entry.items() if name not in bounds}
        bounds["exposure"] = Exposure(**{"affected": True, **shared, **rest})
        yield KernelRange(**bounds)
