"""Remedies for copies with the same UUID or label, which may also be paths to one device."""

from collections.abc import Iterator, Mapping, Sequence

from ext4audit import remedies
from ext4audit.evidence import for_wording
from ext4audit.facts import cached_by_identity
from ext4audit.facts.devices import ONE_PATH, LsblkDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Disruption, Remedy
from ext4audit.rules.drift.drf003_fstab_identifier import (
    Twins,
    filesystems_seen,
    is_mounted,
    is_snapshot,
)


def copy_remedies(host: Host, twins: Twins) -> Iterator[Remedy]:
    """Yield a remedy for each copy: each unmounted device, if exactly one device is mounted.

    If none or several are mounted, the copy cannot be distinguished from the original.
    """
    mounted = [row for row in twins.devices if is_mounted(host, row)]
    copies = [row for row in twins.devices if not is_mounted(host, row)]
    twice = next(_mounted_twice(host, mounted), None)
    if twice:
        yield _by_hand(*twice, twins.key, is_same=True)
    elif len(mounted) != 1:
        reasons = filter(None, (_why_unchangeable(host, row, twins.key) for row in copies))
        yield _find_copy(twins.key, next(reasons, None))
    for row in copies if len(mounted) == 1 else ():
        same = is_same_storage(host, mounted[0], row)
        if same is not False:
            yield _by_hand(mounted[0], row, twins.key, is_same=same is True)
            continue
        why = _why_unchangeable(host, row, twins.key)
        if why:
            yield _by_path(row.name, why)
            continue
        give = (
            remedies.superblock_fields.new_uuid
            if twins.key == "UUID"
            else remedies.superblock_fields.clear_label
        )
        fs = _by_number(host).get(row.device_number)
        wholes = remedies.remount.wholes(fs) if fs else ()
        yield Remedy(
            summary=f"Give the copy {row.name} its own {twins.key}.",
            disruption=Disruption.ONLINE,
            steps=give(row.kernel_name, twins.value, wholes),
            trade_off="Choose this if the mounted device is the original. Anything that refers to "
            f"the copy by its old {twins.key} no longer finds it.{_when_merged(host, row)}",
        )


def is_same_storage(host: Host, one: LsblkDevice, other: LsblkDevice) -> bool | None:
    """Return whether two devices are the same storage; None if one may be a copy of the other."""
    differ = one.uuid and other.uuid and one.uuid.lower() != other.uuid.lower()
    if differ or not ONE_PATH.isdisjoint({one.transport, other.transport}):
        return False
    read = _by_number(host)
    pair = read.get(one.device_number), read.get(other.device_number)
    return host.is_same_storage(pair[0], pair[1]) if pair[0] and pair[1] else None


@cached_by_identity
def _by_number(host: Host) -> Mapping[DeviceNumber, Filesystem]:
    return {fs.device_number: fs for fs in filesystems_seen(host)}


def _mounted_twice(
    host: Host, mounted: Sequence[LsblkDevice]
) -> Iterator[tuple[LsblkDevice, LsblkDevice]]:
    """Yield the pairs of mounted devices that are the same storage."""
    rows = {row.device_number: row for row in mounted}
    for row in mounted:
        fs = _by_number(host).get(row.device_number)
        for other in host.mounted_twice(fs) if fs else ():
            if other.device_number in rows:
                yield row, rows[other.device_number]


def _by_hand(original: LsblkDevice, row: LsblkDevice, key: str, *, is_same: bool) -> Remedy:
    """Return advice for devices where writing to one may damage the other, which is mounted."""
    if is_same:
        return Remedy(
            f"Write through {original.name} only: e2fsck, tune2fs or a mount of {row.name} damages "
            "the mounted filesystem. Detach the loop device, or let dm-multipath join the paths.",
            Disruption.ONLINE,
        )
    return Remedy(
        f"If {row.name} is a copy, give it its own {key} (tune2fs). First rule out that it is "
        f"another path to the disk of {original.name} (lsblk -o NAME,SIZE,WWN,SERIAL): e2fsck and "
        "tune2fs would then damage the mounted filesystem.",
        Disruption.ONLINE,
    )


SHARED = (
    "it shares the external journal of the original. e2fsck refuses the copy while the original is "
    "mounted, and tune2fs -U would take the journal from the original"
)
STABLE = "tune2fs cannot change its UUID because of the feature stable_inodes"


def _find_copy(key: str, why_kept: str | None) -> Remedy:
    """Return advice for copies that cannot be distinguished from the original."""
    kind = "UUID (tune2fs -U random)" if key == "UUID" else "label (tune2fs -L)"
    change = f"recreate it ({why_kept})" if why_kept else f"unmount it and change its {kind}"
    return Remedy(
        f"Find out which device is the copy, {change}; or use a unique device path in fstab.",
        Disruption.UNMOUNT,
    )


def _why_unchangeable(host: Host, row: LsblkDevice, key: str) -> str | None:
    """Return why the UUID or label of a copy cannot be changed, None if it can.

    Keys of encrypted files depend on the UUID. An external journal lists its users by UUID: run
    on a copy, tune2fs replaces the UUID of the original there (1.47.0).
    """
    fs = _by_number(host).get(row.device_number)
    superblock = for_wording(fs.superblock, None) if fs else None
    if superblock is None:
        return None
    if superblock.external_journal is not None:
        return SHARED
    return STABLE if key == "UUID" and "stable_inodes" in superblock.features else None


def _by_path(copy: str, why: str) -> Remedy:
    return Remedy(
        f"Name the original by a unique device path in fstab, or recreate the copy {copy}: {why}.",
        Disruption.ONLINE,
    )


def _when_merged(host: Host, row: LsblkDevice) -> str:
    """Return a sentence on merging if the device is a snapshot, else an empty string."""
    if not is_snapshot(host, row):
        return ""
    return " Merging the snapshot (lvconvert --merge) also writes the change to the origin."
