"""Make, replace and move the journal of an unmounted filesystem."""

from __future__ import annotations

from ext4audit.evidence import Known, need
from ext4audit.facts.host import Filesystem
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Disruption, Remedy, Step
from ext4audit.remedies.offline import checked, unmounted_steps, why_by_hand
from ext4audit.remedies.shell import quote

MIB = 1 << 20
SIZE_IN_MIB = "/ournal size:/ { n = $NF + 0; if ($NF ~ /k$/) n /= 1024 }"
"""awk on what dumpe2fs prints: "Total journal size:       128M", in KiB ("4096k") below 8 MiB."""
FREE_SHARE = 2
"""tune2fs 1.47.0 makes no journal larger than half of what is free."""


def enlarge_journal(fs: Filesystem, present_bytes: int, wanted_bytes: int) -> Remedy:
    """Return the remedy that replaces an internal journal by a larger one.

    tune2fs takes the old one out first. Where the new one then does not fit, the old size is
    made again, so that the filesystem is not left without one.
    """
    new, old = (max(1, each // MIB) for each in (wanted_bytes, present_bytes))
    needed_mib = FREE_SHARE * new
    is_enough = (free_bytes(fs) or 0) >= needed_mib * MIB
    steps = _replacement(fs, new, old) if is_enough else ()
    missing = f"once {needed_mib} MiB are free: tune2fs wants twice its size"
    where = "" if steps else f", {why_by_hand(fs) if is_enough else missing}"
    return Remedy(
        f"Replace the journal by one of the usual size: a journal of {new} MiB{where}.",
        Disruption.UNMOUNT,
        steps,
        trade_off=f"It takes {new - old} MiB more of the filesystem; the kernel replays up to so "
        "much after a crash.",
    )


def free_bytes(fs: Filesystem) -> int | None:
    """Return what is free, None where it is not known.

    The superblock's own counter is out of date while the filesystem is mounted.
    """
    if fs.alive:
        usage = fs.usage.value if isinstance(fs.usage, Known) else None
        return usage.free_blocks * usage.block_bytes if usage else None
    superblock = fs.superblock.value if isinstance(fs.superblock, Known) else None
    if superblock is None or superblock.free_blocks is None or superblock.block_bytes is None:
        return None
    return superblock.free_blocks * superblock.block_bytes


def _replacement(fs: Filesystem, new_mib: int, old_mib: int) -> tuple[Step, ...]:
    found = f"awk '{SIZE_IN_MIB} END {{ exit !(n >= {new_mib}) }}'"
    verify = f"dumpe2fs -h {quote(fs.device)} 2>/dev/null | {found}"
    # What dumpe2fs calls the size holds the area of fast commits too, whose own is not known.
    exact = "fast_commit" not in need(fs.superblock).features
    undo = (_replace(fs, old_mib, new_mib),) if exact else ()
    return unmounted_steps(fs, (checked(fs), _replace(fs, new_mib, old_mib)), (verify,), undo)


def _replace(fs: Filesystem, new_mib: int, old_mib: int) -> str:
    device = quote(fs.device)
    make = f"{{ tune2fs -J size={new_mib} {device} || tune2fs -J size={old_mib} {device}; }}"
    return f"tune2fs -O ^has_journal {device} && {make}"


def move_journal_inside(fs: Filesystem, superblock: Superblock) -> tuple[Step, ...]:
    """Return the steps that put an external journal into the filesystem, and out again.

    There is no rollback where the superblock does not name the journal's UUID.
    """
    device, uuid = quote(fs.device), quote(superblock.journal_uuid or "")
    back = f"tune2fs -O ^has_journal {device} && tune2fs -J device=UUID={uuid} {device}"
    return unmounted_steps(
        fs,
        (checked(fs), f"tune2fs -O ^has_journal {device} && tune2fs -O has_journal {device}"),
        (f"tune2fs -l {device} | grep -qE '^Journal inode:[[:blank:]]+[1-9]'",),
        (back,) if superblock.journal_uuid else (),
    )
