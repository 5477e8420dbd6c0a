"""The commands that make and mount the filesystem of a plan: to be copied, and all run by tests."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ext4audit.facts.plan import Plan, PlanLine
from ext4audit.facts.superblock import Superblock

FSTAB_ESCAPED = " \t\n\\#"
"""What fstab(5) spells in octal inside a field; a "#" at its start would be a comment."""


def plan_lines(plan: Plan, superblock: Superblock | None) -> tuple[PlanLine, ...]:
    """Return the lines for a plan, in the order in which to run them.

    `superblock` is the one that was predicted; without it there is no check of the group size.
    """
    return tuple(_lines(plan, superblock))


def _lines(plan: Plan, superblock: Superblock | None) -> Iterator[PlanLine]:
    device, where = shlex.quote(plan.device), shlex.quote(plan.mount_point)
    yield PlanLine("mkfs", "make it (DESTROYS what is on the device)", _mkfs(plan, superblock))
    if plan.cleared:
        words = ",".join(f"^{word}" for word in plan.cleared)
        purpose = "take defaults out that hide in the superblock"
        yield PlanLine("tune2fs", purpose, f"tune2fs -o {shlex.quote(words)} {device}")
    if superblock is not None and superblock.blocks_per_group is not None:
        purpose = "check: mke2fs lowers -g without a word where inodes are dense"
        yield PlanLine("verify", purpose, _verify(superblock, device))
    options = f" -o {shlex.quote(','.join(plan.mount_options))}" if plan.mount_options else ""
    mount = f"mkdir -p {where} && mount -t {plan.fstype}{options} {device} {where}"
    yield PlanLine("mount", "mount it now", mount)
    yield PlanLine("fstab", "print its line of /etc/fstab", _fstab(plan, device))
    if superblock is not None and superblock.block_bytes:
        yield from _tune_stripe(plan, superblock.block_bytes, device)


def _mkfs(plan: Plan, superblock: Superblock | None) -> str:
    """Return the user's words, and the numbers of the stripe that mke2fs may not see itself."""
    block_bytes = superblock.block_bytes if superblock else None
    mkfs = plan.mkfs.with_extended(*plan.stripe_words(block_bytes)) if block_bytes else plan.mkfs
    words = [f"mkfs.{plan.fstype}", *mkfs.manner, *mkfs.without_value("-t").words(), plan.device]
    return shlex.join(words)


def _verify(superblock: Superblock, device: str) -> str:
    pattern = f"^Blocks per group: +{superblock.blocks_per_group}$"
    return f"dumpe2fs -h {device} 2>/dev/null | grep -Eq {shlex.quote(pattern)}"


def _fstab(plan: Plan, device: str) -> str:
    """Return the command that prints the line, by UUID: device names change between boots."""
    where = shlex.quote(_escaped(plan.mount_point))
    options = shlex.quote(_escaped(",".join(plan.mount_options) or "defaults"))
    fsck_pass = 1 if plan.mount_point == "/" else 2
    uuid = f'"$(blkid -s UUID -o value {device})"'
    form = f"'UUID=%s %s {plan.fstype} %s 0 {fsck_pass}\\n'"
    return f"printf {form} {uuid} {where} {options}"


def _escaped(field: str) -> str:
    return "".join(f"\\{ord(char):03o}" if char in FSTAB_ESCAPED else char for char in field)


def _tune_stripe(plan: Plan, block_bytes: int, device: str) -> Iterator[PlanLine]:
    words = plan.stripe_words(block_bytes)
    if words:
        purpose = "only for one that exists already without the stripe's numbers"
        command = f"tune2fs -E {','.join(words)} {device}"
        yield PlanLine("tune2fs_stripe", purpose, command)
