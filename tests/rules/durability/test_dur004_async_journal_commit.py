from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Confidence, Disruption, Severity
from ext4audit.report import Outcome
from ext4audit.rules.durability.dur004_async_journal_commit import check
from support.builders import (
    disk,
    filesystem,
    fstab_entry,
    known,
    loop,
    mount,
    options,
    queue,
    superblock,
    unknown,
)
from support.judging import only_finding, verdict_on
from support.remedies.case import RemedyCase
from support.remedies.steps_as_text import step_lines

NAME = "journal_async_commit"
WORDS = ("data=writeback", NAME)
WRITE_THROUGH = disk(limits=queue(write_cache="write through"))
UNKNOWN_CACHE = disk(limits=queue(write_cache=unknown("/sys/block/sda/queue/write_cache")))


verdict_of = partial(verdict_on, check)
finding_of = partial(only_finding, check)


def with_async_commit(**changes: Any) -> Filesystem:
    """Build a filesystem with the option in force, which its fstab entry also sets."""
    shown = mount(super_options=("rw", *WORDS))
    values = {"fstab": known((fstab_entry(*WORDS),)), "mounts": (shown,), **changes}
    return filesystem(options=known(options(*WORDS)), **values)


@pytest.mark.parametrize(
    ("stack", "severity", "confidence"),
    [
        (known(disk()), Severity.HIGH, Confidence.CONFIRMED),
        (known(WRITE_THROUGH), Severity.MEDIUM, Confidence.CONFIRMED),
        (known(UNKNOWN_CACHE), Severity.HIGH, Confidence.POSSIBLE),
        (known(loop()), Severity.MEDIUM, Confidence.LIKELY),
        (unknown("the stack"), Severity.HIGH, Confidence.POSSIBLE),
    ],
    ids=["write back", "write through", "cache not seen", "loop", "devices not seen"],
)
def test_severity_by_write_cache_of_the_devices(
    stack: Any, severity: Severity, confidence: Confidence
) -> None:
    """A cache that cannot be seen is assumed to be volatile."""
    finding = finding_of(with_async_commit(stack=stack))
    assert (finding.severity, finding.confidence) == (severity, confidence)


@pytest.mark.parametrize("stack", [known(UNKNOWN_CACHE), unknown("the stack")])
def test_finding_with_unknown_cache_reports_the_gap(stack: Any) -> None:
    """The gap is part of the verdict."""
    verdict = verdict_of(with_async_commit(stack=stack))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.unknowns


def test_read_only_mount_is_info() -> None:
    """Nothing is committed."""
    assert finding_of(with_async_commit(read_only=known(value=True))).severity is Severity.INFO


def test_option_missing_from_the_options_file_passes() -> None:
    """The options file lists it whenever it is in force; data=writeback alone passes here."""
    verdict = verdict_of(filesystem(options=known(options("data=writeback"))))
    assert verdict.outcome is Outcome.PASS
    assert [(each.label, each.value) for each in verdict.evidence] == [
        ("option in force: journal_async_commit", "not listed")
    ]


@pytest.mark.parametrize("evidence", [unknown("options"), known(options(complete=False))])
def test_option_missing_from_the_mount_table_is_undetermined(evidence: Any) -> None:
    """A string in the unread superblock may set it."""
    fs = filesystem(options=evidence, superblock=unknown("superblock"))
    assert verdict_of(fs).outcome is Outcome.UNDETERMINED


@pytest.mark.parametrize(
    ("string", "outcome"),
    [("", Outcome.PASS), ("noatime,STRING", Outcome.UNDETERMINED)],
)
def test_superblock_string_decides_if_the_mount_table_lacks_the_option(
    string: str, outcome: Outcome
) -> None:
    """The table shows the option unless the superblock's string sets it."""
    held = superblock(mount_option_string=string.replace("STRING", NAME))
    fs = filesystem(options=known(options(complete=False)), superblock=known(held))
    assert verdict_of(fs).outcome is outcome


def test_unmounted_filesystem_is_not_applicable() -> None:
    """A filesystem has options in force only while the kernel has it mounted."""
    assert verdict_of(filesystem(alive=False, mounts=())).outcome is Outcome.NOT_APPLICABLE


def test_remedy_keeps_the_data_mode() -> None:
    """Whether writeback is wanted is for another rule to judge."""
    (remedy,) = finding_of(with_async_commit()).remedies
    assert step_lines(remedy.steps) == [
        "persistent: fstab 7: data=writeback,journal_async_commit -> data=writeback",
        "immediate: umount /data",
        "immediate: mount -t ext4 -o rw,relatime,data=writeback /dev/sda /data",
        (
            "verify: grep -q . /proc/fs/ext4/sda/options && "
            "! grep -qx journal_async_commit /proc/fs/ext4/sda/options"
        ),
    ]
    assert remedy.disruption is Disruption.UNMOUNT


# journal_async_commit is removed by a new mount; the data mode stays as it was.
SUMMARY = "Mount it without journal_async_commit"

REMEDY_CASES = (
    RemedyCase(
        name="by fstab",
        remedy=SUMMARY,
        fstab="data=writeback,journal_async_commit",
        mount="data=writeback,journal_async_commit",
    ),
    RemedyCase(
        name="by hand",
        remedy=SUMMARY,
        mount="nodev,data=journal,journal_async_commit",
    ),
    RemedyCase(
        name="by the superblock's string",
        remedy=SUMMARY,
        tune=("-E", "mount_opts=journal_async_commit", "-o", "journal_data_writeback"),
        fstab="defaults",
    ),
)
