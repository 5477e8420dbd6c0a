"""Versions of kernels and packages, ordered as their distributors order them.

- rpm: rpm-version(7) and the examples of rpm's test suite; the test's cases and 300,000 random
  pairs were compared with librpm 4.18.0. Other tools order the kernels of Alibaba Cloud Linux
  wrongly: `sort -V` and `dpkg --compare-versions` put 26.6.al7 before 26.al7.
- dpkg: deb-version(7); the test's cases and random pairs are compared with `dpkg
  --compare-versions`. The two differ: rpm has no `~bpo12+1` below a release, and ignores `+`.
"""

import re
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

from ext4audit.facts.host import Kernel

SEGMENT = r"~|\^|[0-9]+|[A-Za-z]+"
"""The compared parts of an rpm version; all other characters only separate."""
ARCHITECTURE = r"\.(x86_64|aarch64|i[3-6]86|ppc64le|s390x|loongarch64|riscv64|noarch)$"


def compare_rpm(left: str, right: str) -> int:
    """Return -1, 0 or 1 as `left` is older than, equal to or newer than `right`.

    Runs of digits compare as numbers and runs of letters as text; a number is newer than
    letters; the longer is newer, except that `~` sorts before everything, even the end, and
    `^` after the end but before anything else.
    """
    for one, other in zip_longest(
        re.findall(SEGMENT, left), re.findall(SEGMENT, right), fillvalue=""
    ):
        if _key(one) != _key(other):
            return -1 if _key(one) < _key(other) else 1
    return 0


def split_release(kernel_release: str) -> tuple[str, str]:
    """Split "4.19.91-25.6.al7.x86_64" into version "4.19.91" and release "25.6.al7".

    The architecture is taken off first: with it, the fixed kernel 26.al7 reads as older than
    the bound 26.al7.x86_64.
    """
    version, _, release = re.sub(ARCHITECTURE, "", kernel_release).partition("-")
    return version, release


def _key(segment: str) -> tuple[int, int, str]:
    """Return the sort key of a segment: ~, end, ^, letters, numbers."""
    if segment.isdigit():
        # By length, then by digit, as rpm does it: int() refuses numbers of thousands of digits.
        digits = segment.lstrip("0")
        return 4, len(digits), digits
    special = {"~": 0, "": 1, "^": 2}
    return special.get(segment, 3), 0, segment


PIECE = r"([^0-9]*)([0-9]*)"
"""The compared parts of a dpkg version: characters that are no digits, then a number."""
END = 0
PieceKey: TypeAlias = tuple[tuple[int, ...], int, str]


def compare_dpkg(left: str, right: str) -> int:
    """Return -1, 0 or 1 as `left` is older than, equal to or newer than `right`.

    The epoch ("1:") counts first, then the upstream version, then the revision behind the last
    dash. `~` sorts before everything, even the end; letters before all other characters.
    """
    for one, other in zip(_parts(left), _parts(right), strict=True):
        for a, b in zip_longest(_keys(one), _keys(other), fillvalue=((END,), 0, "")):
            if a != b:
                return -1 if a < b else 1
    return 0


def _parts(version: str) -> tuple[str, str, str]:
    """Split a version into epoch, upstream version and revision."""
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "", version
    upstream, dash, revision = rest.rpartition("-")
    return (epoch, upstream, revision) if dash else (epoch, rest, "")


def _keys(part: str) -> list[PieceKey]:
    """Return the sort key of each piece; numbers by length first, as they may have many digits."""
    keys: list[PieceKey] = []
    for text, number in re.findall(PIECE, part):
        digits = number.lstrip("0")
        keys.append(((*(_order(c) for c in text), END), len(digits), digits))
    return keys


def _order(character: str) -> int:
    """Return the weight of a character that is no digit; the end weighs 0."""
    if character == "~":
        return -1
    is_letter = character.isascii() and character.isalpha()
    return ord(character) + (0 if is_letter else 256)


Numbers = tuple[int, int, int]

