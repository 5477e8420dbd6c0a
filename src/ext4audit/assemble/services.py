"""Read what the system's configuration says of arrays and of trimming."""

from __future__ import annotations

from ext4audit.assemble.reading import integer, read
from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.parsers.mdadm_conf import parse_md_arrays
from ext4audit.sources.ask import RealPath, Source

MDADM_CONF = ("/etc/mdadm/mdadm.conf", "/etc/mdadm.conf")
"""Debian's place, and that of the others."""
_WANTS = "systemd/system/timers.target.wants/fstrim.timer"
TRIMMERS = (
    f"/etc/{_WANTS}",
    f"/usr/lib/{_WANTS}",
    "/etc/cron.weekly/fstrim",
    "/etc/cron.daily/fstrim",
)
"""The links that start fstrim.timer, and the jobs of systems before it."""
_MASKED = "/dev/null"
RAID0_DEFAULT_LAYOUT = "/sys/module/raid0/parameters/default_layout"


def read_md_arrays(source: Source) -> Evidence[tuple[str, ...]]:
    """Return the devices of the ARRAY lines; no file is no line."""
    found = [read(source, path, parse_md_arrays) for path in MDADM_CONF]
    holes = [each for each in found if isinstance(each, Unknown) and each.why is not Why.ABSENT]
    known = [each for each in found if isinstance(each, Known)]
    if known:
        return known[0]
    return holes[0] if holes else Known((), MDADM_CONF[0])


def read_fstrim(source: Source) -> Evidence[bool]:
    """Say whether something that starts fstrim regularly is enabled."""
    hole: Unknown | None = None
    for path in TRIMMERS:
        seen = source.fetch(RealPath(path))
        if isinstance(seen, Known) and seen.value != _MASKED:
            return Known(value=True, origin=path)
        if isinstance(seen, Unknown) and seen.why is not Why.ABSENT:
            hole = hole or Unknown("fstrim.timer", seen.why, seen.detail, seen.hint)
    return hole or Known(value=False, origin=TRIMMERS[0])


def read_raid0_default_layout(source: Source) -> Evidence[int]:
    """Return raid0.default_layout: 0 where nobody set it, or where no RAID0 was ever assembled."""
    found = integer(source, RAID0_DEFAULT_LAYOUT)
    if isinstance(found, Unknown) and found.why is Why.ABSENT:
        return Known(0, RAID0_DEFAULT_LAYOUT)
    return found
