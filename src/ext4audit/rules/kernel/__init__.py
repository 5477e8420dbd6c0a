"""Kernel bugs: the filesystems that a bug of the running kernel can reach."""

from __future__ import annotations

from collections.abc import Iterable

from ext4audit.evidence import Undetermined, is_surely
from ext4audit.facts.host import Filesystem, Host
from ext4audit.rule import NotApplicable


def mounted_on(host: Host) -> list[Filesystem]:
    """Return the mounted filesystems of a host, at least one.

    Raises NotApplicable where there is none, Undetermined where one may have been missed.
    """
    mounted = [fs for fs in host.filesystems if fs.alive]
    if not mounted and host.gaps:
        raise Undetermined(host.gaps)
    if not mounted:
        raise NotApplicable("no ext4 filesystem is mounted")
    return mounted


def writable_of(mounted: Iterable[Filesystem]) -> list[Filesystem]:
    """Return those that may be writable, at least one; raises NotApplicable where there is none."""
    writable = [fs for fs in mounted if not is_surely(fs.read_only)]
    if not writable:
        raise NotApplicable("all mounted ext4 filesystems are read-only")
    return writable
