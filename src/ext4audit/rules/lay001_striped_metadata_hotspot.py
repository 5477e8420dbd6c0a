"""LAY001: Block-group bitmaps all lie on a few members of a stripe."""

from __future__ import annotations

from itertools import groupby

from ext4audit.evidence import Evidence, Known, Undetermined, Unknown, Why, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.layout import MemberLoad, MetadataLayout
from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.layout.advice import EVEN
from ext4audit.rule import NotApplicable, Said, rule
from ext4audit.rules._spread import remedies

HOTSPOT_BELOW = 0.75
"""Jain's index; measured layouts have either less than 0.55 or more than 0.95."""
MINIMUM_GROUPS = 64
FLEX_GROUPS_PER_MEMBER = 4
WORST_SKEW = 4.0
KIB = 1024
HINT = "run on the host, where /sys shows the member devices"


@rule(
    "LAY001",
    "striped-metadata-hotspot",
    severity=Severity.HIGH,
    since="0.1",
    references=(
        "https://nvartolomei.com/ext4-io-distribution-raid0",
        "mke2fs(8)",
        "https://listman.redhat.com/archives/ext3-users/2008-June/msg00042.html",
    ),
)
def check(fs: Filesystem, _host: Host) -> Said:
    """## What it checks

    Which member device of a RAID0 (md, or striped LVM) each block bitmap and inode bitmap
    lies on, from the group descriptors themselves. It fires when Jain's index of the members'
    shares is below 0.75, and notes (info) what is below 0.95.

    ## Why it matters

    Every allocation writes a block bitmap or an inode bitmap: they belong on all disks. With
    flex_bg, mke2fs packs the bitmaps of 16 groups together every 2 GiB. That distance is a
    multiple of a power of two of chunks, so that with the defaults only the odd part of the
    number of disks ever holds bitmaps: 3 of 12 disks, 1 of 8. Under churn of small files the
    hot disks of a real array had 8 to 15 times the writes of a cold one.

    ## Remedy

    Blocks per group cannot be changed in place. Recreate the filesystem with the group size
    and flex_bg size that the finding computes for this array; the well-known `-g 32744` is
    right only for chunks of 512 KiB and more. Or grow the RAID0 by a disk, to an odd number.
    Stride and stripe width change nothing: with flex_bg, mke2fs ignores them when it places
    bitmaps, whatever its manual says.

    ## When to ignore

    Large files and few creations or deletions; members without seeks and with queues to
    spare (low on non-rotational members for this reason).
    """
    if fs.layout is None:
        raise NotApplicable("no RAID0 stripe lies below it")
    layout, superblock = need(fs.layout, fs.superblock)
    _refuse_small(layout)
    if layout.evenness >= EVEN:
        yield from _citations(fs, layout)
        return
    rotational = _rotational(fs, layout)
    severity, confidence = _severity(layout, rotational)
    yield Finding(
        message=f"{_effectively(layout)} this filesystem's bitmaps: the busiest holds "
        f"{_round(layout.skew)} times the mean.",
        severity=severity,
        confidence=confidence,
        citations=(*_citations(fs, layout), _rotation(rotational)),
        remedies=tuple(remedies(fs.device, layout, superblock)),
    )
    if confidence is Confidence.LIKELY:
        holes = dict.fromkeys(each for each in rotational if isinstance(each, Unknown))
        raise Undetermined(tuple(holes))


