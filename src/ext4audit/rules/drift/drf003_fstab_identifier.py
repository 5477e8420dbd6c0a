"""DRF003: Several devices have the same UUID or label, and either of them may be mounted."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ext4audit import lazily
from ext4audit.evidence import Evidence, Known, Unknown, for_wording, need, raise_for
from ext4audit.facts import cached_by_identity
from ext4audit.facts.devices import BlockDevice, LsblkDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import EXT_FSTYPES, DeviceNumber, mounts_by_device
from ext4audit.facts.superblock import (
    SUPERBLOCK_KEYS,
    Superblock,
    comparable,
    split_link,
    split_spec,
)
from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.rule import RuleOutput, host_rule
from ext4audit.rules.shared import cite_fstab, in_brief, refuse_container, superblock_field

NUMBER_OF_A_PARTITION = r"p?[0-9]+"
CHANGES = "-cow"
"""The suffix that lvm2 adds to a snapshot's name for the device with its changed blocks. lvm2
doubles each dash in the names of logical volumes, so no other name ends in it."""
HIDDEN_LAYERS = ("-real", CHANGES)
"""The suffixes of the device-mapper layers below an LVM snapshot and its origin."""


class Twins(NamedTuple):
    """Devices with the same identifier; `key` is UUID or LABEL."""

    key: str
    value: str
    devices: tuple[LsblkDevice, ...]

    @property
    def numbers(self) -> frozenset[DeviceNumber]:
        """Their device numbers."""
        return frozenset(row.device_number for row in self.devices)


class Layers(NamedTuple):
    """Devices that other devices are built on: their numbers, and the names of disks among them.

    `nodes` are the paths of block devices that back loop devices.
    """

    numbers: frozenset[DeviceNumber]
    disks: frozenset[str]
    nodes: frozenset[str]

    def hold(self, row: LsblkDevice) -> bool:
        """Return whether a device, or the disk of a partition, is a layer below another device."""
        name = row.kernel_name
        if row.device_number in self.numbers or f"/dev/{name}" in self.nodes:
            return True
        return any(
            name[:end] in self.disks and re.fullmatch(NUMBER_OF_A_PARTITION, name[end:])
            for end in range(len(name))
        )


def layers_below(host: Host) -> Layers:
    """Return the devices below filesystems, as far as their stacks are visible.

    The disk of a partition is not included: its other partitions hold separate filesystems.
    """
    below = [each for fs in filesystems_seen(host) for each in _layers(fs)]
    stacks = (for_wording(fs.stack, None) for fs in filesystems_seen(host))
    devices = (device for stack in stacks if stack for device in stack.walk())
    return Layers(
        frozenset(device.device_number for device in below),
        frozenset(device.name for device in below if device.kind == "disk"),
        frozenset(device.loop.shows for device in devices if device.loop),
    )


def filesystems_seen(host: Host) -> tuple[Filesystem, ...]:
    """Return all filesystems that were read, mounted or not."""
    unmounted = for_wording(host.unmounted, ())
    return (*host.filesystems, *host.lower, *unmounted)


def _layers(fs: Filesystem) -> Iterator[BlockDevice]:
    """Yield the devices below a filesystem's device, except the disks of partitions."""
    stack = for_wording(fs.stack, None)
    for device in stack.walk() if stack else ():
        if device.kind not in {"partition", "loop"}:
            yield from device.known_below


def filesystems_of(rows: Sequence[LsblkDevice], layers: Layers) -> tuple[LsblkDevice, ...]:
    """Return the devices with an ext2, ext3 or ext4 filesystem, each once, without layers.

    lsblk lists a device below each of its parents, so an array once for every member.
    """
    found = {row.device_number: row for row in rows if row.fstype in EXT_FSTYPES}
    names = {row.name for row in found.values()}
    hidden = {f"{name}{ending}" for name in names for ending in HIDDEN_LAYERS}
    return tuple(r for r in found.values() if not layers.hold(r) and r.name not in hidden)


def twins_of(key: str, devices: Sequence[LsblkDevice]) -> tuple[Twins, ...]:
    """Return the groups of devices that share a UUID or a label."""
    groups: dict[str, list[LsblkDevice]] = {}
    for row in devices:
        value = row.uuid.lower() if key == "UUID" and row.uuid else row.label
        if value and (key == "LABEL" or row.uuid):
            groups.setdefault(value, []).append(row)
    return tuple(Twins(key, v, tuple(rows)) for v, rows in groups.items() if len(rows) > 1)


def identifier_of(spec: str) -> tuple[str, str] | None:
    """Return the kind and value by which fstab or root= names a device, None for a plain path."""
    parts = split_spec(spec) or split_link(spec)
    if parts is None or parts[0] not in SUPERBLOCK_KEYS or not parts[1]:
        return None
    return comparable(*parts)


