from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given

from ext4audit.engine import audit
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.renderers import Audited, visible
from ext4audit.renderers.github import LEVELS, SHOWN, render
from ext4audit.renderers.shared.subjects import causes
from ext4audit.report import Report
from ext4audit.rule import RuleOutput, rule
from ext4audit.rules import all_rules
from support.builders import host
from support.examples import examples
from support.formats.actions_runner import Command, command_in
from support.formats.sample_reports import (
    CLEAN_HOST,
    CRITICAL,
    FLEET,
    HOSTILE_NAMES,
    INCOMPLETE,
    LIVE,
    PAGE,
    PROCESSED_REPORT,
    UNREADABLE_HOST,
    edits,
    hostile_report,
    rated_report,
    repeated_report,
    report,
    root,
)
from support.hosts.strategies import HOSTS

NAMES = {
    **HOSTILE_NAMES,
    "old command": "##[error]owned",
    "old command behind a name": "/mnt/###[[add-mask]x",
    "old commands": "##[" * 100,
    "stop": "::stop-commands::x",
    "colons and commas": "/mnt/a,b=c::d:e",
    "percent": "/mnt/100%25%0A::error::x",
}


def read(*hosts: Audited, has_summary: bool = False) -> tuple[list[Command], str]:
    """Render and parse: return the commands, and the last line, which is for the log."""
    text = render(hosts, PAGE._replace(has_summary=has_summary))
    assert text.endswith("\n")
    *lines, last = text.removesuffix("\n").split("\n")
    commands = [command for line in lines if (command := command_in(line))]
    assert len(commands) == len(lines)
    assert {command.name for command in commands} <= {"error", "warning", "notice"}
    assert command_in(last) is None
    assert "##[" not in text
    return commands, last


def test_finding_is_an_annotation() -> None:
    """The annotation has the problem and its remedy; critical and high are errors."""
    (critical, medium), last = read(CRITICAL)
    assert critical == Command(
        "error",
        {
            "file": "hosts/db1/proc/self/mountinfo",
            "line": "1",
            "title": r"DUR001 barrier-disabled on db1, /dev/md127 on /mnt/a\x1b[b",
        },
        "CRITICAL: Write barriers are off above disks with a volatile write cache: a power cut can "
        "corrupt the filesystem.\nRemedy: Enable barriers again.",
    )
    assert medium.name == "warning"
    assert last == "ext4audit: 1 host: 1 critical, 1 medium; audit complete"


@pytest.mark.parametrize("severity", Severity)
def test_each_severity_has_a_level(severity: Severity) -> None:
    """GitHub has three levels."""
    (command,), _ = read(Audited("x", rated_report(severity)))
    assert command.name == LEVELS[severity]
    assert command.data.startswith(f"{severity.value.upper()}: ")


def test_finding_about_fstab_has_its_line() -> None:
    """The path is below the host's folder, as in SARIF."""
    citation = Citation("fstab line 7", "defaults", "/etc/fstab", fstab_line=7)

    @rule("DRF009", "of-fstab", severity=Severity.LOW, since="0.1")
    def check(_fs: Filesystem, _host: Host) -> RuleOutput:
        """Find something in a line."""
        cited = (Citation("mount point", "/", "/proc/self/mountinfo"), citation)
        yield Finding("The line is odd.", Severity.LOW, Confidence.CONFIRMED, cited)

    judged = report(host(root(), name="../db 1"), check)
    (command,), _ = read(Audited("x", judged))
    assert command.properties["file"] == "hosts/.._db 1/etc/fstab"
    assert command.properties["line"] == "7"


def test_suppressed_and_known_findings_are_not_annotated() -> None:
    """They are in the step summary, with the reason."""
    commands, _ = read(PROCESSED_REPORT)
    assert [command.properties["title"][:6] for command in commands] == ["KRN003", "PRF002"]


def test_clean_host_has_no_annotation() -> None:
    """The log has one line."""
    assert read(CLEAN_HOST) == ([], "ext4audit: 1 host: no findings; audit complete")


def test_gaps_are_one_warning() -> None:
    """The warning precedes the findings of its level, so that they never displace it."""
    (command,), last = read(INCOMPLETE)
    assert (command.name, command.properties) == ("warning", {"title": "audit incomplete"})
    assert command.data == "The audit is incomplete on m: see -f text for the reasons."
    assert last.endswith("audit INCOMPLETE on 1")


def test_unread_hosts_are_one_error() -> None:
    """The error lists the reason for each host."""
    commands, last = read(*FLEET)
    assert commands[0] == Command(
        "error",
        {"title": "1 host could not be read"},
        "bad.tar.gz (fleet/bad.tar.gz: not a snapshot)",
    )
    assert last == (
        "ext4audit: 5 hosts: 1 critical, 1 medium, 1 low, 1 info; 1 fixed since the baseline; "
        "audit INCOMPLETE on 2"
    )


