"""Remedies on a device that even root cannot open say so; others stay as they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import OUTSIDE, Known, Unknown, Why
from ext4audit.facts.superblock import PrimarySuperblock
from ext4audit.finding import Disruption, Phase, Remedy, Step
from ext4audit.remedies.refusals import with_refusal
from ext4audit.rules.durability.dur005_missing_journal import check
from support.builders import filesystem, host, known, options

REFUSED = Unknown("dumpe2fs -h /dev/sda", Why.DENIED, "Operation not permitted", OUTSIDE)
READ = Known(PrimarySuperblock(), "dumpe2fs -h /dev/sda")
NOTE = f" /dev/sda cannot be opened here, even by root: {OUTSIDE}."


@pytest.mark.parametrize(
    ("command", "primary", "told"),
    [
        ("tune2fs -O has_journal /dev/sda", REFUSED, True),
        ("umount /data && e2fsck -f -p /dev/sda", REFUSED, True),
        ("mount -o remount,rw /dev/sda /data", REFUSED, False),
        ("tune2fs -O has_journal /dev/sda", replace(REFUSED, hint="run as root"), False),
        ("tune2fs -O has_journal /dev/sda", READ, False),
    ],
)
def test_what_opens_a_refused_device_says_so(
    command: str, primary: Known[PrimarySuperblock] | Unknown, *, told: bool
) -> None:
    """Only what root was refused counts: a user can repeat the command as root."""
    remedy = Remedy("Do it.", Disruption.ONLINE, (Step(Phase.PERSISTENT, command),))
    shown = with_refusal(remedy, filesystem(primary=primary))
    assert shown.summary == f"Do it.{NOTE if told else ''}"


def test_the_engine_adds_it_to_findings() -> None:
    """A filesystem without a journal in a container."""
    full = options()
    listed = full._replace(options=tuple(each for each in full.options if each.name != "data"))
    fs = filesystem(primary=REFUSED, superblock=REFUSED, options=known(listed))
    (finding,) = judge(check, fs, host(fs)).findings
    assert finding.remedies[0].summary.endswith(NOTE)