def is_mounted(host: Host, row: LsblkDevice) -> bool:
    """Return whether a device is known to be mounted, here or in another namespace."""
    mounts = for_wording(host.mounts, ())
    return row.device_number in mounts_by_device(mounts) or row.device_number in _alive(host)


@cached_by_identity
def _alive(host: Host) -> frozenset[DeviceNumber]:
    """Return the devices of the filesystems that the kernel has mounted anywhere."""
    known = (*host.filesystems, *host.lower)
    return frozenset(fs.device_number for fs in known if fs.alive)


def is_snapshot(host: Host, row: LsblkDevice) -> bool:
    """Return whether a device is an LVM snapshot with a device for its changes (not a thin one)."""
    return f"{row.name}{CHANGES}" in _names(for_wording(host.devices, ()))


@cached_by_identity
def _names(rows: tuple[LsblkDevice, ...]) -> frozenset[str]:
    return frozenset(row.name for row in rows)


def is_disambiguated(host: Host, twins: Twins) -> bool:
    """Return whether udev prefers one device: the LVM origin, if the others are its snapshots.

    lvm2 marks snapshots so that udev gives their links the priority -100 (13-dm-disk.rules).
    If a snapshot is mounted and its origin is not, they were confused anyway.
    """
    origins = [row for row in twins.devices if not is_snapshot(host, row)]
    if len(origins) != 1:
        return False
    return is_mounted(host, origins[0]) or not any(is_mounted(host, r) for r in twins.devices)


class Use(NamedTuple):
    """A reference to a filesystem by an identifier, in an fstab line or in root=."""

    key: str
    value: str
    citation: Citation


@host_rule(
    "DRF003",
    "fstab-identifier",
    severity=Severity.HIGH,
    since="0.2",
    in_plans=False,
    references=(
        "https://man7.org/linux/man-pages/man8/tune2fs.8.html",
        "https://man7.org/linux/man-pages/man5/fstab.5.html",
        "https://github.com/lvmteam/lvm2/issues/146",
        "https://github.com/systemd/systemd/pull/28481",
    ),
)
def check(host: Host) -> RuleOutput:
    """## What it checks

    Whether several block devices with an ext2, ext3 or ext4 filesystem have the same UUID, or the
    same label, if fstab or `root=` uses that label. Components of another device (paths of a
    multipath device, members of an array) do not count as a second filesystem. A scan of single
    targets reads no other device: the rule then does not apply if lsblk shows no contents of
    devices, which it takes from udev.

    Severity is high if fstab or `root=` uses the identifier. Otherwise it is medium if one of the
    devices is mounted, and low if none is. It is also low for snapshots of LVM, other than thin
    ones: lvm2 gives their links in /dev/disk a low priority, so udev prefers the origin while the
    origin is active.

    ## Why it matters

    ext4 mounts copies without an error. If fstab or `root=` names a UUID or label that two devices
    have, the order of udev's events decides which one is mounted: in some versions of systemd the
    link in /dev/disk goes to the last device, in others it stays at the first one. After a reboot,
    an old snapshot can be mounted instead of the current data, and new data is written to it.

    ## Remedy

    Change the UUID or label of the copy while it is unmounted; or use a unique device path, such
    as the one in /dev/mapper for logical volumes.

    ## When to ignore

    Ignore it for intended copies (two system images of which one is active), if nothing mounts them
    by this identifier.
    """
    refuse_container(host, "a {} container does not show the host's devices")
    listed = need(host.devices)
    # Without udev, lsblk shows no device contents; only the superblocks that were read do.
    unread = () if any(row.fstype for row in listed) else _unknown(host.unmounted)
    rows = _identified(host, listed)
    candidates = filesystems_of(rows, layers_below(host))
    yield Citation("ext2, ext3 and ext4 devices", str(len(candidates)), origin_of(host.devices))
    by_uuid = twins_of("UUID", candidates)
    by_label = twins_of("LABEL", candidates)
    if not by_uuid and not by_label:
        raise_for(unread)
        return
    uses, gaps = _uses(host)
    by_identifier: dict[tuple[str, str], list[Use]] = {}
    for use in uses:
        by_identifier.setdefault((use.key, use.value), []).append(use)
    for twins in (*by_uuid, *by_label):
        used = by_identifier.get((twins.key, twins.value), [])
        if used or twins.key == "UUID":
            yield _finding(host, twins, used)
    raise_for((*gaps, *unread))


def origin_of(evidence: Evidence[object]) -> str:
    """Return the origin of evidence, its subject if it is unknown."""
    return evidence.origin if isinstance(evidence, Known) else evidence.what


