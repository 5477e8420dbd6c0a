"""What reads which feature of ext4: the first kernel, the first e2fsprogs, the first GRUB.

Sources: ext4(5), "KERNEL SUPPORT"; doc/RelNotes of e2fsprogs; grub-core/fs/ext2.c of GRUB 2.06 and
2.12; grub-fstest of Debian's 2.06-13+deb12u2 on filesystems with each feature. A bound that is None
is not established, and nothing is concluded from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from ext4audit.facts.dpkg_version import compare_dpkg
from ext4audit.records import dataclass

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


def reads(package: str, feature: str) -> bool:
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
