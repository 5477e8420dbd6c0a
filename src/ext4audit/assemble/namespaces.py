"""How another mount namespace shows a superblock that ours does not."""

from __future__ import annotations

from ext4audit.assemble.reading import names, read
from ext4audit.evidence import Evidence, Known, Unknown, Why, value_or
from ext4audit.facts.mount import DeviceNumber, Mount
from ext4audit.parsers.mountinfo import parse_mountinfo
from ext4audit.sources.ask import Source


def find_elsewhere(source: Source, number: DeviceNumber) -> Evidence[Mount]:
    """Return a mount of the superblock in the mountinfo of any process that we may read."""
    for pid in value_or(names(source, "/proc"), ()):
        if not pid.isdecimal():
            continue
        mounts = read(source, f"/proc/{pid}/mountinfo", parse_mountinfo)
        for mount in value_or(mounts, ()):
            if mount.device_number == number:
                return Known(mount, f"/proc/{pid}/mountinfo")
    return Unknown(
        f"mount of {number}",
        Why.ABSENT,
        "alive in the kernel, but in no mount table that can be read",
        "run as root on the host to see the mount tables of other namespaces",
    )