def _identified(host: Host, rows: Sequence[LsblkDevice]) -> tuple[LsblkDevice, ...]:
    """Return lsblk's devices, with identifiers from superblocks where lsblk shows none."""
    read = {fs.device_number: fs for fs in filesystems_seen(host)}
    unidentified = [fs for row in rows if not row.fstype and (fs := read.get(row.device_number))]
    labels = _uses_labels(host)
    for fs in unidentified:
        need(superblock_field(fs, f"label of {fs.device}", _label) if labels else fs.superblock)
    seen = {fs.device_number: fs for fs in unidentified}
    return tuple(
        row._replace(fstype="ext4", uuid=seen[number].uuid, label=seen[number].label)
        if (number := row.device_number) in seen
        else row
        for row in rows
    )


def _label(superblock: Superblock) -> str | None:
    """Return the label, "" for none; None without root, if neither size nor label is known."""
    return superblock.label or (None if superblock.block_bytes is None else "")


def _uses_labels(host: Host) -> bool:
    """Return whether fstab or root= refers, or may refer, to a filesystem by its label."""
    uses, gaps = _uses(host)
    return bool(gaps) or any(use.key == "LABEL" for use in uses)


def _uses(host: Host) -> tuple[list[Use], tuple[Unknown, ...]]:
    """Return the references by identifier in fstab and root=, and the gaps."""
    gaps = _unknown(host.fstab, host.kernel_arguments)
    return [*_in_fstab(host), *_in_root(host)], gaps


def _unknown(*evidence: Evidence[object]) -> tuple[Unknown, ...]:
    return tuple(each for each in evidence if isinstance(each, Unknown))


def _in_fstab(host: Host) -> Iterator[Use]:
    for entry in for_wording(host.fstab, ()):
        line = entry.line
        found = identifier_of(line.spec)
        if found:
            yield Use(*found, cite_fstab(line, f"{line.spec} {line.mount_point}"))


def _in_root(host: Host) -> Iterator[Use]:
    arguments = for_wording(host.kernel_arguments, ())
    for argument in arguments:
        found = identifier_of(argument.removeprefix("root="))
        if argument.startswith("root=") and found:
            yield Use(*found, Citation("kernel argument", argument, "/proc/cmdline"))


def _finding(host: Host, twins: Twins, used: Sequence[Use]) -> Finding:
    names = ", ".join(row.name for row in twins.devices)
    shown = (
        (row.name, f"{row.fstype} UUID={row.uuid or ''} LABEL={row.label or ''}")
        for row in twins.devices
    )
    places = ", ".join(use.citation.label for use in used)
    what = "can mount any of them" if len(used) == 1 else "can each mount any of them"
    chance = f"{places} {what}" if used else f"a mount by {twins.key} can use any of them"
    # All layers of each device are then known, so none of them is on top of another.
    all_visible = _fully_visible(host) >= twins.numbers
    if is_disambiguated(host, twins):
        chance = "udev prefers the origin to its LVM snapshots while the origin is active"
    return Finding(
        message=f"{names} have the same {twins.key} {twins.value}: {chance}.",
        severity=_severity(host, twins, used),
        confidence=Confidence.CONFIRMED if all_visible else Confidence.LIKELY,
        citations=in_brief(
            (
                *(use.citation for use in used),
                *(Citation(name, value, origin_of(host.devices)) for name, value in shown),
            )
        ),
        remedies=tuple(lazily("rules.drift.copies", "copy_remedies")(host, twins)),
        fact=f"{twins.key}={twins.value}",
        summary=_summary(host, twins, used),
    )


def _summary(host: Host, twins: Twins, used: Sequence[Use]) -> str:
    if is_disambiguated(host, twins):
        return f"LVM snapshots have the {twins.key} of their origin"
    whose = f"a {twins.key} that fstab or root= uses" if used else f"the same {twins.key}"
    return f"several devices have {whose}"


def _severity(host: Host, twins: Twins, used: Sequence[Use]) -> Severity:
    if is_disambiguated(host, twins):
        return Severity.LOW
    if used:
        return Severity.HIGH
    mounted = any(is_mounted(host, row) for row in twins.devices)
    return Severity.MEDIUM if mounted else Severity.LOW


@cached_by_identity
def _fully_visible(host: Host) -> frozenset[DeviceNumber]:
    return frozenset(fs.device_number for fs in filesystems_seen(host) if _is_fully_visible(fs))


def _is_fully_visible(fs: Filesystem) -> bool:
    """Return whether all layers below a filesystem are visible."""
    stack = for_wording(fs.stack, None)
    return stack is not None and all(isinstance(each.below, Known) for each in stack.walk())
