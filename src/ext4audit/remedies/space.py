"""Make room on a filesystem: find what fills it, reserve less of it, grow it to its device."""

from __future__ import annotations

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Disruption, Phase, Remedy, Step
from ext4audit.remedies.shell import quote


def find_many_files(fs: Filesystem) -> Remedy:
    """Return the advice to delete files, with a command that lists the fullest directories."""
    where = next(filter(None, map(quote, fs.mount_points)), None)
    find = f" (find {where} -xdev -printf '%h\\n' | sort | uniq -c | sort -n | tail)"
    return Remedy(
        "Find the directories that hold most files, and delete what nobody needs"
        f"{find if where else ''}.",
        Disruption.ONLINE,
    )


def set_reserved_blocks(fs: Filesystem, blocks: int) -> tuple[Step, ...]:
    """Return the steps that reserve so many blocks for root.

    Empty where the superblock is not known: the rollback needs the number that it holds.
    """
    before = fs.superblock.value.reserved_blocks if isinstance(fs.superblock, Known) else None
    device = quote(fs.device)
    if device is None or before is None:
        return ()
    return (
        Step(Phase.IMMEDIATE, f"tune2fs -r {blocks} {device}"),
        Step(
            Phase.VERIFY,
            f"tune2fs -l {device} | grep -qE '^Reserved block count: +{blocks}$'",
        ),
        Step(Phase.ROLLBACK, f"tune2fs -r {before} {device}"),
    )


def grow_to_device(fs: Filesystem, most_idle_bytes: int) -> tuple[Step, ...]:
    """Return the steps that grow a mounted filesystem to the size of its device.

    It is verified that no more than `most_idle_bytes` of the device then lie idle.
    """
    device = quote(fs.device)
    if device is None:
        return ()
    program = '/^Block count:/ {n = $3} /^Block size:/ {printf "%.0f", n * $3}'
    own = f"$(dumpe2fs -h {device} 2>/dev/null | awk '{program}')"
    idle = f"$(( $(blockdev --getsize64 {device}) - {own} ))"
    return (
        Step(Phase.IMMEDIATE, f"resize2fs {device}"),
        Step(Phase.VERIFY, f'test "{idle}" -le {most_idle_bytes}'),
    )
