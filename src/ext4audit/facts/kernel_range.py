"""A range of kernel versions, compared as the tree of the kernel orders them."""

from __future__ import annotations

import re

from ext4audit.facts.dpkg_version import compare_dpkg
from ext4audit.facts.kernel_tree import DPKG_TREES, RPM_TREES, KernelTree
from ext4audit.facts.rpm_version import compare_rpm, split_release
from ext4audit.records import dataclass

ANY = "any"
"""The tree of a range that holds for the kernels of every tree, by their upstream number."""
BOUNDS = ("tree", "since", "after", "before", "until")
"""The fields of a range that say where it lies."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """Whether a kernel has a bug; `note` says how that is known, `source` who says it.

    `symptom` is what happens, `condition` what it needs, `fix` the version that ends it.
    `confidence` and `severity` are the words of a finding.
    """

    affected: bool
    note: str
    source: str = ""
    fix: str = ""
    symptom: str = ""
    condition: str = ""
    confidence: str = "confirmed"
    severity: str = "info"


@dataclass(frozen=True, slots=True)
class KernelRange:
    """The kernels of one tree between bounds; `since` and `until` are in it, the others not."""

    tree: str
    exposure: Exposure
    since: str = ""
    after: str = ""
    before: str = ""
    until: str = ""

    def holds(self, kernel: KernelTree) -> bool:
        """Whether a kernel of this tree lies between the bounds."""
        place = _Place(self.tree, kernel)
        return self._begins_by(place) and self._ends_after(place)

    def may_hold(self, kernel: KernelTree) -> bool:
        """Whether a kernel lies there by its upstream number, or some of its series does."""
        lowest, highest = kernel.ends()
        from_below = self._begins_by(_Place(self.tree, highest))
        return from_below and self._ends_after(_Place(self.tree, lowest))

    def _begins_by(self, place: _Place) -> bool:
        if self.after:
            return place.compare(self.after) > 0
        return not self.since or place.compare(self.since) >= 0

    def _ends_after(self, place: _Place) -> bool:
        if self.until:
            return place.compare(self.until) <= 0
        return not self.before or place.compare(self.before) < 0


@dataclass(frozen=True, slots=True)
class _Place:
    """A kernel's version, and how it is compared with the bounds of a tree."""

    tree: str
    kernel: KernelTree

    def compare(self, bound: str) -> int:
        """Return -1, 0 or 1 as the kernel is older than, equal to or newer than a bound."""
        if self.tree in DPKG_TREES:
            return compare_dpkg(self.kernel.package, bound)
        if self.tree in RPM_TREES:
            (version, release), (other, its) = map(split_release, (self.kernel.package, bound))
            return compare_rpm(version, other) or compare_rpm(release, its)
        there = (*map(int, re.findall(r"[0-9]+", bound)), 0, 0)[:3]
        return (self.kernel.upstream > there) - (self.kernel.upstream < there)
