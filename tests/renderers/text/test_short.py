"""The default report: findings by cause, the safest remedy, and nothing lost by grouping."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import (
    Citation,
    Confidence,
    Disruption,
    Finding,
    LineEdit,
    NewFile,
    Phase,
    Remedy,
    Severity,
    Step,
)
from ext4audit.renderers import Page
from ext4audit.renderers.text import render_report
from ext4audit.report import FixedFinding, Outcome, Report, Verdict
from ext4audit.rule import Rule, RuleOutput, rule
from support.builders import filesystem, host, mount
from support.examples import examples
from support.formats.sample_reports import LIVE, as_text, edits, inodes, report, root

HIGH, LOW, INFO = Severity.HIGH, Severity.LOW, Severity.INFO


def named(code: str) -> Rule:
    """Return a rule with this code, which is never run."""

    @rule(code, f"name-of-{code.lower()}", severity=HIGH, since="0.1")
    def judge(_fs: Filesystem, _host: Host) -> RuleOutput:
        """Find nothing."""
        yield from ()

    return judge


RULES = {code: named(code) for code in ("DUR005", "CAP006", "PRF003")}


def finding(severity: Severity = HIGH, message: str = "Odd.", **more: object) -> Finding:
    """Build a finding."""
    return Finding(message, severity, Confidence.CONFIRMED, (), ())._replace(**more)  # type: ignore[arg-type]


def disks(count: int) -> list[Filesystem]:
    """Build filesystems on /mnt/d1, /mnt/d2 and so on."""
    return [
        filesystem(uuid=f"u{n}", device=f"/dev/sd{n}", mounts=(mount(f"/mnt/d{n}"),))
        for n in range(1, count + 1)
    ]


def found(count: int, *findings: tuple[str, int | None, Finding], on: Host | None = None) -> Report:
    """Return a report with findings on numbered filesystems, from 1; None is the host."""
    judged = on or host(*disks(count))
    verdicts = [
        Verdict(
            RULES[code],
            None if number is None else judged.filesystems[number - 1].id,
            Outcome.FAIL,
            (each,),
        )
        for code, number, each in findings
    ]
    return Report(LIVE, judged, tuple(verdicts))


def rows(shown: str) -> list[str]:
    """Return the lines between the header and the summary."""
    return shown.split("\n")[1:-2]


@pytest.mark.parametrize(
    ("numbers", "subjects"),
    [
        ([1], "/mnt/d1"),
        ([1, 2, 3], "/mnt/d1, /mnt/d2, /mnt/d3"),
        (range(1, 5), "4 of 20 filesystems (/mnt/d1 … /mnt/d4)"),
        (range(1, 21), "20 of 20 filesystems (/mnt/d1 … /mnt/d20)"),
    ],
)
def test_one_cause_is_one_entry(numbers: list[int], subjects: str) -> None:
    """The entry names its filesystems, or the first, the last and their number."""
    low = [("DUR005", number, finding(LOW)) for number in numbers]
    high = [("DUR005", number, finding(HIGH)) for number in numbers]
    assert rows(as_text(found(20, *low))) == [f"LOW  DUR005 name-of-dur005  {subjects}  Odd."]
    lines = as_text(found(20, *high)).split("\n")
    title = re.sub(r" \(/dev/sd\d\)", "", lines[2])
    assert title == f"HIGH  DUR005 name-of-dur005 · {subjects}"


def test_ascii_has_glyphs_of_its_own() -> None:
    """An escape in place of an ellipsis would look like part of a name."""
    made = found(4, *(("DUR005", number, finding(HIGH)) for number in range(1, 5)))
    shown = as_text(made, ascii_only=True)
    assert "HIGH  DUR005 name-of-dur005 - 4 of 4 filesystems (/mnt/d1 ... /mnt/d4)\n" in shown


@pytest.mark.parametrize(
    "other",
    [
        ("CAP006", 2, finding(LOW)),
        ("DUR005", 2, finding(INFO)),
        ("DUR005", 2, finding(LOW, confidence=Confidence.LIKELY)),
        ("DUR005", 2, finding(LOW, message="Otherwise odd.")),
        ("DUR005", 2, finding(LOW, summary="odd")),
    ],
)
def test_another_cause_is_another_entry(other: tuple[str, int, Finding]) -> None:
    """Rule, severity, confidence and summary identify a cause."""
    assert len(rows(as_text(found(2, ("DUR005", 1, finding(LOW)), other)))) == 2


def test_messages_that_differ_are_one_entry_by_their_summary() -> None:
    """The numbers of one filesystem would be wrong for the other."""
    texts = [finding(message=f"{n} GiB are odd.", summary="space is odd") for n in (1, 2)]
    shown = as_text(found(2, ("CAP006", 1, texts[0]), ("CAP006", 2, texts[1])))
    assert "\n  space is odd\n" in shown
    alone = as_text(found(2, ("CAP006", 1, texts[0])))
    assert "\n  1 GiB are odd.\n" in alone


@pytest.mark.parametrize(
    ("fact", "subject"), [("/backup", "/backup"), ("UUID=1", "UUID=1"), ("", "the host")]
)
def test_a_finding_of_the_host_is_named_by_its_fact(fact: str, subject: str) -> None:
    """The finding of a rule that judges fstab is about a mount point."""
    shown = as_text(found(1, ("DUR005", None, finding(LOW, fact=fact))))
    assert rows(shown) == [f"LOW  DUR005 name-of-dur005  {subject}  Odd."]


def test_a_finding_of_the_host_about_a_device_names_it() -> None:
    """A UUID alone does not identify a disk to a reader."""
    shown = as_text(found(1, ("DUR005", None, finding(LOW, fact="1-2", device="/dev/sdb1"))))
    assert rows(shown) == ["LOW  DUR005 name-of-dur005  /dev/sdb1  Odd."]


def test_findings_of_the_host_are_no_filesystems() -> None:
    """Findings about many lines of fstab are counted as places."""
    many = [("DUR005", None, finding(LOW, fact=f"/m{n}")) for n in range(5)]
    assert "  5 places (/m0 … /m4)  Odd." in as_text(found(1, *many))


def test_two_filesystems_on_one_mount_point_have_their_devices() -> None:
    """One filesystem overmounts the other, and both have the finding."""
    twins = [filesystem(uuid=f"u{n}", device=f"/dev/sd{n}") for n in range(2)]
    both = [("DUR005", number, finding(LOW)) for number in (1, 2)]
    shown = as_text(found(2, *both, on=host(*twins)))
    assert "  /data (/dev/sd0), /data (/dev/sd1)  Odd." in shown


@pytest.mark.parametrize(
    ("threshold", "blocks"),
    [
        (Severity.CRITICAL, 0),
        (Severity.HIGH, 1),
        (Severity.MEDIUM, 1),
        (Severity.LOW, 2),
        (None, 1),
    ],
)
def test_findings_from_the_threshold_on_are_shown_whole(
    threshold: Severity | None, blocks: int
) -> None:
    """Milder findings take one line each; without a threshold the default one applies."""
    made = found(1, ("DUR005", 1, finding(HIGH)), ("CAP006", 1, finding(LOW)))
    shown = render_report(made, Page("0", "", threshold))
    assert shown.count(" · /mnt/d1 (/dev/sd1)\n  Odd.\n") == blocks
    lines = re.findall(r"^(?:HIGH|LOW) +\w+ name-\S+ +/mnt/d1  Odd\.$", shown, re.MULTILINE)
    assert len(lines) == 2 - blocks


def test_at_most_four_facts_without_details() -> None:
    """At most four facts are shown, in the order of the rule."""
    cited = [Citation(f"fact {n}", f"value {n}", "there", n == 2) for n in range(1, 7)]
    shown = as_text(found(1, ("DUR005", 1, finding(citations=tuple(cited)))))
    assert re.findall(r"fact \d", shown) == ["fact 1", "fact 3", "fact 4", "fact 5"]


def test_facts_of_a_group_are_shared_facts() -> None:
    """The inode count of one filesystem is no evidence about another."""
    texts = [
        finding(citations=(Citation("own", str(n), "a"), Citation("same", "x", f"b{n}")))
        for n in range(2)
    ]
    shown = as_text(found(2, ("DUR005", 1, texts[0]), ("DUR005", 2, texts[1])))
    assert "\n    same  x  b0\n" in shown
    assert "own" not in shown
    assert "For example" not in shown


def test_orchestrator_volumes_are_named_by_device() -> None:
    """Two kubelet paths, each longer than a terminal line, would not be readable."""
    every = found(5, *(("DUR005", n, finding(LOW)) for n in range(1, 6)))
    long = [
        fs._replace(mounts=(mount(f"/var/lib/kubelet/plugins/{'ab' * 32}{n}/globalmount"),))
        for n, fs in enumerate(every.host.filesystems)
    ]
    shown = as_text(every._replace(host=every.host._replace(filesystems=tuple(long))))
    line = "LOW  DUR005 name-of-dur005  5 of 5 filesystems (/dev/sd1 … /dev/sd5)  Odd."
    assert rows(shown) == [line]


def test_text_is_not_in_a_narrow_column() -> None:
    """If a column would get under a third of the terminal, the text continues below the rule."""
    long = finding(LOW, "The last cell of a row is one sentence of several words, as they are.")
    every = found(6, *(("DUR005", n, long) for n in range(1, 7)))
    moved = [
        fs._replace(mounts=(mount(f"/mnt/a-directory-of-disks/{n}"),))
        for n, fs in enumerate(every.host.filesystems)
    ]
    judged = every._replace(host=every.host._replace(filesystems=tuple(moved)))
    start = "LOW  DUR005 name-of-dur005  6 of 6 filesystems "
    shown = as_text(judged, width=138).splitlines()
    lines = [line for line in shown if "LOW" in line or line.startswith(" ")]
    assert lines[0].startswith(start)
    assert all(line.startswith("    ") and line[4] != " " for line in lines[1:])
    assert len(lines) == 2


@pytest.mark.parametrize("width", range(34, 64, 3))
def test_facts_fit_the_terminal(width: int) -> None:
    """A column of prose has room for a word, or the text continues below its label."""
    cited = Citation("a label of words", "the value is a text of several words", "from somewhere")
    shown = as_text(found(1, ("DUR005", 1, finding(citations=(cited,)))), width=width)
    assert [line for line in shown.splitlines() if len(line) > width] == []


def test_unshared_facts_name_their_subject() -> None:
    """Facts of one line of fstab below ten places would look like facts of all ten."""
    texts = [finding(citations=(Citation("line", str(n), "fstab"),)) for n in (1, 2)]
    shown = as_text(found(2, ("DUR005", 1, texts[0]), ("DUR005", 2, texts[1])))
    assert "\n  For example, /mnt/d1:\n    line  1  fstab\n" in shown
    assert "For example" not in as_text(found(2, ("DUR005", 1, texts[0])))


def edit(number: int) -> Step:
    """Build an edit of fstab."""
    change = LineEdit("/etc/fstab", number, f"before {number}", f"after {number}")
    return Step(Phase.PERSISTENT, f"sed -i {number}s/before/after/ /etc/fstab", change=change)


def remounting(number: int, summary: str = "Remount.") -> Remedy:
    """Build a remedy for one filesystem."""
    now = Step(Phase.IMMEDIATE, f"mount -o remount /mnt/d{number}", "undo", "check")
    return Remedy(summary, Disruption.REMOUNT, (now, edit(number), Step(Phase.VERIFY, "verify")))


def test_remedy_shows_only_changes() -> None:
    """Commands and diffs are shown, but not the command of an edit, checks and rollback."""
    shown = as_text(found(1, ("DUR005", 1, finding(remedies=(remounting(1),)))))
    assert (
        """\
  Remedy (needs a remount): Remount.
  Now:
    mount -o remount /mnt/d1
  For good:
    --- /etc/fstab, line 1
    - before 1
    + after 1
  As a script: ext4audit fix --disruption remount /mnt/d1
