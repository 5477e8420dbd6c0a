"""What a plan may assume of a host: the kernels of a distribution, the disks of a kind.

The data are in os_kernels.toml and planned_disks.toml, with a source on each line and how it was
confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from ext4audit.facts import NOT_CONFIRMED, read_table
from ext4audit.facts.host import Kernel
from ext4audit.facts.versions import AMAZON, DEBIAN, UBUNTU, UPSTREAM, identify

Value: TypeAlias = bool | int | str
"""What a key of a plan can have."""
OS_TABLE, DISK_TABLE = "os_kernels.toml", "planned_disks.toml"
LIKE_RHEL = frozenset({"centos", "rocky", "almalinux"})
"""Distributions that rebuild the kernels of RHEL under its numbers."""
OTHER_IDS = {"amazon": "amzn", "alios": "alinux"}
"""What people call a distribution whose os-release says otherwise."""
OF_THEIR_SERIES = frozenset({UPSTREAM, DEBIAN, UBUNTU, AMAZON})
"""Trees whose kernels keep the defaults of their series; others take changes of later ones."""


class OsKernel(NamedTuple):
    """A kernel of a distribution: uname -r, the package in uname -v, the source, how confirmed."""

    release: str
    version: str
    source: str
    confirmed: str

    def cited(self) -> str:
        """Return the source, and that it does not confirm the kernel where that is so."""
        return _cited(self.source, self.confirmed)


class Property(NamedTuple):
    """The value of a plan's key that a kind of disk decides, the source, and how confirmed.

    Kernels from `since` on ("6.17") have the value `later`; without it, all have `value`.
    """

    value: Value
    source: str
    confirmed: str
    since: str = ""
    later: Value | None = None

    def cited(self) -> str:
        """Return the source, and that it does not confirm the value where that is so."""
        return _cited(self.source, self.confirmed)

    def on(self, kernels: Iterable[Kernel]) -> Value | None:
        """Return the value on all these kernels; None where they differ or it cannot be told."""
        if not self.since:
            return self.value
        found = {self._of(kernel) for kernel in kernels}
        return found.pop() if len(found) == 1 else None

    def _of(self, kernel: Kernel) -> Value | None:
        tree = identify(kernel)
        if tree.upstream >= tuple(map(int, self.since.split("."))):
            return self.later
        return self.value if tree.name in OF_THEIR_SERIES else None


def _cited(source: str, confirmed: str) -> str:
    return f"{source}; not confirmed" if confirmed.startswith(NOT_CONFIRMED) else source


class DiskClass(NamedTuple):
    """A kind of disk: its name, a sentence, and what it decides by the keys of a plan."""

    name: str
    says: str
    properties: Mapping[str, Property]


def kernels_of(os_id: str, version: str) -> tuple[OsKernel, ...]:
    """Return the kernels of a release, the oldest first; empty for one that is not listed.

    "9.4" of RHEL and its rebuilds is 9.
    """
    name = OTHER_IDS.get(os_id, "rhel" if os_id in LIKE_RHEL else os_id)
    table = read_table(OS_TABLE)
    for number in (version, version.partition(".")[0]):
        found = table.get(f"{name}:{number}")
        if found:
            return tuple(
                OsKernel(
                    each["release"], each.get("version", ""), each["source"], each["confirmed"]
                )
                for each in found["kernel"]
            )
    return ()


def known_releases() -> tuple[str, ...]:
    """Return the releases whose kernels are listed: "debian:12"."""
    return tuple(read_table(OS_TABLE))


def disk_class(name: str) -> DiskClass:
    """Return a kind of disk; KeyError for a name that is not listed."""
    entry = read_table(DISK_TABLE)[name]
    properties = {key: Property(**value) for key, value in entry.items() if key != "says"}
    return DiskClass(name, entry["says"], properties)


DISK_CLASSES = ("aws-ebs", "gcp-pd", "azure-disk", "nvme", "sata-ssd", "hdd", "virtio")
"""The names of the table, for help and completion, which read no file."""
