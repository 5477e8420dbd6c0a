"""CMP003: fstab uses a device name that may belong to another device after the next boot."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from ext4audit import remedies
from ext4audit.evidence import Known, Unknown, for_wording, need, raise_for
from ext4audit.facts import cached_by_identity
from ext4audit.facts.devices import LsblkDevice, listed_device
from ext4audit.facts.host import Host, filesystems_by_number
from ext4audit.facts.mount import DeviceNumber, FstabEntry
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity, listed
from ext4audit.rule import NotApplicable, RuleOutput, host_rule
from ext4audit.rules.shared import FSTAB_OF_CONTAINER, cite_fstab, refuse_container

LETTERED, COUNTED = "(sd|hd|vd|xvd)[a-z]+", "(zd|bcache|rbd)[0-9]+"
"""Lettered disks; ZFS volumes, bcache devices and Ceph images, numbered in order of their setup."""
DISK = rf"/dev/(?:{LETTERED}[0-9]*|(?:(nvme)[0-9]+n[0-9]+|{COUNTED})(?:p[0-9]+)?)"
WHOLE = rf"(?:{LETTERED}|(nvme)[0-9]+n[0-9]+|{COUNTED})"
NUMBERED = r"/dev/(?:dm-|loop)[0-9]+(?:p[0-9]+)?"
ARRAY = r"/dev/md([0-9]+)(?:p[0-9]+)?"
UUID = r"[0-9A-Fa-f]{4,}(?:-[0-9A-Fa-f]+)+"
NAMED_BY_HYPERVISOR = "xvd"
"""xen-blkfront derives the name from the device number in the configuration of the machine."""
MOST_NAMED = 8
"""The maximum number of arrays that a finding names."""
SWAPPED = (
    "after a reboot the name may belong to another device, so the boot mounts the wrong filesystem "
    "or stops"
)
UNSOUGHT = "The command stops if another device has this UUID, because not all devices were read."
MOVED = (
    "the hypervisor gives the name, and another configuration or type of instance changes it, so "
    "the boot then stops"
)


@host_rule(
    "CMP003",
    "fstab-unstable-device",
    severity=Severity.HIGH,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man5/fstab.5.html",
        "https://github.com/ubicloud/ubicloud/issues/5429",
        "https://github.com/openzfs/zfs/issues/11028",
        "https://bugs.launchpad.net/bugs/1729145",
        "mdadm.conf(5)",
    ),
    in_plans=False,
)
def check(host: Host) -> RuleOutput:
    """## What it checks

    ext2, ext3 and ext4 entries of fstab whose first field is a name that depends on the order of
    device detection: `/dev/sda1`, `/dev/nvme1n1`, `/dev/xvdf`, `/dev/dm-0`, `/dev/loop0`, and
    `/dev/md0` without an ARRAY line in mdadm.conf; also `/dev/zd0` of ZFS, `/dev/bcache0` and
    `/dev/rbd0`. UUID=, LABEL=, PARTUUID=, `/dev/disk/by-…`, `/dev/mapper/…`, `/dev/zvol/…` and
    paths of logical volumes are stable. Severity is high if the host has several disks of that
    kind, and otherwise medium. It is low on a virtual machine with one such disk, for entries with
    `noauto`, and for names such as `/dev/xvdf`, which Xen derives from the configuration of the
    virtual machine.

    ## Why it matters

    Disks are probed in parallel: a boot can swap two names, and an added or missing disk shifts
    them. Then the wrong filesystem is mounted and services write to it, or the device is missing
    and the boot stops in emergency mode. The host works until its next boot.

    ## Remedy

    Use the UUID of the filesystem. The command edits the first field of that line, and changes
    nothing if the line no longer contains the audited name. If other devices were not read, the
    command first checks that none of them has the UUID. systemd reads fstab again after
    `systemctl daemon-reload`.

    ## When to ignore

    Ignore it if udev rules or the firmware of the machine pin the names.
    """
    refuse_container(host, FSTAB_OF_CONTAINER)
    entries = [entry for entry in need(host.fstab) if entry.line.fstype != "auto"]
    if not entries:
        raise NotApplicable("fstab has no ext4 entry")
    gaps: list[Unknown] = []
    for entry in entries:
        if not _is_unstable(entry, host, gaps):
            yield cite_fstab(entry.line, entry.line.spec)
            continue
        yield _finding(entry, host)
        graded_by = (host.devices, host.virtualization)
        gaps += [each for each in graded_by if isinstance(each, Unknown)]
    raise_for(gaps)


def _is_unstable(entry: FstabEntry, host: Host, gaps: list[Unknown]) -> bool:
    """Return whether the name may change at boot; adds missing evidence to `gaps`."""
    spec = entry.line.spec
    array = re.fullmatch(ARRAY, spec)
    if array is None:
        return bool(re.fullmatch(DISK, spec) or re.fullmatch(NUMBERED, spec))
    if isinstance(host.md_arrays, Unknown):
        gaps.append(host.md_arrays)
        return False
    return array[1] not in _array_names(host.md_arrays.value)


@cached_by_identity
def _array_names(arrays: tuple[str, ...]) -> frozenset[str]:
    """Return "0" for "/dev/md0", "/dev/md/0" and "md0", which mdadm treats as equal."""
    return frozenset(re.sub(r"^(/dev/)?md/?", "", name) for name in arrays)


def _family(spec: str) -> str | None:
    """Return "sd" for "/dev/sda1", None for other devices than disks and partitions."""
    found = re.fullmatch(DISK, spec)
    return found[found.lastindex or 0] if found else None


def _disks(host: Host, family: str) -> int | None:
    """Return how many disks of a kind there are, None if lsblk's output is unknown."""
    if isinstance(host.devices, Unknown):
        return None
    return _families(host.devices.value)[family]


