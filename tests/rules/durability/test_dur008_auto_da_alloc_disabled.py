from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import Provenance
from ext4audit.finding import Disruption, Phase, Severity
from ext4audit.report import Outcome
from ext4audit.rules.durability.dur008_auto_da_alloc_disabled import check
from support.builders import (
    filesystem,
    fstab_entry,
    known,
    mount,
    options,
    superblock,
    unknown,
)
from support.judging import only_finding, verdict_on
from support.remedies.case import RemedyCase

NOAUTO_DA_ALLOC = "noauto_da_alloc"


verdict_of = partial(verdict_on, check)
finding_of = partial(only_finding, check)


def with_noauto_da_alloc(place: str = "/data", *tokens: str, **changes: Any) -> Filesystem:
    """Build a filesystem with the option off, which its fstab entry also sets."""
    values = {"fstab": known((fstab_entry(NOAUTO_DA_ALLOC, mount_point=place),)), **changes}
    return filesystem(
        options=known(options(NOAUTO_DA_ALLOC, *tokens)), mounts=(mount(place),), **values
    )


@pytest.mark.parametrize(
    ("place", "severity"),
    [
        ("/", Severity.MEDIUM),
        ("/etc", Severity.MEDIUM),
        ("/home", Severity.MEDIUM),
        ("/home/ann", Severity.MEDIUM),
        ("/var", Severity.MEDIUM),
        ("/var/lib/postgresql", Severity.MEDIUM),
        ("/data", Severity.LOW),
        ("/variable", Severity.LOW),
        ("/var/cache/build", Severity.LOW),
        ("/var/tmp", Severity.LOW),  # noqa: S108 - a mount point
    ],
)
def test_severity_by_mount_point(place: str, severity: Severity) -> None:
    """Build and cache volumes turn it off on purpose."""
    assert finding_of(with_noauto_da_alloc(place)).severity is severity


def test_read_only_mount_is_info() -> None:
    """No file is replaced."""
    assert (
        finding_of(with_noauto_da_alloc("/", read_only=known(value=True))).severity is Severity.INFO
    )


@pytest.mark.parametrize(
    "fs",
    [
        filesystem(),
        filesystem(options=known(options("auto_da_alloc", "nodelalloc"))),
        filesystem(fstab=known((fstab_entry(NOAUTO_DA_ALLOC),))),
    ],
    ids=["default", "on, without delayed allocation", "fstab not in force"],
)
def test_enabled_passes_with_evidence(fs: Filesystem) -> None:
    """The option in force counts."""
    verdict = verdict_of(fs)
    assert verdict.outcome is Outcome.PASS
    assert verdict.evidence[0].value == "auto_da_alloc"


@pytest.mark.parametrize(
    "fs",
    [
        filesystem(alive=False, mounts=()),
        with_noauto_da_alloc("/", "nodelalloc"),
        with_noauto_da_alloc("/", "nodelalloc", fstype=known("ext3")),
    ],
    ids=["not mounted", "nodelalloc", "ext3"],
)
def test_not_applicable_without_delayed_allocation(fs: Filesystem) -> None:
    """The blocks are already allocated at the time of the rename."""
    assert verdict_of(fs).outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    "evidence",
    [
        unknown("options"),
        known(options(complete=False)),
        known(options(NOAUTO_DA_ALLOC, complete=False)),
    ],
)
def test_unknown_options_are_undetermined(evidence: Any) -> None:
    """Both options must be known."""
    assert verdict_of(filesystem(options=evidence)).outcome is Outcome.UNDETERMINED


def test_remedy_remounts_and_edits_fstab() -> None:
    """auto_da_alloc is the default, which needs no option."""
    (remedy,) = finding_of(with_noauto_da_alloc()).remedies
    immediate = [step.command for step in remedy.lines if step.phase is Phase.IMMEDIATE]
    assert immediate == ["mount -o remount,rw,relatime,auto_da_alloc /dev/sda /data"]
    assert remedy.disruption is Disruption.REMOUNT


def test_remedy_clears_the_superblock_string() -> None:
    """The string would set the option at the next mount."""
    fs = filesystem(
        options=known(options(hidden=[NOAUTO_DA_ALLOC], set_by=Provenance.SUPERBLOCK_STRING)),
        superblock=known(superblock(mount_option_string=NOAUTO_DA_ALLOC)),
    )
    commands = [step.command for step in finding_of(fs).remedies[0].lines]
    assert "tune2fs -E mount_opts= /dev/sda" in commands


def test_no_command_in_another_namespace() -> None:
    """A remount needs the mount point."""
    fs = filesystem(options=known(options(NOAUTO_DA_ALLOC)), mounts=())
    (remedy,) = finding_of(fs).remedies
    assert remedy.steps == ()
    assert "in the mount namespace that has it mounted" in remedy.summary


# auto_da_alloc by a remount, and noauto_da_alloc removed from wherever it was set.
SUMMARY = "Enable auto_da_alloc"

REMEDY_CASES = (
    RemedyCase(
        name="by fstab",
        remedy=SUMMARY,
        fstab="noatime,auto_da_alloc=0",
        mount="noatime,noauto_da_alloc",
    ),
    RemedyCase(
        name="by the superblock's string",
        remedy=SUMMARY,
        tune=("-E", "mount_opts=noauto_da_alloc"),
        fstab="defaults",
    ),
    RemedyCase(name="by hand", remedy=SUMMARY, mount="nosuid,noauto_da_alloc"),
)
