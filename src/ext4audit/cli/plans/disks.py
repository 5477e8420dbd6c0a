"""The disks of a plan: what the kind that `--on` names decides of the settings left open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from ext4audit.evidence import Known
from ext4audit.facts.host import Kernel
from ext4audit.facts.plan import DiskClass, PlannedHost, Property, disk_class

VIRTUALIZATION = "virtualization"


def planned_disks(settings: Mapping[str, Any]) -> DiskClass | None:
    """Return the kind of disk of a plan, None where it names none; raises UsageError."""
    name = settings.get("on")
    if name is None:
        return None
    try:
        return disk_class(str(name))
    except KeyError:
        raise click.UsageError(f"--on {name}: no such kind of disk") from None


def with_virtualization(settings: Mapping[str, Any], disks: DiskClass | None) -> Mapping[str, Any]:
    """Return the settings with the hypervisor of the disks, which the host of a plan needs."""
    found = _open(settings, disks).get(VIRTUALIZATION)
    return {**settings, VIRTUALIZATION: found.value} if found else settings


def with_disks(
    settings: Mapping[str, Any], disks: DiskClass | None, host: PlannedHost
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the settings completed by a kind of disk, and what is assumed with it."""
    if disks is None:
        return settings, ()
    kernels = _kernels(host)
    taken = {key: (each, each.on(kernels)) for key, each in _open(settings, disks).items()}
    told = ", ".join(_told(key, each, value) for key, (each, value) in taken.items())
    sentence = f"{disks.name}: {disks.says}{f'; {told}' if told else ''}"
    supplied = {key: value for key, (_, value) in taken.items() if value is not None}
    origins = dict.fromkeys(supplied, f"--on {disks.name}")
    return {**settings, **supplied, "origins": origins}, (sentence,)


def _open(settings: Mapping[str, Any], disks: DiskClass | None) -> dict[str, Property]:
    """Return what the kind of disk decides of what the settings leave open."""
    properties = disks.properties if disks else {}
    return {key: each for key, each in properties.items() if settings.get(key) is None}


def _kernels(host: PlannedHost) -> tuple[Kernel, ...]:
    """Return the kernels that the plan is judged for; none where one of them is not known."""
    known = tuple(_values(host))
    return known if len(known) == 1 + len(host.other_kernels) else ()


def _values(host: PlannedHost) -> Iterator[Kernel]:
    for each in (host.kernel, *host.other_kernels):
        if isinstance(each, Known):
            yield each.value


def _told(key: str, found: Property, value: object) -> str:
    if value is not None:
        return f"{key} = {_toml(value)} ({found.cited()})"
    by_kernel = f"{_toml(found.value)}, from kernel {found.since} on {_toml(found.later)}"
    return f"{key} is left open: {by_kernel} ({found.cited()})"


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