def test_at_most_ten_annotations_of_each_level() -> None:
    """The worst are shown; one of the ten is a notice that counts the others."""
    severities = [Severity.LOW, Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL]
    hosts = [
        Audited("x", rated_report(s), key=f"{s.value}{n}") for s in severities for n in range(SHOWN)
    ]
    commands, last = read(UNREADABLE_HOST, *hosts)
    assert Counter(c.name for c in commands) == {"error": 10, "warning": 10, "notice": 10}
    shown = [c.data.partition(":")[0] for c in commands if c.name == "error"]
    assert shown[1:] == ["CRITICAL"] * 9
    assert commands[-1].data == "12 more findings are not shown: use -f text."
    assert "10 critical, 10 high, 10 medium, 10 low" in last


def test_findings_of_one_cause_share_an_annotation() -> None:
    """Beyond ten per level, findings of one cause on a host share an annotation that names them."""
    commands, last = read(Audited("x", repeated_report(40, edits)))
    assert [command.data.partition("\n")[0] for command in commands] == [
        "MEDIUM: the disk is slow",
        "MEDIUM: Slow.",
    ]
    assert commands[0].properties["title"].endswith("40 of 40 filesystems")
    assert "On /dev/d0 on /srv/0, /dev/d1 on /srv/1, " in commands[0].data
    assert "/dev/d19 on /srv/19 and 20 more\n" in commands[0].data
    assert "80 medium" in last
    assert len(read(Audited("x", repeated_report(SHOWN)))[0]) == SHOWN


def test_omitted_joined_annotation_counts_its_findings() -> None:
    """The notice counts findings, not the annotations they would share."""
    worse = [Audited("x", rated_report(Severity.HIGH), key=f"h{n}") for n in range(SHOWN - 1)]
    slower = [Audited("x", repeated_report(11), key=f"s{n}") for n in range(SHOWN + 1)]
    commands, _ = read(*worse, *slower)
    assert commands[-1].data == "11 more findings are not shown: use -f text."


def test_messages_refer_to_an_existing_step_summary() -> None:
    """Without a step summary, the messages must not refer to it."""
    many = [Audited("x", rated_report(Severity.LOW), key=f"h{n}") for n in range(SHOWN + 1)]
    (warning, *_), _ = read(INCOMPLETE, has_summary=True)
    (*_, more), _ = read(*many, has_summary=True)
    assert warning.data == "The audit is incomplete on m: see the step summary for the reasons."
    assert more.data == "2 more findings are in the step summary."
    for hosts in ([INCOMPLETE], many):
        assert not any("summary" in command.data for command in read(*hosts)[0])


def test_ten_annotations_without_a_notice() -> None:
    """No finding is left out."""
    hosts = [Audited("x", rated_report(Severity.INFO), key=f"x{n}") for n in range(SHOWN)]
    commands, _ = read(*hosts)
    assert [command.data[:4] for command in commands] == ["INFO"] * SHOWN


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_hostile_names_are_not_commands(name: str) -> None:
    """A name is inert in titles, messages and the log, and is read back as it is shown."""
    commands, _ = read(Audited(name, hostile_report(name)), Audited(name, None, name))
    shown = visible(name).replace("##[", r"##\x5b")
    (high,) = [command for command in commands if command.data.startswith("HIGH")]
    held = "First stop everything that uses it: the mount on /srv."
    assert high.data == f"HIGH: The mount point {shown} is odd.\nRemedy: Unmount {shown}. {held}"
    assert len(high.properties["title"]) <= 255
    assert set(high.properties) == {"file", "line", "title"}
    (folder,) = re.findall("^hosts/([^/]+)/proc/self/mountinfo$", high.properties["file"])
    assert folder.startswith(shown.replace("/", "_"))


@examples(25)
@given(judged=HOSTS)
def test_any_host_is_read_back(judged: Host) -> None:
    """Every finding is annotated or counted, and a gap is annotated."""
    found = audit(LIVE, judged, all_rules())
    commands, last = read(Audited("x", found))
    titles = [command.properties["title"] for command in commands]
    assert ("audit incomplete" in titles) is not found.complete
    assert max(Counter(command.name for command in commands).values(), default=0) <= SHOWN
    assert ("more findings" in titles) is any(
        number > SHOWN for number in annotations_needed(found).values()
    )
    assert last.endswith("audit complete") is found.complete


def annotations_needed(found: Report) -> Counter[str]:
    """Return how many annotations of each level a report needs with findings of a cause joined."""
    single = Counter(LEVELS[finding.severity] for finding in found.findings)
    joined = Counter(LEVELS[cause.first.severity] for cause in causes(found))
    numbers = Counter({lv: n if n <= SHOWN else joined[lv] for lv, n in single.items()})
    return numbers + Counter({} if found.complete else {"warning": 1})