"""
        in shown
    )
    assert re.search("sed -i|verify|check$|undo", shown) is None


def test_command_beside_an_edit_is_shown() -> None:
    """Only commands that the diff replaces are left out."""
    steps = (edit(1), Step(Phase.PERSISTENT, "update-grub"))
    remedy = Remedy("Edit.", Disruption.ONLINE, steps)
    shown = as_text(found(1, ("DUR005", 1, finding(remedies=(remedy,)))))
    assert "    - before 1\n    + after 1\n    update-grub\n" in shown


ADVICE = Remedy("Buy disks.", Disruption.ONLINE)
DESTROYING = Remedy(
    "Anew.", Disruption.RECREATE, (Step(Phase.PERSISTENT, "mkfs /dev/x"),), destructive=True
)


@pytest.mark.parametrize(
    ("remedies", "summary", "others"),
    [
        ((DESTROYING, remounting(1), ADVICE), "Remount.", "2 other remedies"),
        ((DESTROYING, ADVICE), "Anew.", "1 other remedy"),
        ((ADVICE,), "Buy disks.", None),
    ],
)
def test_safest_remedy_is_shown_and_others_are_counted(
    remedies: tuple[Remedy, ...], summary: str, others: str | None
) -> None:
    """If none is safe to run, the first one is shown."""
    shown = as_text(found(1, ("DUR005", 1, finding(remedies=remedies))))
    assert re.findall(r"Remedy \(.*\): (.*)", shown) == [summary]
    pointers = re.findall(r"(\d other .*): -v, or ext4audit explain DUR005", shown)
    assert pointers == ([others] if others else [])


def grouped(count: int, *more: tuple[str, int, Finding], runnable: bool = True) -> str:
    """Render one finding on many filesystems, each with a separate remedy, and further findings."""
    each = [
        ("DUR005", n, finding(remedies=(remounting(n)._replace(destructive=not runnable),)))
        for n in range(1, count + 1)
    ]
    return as_text(found(count, *each, *more))


def test_only_the_first_of_many_remedies_are_shown() -> None:
    """There is one title, the commands of two filesystems, and the script for all."""
    shown = grouped(18)
    assert re.findall(r"mount -o remount (\S+)", shown) == ["/mnt/d1", "/mnt/d2"]
    assert shown.count("Remedy (") == 1
    assert "\n  Commands for 16 more: in the script below.\n  As a script: ext4audit fix" in shown
    assert "Commands for" not in grouped(2)
    assert "\n  Commands for 1 more: -v.\n" in grouped(3, runnable=False)


def test_different_remedies_of_one_cause_are_counted_by_kind() -> None:
    """Commands are shown first; advice and findings without a remedy are only counted."""
    advice = [(finding(remedies=(ADVICE._replace(summary=f"Ask {n}."),))) for n in range(1, 4)]
    runnable = [finding(remedies=(remounting(n),)) for n in range(4, 8)]
    every = [*advice, *runnable, finding(remedies=(DESTROYING,)), finding()]
    shown = as_text(found(9, *(("DUR005", n, each) for n, each in enumerate(every, 1))))
    assert re.findall(r"mount -o remount (\S+)", shown) == ["/mnt/d4", "/mnt/d5"]
    assert "Ask" not in shown
    assert (
        "\n  Commands for 2 more: in the script below.\n  Commands for 1 more: -v.\n"
        "  Advice for 3 more: -v.\n  No remedy for 1 of them.\n" in shown
    )


def test_script_is_not_suggested_for_destructive_remedies() -> None:
    """The script has no destructive remedy, even if it has the remedy of another finding."""
    other = ("CAP006", 1, finding(remedies=(remounting(9),)))
    shown = grouped(3, other, runnable=False)
    assert "\n  Commands for 1 more: -v.\n" in shown
    assert "\nAs a script: ext4audit fix" in shown


def test_host_remedy_is_shown_once() -> None:
    """A sysctl is the same for all filesystems, and also for another rule."""
    steps = (Step(Phase.IMMEDIATE, "sysctl -w vm.x=1"),)
    remedy = Remedy("Bound it.", Disruption.ONLINE, steps)
    each = [("DUR005", n, finding(remedies=(remedy,))) for n in range(1, 10)]
    again = ("PRF003", 1, finding(remedies=(remedy._replace(summary="Less."),)))
    shown = as_text(found(9, *each, again))
    assert shown.count("sysctl -w vm.x=1") == 1
    assert "Less.\n  The commands are those of DUR005 above.\n" in shown


def test_shared_file_is_shown_once() -> None:
    """A udev rule for twelve volumes is one file, beside a command for each volume."""
    change = NewFile("/etc/udev/rules.d/60-x.rules", "the rule\n")
    shared = Step(Phase.PERSISTENT, "printf x > /etc/udev/rules.d/60-x.rules", change=change)
    each = [
        finding(
            remedies=(
                Remedy(
                    "Wait.",
                    Disruption.ONLINE,
                    (Step(Phase.IMMEDIATE, f"echo {n} > /sys/timeout"), shared),
                ),
            )
        )
        for n in (1, 2)
    ]
    shown = as_text(found(2, ("DUR005", 1, each[0]), ("DUR005", 2, each[1])))
    assert re.findall(r"echo (\d)", shown) == ["1", "2"]
    assert shown.count("the rule") == 1


def test_script_is_suggested_once() -> None:
    """The hint is below the only finding or below all; there is none if no remedy can be run."""
    judged = report(host(root()), edits)
    line = "As a script: ext4audit fix --disruption remount /"
    assert f"\n  {line}\n" in as_text(judged)
    assert f"\n{line}\n" in as_text(judged, verbosity=1)
    assert "ext4audit fix" not in as_text(judged, verbosity=-1)
    assert "ext4audit fix" not in as_text(report(host(root()), inodes))
    two = [(code, 1, finding(remedies=(remounting(1),))) for code in ("DUR005", "CAP006")]
    shown = as_text(found(1, *two))
    line = "As a script: ext4audit fix --disruption remount /mnt/d1"
    assert f"\n\n{line}\n\n" in shown


def test_filesystem_without_verdicts_is_named() -> None:
    """A report without findings would look like a pass."""
    made = found(1)
    none = Verdict(RULES["DUR005"], made.host.filesystems[0].id, Outcome.NOT_APPLICABLE, note="x")
    shown = as_text(made._replace(verdicts=(none,)))
    assert rows(shown) == ["No rule applies to /dev/sd1 (-v shows why)."]


def test_fixed_findings_of_a_rule_are_one_line() -> None:
    """A repair of forty disks does not push the result off the screen; -v lists all."""
    gone = [FixedFinding("DUR005", f"/dev/sd{n} on /mnt/d{n}", "", f"{n} was odd.") for n in (1, 2)]
    alone = FixedFinding("PRF003", "/dev/sd1 on /mnt/d1", "", "It was slow.")
    made = found(2)._replace(fixed=(*gone, alone))
    assert as_text(made).splitlines()[1:3] == [
        "fixed: DUR005 on /dev/sd1 on /mnt/d1, /dev/sd2 on /mnt/d2",
        "fixed: PRF003 on /dev/sd1 on /mnt/d1: It was slow.",
    ]
    assert as_text(made, verbosity=1).count("fixed: DUR005 on ") == 2


FINDINGS = st.tuples(
    st.sampled_from(list(RULES)),
    st.integers(1, 12),
    st.builds(
        finding,
        st.sampled_from(Severity),
        summary=st.sampled_from(["", "one", "two"]),
        known=st.booleans(),
    ),
)


def missing_names(made: Report, shown: str) -> list[str]:
    """Return the counted findings whose rule or subject is in no entry of the report."""
    lost = []
    for verdict in made.verdicts:
        (fs,) = (each for each in made.host.filesystems if each.id == verdict.filesystem_id)
        for each in (each for each in verdict.findings if each.counts):
            start = rf"^{each.severity.value.upper()} +{verdict.rule.code} .*"
            own = re.escape(fs.mount_points[0])
            if not re.search(rf"{start}(?:{own}\b|\d+ of 12 filesystems \()", shown, re.MULTILINE):
                lost.append(f"{verdict.rule.code} on {fs.mount_points[0]}")
    return lost


@examples(60)
@given(st.lists(FINDINGS, max_size=40), st.sampled_from([None, 60, 100]))
def test_grouping_keeps_every_rule_and_subject(
    findings: list[tuple[str, int, Finding]], width: int | None
) -> None:
    """Every counted finding has its rule and subject in the report, or the number of its group."""
    made = found(12, *findings)
    assert missing_names(made, as_text(made)) == []
    unwrapped = re.sub(r"\n +", " ", as_text(made, width=width))
    assert all(code in unwrapped for code, _, each in findings if each.counts)


@examples(60)
@given(st.sets(st.integers(1, 12), min_size=1))
def test_group_counts_filesystems(numbers: set[int]) -> None:
    """Several findings of a rule on one filesystem count as one."""
    ordered = sorted(numbers)
    twice = [("DUR005", n, finding(LOW, fact=fact)) for n in ordered for fact in "ab"]
    (row,) = rows(as_text(found(12, *twice)))
    many = f"{len(ordered)} of 12 filesystems (/mnt/d{ordered[0]} … /mnt/d{ordered[-1]})"
    few = ", ".join(f"/mnt/d{n}" for n in ordered)
    assert f"  {many if len(ordered) > 3 else few}  Odd." in row


@pytest.mark.parametrize(
    ("asked", "measured", "whole"),
    [((), False, False), (("DUR005",), False, True), (("CAP006",), False, False), ((), True, True)],
)
def test_selected_and_measured_findings_are_complete(
    asked: tuple[str, ...], *, measured: bool, whole: bool
) -> None:
    """This holds below the threshold: whoever selects a rule wants its evidence, not one line."""
    one = finding(LOW)._replace(measured=measured)
    shown = as_text(found(1, ("DUR005", 1, one)), asked=frozenset(asked))
    assert ("DUR005 name-of-dur005 · /mnt/d1" in shown) is whole