def _refuse_small(layout: MetadataLayout) -> None:
    """Refuse filesystems with too few flex groups to meet all members even when all is well."""
    flex_groups = -(-layout.groups // layout.flex_bg_groups)
    if layout.groups < MINIMUM_GROUPS:
        raise NotApplicable(f"{layout.groups} block groups are too few to tell")
    if flex_groups < FLEX_GROUPS_PER_MEMBER * len(layout.members):
        raise NotApplicable(
            f"{flex_groups} flex groups are too few for {len(layout.members)} disks"
        )


def _rotational(fs: Filesystem, layout: MetadataLayout) -> tuple[Evidence[bool], ...]:
    """Return for each member whether it rotates; the stack's hole where nothing below is seen."""
    if isinstance(fs.stack, Unknown):
        return (fs.stack,)
    queues = {device.name: device.queue.rotational for device in fs.stack.value.walk()}
    return tuple(
        queues.get(member.name, Unknown(f"rotational of {member.name}", Why.ABSENT, hint=HINT))
        for member in layout.members
    )


def _severity(
    layout: MetadataLayout, rotational: tuple[Evidence[bool], ...]
) -> tuple[Severity, Confidence]:
    known = [each.value for each in rotational if isinstance(each, Known)]
    if layout.evenness >= HOTSPOT_BELOW:
        return Severity.INFO, Confidence.CONFIRMED
    if any(known):
        # Rounded as it is printed: four disks with everything on one give 3.99.
        worst = round(layout.skew, 1) >= WORST_SKEW
        return Severity.HIGH if worst else Severity.MEDIUM, Confidence.CONFIRMED
    if len(known) < len(rotational):
        return Severity.MEDIUM, Confidence.LIKELY
    return Severity.LOW, Confidence.CONFIRMED


def _effectively(layout: MetadataLayout) -> str:
    number = _round(layout.effective_members)
    verb = "serves" if number == "1" else "serve"
    return f"Effectively {number} of {len(layout.members)} disks {verb}"


def _round(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _citations(fs: Filesystem, layout: MetadataLayout) -> tuple[Citation, ...]:
    """Cite the stripe, the groups, and where their bitmaps lie, each with where it was read."""
    stack, header, table = (
        each.origin if isinstance(each, Known) else ""
        for each in (fs.stack, fs.superblock, fs.layout)
    )
    geometry = layout.geometry
    stripe = (
        f"{geometry.level} {geometry.device}, {len(geometry.members)} members, "
        f"chunk {geometry.chunk_bytes // KIB} KiB, "
        f"filesystem begins at byte {geometry.offset_bytes}"
    )
    groups = (
        f"{layout.groups} groups of {layout.blocks_per_group} blocks of {layout.block_bytes} "
        f"bytes, flex_bg size {layout.flex_bg_groups}"
    )
    spread = (
        f"skew {layout.skew:.2f}, effective members {layout.effective_members:.2f} of "
        f"{len(layout.members)}, evenness {layout.evenness:.2f}"
    )
    return (
        Citation("stripe", stripe, stack),
        Citation("block groups", groups, header),
        Citation("bitmaps per member", _histogram(layout.members), table),
        Citation("spread of bitmaps", spread, "computed"),
    )


def _histogram(members: tuple[MemberLoad, ...]) -> str:
    """Spell the loads in slot order, a range of names with the same load together.

    Slots need not follow names: vdc, vda, vdd, vdb is no range from vdc to vdb.
    """
    by_name = sorted((each.name for each in members), key=lambda name: (len(name), name))

    def range_of(place: tuple[int, MemberLoad]) -> tuple[int, int]:
        slot, member = place
        return member.bitmaps, by_name.index(member.name) - slot

    runs = [
        (load, [member.name for _, member in run])
        for (load, _), run in groupby(enumerate(members), key=range_of)
    ]
    return ", ".join(
        f"{names[0]}{f' to {names[-1]}' if len(names) > 1 else ''}: {load}" for load, names in runs
    )


def _rotation(rotational: tuple[Evidence[bool], ...]) -> Citation:
    words = [
        "unknown" if isinstance(r, Unknown) else "yes" if r.value else "no" for r in rotational
    ]
    value = ", ".join(f"{word}: {words.count(word)}" for word in dict.fromkeys(words))
    origins = [each.origin for each in rotational if isinstance(each, Known)]
    return Citation("rotational members", value, origins[0] if origins else "/sys")
