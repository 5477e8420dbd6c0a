"""What vendors demand comes into force, now and for good, and goes again.

The kernel that runs the tests may be 6.13 or later, where nodelalloc needs a new mount.
"""

from __future__ import annotations

from dataclasses import replace

from ext4audit.facts.host import Host
from ext4audit.facts.profile import ActiveProfile, all_profiles
from support.remedies.case import Alter, RemedyCase


def below(*names: str) -> Alter:
    """Return what puts profiles in force on every filesystem."""
    profiles = tuple(ActiveProfile(all_profiles()[name]) for name in names)

    def chosen(host: Host) -> Host:
        return replace(host, profiles=profiles)

    return chosen


PUT = "in force and into fstab"
CASES = (
    RemedyCase("noatime by fstab", PUT, fstab="defaults", alter=below("neo4j")),
    RemedyCase("noatime by hand", PUT, mount="nosuid", alter=below("neo4j")),
    RemedyCase(
        "noatime for strictatime",
        PUT,
        mount="strictatime,nodev",
        fstab="strictatime,nodev",
        alter=below("clickhouse"),
    ),
    RemedyCase("nodelalloc by a new mount", PUT, fstab="defaults", alter=below("daos")),
    RemedyCase("both, where fstab says nothing", PUT, fstab="nosuid", alter=below("tidb")),
    RemedyCase(
        "both, where fstab says the opposite", PUT, fstab="relatime,delalloc", alter=below("tidb")
    ),
    RemedyCase("both, by hand", PUT, mount="nodev,commit=7", alter=below("gbase8a")),
    RemedyCase("the flag alone", PUT, mount="nodelalloc", fstab="nodelalloc", alter=below("tidb")),
    RemedyCase("the option alone", PUT, mount="noatime", fstab="noatime", alter=below("tidb")),
    RemedyCase(
        "barriers", PUT, mount="nobarrier", fstab="nobarrier,noatime", alter=below("postgres")
    ),
    RemedyCase(
        "barriers off in the superblock",
        PUT,
        tune=("-o", "nobarrier"),
        fstab="defaults",
        alter=below("etcd"),
    ),
    RemedyCase("errors", PUT, fstab="errors=continue", alter=below("lustre")),
    RemedyCase(
        "several products",
        PUT,
        mount="nobarrier",
        fstab="defaults",
        alter=below("postgres", "clickhouse"),
    ),
    RemedyCase(
        "hidden in the bits",
        "in fstab, clear it",
        tune=("-o", "nodelalloc"),
        mount="noatime",
        fstab="noatime",
        alter=below("tidb"),
    ),
    RemedyCase(
        "hidden in the string",
        "in fstab, clear it",
        tune=("-E", "mount_opts=nodelalloc"),
        mount="noatime",
        fstab="nodelalloc,noatime",
        alter=below("tidb"),
    ),
    RemedyCase("the reserve", "Reserve nothing", mke2fs=("-m", "5"), alter=below("k8s-csi")),
)
NOT_RUN = (
    "A feature and a cluster size are decided by mkfs: it takes a backup and a restore. A product "
    "that recommends another filesystem has none. On kernels before 6.13 nodelalloc goes by "
    "remount; what the commands are is tested with the rule."
)