@cached_by_identity
def _families(devices: tuple[LsblkDevice, ...]) -> Counter[str]:
    """Count the disks of each kind."""
    names = (re.fullmatch(WHOLE, device.kernel_name) for device in devices)
    return Counter(found[found.lastindex or 0] for found in names if found)


def _grade(entry: FstabEntry, host: Host) -> Severity:
    """Grade by how likely the name is to change, and whether the boot needs the entry."""
    family = _family(entry.line.spec)
    if "noauto" in entry.line.options or family == NAMED_BY_HYPERVISOR:
        return Severity.LOW
    count = _disks(host, family) if family else None
    if count is None:
        return Severity.MEDIUM
    if count > 1:
        return Severity.HIGH
    return Severity.LOW if for_wording(host.virtualization, None) else Severity.MEDIUM


def _finding(entry: FstabEntry, host: Host) -> Finding:
    line, family = entry.line, _family(entry.line.spec)
    count = _disks(host, family) if family else None
    among = f", one of {count} disks {family}*" if count is not None and count > 1 else ""
    severity = _grade(entry, host)
    danger = MOVED if family == NAMED_BY_HYPERVISOR else SWAPPED
    return Finding(
        message=f"fstab mounts {line.mount_point} from {line.spec}{among}: {danger}.",
        severity=severity,
        confidence=Confidence.CONFIRMED if severity is Severity.HIGH else Confidence.LIKELY,
        citations=tuple(_cite(entry, host, family, count)),
        remedies=(_remedy(entry, host),),
        fact=line.mount_point,
        summary="fstab uses a device name that can change at boot",
    )


def _cite(
    entry: FstabEntry, host: Host, family: str | None, count: int | None
) -> Sequence[Citation]:
    line = entry.line
    written = f"{line.spec} {line.mount_point} {line.fstype} {line.raw_options}"
    cited = [cite_fstab(line, written)]
    if isinstance(host.devices, Known) and count is not None:
        cited.append(Citation(f"disks {family}*", str(count), host.devices.origin))
    if re.fullmatch(ARRAY, line.spec) and isinstance(host.md_arrays, Known):
        named = listed(host.md_arrays.value, MOST_NAMED) or "none"
        cited.append(Citation("ARRAY lines", named, host.md_arrays.origin))
    return cited


def _remedy(entry: FstabEntry, host: Host) -> Remedy:
    """Return the fstab edit, or advice that says why there is none."""
    uuid = _uuid(entry, host)
    if uuid is None or not re.fullmatch(UUID, uuid):
        unread = "Use UUID= in fstab (see `blkid`); the UUID could not be read."
        return Remedy(unread, Disruption.ONLINE)
    if _is_shared(uuid, entry, host):
        return Remedy(
            f"Do not use the UUID yet: another device has {uuid} as well, or may have it. Assign a "
            "new UUID to the copy first, or use a path below /dev/disk/by-id.",
            Disruption.ONLINE,
        )
    steps = remedies.configuration.device_steps(entry.line, f"UUID={uuid}")
    summary = f"Use the UUID of the filesystem ({uuid})."
    if not steps or not _may_have_unread_copies(host):
        return Remedy(summary, Disruption.ONLINE, steps)
    steps = (remedies.superblock_fields.only_carrier(uuid), *steps)
    return Remedy(summary, Disruption.ONLINE, steps, trade_off=UNSOUGHT)


def _uuid(entry: FstabEntry, host: Host) -> str | None:
    """Return the UUID of the device that the entry currently refers to."""
    fs = host.filesystem(entry.device_number)
    if fs is not None and fs.uuid:
        return fs.uuid
    if isinstance(host.devices, Unknown) or isinstance(entry.device_number, Unknown):
        return None
    unmounted = filesystems_by_number(for_wording(host.unmounted, ())).get(
        entry.device_number.value
    )
    if unmounted is not None and unmounted.uuid:
        return unmounted.uuid
    device = listed_device(host.devices.value, entry.device_number.value)
    return device.uuid if device else None


def _is_shared(uuid: str, entry: FstabEntry, host: Host) -> bool:
    """Return whether another device has, or may have, the UUID: a mount could use either device."""
    if isinstance(host.devices, Unknown) or isinstance(entry.device_number, Unknown):
        return True
    return bool(_carriers(host).get(uuid.lower(), set()) - {entry.device_number.value})


def _may_have_unread_copies(host: Host) -> bool:
    """Return whether copies may be on devices that were not read and have no contents in lsblk."""
    rows = for_wording(host.devices, ())
    return isinstance(host.unmounted, Unknown) and not any(row.fstype for row in rows)


@cached_by_identity
def _carriers(host: Host) -> Mapping[str, set[DeviceNumber]]:
    """Return the devices with each UUID, according to lsblk and their superblocks.

    Without udev, lsblk shows no UUIDs.
    """
    listed = for_wording(host.devices, ())
    pairs = [(device.uuid, device.device_number) for device in listed]
    read = (*host.filesystems, *host.lower, *for_wording(host.unmounted, ()))
    pairs += [(fs.uuid, fs.device_number) for fs in read]
    found: dict[str, set[DeviceNumber]] = {}
    for uuid, number in pairs:
        found.setdefault((uuid or "").lower(), set()).add(number)
    return found
