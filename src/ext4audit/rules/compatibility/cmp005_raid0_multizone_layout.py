"""CMP005: A RAID0 of unequal disks does not record which of two layouts it has."""

from __future__ import annotations

from ext4audit.evidence import Evidence, Known, Unknown, Why, for_wording, need, raise_for
from ext4audit.facts import GIB
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice, MdArray
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import gaps_below

LAYOUTS: dict[int | None, str] = {1: "original", 2: "alternate"}
"""md's layout numbers: the layout of Linux before 3.14, and that of 3.14 and later (md(4))."""


@rule(
    "CMP005",
    "raid0-multizone-layout",
    severity=Severity.HIGH,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man4/md.4.html",
        "https://wiki.ubuntu.com/Kernel/Raid0LayoutMigration",
        "drivers/md/raid0.c: commits c84a1372df92 and ea23994edc41",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether md RAID0 arrays record their layout (`md/layout`: 1 original, 2 alternate) if two or
    more members are larger than the smallest. Severity is high if they do not, and medium if
    `raid0.default_layout` of the running kernel sets the layout. With one larger member, as with
    two unequal disks, both layouts are the same.

    ## Why it matters

    Beyond the end of the smallest disk, data is striped over the larger disks, and Linux 3.14
    accidentally changed which disk comes first there. With the wrong layout, all data in that
    area reads as garbage, and writes destroy it. Since Linux 5.4 (and 5.3.4, and later updates of
    4.19 and 4.14) the kernel refuses to assemble such an array unless the array or a parameter
    sets the layout.

    ## Remedy

    Find out which kernel wrote the data, then record the layout in the stopped array. If kernels
    before 3.14 and later ones both wrote to it, part of the data is already corrupt: compare it
    with a backup first.

    ## When to ignore

    Ignore it only if the array will never be used with another kernel or machine.
    """
    stack = need(fs.stack)
    arrays = [device for device in stack.walk() if device.md is not None]
    unknowns = [device.md for device in arrays if isinstance(device.md, Unknown)]
    found = [(d, d.md.value) for d in arrays if isinstance(d.md, Known) and _has_zones(d.md.value)]
    for device, array in found:
        cited = _cite(device, array)
        if array.layout in LAYOUTS:
            yield from cited
        else:
            yield _finding(device, array, cited, host.raid0_default_layout)
    raise_for((*unknowns, *gaps_below(stack)))
    if not found:
        raise NotApplicable("there is no RAID0 of unequal disks with two layouts below it")


def _has_zones(array: MdArray) -> bool:
    """Return whether the second zone, beyond the smallest member, is striped over several members.

    Sizes are rounded down to whole chunks, as in raid0.c. With a single member in that zone the
    kernel ignores the layout (ea23994edc41 of 5.19, in 5.4.198, 5.15.47 and others).
    """
    chunk_sectors = max(array.chunk_bytes // SECTOR_BYTES, 1)
    chunks = [member.size_sectors // chunk_sectors for member in array.members]
    larger = [size for size in chunks if size > min(chunks)]
    return array.level == "raid0" and len(larger) > 1


def _cite(device: BlockDevice, array: MdArray) -> tuple[Citation, ...]:
    sizes = ", ".join(
        f"{m.name} {m.size_sectors * SECTOR_BYTES / GIB:.1f} GiB" for m in array.members
    )
    origin = device.md.origin if isinstance(device.md, Known) else ""
    recorded = LAYOUTS.get(array.layout, "not recorded")
    return (
        Citation(f"members of {device.name}", sizes, origin),
        Citation(f"layout of {device.name}", recorded, f"{origin}/layout"),
    )


def _finding(
    device: BlockDevice, array: MdArray, cited: tuple[Citation, ...], parameter: Evidence[int]
) -> Finding:
    """Return the finding; the kernel parameter replaces the recorded layout on this host only."""
    default = LAYOUTS.get(for_wording(parameter, None))
    unseen = isinstance(parameter, Unknown) and parameter.why is not Why.ABSENT
    name = f"{device.name}, a RAID0 of {len(array.members)} disks of unequal size,"
    consequence = (
        f"only raid0.default_layout of this kernel ({default}) allows its assembly"
        if default
        else "Linux 5.4 and later refuse to assemble it, and with the wrong layout all data beyond "
        "the end of the smallest disk is garbage"
    )
    return Finding(
        message=f"{name} does not record its layout: {consequence}.",
        severity=Severity.MEDIUM if default else Severity.HIGH,
        confidence=Confidence.LIKELY if unseen else Confidence.CONFIRMED,
        citations=(*cited, *_cite_parameter(parameter)),
        remedies=(
            Remedy(
                f"Back up; unmount and stop {device.name}; assemble it with "
                "--update=layout-alternate if Linux 3.14 or later wrote its data, with "
                "--update=layout-original if only older kernels did.",
                Disruption.UNMOUNT,
                trade_off="The wrong choice corrupts all data beyond the end of the smallest disk: "
                "mount read-only first, and compare with the backup.",
            ),
        ),
        summary="a RAID0 of unequal disks does not record its layout",
    )


def _cite_parameter(parameter: Evidence[int]) -> tuple[Citation, ...]:
    if isinstance(parameter, Unknown):
        return ()
    meaning = LAYOUTS.get(parameter.value, "not set")
    return (Citation("raid0.default_layout", meaning, parameter.origin),)
