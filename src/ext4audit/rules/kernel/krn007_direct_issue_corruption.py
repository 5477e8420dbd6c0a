"""KRN007: On this kernel, disks without an I/O scheduler can be written with wrong data."""

from __future__ import annotations

from ext4audit.evidence import Known, Unknown, Why, for_wording, need, raise_for
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.features_and_bugs import exposure
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.versions import Exposure
from ext4audit.finding import Citation, Disruption, Finding, Remedy, Severity
from ext4audit.rule import RuleOutput, refuse_unmounted, rule
from ext4audit.rules.kernel import cite_bug
from ext4audit.rules.shared import cite_kernel, gaps_below, grade, update


@rule(
    "KRN007",
    "direct-issue-corruption",
    severity=Severity.HIGH,
    since="0.2",
    in_plans=False,
    references=(
        "https://bugzilla.kernel.org/show_bug.cgi?id=201685",
        "https://lwn.net/Articles/774440/",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether a disk below the filesystem has the I/O scheduler `none` on a kernel from 4.19 to
    4.19.7. Kernels of other vendors with one of these numbers are reported as possible.

    ## Why it matters

    Without a scheduler, these kernels send a request directly to the driver. When the driver is
    busy, the request is queued again and can be merged with others although the driver has
    prepared it already: wrong data is written. ext4 then finds damaged metadata, or files are
    damaged without a trace.

    ## Remedy

    Update the kernel to 4.19.8 or later. Until then, use another scheduler: `mq-deadline` in
    `queue/scheduler`. Check the filesystem with e2fsck afterwards.

    ## When to ignore

    Ignore it if the vendor has added c616cbee97ae to the kernel.
    """
    refuse_unmounted(fs)
    exposed = exposure("KRN007", host.kernel)
    if isinstance(exposed, Known) and not exposed.value.affected:
        yield cite_kernel(host, exposed.value)
        return
    stack = need(fs.stack)
    leaves = stack.leaves()
    unscheduled = [leaf for leaf in leaves if for_wording(leaf.queue.scheduler, "") == "none"]
    unknowns = [gap for leaf in leaves if isinstance(gap := leaf.queue.scheduler, Unknown)]
    gaps = (*(gap for gap in unknowns if gap.why is not Why.ABSENT), *gaps_below(stack))
    if unscheduled:
        yield _finding(host, need(exposed), unscheduled)
    raise_for(gaps)
    if not unscheduled:
        yield from (_cite(leaf) for leaf in leaves)


def _cite(leaf: BlockDevice) -> Citation:
    shown = for_wording(leaf.queue.scheduler, "no choice")
    return Citation(f"scheduler of {leaf.name}", shown, f"/sys/block/{leaf.name}/queue/scheduler")


def _finding(host: Host, bug: Exposure, leaves: list[BlockDevice]) -> Finding:
    severity, confidence = grade(bug)
    names = ", ".join(leaf.name for leaf in leaves)
    return Finding(
        message=f"{bug.symptom} ({names}).",
        severity=severity,
        confidence=confidence,
        citations=(cite_kernel(host, bug), *map(_cite, leaves), cite_bug(bug)),
        remedies=(
            update(bug),
            Remedy(
                "Until then, select the scheduler mq-deadline in /sys/block/*/queue/scheduler, "
                "and check the filesystem with e2fsck at the next restart.",
                Disruption.ONLINE,
            ),
        ),
        summary="without an I/O scheduler, this kernel can write wrong data",
    )
