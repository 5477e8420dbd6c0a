"""Without a mount table, a rule must not conclude that a filesystem has no mounts."""

from __future__ import annotations

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import ActiveProfile, ErrorCounters, Filesystem, all_profiles
from ext4audit.report import Outcome
from ext4audit.rule import Rule
from ext4audit.rules import all_rules
from support.builders import filesystem, fstab_entry, host, known, mount, unknown

NO_MOUNT_TABLE = unknown("mount table")
RULES = {rule.code: rule for rule in all_rules()}
WITHOUT_MOUNTS = filesystem(mounts=(), unlisted=NO_MOUNT_TABLE)
STOPPED = WITHOUT_MOUNTS._replace(read_only=known(value=True), errors=known(ErrorCounters(3)))
RULES_THAT_NEED_MOUNTS = (
    "CAP002",
    "CAP007",
    "CMP001",
    "DRF001",
    "DRF002",
    "DRF004",
    "DRF005",
    "SEC002",
)


def outcome(rule: Rule, fs: Filesystem, **changes: object) -> Outcome:
    """Return the outcome for a filesystem on a host without a mount table."""
    on = host(fs, mounts=NO_MOUNT_TABLE, **changes)
    return judge(rule, fs, on).outcome


@pytest.mark.parametrize("code", RULES_THAT_NEED_MOUNTS)
def test_rules_that_need_mounts_are_undetermined(code: str) -> None:
    """A rule concludes neither that it is unmounted here nor that it is not the root."""
    assert outcome(RULES[code], WITHOUT_MOUNTS) is Outcome.UNDETERMINED


@pytest.mark.parametrize("code", RULES_THAT_NEED_MOUNTS)
def test_filesystem_mounted_elsewhere_is_judged(code: str) -> None:
    """The mount table shows that the filesystem has no mount in this namespace."""
    fs = filesystem(mounts=())
    assert judge(RULES[code], fs, host(fs)).outcome is not Outcome.UNDETERMINED


def test_read_only_filesystem_with_errors_is_undetermined() -> None:
    """Its mount, and the fstab entry of the mount point, would show whether an error made it so."""
    assert outcome(RULES["HLT002"], STOPPED) is Outcome.UNDETERMINED


def test_profile_of_a_mount_point_is_undetermined() -> None:
    """Whether a profile for /data applies to this filesystem is unknown."""
    tidb = ActiveProfile(all_profiles()["tidb"], "/data")
    assert outcome(RULES["CMP007"], WITHOUT_MOUNTS, profiles=(tidb,)) is Outcome.UNDETERMINED
    everywhere = host(WITHOUT_MOUNTS, mounts=NO_MOUNT_TABLE, profiles=(tidb._replace(place=None),))
    assert NO_MOUNT_TABLE not in judge(RULES["CMP007"], WITHOUT_MOUNTS, everywhere).unknowns


@pytest.mark.parametrize("code", ["DRF001", "DRF002"])
def test_root_needs_the_kernel_command_line(code: str) -> None:
    """rootflags= may set what is in force, and fstab is applied afterwards."""
    entry = fstab_entry(mount_point="/")
    fs = filesystem(mounts=(mount("/"),), fstab=known((entry,)))
    verdict = judge(RULES[code], fs, host(fs, kernel_arguments=unknown("/proc/cmdline")))
    assert verdict.outcome is Outcome.UNDETERMINED
