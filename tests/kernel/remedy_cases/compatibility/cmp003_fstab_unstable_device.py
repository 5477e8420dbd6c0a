"""CMP003: an entry that names a loop device by its number."""

from __future__ import annotations

from support.remedies.case import RemedyCase

CASES = (
    RemedyCase(name="mounted", remedy="by its UUID", fstab="noatime", mount="noatime"),
    RemedyCase(name="not mounted", remedy="by its UUID", fstab="noauto", mounted=False),
)
