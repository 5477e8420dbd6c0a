"""Every remedy with commands works on a real stack, survives the next mount and rolls back."""

from __future__ import annotations

import pytest

from lab.conftest import Guest
from lab.support.scenario import JsonObject

CURED = {
    "dur001_nobarrier_on_a_mirror": ("fail critical", "pass", "remount"),
    "dur002_bits": ("fail low", "pass", "remount"),
    "prf001_nodelalloc delalloc": ("fail high", "pass", "remount"),
    "prf001_nodelalloc dioread_lock": ("fail high", "pass", "remount"),
    "drf001_remounted_by_hand keep": ("fail medium", "pass", "online"),
    "drf001_remounted_by_hand go back": ("fail medium", "pass", "remount"),
    "drf002_fstab_was_edited remount": ("fail medium", "pass", "remount"),
    "drf002_fstab_was_edited correct": ("fail medium", "pass", "online"),
    "prf002_writeback_throttling": ("fail low", "fail info", "online"),
}
"""Scenario (and remedy, where one runs several): the verdict before, once cured, and the disruption
that it needs. PRF002 promises a shorter wait from its queue and backlog remedies, not none."""
ON_ONE_KERNEL = {
    "prf002_dirty_limit": ("fail low", "fail info", "online"),
    "drf006_not_mounted": ("fail high", "pass", "online"),
}


def result(guest: Guest, name: str) -> JsonObject:
    """Return the result of one remedy, in a scenario that may run several."""
    scenario, _, remedy = name.partition(" ")
    found = guest[scenario]
    return dict(found[remedy]) if remedy else found


def check(found: JsonObject, before: str, cured: str, disruption: str) -> None:
    """Assert the four verdicts, and that the rollback restores fstab and kernel settings."""
    assert {name: found[name] for name in ("before", "after", "persisted", "rolled_back")} == {
        "before": before,
        "after": cured,
        "persisted": cured,
        "rolled_back": before,
    }
    assert (found["disruption"], found["fstab_restored"]) == (disruption, True)
    assert found.get("knob_restored", True)


@pytest.mark.parametrize("name", CURED)
def test_a_remedy_cures_lasts_and_goes_back_on_every_kernel(any_guest: Guest, name: str) -> None:
    """The printed commands succeed in order; a mount with the edited fstab keeps the cure."""
    check(result(any_guest, name), *CURED[name])


@pytest.mark.parametrize("name", ON_ONE_KERNEL)
def test_a_remedy_that_no_kernel_takes_otherwise(guest: Guest, name: str) -> None:
    """Remedies that do not depend on mount options run on one kernel."""
    check(result(guest, name), *ON_ONE_KERNEL[name])


def test_a_hidden_data_mode_is_cured_by_the_next_mount(any_guest: Guest) -> None:
    """DUR002 unmounts for data=; bits and a string of two options are cleared.

    Its severity is low: DUR003 judges what data=writeback does while it is mounted.
    """
    found = any_guest["dur002_string_and_data_mode"]
    assert (found["before"], found["after"], found["persisted"], found["rolled_back"]) == (
        "fail low",
        "pass",
        "pass",
        "fail low",
    )
    assert found["disruption"] == "unmount"
    writes = [command for command in found["commands"] if "debugfs -w" in command]
    assert [command.partition(":")[0] for command in writes] == ["rollback"]


def test_nodelalloc_is_put_in_force_only_where_a_remount_can(any_guest: Guest) -> None:
    """The newest kernel refuses it, so DRF002 proposes a new mount there."""
    found = any_guest["drf002_nodelalloc"]
    (offered,) = found["offered"]
    if any_guest.era == "newest":
        assert "Unmount it and mount it again" in offered
        return
    assert "Remount with the options of fstab" in offered
    check(found, "fail medium", "pass", "remount")


def test_recreating_by_the_printed_line_spreads_the_bitmaps(guest: Guest) -> None:
    """LAY001 passes on the filesystem that its mkfs line makes, unmounted and mounted.

    Its severity before is only medium: virtual disks do not prove that they are rotational.
    """
    found = guest["lay001_recreate"]
    assert (found["before"], found["after"], found["persisted"]) == ("fail medium", "pass", "pass")
    assert found["commands"][0].startswith("mkfs.ext4 -b 4096 -g 32760 -G 16 ")


@pytest.mark.parametrize(
    "scenario",
    sorted(
        {name.partition(" ")[0] for name in CURED}
        | {"dur002_string_and_data_mode", "drf002_nodelalloc"}
    ),
)
def test_the_filesystem_is_sound_after_cure_and_rollback(any_guest: Guest, scenario: str) -> None:
    """`e2fsck -fn` finds nothing; a complaint would have failed the scenario."""
    assert "Checking group summary information" in any_guest[scenario]["fsck"]


@pytest.mark.parametrize("scenario", [*ON_ONE_KERNEL, "lay001_recreate"])
def test_the_filesystem_is_sound_on_one_kernel(guest: Guest, scenario: str) -> None:
    """e2fsck finds nothing in the scenarios of one kernel, which include a filesystem of 400 GB."""
    assert "Checking group summary information" in guest[scenario]["fsck"]


def test_remedies_on_random_hosts(any_guest: Guest) -> None:
    """Only the named things change, the finding disappears, and the rollback restores all."""
    found = any_guest["random_remedies"]
    assert not found["broken"]
    assert len(found["rules"]) >= 6
