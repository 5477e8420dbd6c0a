"""PRF005: the device is never told which blocks are free."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Evidence
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import FstabEntry
from ext4audit.finding import Confidence, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.performance.prf005_no_trim_path import check
from support.builders import (
    disk,
    filesystem,
    fstab_entry,
    host,
    known,
    mount,
    options,
    queue,
    unknown,
)

NOT_NAMED: Evidence[tuple[FstabEntry, ...]] = known(())
TIMER_ENABLED = {"fstrim": known(value=True)}
SUPPORTS_DISCARD = known(disk(limits=queue(discard_max_bytes=1 << 31, rotational=False)))


def verdict_of(fs: Filesystem, **changes: Any) -> Verdict:
    """Judge a filesystem on a host without regular trims."""
    return judge(check, fs, host(fs, **{"fstrim": known(value=False), **changes}))


def on_ssd(**changes: Any) -> Filesystem:
    """Build a filesystem on an SSD."""
    return filesystem(**{"stack": SUPPORTS_DISCARD, "fstab": known((fstab_entry(),)), **changes})


@pytest.mark.parametrize(
    ("fs", "changes", "outcome"),
    [
        pytest.param(on_ssd(), {}, Outcome.FAIL, id="nothing trims"),
        pytest.param(
            on_ssd(), {"fstrim": known(value=True)}, Outcome.PASS, id="Debian's and Ubuntu's timer"
        ),
        pytest.param(
            on_ssd(fstab=NOT_NAMED), TIMER_ENABLED, Outcome.FAIL, id="fstab does not name it"
        ),
        pytest.param(
            on_ssd(fstab=NOT_NAMED),
            {**TIMER_ENABLED, "trims_all": known(value=True)},
            Outcome.PASS,
            id="all that is mounted",
        ),
        pytest.param(
            on_ssd(fstab=NOT_NAMED),
            {**TIMER_ENABLED, "trims_all": unknown("fstrim.service")},
            Outcome.UNDETERMINED,
            id="the unit was not read",
        ),
        pytest.param(
            on_ssd(),
            {**TIMER_ENABLED, "trims_all": unknown("fstrim.service")},
            Outcome.PASS,
            id="fstab names it, which every unit trims",
        ),
        pytest.param(
            on_ssd(fstab=unknown("fstab")),
            TIMER_ENABLED,
            Outcome.UNDETERMINED,
            id="fstab was not read",
        ),
        pytest.param(
            on_ssd(fstab=known((fstab_entry(mount_point="/elsewhere"),))),
            TIMER_ENABLED,
            Outcome.FAIL,
            id="fstab names it for another mount point",
        ),
        pytest.param(
            on_ssd(fstab=known((fstab_entry(mount_point="//data/"),))),
            TIMER_ENABLED,
            Outcome.PASS,
            id="fstab spells its mount point in another way",
        ),
        pytest.param(
            on_ssd(fstab=known((fstab_entry("X-fstrim.notrim", mount_point="/data/"),))),
            {**TIMER_ENABLED, "trims_all": known(value=True)},
            Outcome.FAIL,
            id="fstab excludes it, spelled in another way",
        ),
        pytest.param(
            on_ssd(fstab=known((fstab_entry("X-fstrim.notrim"),))),
            {**TIMER_ENABLED, "trims_all": known(value=True)},
            Outcome.FAIL,
            id="fstab excludes it",
        ),
        pytest.param(
            on_ssd(fstab=NOT_NAMED, mounts=(mount("/"),)),
            TIMER_ENABLED,
            Outcome.PASS,
            id="the root",
        ),
        pytest.param(on_ssd(options=known(options("discard"))), {}, Outcome.PASS, id="discard"),
        pytest.param(
            on_ssd(options=known(options("discard")), stack=unknown("stack")),
            {"fstrim": unknown("fstrim.timer")},
            Outcome.PASS,
            id="discard is enough",
        ),
        pytest.param(filesystem(), {}, Outcome.NOT_APPLICABLE, id="a disk without discards"),
        pytest.param(
            on_ssd(read_only=known(value=True)), {}, Outcome.NOT_APPLICABLE, id="read-only"
        ),
        pytest.param(on_ssd(alive=False), {}, Outcome.NOT_APPLICABLE, id="not mounted"),
        pytest.param(
            on_ssd(), {"container": "docker"}, Outcome.NOT_APPLICABLE, id="in a container"
        ),
        pytest.param(
            on_ssd(stack=unknown("stack")),
            {"planned": True, "fstrim": unknown("fstrim.timer")},
            Outcome.NOT_APPLICABLE,
            id="no plan can tell",
        ),
        pytest.param(
            on_ssd(), {"fstrim": unknown("fstrim.timer")}, Outcome.UNDETERMINED, id="unseen"
        ),
        pytest.param(on_ssd(stack=unknown("stack")), {}, Outcome.UNDETERMINED, id="stack unread"),
        pytest.param(
            on_ssd(options=unknown("options")), {}, Outcome.UNDETERMINED, id="options unread"
        ),
        pytest.param(on_ssd(read_only=unknown("ro")), {}, Outcome.UNDETERMINED, id="state unread"),
    ],
)
def test_outcomes(fs: Filesystem, changes: dict[str, Any], outcome: Outcome) -> None:
    """The rule needs a device that supports discards, no option, and no regular fstrim."""
    assert verdict_of(fs, **changes).outcome is outcome


def test_the_finding_is_low_and_likely() -> None:
    """A vendor's agent may trim, which no file shows."""
    (finding,) = verdict_of(on_ssd()).findings
    assert (finding.severity, finding.confidence) == (Severity.LOW, Confidence.LIKELY)
    assert finding.message.startswith("sda supports discards")
    assert "systemctl enable --now fstrim.timer" in finding.remedies[0].summary
    assert [remedy.steps for remedy in finding.remedies] == [(), ()]


def test_mount_not_covered_by_the_timer_needs_its_own_job() -> None:
    """It needs a separate job instead."""
    (finding,) = verdict_of(on_ssd(fstab=NOT_NAMED), **TIMER_ENABLED).findings
    assert "skips this filesystem" in finding.message
    assert not any("enable --now" in remedy.summary for remedy in finding.remedies)


REMEDIES_NOT_RUN = (
    "No commands are printed: enabling a timer takes a running service manager, and what else "
    "trims a host regularly is for its administrator to choose."
)
