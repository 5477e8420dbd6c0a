"""What the rules on kernel bugs say alike: evidence, grade, and the update."""

from __future__ import annotations

from ext4audit.evidence import Known
from ext4audit.facts.host import Host
from ext4audit.facts.kernel_range import Exposure
from ext4audit.finding import Citation, Confidence, Disruption, Remedy, Severity


def cite_kernel(host: Host, said: Exposure) -> Citation:
    """Return the kernel that runs, and how it is known what it has."""
    if not isinstance(host.kernel, Known):
        return Citation("kernel", said.note, said.source)
    return Citation("kernel", f"{host.kernel.value.release} ({said.note})", host.kernel.origin)


def cite_bug(said: Exposure) -> Citation:
    """Return what it takes for the bug to strike, and who describes it."""
    return Citation("kernel bug, needs", said.condition, said.source)


def grade(said: Exposure) -> tuple[Severity, Confidence]:
    """Return the severity and the confidence of a finding."""
    return Severity(said.severity), Confidence(said.confidence)


def update(said: Exposure) -> Remedy:
    """Return the advice to update; which command does it is the distributor's affair."""
    return Remedy(
        f"Update the kernel to {said.fix} or later, and restart.",
        Disruption.REBOOT,
        trade_off="A restart, and whatever else the new kernel changes.",
    )
