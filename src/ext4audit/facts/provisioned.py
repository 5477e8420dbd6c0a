"""What a plan may assume of a host: the kernels of a distribution, the disks of a kind.

The data are in os_kernels.toml and planned_disks.toml, with a source on each line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ext4audit.facts import read_table

OS_TABLE, DISK_TABLE = "os_kernels.toml", "planned_disks.toml"
LIKE_RHEL = frozenset({"centos", "rocky", "almalinux"})
"""Distributions that rebuild the kernels of RHEL under its numbers."""
OTHER_IDS = {"amazon": "amzn", "alios": "alinux"}
"""What people call a distribution whose os-release says otherwise."""


class OsKernel(NamedTuple):
    """A kernel of a distribution: uname -r, the package in uname -v, and the source."""

    release: str
    version: str
    source: str


class Property(NamedTuple):
    """The value of a plan's key that a kind of disk decides, and the source."""

    value: Any
    source: str


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
                OsKernel(each["release"], each.get("version", ""), each["source"])
                for each in found["kernel"]
            )
    return ()


def known_releases() -> tuple[str, ...]:
    """Return the releases whose kernels are listed: "debian:12"."""
    return tuple(read_table(OS_TABLE))


def disk_class(name: str) -> DiskClass:
    """Return a kind of disk; KeyError for a name that is not listed."""
    entry = read_table(DISK_TABLE)[name]
    properties = {
        key: Property(value["value"], value["source"])
        for key, value in entry.items()
        if key != "says"
    }
    return DiskClass(name, entry["says"], properties)


DISK_CLASSES = ("aws-ebs", "gcp-pd", "azure-disk", "nvme", "sata-ssd", "hdd", "virtio")
"""The names of the table, for help and completion, which read no file."""
