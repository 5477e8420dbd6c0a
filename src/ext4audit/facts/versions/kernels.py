"""Kernel versions: the source tree of a release, and ranges ordered within that tree."""

from __future__ import annotations

import re
from typing import NamedTuple

from ext4audit.facts.host import Kernel
from ext4audit.facts.versions.packages import ARCHITECTURE, compare_dpkg, compare_rpm, split_release

Numbers = tuple[int, int, int]

UPSTREAM, DEBIAN, UBUNTU, OTHER = "upstream", "debian", "ubuntu", "other"
ALINUX2, ALINUX2_COMMIT = "alinux2", "alinux2-commit"
RHEL, AMAZON = "rhel", "amazon"
ABOVE_EVERY_UPDATE = 999
RPM_TREES = frozenset({ALINUX2, RHEL, AMAZON})
DPKG_TREES = frozenset({DEBIAN, UBUNTU})
TREES = frozenset({UPSTREAM, ALINUX2_COMMIT, OTHER}) | RPM_TREES | DPKG_TREES

_VANILLA = re.compile(r"[0-9]+\.[0-9]+(\.[0-9]+)?(-rc[0-9]+)?\+?")
_AL7 = re.compile(r"\.al7(\.|$)")
_AL7_RELEASE = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+-[0-9]+(\.[0-9]+)*\.al7(\.|$)")
_BY_SUFFIX = (
    (re.compile(r"\.el[0-9]"), RHEL),
    (re.compile(r"\.amzn[0-9]"), AMAZON),
)
_NUMBERS = r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})"
_SIGNATURE = re.compile(rf"Ubuntu ([0-9][0-9.]*-[0-9.~]+)-\S+ {_NUMBERS}\s*")
_DEBIAN = re.compile(rf"\bDebian ((?:[0-9]+:)?{_NUMBERS}\S*)")
_DEBIAN_OWN = re.compile(r"[0-9.]+-[0-9.]+([+~](deb[0-9]+u|bpo[0-9]+\+)[0-9]+)*")
"""A revision of Debian itself: Raspberry Pi OS and Kali write theirs into the same place."""


class KernelTree(NamedTuple):
    """The tree of a kernel: `package` is its version there, `upstream` the base it builds on.

    `exact` means that the upstream number is the stable level. That of Red Hat's
    "5.14.0-427.el9" is not, nor that of "5.15.0-91-generic" without Ubuntu's signature.
    """

    name: str
    package: str
    upstream: Numbers
    exact: bool

    def ends(self) -> tuple[KernelTree, KernelTree]:
        """Return the oldest and the newest kernel that it can be in its series."""
        if self.exact:
            return self, self
        major, minor, _ = self.upstream
        last = self._replace(upstream=(major, minor, ABOVE_EVERY_UPDATE))
        return self._replace(upstream=(major, minor, 0)), last


def identify(kernel: Kernel) -> KernelTree:
    """Return the tree by uname and Ubuntu's signature: os-release may be a container's."""
    release = kernel.release
    if _AL7.search(release):
        comparable = _AL7_RELEASE.match(release) is not None
        return _rpm(kernel, ALINUX2 if comparable else ALINUX2_COMMIT)
    if _VANILLA.fullmatch(release):
        return KernelTree(UPSTREAM, release, kernel.upstream, exact=True)
    for suffix, name in _BY_SUFFIX:
        if suffix.search(release):
            return _rpm(kernel, name)
    return _ubuntu(kernel) or _debian(kernel) or _unknown(kernel, OTHER)


def _rpm(kernel: Kernel, name: str) -> KernelTree:
    """Return the tree of a release that rpm orders, without its architecture."""
    package = ARCHITECTURE.sub("", kernel.release)
    return KernelTree(name, package, kernel.upstream, exact=kernel.upstream[2] > 0)


def _ubuntu(kernel: Kernel) -> KernelTree | None:
    """Parse Ubuntu's signature: "Ubuntu 5.15.0-91.101-generic 5.15.131"."""
    signature = _SIGNATURE.fullmatch(kernel.signature or "")
    if signature is not None:
        package, *numbers = signature.groups()
        return KernelTree(UBUNTU, package, _numbers(numbers), exact=True)
    return _unknown(kernel, UBUNTU) if "-Ubuntu " in f"{kernel.version} " else None


def _debian(kernel: Kernel) -> KernelTree | None:
    """Parse the package version that Debian writes into `uname -v`, where it is of this series."""
    package = _DEBIAN.search(kernel.version)
    if package is None:
        return None
    upstream = _numbers(package.groups()[1:])
    if upstream[:2] != kernel.upstream[:2]:
        return None
    name = DEBIAN if _DEBIAN_OWN.fullmatch(package[1]) else OTHER
    return KernelTree(name, package[1], upstream, exact=True)


def _unknown(kernel: Kernel, name: str) -> KernelTree:
    return KernelTree(name, kernel.release, kernel.upstream, exact=kernel.upstream[2] > 0)


def _numbers(groups: tuple[str, ...] | list[str]) -> Numbers:
    major, minor, patch = (int(number) for number in groups)
    return major, minor, patch


ANY = "any"
"""The tree of a range that holds for the kernels of every tree, by their upstream number."""
BOUNDS = ("tree", "since", "after", "before", "until")
"""The fields of a range that bound it."""


class Exposure(NamedTuple):
    """Whether a kernel has a bug; `note` is how that is known, `source` its reference.

    `symptom` is what happens, `condition` what it needs, `fix` the version that ends it.
    `confidence` and `severity` are those of a finding.
    """

    affected: bool
    note: str
    source: str = ""
    fix: str = ""
    symptom: str = ""
    condition: str = ""
    confidence: str = "confirmed"
    severity: str = "info"


class KernelRange(NamedTuple):
    """The kernels of one tree between bounds; `since` and `until` are in it, the others not."""

    tree: str
    exposure: Exposure
    since: str = ""
    after: str = ""
    before: str = ""
    until: str = ""

    def holds(self, kernel: KernelTree) -> bool:
        """Whether a kernel of this tree lies between the bounds."""
        place = _Version(self.tree, kernel)
        return self._begins_by(place) and self._ends_after(place)

    def may_hold(self, kernel: KernelTree) -> bool:
        """Whether a kernel lies there by its upstream number, or some of its series does."""
        lowest, highest = kernel.ends()
        from_below = self._begins_by(_Version(self.tree, highest))
        return from_below and self._ends_after(_Version(self.tree, lowest))

    def _begins_by(self, place: _Version) -> bool:
        if self.after:
            return place.compare(self.after) > 0
        return not self.since or place.compare(self.since) >= 0

    def _ends_after(self, place: _Version) -> bool:
        if self.until:
            return place.compare(self.until) <= 0
        return not self.before or place.compare(self.before) < 0


class _Version(NamedTuple):
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
