"""Comparison of kernel and package versions by the rules of their distributions.

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
"""The compared parts of an rpm version; all other characters are separators."""
ARCHITECTURE = r"\.(x86_64|aarch64|i[3-6]86|ppc64le|s390x|loongarch64|riscv64|noarch)$"


def compare_rpm(left: str, right: str) -> int:
    """Return -1, 0 or 1 as `left` is older than, equal to or newer than `right`.

    Runs of digits compare as numbers and runs of letters as text; a number is newer than
    letters; the longer version is newer, except that `~` sorts before everything, even the end,
    and `^` sorts after the end but before anything else.
    """
    for one, other in zip_longest(
        re.findall(SEGMENT, left), re.findall(SEGMENT, right), fillvalue=""
    ):
        if _key(one) != _key(other):
            return -1 if _key(one) < _key(other) else 1
    return 0


def split_release(kernel_release: str) -> tuple[str, str]:
    """Split "4.19.91-25.6.al7.x86_64" into version "4.19.91" and release "25.6.al7".

    The architecture is removed first: otherwise the fixed kernel 26.al7 would compare as older
    than the bound 26.al7.x86_64.
    """
    version, _, release = re.sub(ARCHITECTURE, "", kernel_release).partition("-")
    return version, release


def _key(segment: str) -> tuple[int, int, str]:
    """Return the sort key of a segment: ~, end, ^, letters, numbers."""
    if segment.isdigit():
        # By length, then by digit, like rpm: int() rejects numbers of thousands of digits.
        digits = segment.lstrip("0")
        return 4, len(digits), digits
    special = {"~": 0, "": 1, "^": 2}
    return special.get(segment, 3), 0, segment


PIECE = r"([^0-9]*)([0-9]*)"
"""The compared parts of a dpkg version: non-digit characters, then a number."""
END = 0
PieceKey: TypeAlias = tuple[tuple[int, ...], int, str]


def compare_dpkg(left: str, right: str) -> int:
    """Return -1, 0 or 1 as `left` is older than, equal to or newer than `right`.

    The epoch ("1:") is compared first, then the upstream version, then the revision after the
    last dash. `~` sorts before everything, even the end; letters before all other characters.
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
    """Return the sort key of each piece; numbers sort by length first: they may be very long."""
    keys: list[PieceKey] = []
    for text, number in re.findall(PIECE, part):
        digits = number.lstrip("0")
        keys.append(((*(_order(c) for c in text), END), len(digits), digits))
    return keys


def _order(character: str) -> int:
    """Return the weight of a non-digit character; the end has weight 0."""
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

# Each kernel matches few of these patterns, so they are compiled when a release resembles one.
_VANILLA = r"[0-9]+\.[0-9]+(\.[0-9]+)?(-rc[0-9]+\+?)?"
"""A kernel.org release. "6.12.55+" has extra commits, as on Container-Optimized OS."""
_AL7 = r"\.al7(\.|$)"
_AL7_RELEASE = r"[0-9]+\.[0-9]+\.[0-9]+-[0-9]+(\.[0-9]+)*\.al7(\.|$)"
_BY_SUFFIX = (
    # Red Hat kernels stay at the first release of a series. Oracle's UEK has el8uek, and ELRepo
    # builds kernels for el9 from stable updates.
    (".el", r"^(2\.6\.32|[0-9]+\.[0-9]+\.0)-.+\.el[0-9]+(_[0-9]+)*(\.(?!elrepo)|$)", RHEL),
    (".amzn", r"\.amzn[0-9]", AMAZON),
)
_NUMBERS = r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})"
_SIGNATURE = rf"Ubuntu ([0-9][0-9.]*-[0-9.~]+)-\S+ {_NUMBERS}\s*"
_DEBIAN = rf"\bDebian ((?:[0-9]+:)?{_NUMBERS}\S*)"
_DEBIAN_OWN = r"[0-9.]+-[0-9.]+([+~](deb[0-9]+u|bpo[0-9]+\+)[0-9]+)*"
"""A revision of Debian itself; Raspberry Pi OS and Kali put theirs in the same place."""


