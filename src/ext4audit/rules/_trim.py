"""What tells a device which blocks are free, in the words of findings."""

from __future__ import annotations

from ext4audit.evidence import Known
from ext4audit.facts.block import BlockDevice
from ext4audit.facts.host import Host
from ext4audit.finding import Citation

TIMER = "fstrim.timer"
NO_DISCARD = "its device takes no discards"


def cite_discard(device: BlockDevice) -> tuple[Citation, ...]:
    """Return how much the device discards at once, where it is known."""
    most = device.queue.discard_max_bytes
    if not isinstance(most, Known):
        return ()
    return (Citation(f"discard_max_bytes of {device.name}", str(most.value), most.origin),)


def cite_fstrim(host: Host) -> Citation:
    """Return whether something trims all filesystems regularly."""
    if not isinstance(host.fstrim, Known):
        return Citation("regular fstrim", f"not known: {host.fstrim.detail}", host.fstrim.what)
    return Citation("regular fstrim", "yes" if host.fstrim.value else "no", host.fstrim.origin)
