from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Disruption, Severity
from ext4audit.report import Outcome
from ext4audit.rules.security.sec003_reserved_uid import check
from support.builders import filesystem, fstab_entry, known, options, superblock, unknown
from support.judging import only_finding, verdict_on
from support.remedies.case import RemedyCase
from support.remedies.steps_as_text import step_lines

verdict_of = partial(verdict_on, check)
finding_of = partial(only_finding, check)


def with_reserve_for(*tokens: str, **changes: Any) -> Filesystem:
    """Build a filesystem whose reserve of 5 GiB these accounts may use."""
    held = superblock(reserved_blocks=1310720, reserved_uid=65534, reserved_gid=8)
    values: dict[str, Any] = {"superblock": known(held, "dumpe2fs -h /dev/sda"), **changes}
    return filesystem(options=known(options(*tokens)), **values)


@pytest.mark.parametrize(
    ("tokens", "who"),
    [
        (("resuid=65534",), "User id 65534 may"),
        (("resgid=8",), "Group id 8 may"),
        (("resuid=65534", "resgid=65534"), "User id 65534 and group id 65534 may"),
    ],
)
def test_other_account_is_info_with_the_reserve_size(tokens: tuple[str, ...], who: str) -> None:
    """The size of the reserve is the amount that the account may take."""
    finding = finding_of(with_reserve_for(*tokens))
    assert finding.severity is Severity.INFO
    assert who in finding.message
    assert "5120 MiB" in finding.message
    assert "5120 MiB" in [cited.value for cited in finding.citations]


def test_without_root_the_message_has_no_size() -> None:
    """Without root, the options file still shows the account."""
    finding = finding_of(with_reserve_for("resuid=65534", superblock=unknown("superblock")))
    assert "may use the blocks that are reserved" in finding.message


def test_root_passes() -> None:
    """Root is the default of mke2fs."""
    verdict = verdict_of(with_reserve_for())
    assert verdict.outcome is Outcome.PASS
    assert {"resuid=0", "resgid=0"} <= {each.value for each in verdict.evidence}


@pytest.mark.parametrize(
    "evidence",
    [unknown("options"), known(options("resuid=0", complete=False))],
)
def test_unknown_account_is_undetermined(evidence: Any) -> None:
    """Both accounts must be known."""
    assert verdict_of(filesystem(options=evidence)).outcome is Outcome.UNDETERMINED


def test_unmounted_filesystem_is_not_applicable() -> None:
    """A filesystem has options in force only while the kernel has it mounted."""
    assert verdict_of(filesystem(alive=False, mounts=())).outcome is Outcome.NOT_APPLICABLE


def test_remedy_sets_the_superblock_if_fstab_has_no_account() -> None:
    """The rollback restores the superblock's old fields, which the options in force do not show."""
    (remedy,) = finding_of(with_reserve_for("resuid=65534")).remedies
    assert [step.command for step in remedy.lines] == [
        "mount -o remount,rw,relatime,resuid=0 /dev/sda /data",
        "tune2fs -u 0 -g 0 /dev/sda",
        "grep -qx resuid=0 /proc/fs/ext4/sda/options",
        (
            "tune2fs -l /dev/sda | grep -q UUID: && "
            "! tune2fs -l /dev/sda | grep '^Reserved blocks [ug]id: *[1-9]'"
        ),
        "tune2fs -u 65534 -g 8 /dev/sda",
        "mount -o remount,rw,relatime,resuid=65534 /dev/sda /data",
    ]
    assert remedy.disruption is Disruption.REMOUNT


def test_remedy_edits_fstab_if_it_names_the_account() -> None:
    """The superblock is changed if it names one too, which the next mount would take."""
    fstab = known((fstab_entry("noatime", "resuid=65534"),))
    of_root = known(superblock(reserved_uid=0, reserved_gid=0))
    fs = with_reserve_for("resuid=65534", fstab=fstab, superblock=of_root)
    lines = step_lines(finding_of(fs).remedies[0].lines)
    assert not any("tune2fs" in line for line in lines)
    both = finding_of(with_reserve_for("resuid=65534", fstab=fstab)).remedies[0]
    assert "persistent: tune2fs -u 0 -g 0 /dev/sda" in step_lines(both.steps)
    assert "resuid=0" in lines[0]
    assert lines[1] == "persistent: fstab 7: noatime,resuid=65534 -> noatime"


@pytest.mark.parametrize(
    "fs",
    [with_reserve_for("resuid=$(reboot)"), with_reserve_for("resuid=65534", mounts=())],
    ids=["hostile", "another namespace"],
)
def test_no_command_for_invalid_values_and_other_namespaces(fs: Filesystem) -> None:
    """A value that is not a number never becomes part of a command."""
    assert finding_of(fs).remedies[0].steps == ()


# resuid and resgid are set to root by a remount, and in the superblock or in fstab.
SUMMARY = "Return the reserve to root"

REMEDY_CASES = (
    RemedyCase(
        name="by the superblock",
        remedy=SUMMARY,
        tune=("-u", "65534", "-g", "65534"),
        fstab="defaults",
    ),
    RemedyCase(name="a user, no fstab entry", remedy=SUMMARY, tune=("-u", "65534"), mount="nodev"),
    RemedyCase(name="by hand", remedy=SUMMARY, mount="resgid=8", fstab="defaults"),
    RemedyCase(name="by fstab", remedy=SUMMARY, fstab="resuid=65534", mount="resuid=65534"),
    RemedyCase(
        name="by fstab, over a user in the superblock",
        remedy=SUMMARY,
        tune=("-u", "33"),
        fstab="resuid=65534",
        mount="resuid=65534",
    ),
)
