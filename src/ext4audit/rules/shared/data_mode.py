"""The data mode, `data=`: which is in force, and the remedy that returns to ordered."""

from __future__ import annotations

from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.options import Provenance
from ext4audit.finding import Remedy
from ext4audit.remedies.fstab import fstab_lines
from ext4audit.remedies.mounting import (
    NOT_SET,
    change_by_new_mount,
    disruption_of_new_mount,
    left_by_hand,
)
from ext4audit.rule import NotApplicable
from ext4audit.rules.shared.citations import in_rootflags, is_in_force, what_else_sets_it
from ext4audit.rules.shared.demands import demanded, discouraged

ORDERED = "data=ordered"
ASYNC_COMMIT = "journal_async_commit"
NODELALLOC = "nodelalloc"


def data_mode(fs: Filesystem) -> str:
    """Return the token of the mode in force; raises NotApplicable where nothing is journaled."""
    if not fs.alive:
        raise NotApplicable("it is not mounted")
    options = need(fs.options)
    if options.complete and options.find("data") is None:
        raise NotApplicable("it runs without a journal, where there is no mode of data")
    return need(options.token("data"))


def back_to_ordered(fs: Filesystem, host: Host, *, trade_off: str) -> Remedy:
    """Return the remedy that returns to data=ordered.

    The kernel refuses journal_async_commit with data=ordered, so that it must go as well.
    """
    wanted = {"data": ORDERED}
    beside = ""
    if _has_async_commit(fs, host):
        wanted[ASYNC_COMMIT] = NOT_SET
        beside = f" {ASYNC_COMMIT} goes with it: the kernel refuses it in this mode."
    profile = demanded(fs, host).get(NODELALLOC)
    option = need(fs.options).find("delalloc")
    if profile and option and option.token == NODELALLOC and option.set_by is Provenance.IMPLIED:
        wanted["delalloc"] = NODELALLOC
        if discouraged(["dioread_nolock"], fs, host):
            wanted["dioread_nolock"] = "nodioread_nolock"
        beside += f" {NODELALLOC} is said then: {profile.product} demands it ({profile.name})."
    return Remedy(
        f"Return to {ORDERED}; no remount can do that.{beside}{left_by_hand(fs)}"
        f"{what_else_sets_it(fs, host, 'data')}",
        disruption_of_new_mount(fs),
        change_by_new_mount(fs, wanted, explicit="delalloc" in wanted),
        trade_off=trade_off,
    )


def _has_async_commit(fs: Filesystem, host: Host) -> bool:
    """Whether it is in force, or fstab or rootflags= set it."""
    in_force = is_in_force(need(fs.options), ASYNC_COMMIT)
    configured = fstab_lines(fs, ASYNC_COMMIT) or in_rootflags(fs, host, ASYNC_COMMIT)
    return in_force or bool(configured)
