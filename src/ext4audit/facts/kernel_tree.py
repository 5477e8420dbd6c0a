"""Whose kernel runs: the tree it was built from, and the version by which that tree counts."""

from __future__ import annotations

import re

from ext4audit.facts.kernel import Kernel
from ext4audit.facts.rpm_version import ARCHITECTURE
from ext4audit.records import dataclass, replace

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
"""A revision of Debian's own: Raspberry Pi OS and Kali write theirs into the same place."""


@dataclass(frozen=True, slots=True)
class KernelTree:
    """The tree of a kernel: `package` is its version there, `upstream` the base it builds on.

    `exact` says that the upstream number is the stable level. Red Hat's "5.14.0-427.el9" is
    not, nor is "5.15.0-91-generic" without Ubuntu's signature: the 0 says nothing.
    """

    name: str
    package: str
    upstream: Numbers
    exact: bool

    def ends(self) -> tuple[KernelTree, KernelTree]:
        """Return the oldest and the newest kernel of its series that it can be."""
        if self.exact:
            return self, self
        major, minor, _ = self.upstream
        last = replace(self, upstream=(major, minor, ABOVE_EVERY_UPDATE))
        return replace(self, upstream=(major, minor, 0)), last


def identify(kernel: Kernel) -> KernelTree:
    """Tell by uname and Ubuntu's signature: in a container os-release is another system's."""
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
    """Build the tree of a release that rpm orders; its architecture is not part of that."""
    package = ARCHITECTURE.sub("", kernel.release)
    return KernelTree(name, package, kernel.upstream, exact=kernel.upstream[2] > 0)


def _ubuntu(kernel: Kernel) -> KernelTree | None:
    """Read Ubuntu's signature: "Ubuntu 5.15.0-91.101-generic 5.15.131"."""
    signature = _SIGNATURE.fullmatch(kernel.signature or "")
    if signature is not None:
        package, *numbers = signature.groups()
        return KernelTree(UBUNTU, package, _numbers(numbers), exact=True)
    return _unknown(kernel, UBUNTU) if "-Ubuntu " in f"{kernel.version} " else None


def _debian(kernel: Kernel) -> KernelTree | None:
    """Read the package version that Debian writes into `uname -v`, where it is of this series."""
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
