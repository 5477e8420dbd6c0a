"""What a filesystem is for, as far as its mount points tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ext4audit.evidence import value_or
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import Mount

DATABASES = (
    "/var/opt/mssql",
    *(
        f"/var/lib/{name}"
        for name in (
            "cassandra clickhouse cockroach couchbase couchdb elasticsearch etcd influxdb kafka "
            "mariadb mongo mongodb mysql neo4j opensearch pgsql postgresql prometheus rabbitmq "
            "redis tidb tikv valkey zookeeper"
        ).split()
    ),
)
"""Where packages of databases keep their data."""
VOLUMES = ("/var/lib/kubelet/pods", "/var/lib/kubelet/plugins", "/var/lib/nomad")
"""Where an orchestrator mounts the volumes of its workloads."""
TENANTS = (
    "/home",
    "/srv",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/docker",
    "/var/lib/incus",
    "/var/lib/kubelet",
    "/var/lib/lxc",
    "/var/lib/lxd",
    "/var/lib/nomad",
    "/var/mail",
    "/var/snap/lxd",
    "/var/spool/mail",
    "/var/www",
)
"""Where the files of several users, or of containers, lie side by side."""


def holds_database(fs: Filesystem) -> bool:
    """Whether it is mounted where a database keeps its data."""
    return _any_below(fs, DATABASES)


def holds_volume(fs: Filesystem) -> bool:
    """Whether an orchestrator mounted it for a workload."""
    return _any_below(fs, VOLUMES)


def holds_tenants(fs: Filesystem) -> bool:
    """Whether it is mounted where several users or containers keep their files."""
    return _any_below(fs, TENANTS)


def container_layers(fs: Filesystem, host: Host) -> Iterator[str]:
    """Yield the writable folders of overlays, one a container, that lie on the filesystem.

    None from within a container: there the folders are named as the host sees them.
    """
    mounts = () if host.container else value_or(host.mounts, ())
    for mount in mounts:
        if mount.fstype == "overlay":
            for word in mount.super_options:
                upper = word.removeprefix("upperdir=")
                if upper != word and _holder(upper, mounts) == fs.device_number:
                    yield upper


def _holder(path: str, mounts: Iterable[Mount]) -> object:
    """Return the number of the device that holds a path, None where no mount does."""
    over = [m for m in mounts if m.mount_point == "/" or below(path, (m.mount_point,))]
    deepest = max(over, key=lambda m: (len(m.mount_point), m.mount_id), default=None)
    return deepest.device_number if deepest and path.startswith("/") else None


def below(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of the folders or lies in one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _any_below(fs: Filesystem, folders: Iterable[str]) -> bool:
    return any(below(point, folders) for point in fs.mount_points)