class KernelTree(NamedTuple):
    """The source tree of a kernel: `package` is its version there, `upstream` its base version.

    `exact` means that the upstream number includes the stable update. It does not for Red Hat's
    "5.14.0-427.el9", or for "5.15.0-91-generic" without Ubuntu's signature.
    """

    name: str
    package: str
    upstream: Numbers
    exact: bool

    def ends(self) -> "tuple[KernelTree, KernelTree]":
        """Return the oldest and the newest kernel of its series that it may be."""
        if self.exact:
            return self, self
        major, minor, _ = self.upstream
        last = self._replace(upstream=(major, minor, ABOVE_EVERY_UPDATE))
        return self._replace(upstream=(major, minor, 0)), last


@lru_cache(maxsize=64)
def identify(kernel: Kernel) -> KernelTree:
    """Return the tree, from uname and Ubuntu's signature: os-release may be a container's."""
    release = kernel.release
    if ".al7" in release and re.search(_AL7, release):
        comparable = re.match(_AL7_RELEASE, release) is not None
        return _rpm(kernel, ALINUX2 if comparable else ALINUX2_COMMIT)
    if re.fullmatch(_VANILLA, release):
        return KernelTree(UPSTREAM, release, kernel.upstream, exact=True)
    for suffix, pattern, name in _BY_SUFFIX:
        if suffix in release and re.search(pattern, release):
            return _rpm(kernel, name)
    return _ubuntu(kernel) or _debian(kernel) or _unknown(kernel, OTHER)


def _rpm(kernel: Kernel, name: str) -> KernelTree:
    """Return the tree of a kernel with an rpm version, without the architecture."""
    package = re.sub(ARCHITECTURE, "", kernel.release)
    return KernelTree(name, package, kernel.upstream, exact=kernel.upstream[2] > 0)


def _ubuntu(kernel: Kernel) -> KernelTree | None:
    """Parse Ubuntu's signature: "Ubuntu 5.15.0-91.101-generic 5.15.131"."""
    signature = re.fullmatch(_SIGNATURE, kernel.signature) if kernel.signature else None
    if signature is not None:
        package, *numbers = signature.groups()
        return KernelTree(UBUNTU, package, _numbers(numbers), exact=True)
    return _unknown(kernel, UBUNTU) if "-Ubuntu " in f"{kernel.version} " else None


def _debian(kernel: Kernel) -> KernelTree | None:
    """Parse Debian's package version in `uname -v`; None if it is missing or of another series."""
    package = re.search(_DEBIAN, kernel.version) if "Debian " in kernel.version else None
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
"""The tree of a range that applies to the kernels of every tree, by upstream number."""
BOUNDS = ("tree", "since", "after", "before", "until")
"""The fields that bound a range."""


class Exposure(NamedTuple):
    """Whether a kernel has a bug; `note` explains how that is known, `source` is the reference.

    `symptom` is the effect, `condition` what triggers it, `fix` the version that fixes it.
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
    """A range of kernels of one tree; `since` and `until` are inclusive bounds, the others not."""

    tree: str
    exposure: Exposure
    since: str = ""
    after: str = ""
    before: str = ""
    until: str = ""

    def holds(self, kernel: KernelTree) -> bool:
        """Whether a kernel of this tree is within the bounds."""
        version = _Version(self.tree, kernel)
        return self._begins_by(version) and self._ends_after(version)

    def may_hold(self, kernel: KernelTree) -> bool:
        """Whether a kernel, or some kernel of its series if it is not exact, is in the range."""
        lowest, highest = kernel.ends()
        from_below = self._begins_by(_Version(self.tree, highest))
        return from_below and self._ends_after(_Version(self.tree, lowest))

    def _begins_by(self, version: "_Version") -> bool:
        if self.after:
            return version.compare(self.after) > 0
        return not self.since or version.compare(self.since) >= 0

    def _ends_after(self, version: "_Version") -> bool:
        if self.until:
            return version.compare(self.until) <= 0
        return not self.before or version.compare(self.before) < 0


class _Version(NamedTuple):
    """A kernel's version, compared by the rules of a tree."""

    tree: str
    kernel: KernelTree

    def compare(self, bound: str) -> int:
        """Return -1, 0 or 1 as the kernel is older than, equal to or newer than a bound."""
        if self.tree in DPKG_TREES:
            return compare_dpkg(self.kernel.package, bound)
        if self.tree in RPM_TREES:
            (version, release), (other, its) = map(split_release, (self.kernel.package, bound))
            return compare_rpm(version, other) or compare_rpm(release, its)
        numbers = (*map(int, re.findall(r"[0-9]+", bound)), 0, 0)[:3]
        return (self.kernel.upstream > numbers) - (self.kernel.upstream < numbers)
