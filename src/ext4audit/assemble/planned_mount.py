"""The mount and the fstab entry that a plan asks for, as the kernel and fstab would show them."""

from __future__ import annotations

from ext4audit.evidence import Known
from ext4audit.facts.mount import DeviceNumber, FstabEntry, FstabLine, Mount
from ext4audit.facts.mount_flags import SUPERBLOCK_FLAGS, flags_of
from ext4audit.facts.option_table import IMPLIED_BY_DATA_JOURNAL, recognize
from ext4audit.facts.plan import Plan

ORIGIN = "planned mount options"


def planned_mount(plan: Plan, number: DeviceNumber) -> Mount:
    """Return the line of mountinfo that the planned mount will have.

    All of its ext4 options are in it, also those that a mount table hides because they are the
    default: the plan says who asks for them.
    """
    flags = flags_of(plan.mount_options)
    state = "ro" if "ro" in flags else "rw"
    shared = tuple(flag for flag in flags if flag in SUPERBLOCK_FLAGS)
    # mountinfo shows strictatime by no word at all.
    own = tuple(flag for flag in flags if flag not in SUPERBLOCK_FLAGS | {"ro", "strictatime"})
    return Mount(
        mount_id=1,
        parent_id=0,
        device_number=number,
        root="/",
        mount_point=plan.mount_point,
        mount_options=(state, *own),
        fstype=plan.fstype,
        source=plan.device,
        super_options=(state, *shared, *_tokens(plan.mount_options)),
    )


def planned_entry(plan: Plan, number: DeviceNumber) -> FstabEntry:
    """Return the fstab entry that asks for the same."""
    words = plan.mount_options or ("defaults",)
    line = FstabLine(
        line_number=1,
        spec=plan.device,
        mount_point=plan.mount_point,
        fstype=plan.fstype,
        options=words,
        raw_options=",".join(words),
        dump_frequency=0,
        fsck_pass=1 if plan.mount_point == "/" else 2,
    )
    return FstabEntry(line, Known(number, "the plan"), plan.mount_point)


def _tokens(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tokens of ext4 in their canonical spelling, with what data=journal implies."""
    tokens = {}
    for word in words:
        known = recognize(word)
        if known is not None:
            tokens[known[0].name] = known[1]
    if tokens.get("data") == "data=journal":
        tokens |= IMPLIED_BY_DATA_JOURNAL
    return tuple(token for token in tokens.values() if token)
