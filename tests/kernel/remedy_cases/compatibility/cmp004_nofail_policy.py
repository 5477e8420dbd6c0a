"""CMP004: an entry without nofail, on a machine that is a virtual one."""

from __future__ import annotations

from support.remedies.case import RemedyCase

CASES = (
    RemedyCase(name="defaults", remedy="Let the boot go on", fstab="defaults"),
    RemedyCase(
        name="a timeout of its own",
        remedy="Let the boot go on",
        fstab="noatime,x-systemd.device-timeout=5",
        mount="noatime",
    ),
)