UPSTREAM, DEBIAN, UBUNTU, OTHER = "upstream", "debian", "ubuntu", "other"
ALINUX2, ALINUX2_COMMIT = "alinux2", "alinux2-commit"
RHEL, AMAZON = "rhel", "amazon"
ABOVE_EVERY_UPDATE = 999
RPM_TREES = frozenset({ALINUX2, RHEL, AMAZON})
DPKG_TREES = frozenset({DEBIAN, UBUNTU})
TREES = frozenset({UPSTREAM, ALINUX2_COMMIT, OTHER}) | RPM_TREES | DPKG_TREES

_VANILLA = re.compile(r"[0-9]+\.[0-9]+(\.[0-9]+)?(-rc[0-9]+\+?)?")
"""A release of kernel.org. "6.12.55+" has further commits: Container-Optimized OS's, for one."""
_AL7 = re.compile(r"\.al7(\.|$)")
_AL7_RELEASE = r"[0-9]+\.[0-9]+\.[0-9]+-[0-9]+(\.[0-9]+)*\.al7(\.|$)"
_BY_SUFFIX = (
    # Red Hat's stay at the first release of a series. Oracle's UEK is el8uek, and the kernels of
    # ELRepo are built for el9 from stable updates.
    (re.compile(r"^(2\.6\.32|[0-9]+\.[0-9]+\.0)-.+\.el[0-9]+(_[0-9]+)*(\.(?!elrepo)|$)"), RHEL),
    (re.compile(r"\.amzn[0-9]"), AMAZON),
)
_NUMBERS = r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})"
_SIGNATURE = re.compile(rf"Ubuntu ([0-9][0-9.]*-[0-9.~]+)-\S+ {_NUMBERS}\s*")
_DEBIAN = re.compile(rf"\bDebian ((?:[0-9]+:)?{_NUMBERS}\S*)")
_DEBIAN_OWN = r"[0-9.]+-[0-9.]+([+~](deb[0-9]+u|bpo[0-9]+\+)[0-9]+)*"
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

    def ends(self) -> "tuple[KernelTree, KernelTree]":
        """Return the oldest and the newest kernel that it can be in its series."""
        if self.exact:
            return self, self
        major, minor, _ = self.upstream
        last = self._replace(upstream=(major, minor, ABOVE_EVERY_UPDATE))
        return self._replace(upstream=(major, minor, 0)), last


@lru_cache(maxsize=64)
def identify(kernel: Kernel) -> KernelTree:
    """Return the tree by uname and Ubuntu's signature: os-release may be a container's."""
    release = kernel.release
    if _AL7.search(release):
        comparable = re.match(_AL7_RELEASE, release) is not None
        return _rpm(kernel, ALINUX2 if comparable else ALINUX2_COMMIT)
    if _VANILLA.fullmatch(release):
        return KernelTree(UPSTREAM, release, kernel.upstream, exact=True)
    for suffix, name in _BY_SUFFIX:
        if suffix.search(release):
            return _rpm(kernel, name)
    return _ubuntu(kernel) or _debian(kernel) or _unknown(kernel, OTHER)


def _rpm(kernel: Kernel, name: str) -> KernelTree:
    """Return the tree of a release that rpm orders, without its architecture."""
    package = re.sub(ARCHITECTURE, "", kernel.release)
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
    name = DEBIAN if re.fullmatch(_DEBIAN_OWN, package[1]) else OTHER
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
    `confidence` and `severity` are those of a finding. `confirmed` is how the range was confirmed.
    """

    affected: bool
    note: str
    source: str = ""
    fix: str = ""
    symptom: str = ""
    condition: str = ""
    confidence: str = "confirmed"
    severity: str = "info"
    confirmed: str = ""


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

    def _begins_by(self, place: "_Version") -> bool:
        if self.after:
            return place.compare(self.after) > 0
        return not self.since or place.compare(self.since) >= 0

    def _ends_after(self, place: "_Version") -> bool:
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
