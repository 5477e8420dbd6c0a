"""CMP005: A RAID0 of unequal disks does not say which of two layouts it has."""

from __future__ import annotations

from ext4audit.evidence import Evidence, Known, Undetermined, Unknown, Why, for_wording, need
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice, MdArray
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule

LAYOUTS = {1: "original", 2: "alternate"}
"""md's numbers: what Linux before 3.14 wrote, and what 3.14 and later write (md(4))."""
GIB = 1 << 30


@rule(
    "CMP005",
    "raid0-multizone-layout",
    severity=Severity.HIGH,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man4/md.4.html",
        "https://wiki.ubuntu.com/Kernel/Raid0LayoutMigration",
        "drivers/md/raid0.c: commit c84a1372df92",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    md RAID0 arrays below the filesystem whose members differ in size: whether the array records
    which layout it has (`md/layout`: 1 original, 2 alternate). Where it does not, a
    `raid0.default_layout` of the running kernel makes it medium instead of high.

    ## Why it matters

    Where the smallest disk ends, the rest is striped over the others, and Linux 3.14 changed by
    accident which disk comes first there. Read in the wrong layout, everything beyond the
    smallest disk is garbage, and a write destroys it. Since Linux 5.4 (and 5.3.4) the kernel
    therefore refuses to assemble such an array unless the array or a parameter names the layout.

    ## Remedy

    Find out which kernel wrote the data, then record the layout in the array. It must be stopped
    for it. Where kernels before 3.14 and later ones both wrote, part of the data is damaged
    already: compare with a backup first.

    ## When to ignore

    Never, where the array is to survive the next kernel or another machine.
    """
    arrays = [device for device in need(fs.stack).walk() if device.md is not None]
    unknowns = [device.md for device in arrays if isinstance(device.md, Unknown)]
    found = [(d, d.md.value) for d in arrays if isinstance(d.md, Known) and _in_zones(d.md.value)]
    for device, array in found:
        cited = _cite(device, array)
        if array.layout in LAYOUTS:
            yield from cited
        else:
            yield _finding(device, array, cited, host.raid0_default_layout)
    if unknowns:
        raise Undetermined(tuple(unknowns))
    if not found:
        raise NotApplicable("no RAID0 of unequal disks lies below it")


def _in_zones(array: MdArray) -> bool:
    """Whether the members hold different numbers of whole chunks (raid0.c rounds down to them)."""
    chunk_sectors = max(array.chunk_bytes // SECTOR_BYTES, 1)
    return array.level == "raid0" and len(_chunks(array, chunk_sectors)) > 1


def _chunks(array: MdArray, chunk_sectors: int) -> set[int]:
    return {member.size_sectors // chunk_sectors for member in array.members}


def _cite(device: BlockDevice, array: MdArray) -> tuple[Citation, ...]:
    sizes = ", ".join(
        f"{m.name} {m.size_sectors * SECTOR_BYTES / GIB:.1f} GiB" for m in array.members
    )
    origin = device.md.origin if isinstance(device.md, Known) else ""
    recorded = LAYOUTS.get(array.layout or 0, "not recorded")
    return (
        Citation(f"members of {device.name}", sizes, origin),
        Citation(f"layout of {device.name}", recorded, f"{origin}/layout"),
    )


def _finding(
    device: BlockDevice, array: MdArray, cited: tuple[Citation, ...], parameter: Evidence[int]
) -> Finding:
    """Make the finding; a parameter of the kernel replaces the record on this host only."""
    default = LAYOUTS.get(for_wording(parameter, 0))
    unseen = isinstance(parameter, Unknown) and parameter.why is not Why.ABSENT
    name = f"{device.name}, a RAID0 of {len(array.members)} disks of unequal size,"
    consequence = (
        f"only raid0.default_layout of this kernel ({default}) lets it be assembled"
        if default
        else "Linux 5.4 and later refuse to assemble it, and in the wrong layout all data beyond "
        "the smallest disk is garbage"
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
                trade_off="The wrong choice damages all data beyond the smallest disk: mount "
                "read-only first, and compare with the backup.",
            ),
        ),
    )


def _cite_parameter(parameter: Evidence[int]) -> tuple[Citation, ...]:
    if isinstance(parameter, Unknown):
        return ()
    meaning = LAYOUTS.get(parameter.value, "not set")
    return (Citation("raid0.default_layout", meaning, parameter.origin),)
