"""The `ext4audit fix` command that a report suggests."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import (
    Confidence,
    Disruption,
    Finding,
    Phase,
    Remedy,
    Severity,
    Step,
    Suppression,
)
from ext4audit.renderers.text.short import fix_command
from ext4audit.report import Report, ReportSource
from ext4audit.rule import Rule, RuleOutput, rule
from support.builders import disk, filesystem, host, known, mount
from support.formats.sample_reports import changed, report

IMAGE = known(disk(kind="image"))
IN_A_PARTITION = known(
    disk(number=DeviceNumber(0, 2), kind="partition", below=known((IMAGE.value,)))
)
"""A partition in a disk image."""


def remedy(disruption: str, command: str = "true", *, destructive: bool = False) -> Remedy:
    """Build a remedy; without a command it is advice."""
    steps = (Step(Phase.IMMEDIATE, command),) if command else ()
    return Remedy("Do.", Disruption(disruption), steps, destructive)


def finding_rule(*remedies: Remedy, severity: str = "high") -> Rule:
    """Return a rule that finds something on every filesystem."""

    @rule("DUR005", "always", severity=Severity.HIGH, since="0.1")
    def find(_fs: Filesystem, _host: Host) -> RuleOutput:
        """Find."""
        yield Finding("Odd.", Severity(severity), Confidence.CONFIRMED, (), remedies)

    return find


MEDIUM = Severity.MEDIUM
DATA = filesystem(mounts=(mount("/data"),))
ONLINE = finding_rule(remedy("online"))


@pytest.mark.parametrize(
    ("judged", "words"),
    [
        (finding_rule(remedy("online")), "/data"),
        (finding_rule(remedy("unmount"), remedy("online")), "/data"),
        (finding_rule(remedy("unmount"), remedy("remount")), "--disruption remount /data"),
        (finding_rule(remedy("online", ""), remedy("reboot")), "--disruption reboot /data"),
        (finding_rule(remedy("online"), severity="low"), None),
        (finding_rule(remedy("online", "")), None),
        (finding_rule(remedy("recreate", destructive=True)), None),
        (finding_rule(), None),
    ],
)
def test_fix_command_if_there_is_a_remedy(judged: Rule, words: str | None) -> None:
    """It applies the safest remedy of each finding that fails the audit, and destroys no data."""
    expected = "" if words is None else f"ext4audit fix {words}"
    assert fix_command(report(host(DATA), judged), Severity.MEDIUM) == expected


@pytest.mark.parametrize(
    ("threshold", "severity", "words"),
    [
        (Severity.LOW, "low", "ext4audit fix --config 'my policy.toml' --fail-on low /data"),
        (Severity.HIGH, "medium", ""),
        (None, "critical", ""),
    ],
)
def test_fix_command_has_the_options_of_the_report(
    threshold: Severity | None, severity: str, words: str
) -> None:
    """If nothing fails the audit, there is nothing to fix."""
    judged = report(host(DATA), finding_rule(remedy("online"), severity=severity))
    options = ("--config", "my policy.toml", "--fail-on", "low")
    assert fix_command(judged._replace(options=options), threshold) == words


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (ReportSource("live", "db1"), "ext4audit fix /data"),
        (ReportSource("snapshot", "db 1.tar"), "ext4audit fix --from 'db 1.tar' /data"),
        (ReportSource("sosreport", "s.tar.xz"), "ext4audit fix --from s.tar.xz /data"),
        (ReportSource("snapshot", "db1.tar", "db1"), "ext4audit fix --from db1.tar /data"),
        (ReportSource("snapshot", "d/snapshot", "d"), "ext4audit fix --from d/snapshot /data"),
        (ReportSource("snapshot", "db12.tar", "db1"), "ext4audit fix --from db1=db12.tar /data"),
        (ReportSource("snapshot", "standard input"), ""),
        (ReportSource("snapshot", "/dev/fd/63", "db1"), ""),
        (ReportSource("snapshot", "db1", "db1", has_path=False), ""),
        (ReportSource("snapshot", "db1", "db1"), "ext4audit fix --from db1 /data"),
        (ReportSource("snapshot", "a\x1b"), ""),
        (ReportSource("plan", "/dev/sda on /data"), ""),
        (ReportSource("image", "disk.img"), ""),
    ],
)
def test_fix_command_has_the_source_of_the_report(source: ReportSource, words: str) -> None:
    """No command for plans, images, standard input and Ansible hosts, which cannot be reread."""
    assert fix_command(report(host(DATA), ONLINE)._replace(source=source), MEDIUM) == words


def numbered(count: int) -> list[Filesystem]:
    """Build filesystems mounted on /m0, /m1 and so on."""
    return [
        filesystem(uuid=f"u{n}", device=f"/dev/sd{n}", mounts=(mount(f"/m{n}"),))
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("filesystems", "words"),
    [
        (numbered(3), " /m0 /m1 /m2"),
        (numbered(4), ""),
        ([filesystem(mounts=(mount("/a b"),))], " '/a b'"),
        ([filesystem(mounts=())], " /dev/sda"),
        ([filesystem(mounts=(mount("/a")._replace(overmounted=True), mount("/b")))], " /b"),
        ([filesystem(mounts=(mount("/a\x1b"),))], " /dev/sda"),
        ([filesystem(mounts=(mount("/\xe4"),), device="/dev/\xe4")], ""),
        (
            [filesystem(), filesystem(uuid="i", mounts=(), stack=IMAGE)],
            " /data",
        ),
        ([filesystem(), filesystem(uuid="i", mounts=(), stack=IN_A_PARTITION)], " /data"),
    ],
)
def test_fix_command_names_a_few_filesystems(filesystems: list[Filesystem], words: str) -> None:
    """Without a path, `fix` judges all: the fallback for many filesystems or unusual names."""
    assert fix_command(report(host(*filesystems), ONLINE), MEDIUM) == f"ext4audit fix{words}"


@pytest.mark.parametrize(
    "change",
    [{"known": True}, {"suppression": Suppression("later")}],
    ids=["known", "suppressed"],
)
def test_no_fix_command_for_suppressed_and_known_findings(change: dict[str, Any]) -> None:
    """Findings accepted by the policy or known from the baseline are not to be fixed now."""
    judged: Report = report(host(DATA), ONLINE)
    aside = changed(judged, lambda _verdict, finding: finding._replace(**change))
    assert fix_command(aside, MEDIUM) == ""
