"""The remedies for demanded options: put them in force, and show them in the mount table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ext4audit.evidence import Known, value_or
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.kernel_bugs import exposure
from ext4audit.facts.mount import ATIME_OPTIONS
from ext4audit.facts.option_table import recognize
from ext4audit.finding import Disruption, Remedy
from ext4audit.remedies.flags import set_flags_and_options
from ext4audit.remedies.mounting import (
    disruption_of_new_mount,
    left_by_hand,
    move_to_fstab,
    single_mount,
)
from ext4audit.remedies.options import disruption, not_persistent, option_of
from ext4audit.remedies.remount import DELALLOC_STAYS_SINCE, fstab_line
from ext4audit.rules.shared.citations import rootflags, what_else_sets_it


def shown_remedy(fs: Filesystem, host: Host, options: Sequence[str]) -> Remedy:
    """Return the remedy that moves options from the superblock to fstab, and mounts anew."""
    return Remedy(
        f"Ask for {', '.join(options)} in fstab, clear it in the superblock, and mount it anew."
        f"{left_by_hand(fs)}{_first(fs, host)}",
        disruption_of_new_mount(fs) if fs.alive else Disruption.ONLINE,
        move_to_fstab(fs, _tokens(options)),
    )


def _tokens(options: Sequence[str]) -> dict[str, str]:
    """Return the tokens of ext4 options by name; flags are left out."""
    return {known[0].name: known[1] for known in map(recognize, options) if known is not None}


def _first(fs: Filesystem, host: Host) -> str:
    """Return the sentence on what must set the option where no entry of fstab mounts it."""
    if "/" in fs.mount_points:
        return " rootflags= must ask for it too." if rootflags(host) else ""
    mount = single_mount(fs)
    if mount is None or fstab_line(fs, mount) is not None:
        return ""
    return " No fstab entry names it: the unit or script that mounts it must ask for it first."


def in_force_remedy(fs: Filesystem, host: Host, options: Sequence[str]) -> Remedy:
    """Return the remedy that puts options in force now and persistently, flags first."""
    tokens = _tokens(options)
    beside = _beside(fs, host, tokens)
    anew = _needs_new_mount(host, tokens)
    atime = [option for option in options if option in ATIME_OPTIONS]
    steps = set_flags_and_options(fs, atime, {**tokens, **beside}, by_new_mount=anew)
    also = ", with dioread_lock, because of PRF001 on this kernel" if beside else ""
    by_hand = [left_by_hand(fs)] if anew else []
    by_hand += [what_else_sets_it(fs, host, name) for name in tokens]
    return Remedy(
        f"Put {', '.join(options)} in force and into fstab{also}."
        f"{''.join(dict.fromkeys((*by_hand, not_persistent(steps))))}",
        disruption_of_new_mount(fs) if anew else disruption(steps) if steps else Disruption.REMOUNT,
        steps,
    )


def _beside(fs: Filesystem, host: Host, tokens: Mapping[str, str]) -> dict[str, str]:
    """Return what must go with nodelalloc where dioread_nolock would make writes slow."""
    if tokens.get("delalloc") != "nodelalloc":
        return {}
    option = option_of(fs, "dioread_nolock")
    exposed = exposure("PRF001", host.kernel)
    affected = isinstance(exposed, Known) and exposed.value.affected
    off = option is not None and option.token == "nodioread_nolock"  # noqa: S105 - an option
    return {"dioread_nolock": "nodioread_nolock"} if affected and not off else {}


def _needs_new_mount(host: Host, tokens: Mapping[str, str]) -> bool:
    """Whether a remount is refused, or may be."""
    if tokens.get("delalloc") != "nodelalloc":
        return False
    kernel = value_or(host.kernel, None)
    return kernel is None or kernel.since(*DELALLOC_STAYS_SINCE)
