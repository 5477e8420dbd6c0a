"""Remedies that a script applies, and those it omits."""

from __future__ import annotations

import pytest

from ext4audit.facts.host import Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import (
    Confidence,
    Disruption,
    Finding,
    Phase,
    Remedy,
    Remount,
    Severity,
    Step,
    Suppression,
)
from ext4audit.fixing import NoSuchRemedy, choose_remedies, slug
from ext4audit.report import Outcome, Report, ReportSource, Verdict
from ext4audit.rules import all_rules
from support.builders import filesystem, host, known, mount

RULE = next(rule for rule in all_rules() if rule.code == "DUR001")


def remedy(
    summary: str, disruption: Disruption, *options: str, destructive: bool = False
) -> Remedy:
    """Build a remedy of one remount."""
    step = Step(Phase.IMMEDIATE, "true", change=Remount("/data", (), options))
    return Remedy(summary, disruption, (step,), destructive=destructive)


ADVICE = Remedy("Ask somebody.", Disruption.ONLINE)
ONLINE = remedy("Edit the file.", Disruption.ONLINE, "barrier")
REMOUNT = remedy("Remount it.", Disruption.REMOUNT, "dioread_lock")
UNMOUNT = remedy("Unmount it.", Disruption.UNMOUNT, "delalloc")
ANEW = remedy("Make it anew.", Disruption.ONLINE, "x", destructive=True)


def report(*remedies: Remedy, **changes: object) -> Report:
    """Build the report of one finding with these remedies."""
    finding = Finding("It is bad.", Severity.HIGH, Confidence.CONFIRMED, (), remedies)
    fs = filesystem()
    audited: Host = host(filesystems=(fs,))
    verdict = Verdict(RULE, fs.id, Outcome.FAIL, (finding._replace(**changes),))  # type: ignore[arg-type]
    return Report(ReportSource("live", "here"), audited, (verdict,))


@pytest.mark.parametrize(
    ("remedies", "most", "expected"),
    [
        ((REMOUNT, ONLINE), Disruption.REMOUNT, ONLINE),
        ((UNMOUNT, REMOUNT), Disruption.REBOOT, REMOUNT),
        ((ADVICE, REMOUNT), Disruption.REMOUNT, REMOUNT),
        ((ANEW, REMOUNT), Disruption.REMOUNT, REMOUNT),
        ((REMOUNT,), Disruption.ONLINE, "needs --disruption remount"),
        ((UNMOUNT,), Disruption.REMOUNT, "needs --disruption unmount"),
        ((ANEW,), Disruption.REBOOT, "its remedy destroys data; scripts never include it"),
        ((ADVICE,), Disruption.REBOOT, "advice only: Ask somebody."),
        ((), Disruption.REBOOT, "no remedy"),
    ],
)
def test_the_safest_remedy_that_is_allowed(
    remedies: tuple[Remedy, ...], most: Disruption, expected: Remedy | str
) -> None:
    """The first of the least disruptive remedies that have steps and are not destructive."""
    chosen, left = choose_remedies(report(*remedies), Severity.MEDIUM, most, {})
    assert [each.remedy for each in chosen] + [each.reason for each in left] == [expected]


@pytest.mark.parametrize(
    ("changes", "threshold", "reasons"),
    [
        ({"suppression": Suppression("it is a test")}, Severity.LOW, ["suppressed: it is a test"]),
        ({"known": True}, Severity.LOW, ["in the baseline"]),
        ({}, Severity.CRITICAL, []),
        ({}, None, []),
    ],
)
def test_what_does_not_count_is_not_fixed(
    changes: dict[str, object], threshold: Severity | None, reasons: list[str]
) -> None:
    """A finding below --fail-on is not even listed."""
    chosen, left = choose_remedies(report(ONLINE, **changes), threshold, Disruption.REBOOT, {})
    assert not chosen
    assert [each.reason for each in left] == reasons


def test_what_is_left_out_hides_no_other_finding() -> None:
    """The second finding of a rule is fixed even if the first is suppressed."""
    of = report(ONLINE, suppression=Suppression("it is a test"))
    verdicts = (*of.verdicts, *report(REMOUNT).verdicts)
    chosen, left = choose_remedies(
        of._replace(verdicts=verdicts), Severity.LOW, Disruption.REBOOT, {}
    )
    assert [each.remedy for each in chosen] == [REMOUNT]
    assert [each.reason for each in left] == ["suppressed: it is a test"]


def test_a_few_of_many_mount_points_are_named() -> None:
    """A Kubernetes node mounts parts of one filesystem on hundreds of directories."""
    one = report(ADVICE)
    many = filesystem(mounts=tuple(mount(f"/{number}") for number in range(300)))
    of = one._replace(host=one.host._replace(filesystems=(many,)))
    _, left = choose_remedies(of, Severity.LOW, Disruption.REBOOT, {})
    assert [each.subject for each in left] == ["/0, /1, /2 and 297 more"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [("dioread-lock", REMOUNT), ("delalloc", UNMOUNT), ("dioread_lock", REMOUNT), ("unm", UNMOUNT)],
)
def test_another_remedy_is_chosen_by_its_name(words: str, expected: Remedy) -> None:
    """It is named by the options that it changes, or by words of its summary."""
    chosen, _ = choose_remedies(
        report(ONLINE, REMOUNT, UNMOUNT), Severity.LOW, Disruption.REBOOT, {"DUR001": words}
    )
    assert [each.remedy for each in chosen] == [expected]


def test_a_name_that_no_remedy_has_is_answered_with_those_there_are() -> None:
    """The error lists the valid names."""
    known = r"DUR001 has no remedy 'x' \(choose from barrier, dioread-lock\)"
    with pytest.raises(NoSuchRemedy, match=known):
        choose_remedies(report(ONLINE, REMOUNT), Severity.LOW, Disruption.REBOOT, {"DUR001": "x"})


def test_a_remedy_without_options_is_named_by_its_summary() -> None:
    """Its name is made of the first words."""
    plain = Remedy("Give up the blocks that are reserved for root.", Disruption.ONLINE)
    assert slug(plain) == "give-up-the-blocks-that-are"


@pytest.mark.parametrize("device", ["/dev/other", "/dev/the other", ""])
def test_a_script_checks_the_filesystems_on_devices_that_steps_name(device: str) -> None:
    """Not those that a command mentions; a filesystem of the finding is the first, and once."""
    other = filesystem(device=device, device_number=DeviceNumber(8, 99), alive=False, mounts=())
    steps = (
        Step(Phase.IMMEDIATE, "true", devices=("/dev/sda", device)),
        Step(Phase.IMMEDIATE, "true", devices=("LABEL=none", device)),
    )
    of = report(ONLINE._replace(steps=steps))
    (fs,) = of.host.filesystems
    of = of._replace(host=of.host._replace(unmounted=known((other,))))
    (chosen,), _ = choose_remedies(of, Severity.LOW, Disruption.REBOOT, {})
    assert chosen.filesystems == (fs, other)
    mentioned = Step(Phase.IMMEDIATE, f"echo {device} x")
    of = of._replace(verdicts=report(ONLINE._replace(steps=(mentioned,))).verdicts)
    (chosen,), _ = choose_remedies(of, Severity.LOW, Disruption.REBOOT, {})
    assert chosen.filesystems == (fs,)
