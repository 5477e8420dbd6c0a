"""CAP007: words of fstab that nobody needs."""

from __future__ import annotations

from ext4audit.report import Outcome
from support.remedies.case import RemedyCase

NOT_RUN = (
    "Not every kernel has quotas built in, and quotaon is in a package of its own: putting them in "
    "force is advice without commands."
)
GONE = (Outcome.NOT_APPLICABLE,)

CASES = (
    RemedyCase(
        name="plain words",
        remedy="out of fstab",
        fstab="noatime,usrquota,grpquota",
        cured=GONE,
    ),
    RemedyCase(
        name="journaled words",
        remedy="out of fstab",
        fstab="usrjquota=aquota.user,grpjquota=aquota.group,jqfmt=vfsv1",
        cured=GONE,
    ),
)
