"""LAY007: bigalloc clusters, which some vendors demand."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import ActiveProfile, Filesystem, all_profiles
from ext4audit.finding import Severity
from ext4audit.report import Outcome
from ext4audit.rules.layout.lay007_bigalloc_clusters import check
from support.builders import filesystem, host, known, superblock, unknown


def with_clusters(**changes: Any) -> Filesystem:
    """Build a filesystem with 16 KiB clusters."""
    features = superblock().features | {"bigalloc"}
    return filesystem(superblock=known(superblock(features=features, cluster_blocks=4, **changes)))


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (filesystem(), Outcome.PASS),
        (with_clusters(), Outcome.FAIL),
        (filesystem(superblock=unknown("superblock")), Outcome.UNDETERMINED),
    ],
    ids=["default", "bigalloc", "not read"],
)
def test_lay007_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """A filesystem with the feature gets a note."""
    verdict = judge(check, fs, host(fs))
    assert verdict.outcome is outcome
    assert all(finding.severity is Severity.INFO for finding in verdict.findings)


def test_lay007_passes_if_a_profile_demands_bigalloc() -> None:
    """MySQL's torn write prevention on AWS needs clusters of 16 KiB."""
    fs = with_clusters()
    wanted = (ActiveProfile(all_profiles()["mysql-aws-twp"]),)
    assert judge(check, fs, host(fs, profiles=wanted)).outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "bigalloc is on with clusters of 16 KiB:"),
        ({"block_bytes": 262144}, "bigalloc is on with clusters of 1 MiB:"),
        ({"block_bytes": None}, "bigalloc is on:"),
    ],
)
def test_lay007_message_has_the_cluster_size(changes: dict[str, Any], words: str) -> None:
    """The message has the size if the superblock's reader provides it."""
    fs = with_clusters(**changes)
    (finding,) = judge(check, fs, host(fs)).findings
    assert finding.message.startswith(words)


@pytest.mark.parametrize(("width", "cited"), [(0, False), (384, False), (385, True)])
def test_lay007_cites_a_stripe_that_is_not_whole_clusters(width: int, cited: bool) -> None:
    """From 6.12 on the kernel ignores such a stripe."""
    fs = with_clusters(stripe_width_blocks=width)
    (finding,) = judge(check, fs, host(fs)).findings
    assert any(each.label == "stripe width" for each in finding.citations) is cited


REMEDIES_NOT_RUN = "To recreate a filesystem is advice without commands."
