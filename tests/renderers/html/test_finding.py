from __future__ import annotations

from collections.abc import Callable
from string import ascii_lowercase
from typing import TypeAlias

import pytest

from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import (
    Citation,
    Confidence,
    Disruption,
    Finding,
    Phase,
    Remedy,
    Severity,
    Step,
)
from ext4audit.renderers import Page
from ext4audit.report import Report
from ext4audit.rule import Rule, RuleOutput, host_rule, rule
from support.browser.html_page import details_element, only, rendered, text_of, with_class
from support.builders import filesystem, host, mount
from support.formats.sample_reports import (
    QUOTED,
    boot,
    critical_report,
    edits,
    hotspot,
    md127,
    renames,
    report,
    root,
)


def test_finding_has_consequence_evidence_and_commands() -> None:
    """The worst finding is first, with its commands byte for byte, phase by phase."""
    found = with_class(rendered(critical_report()), "finding")
    assert [text_of(each[0]) for each in found[:2]] == [
        (
            r"CRITICAL DUR001 barrier-disabled /dev/md127 on /mnt/a\x1b[b Write barriers are off "
            "above disks with a volatile write cache: a power cut can corrupt the filesystem."
        ),
        (
            r"MEDIUM LAY001 striped-metadata-hotspot (likely) /dev/md127 on /mnt/a\x1b[b All "
            "bitmaps lie on 1 of 2 disks."
        ),
    ]
    found = found[:2]
    assert all(each.get("open") is not None for each in found)
    commands = [each[0].text for each in with_class(found[0], "command")]
    assert commands == [
        f'mount -o remount,barrier "{QUOTED}"',
        "tune2fs -o ^nobarrier /dev/md127",
        "grep -x barrier /proc/fs/ext4/md127/options",
        f'tune2fs -o nobarrier /dev/md127 &&\nmount -o remount,nobarrier "{QUOTED}"',
    ]
    rows = [text_of(each) for each in only(list(found[0].iter("tbody")))]
    assert rows[0] == "option in forcenobarrier/proc/fs/ext4/md127/options"
    assert "Trade-off: Each fsync() waits for a cache flush." in text_of(found[0])
    assert "Or needs an unmount Use drives with power-loss protection." in text_of(found[0])


def test_file_change_is_a_diff_above_the_commands() -> None:
    """Removed and added lines have their own elements, each on a separate line."""
    remedy = only(with_class(rendered(report(host(root()), edits)), "remedy"))
    diff = only(with_class(remedy, "diff"))
    assert [each.text for each in diff.iter("del")] == [
        "- /dev/sda        /data   ext4    defaults,nodelalloc 0 2"
    ]
    assert [each.text for each in diff.iter("ins")] == [
        "+ /dev/sda        /data   ext4    defaults 0 2",
        *("+ a = 1", "+ ", "+ b = 2"),
    ]
    assert "".join(diff.itertext()).split("\n")[0] == "--- /etc/fstab, line 7"
    assert len("".join(diff.itertext()).split("\n")) == 7
    last = with_class(remedy, "command")[-1]
    assert "".join(last.itertext()) == "umount /data &&\n{ mount /data || mount -a; }"


def test_destructive_remedy_is_labelled() -> None:
    """A destructive remedy is labelled in capitals, in the colour of the worst severity."""
    remedies = with_class(rendered(report(host(md127()), hotspot)), "remedy")
    assert text_of(only(with_class(only(remedies), "critical"))) == (
        "DESTROYS AND RECREATES THE FILESYSTEM"
    )


def test_info_finding_is_folded() -> None:
    """A note shows its title and its message; the rest is folded."""
    page = rendered(report(host(boot("renames")), renames))
    note = only(with_class(page, "finding"))
    assert note.get("open") is None
    assert text_of(note[0]).startswith("INFO PRF002 auto-da-alloc-stall (possible)")


Remedies: TypeAlias = Callable[[Filesystem], tuple[Remedy, ...]]
PAGE_OF_RULE = """## What it checks

Whether `noatime` is set.

## When to ignore

Never.
"""


def slow_rule(remedies: Remedies, *, summary: str) -> Rule:
    """Return a rule that finds every filesystem slow, each with a different message."""

    @rule("PRF009", "slow", severity=Severity.MEDIUM, since="0.1")
    def check(fs: Filesystem, _host: Host) -> RuleOutput:
        """Find it slow."""
        yield Finding(
            f"{fs.device} is slow.",
            Severity.MEDIUM,
            Confidence.CONFIRMED,
            (
                Citation("limit", "20 %", "/proc/sys/vm/dirty_ratio"),
                Citation("device", fs.device, "/proc/self/mountinfo"),
                Citation("ratio", "1.00", "computed", detail=True),
            ),
            remedies(fs),
            summary=summary,
        )

    return check._replace(docstring=PAGE_OF_RULE)


SYSCTL = Remedy("Lower it.", Disruption.ONLINE, (Step(Phase.IMMEDIATE, "sysctl -w vm.a=1"),))


def device_remedy(fs: Filesystem) -> Remedy:
    """Return a remedy whose command names the device."""
    return Remedy("Tune.", Disruption.ONLINE, (Step(Phase.IMMEDIATE, f"tune2fs {fs.device}"),))


def disk(index: int) -> Filesystem:
    """Return a filesystem on a separate disk."""
    number = DeviceNumber(8, 16 * index)
    name = f"sd{ascii_lowercase[index]}"
    at = mount(f"/mnt/d{index}", number=number)
    device = f"/dev/{name}"
    return filesystem(name=name, device=device, number=number, mounts=(at,), uuid=name)


def slow_disks(number: int, remedies: Remedies, *, summary: str = "slow") -> Report:
    """Return a report of `number` filesystems that are slow for the same reason."""
    return report(host(*map(disk, range(number))), slow_rule(remedies, summary=summary))


def test_one_cause_on_several_filesystems_is_one_entry_with_all_names() -> None:
    """The entry names all filesystems; shared parts are printed once, others per filesystem."""
    found = only(
        with_class(rendered(slow_disks(3, lambda fs: (SYSCTL, device_remedy(fs)))), "finding")
    )
    assert text_of(found[0]) == (
        "MEDIUM PRF009 slow /dev/sda on /mnt/d0, /dev/sdb on /mnt/d1, /dev/sdc on /mnt/d2 slow"
    )
    commands = [text_of(each) for each in with_class(found, "command")]
    assert commands == [
        "sysctl -w vm.a=1",
        *(f"tune2fs /dev/sd{letter}" for letter in "abc"),
    ]
    assert text_of(with_class(found, "remedy")[0]).startswith("Remedy for all online Lower it.")
    members = only(with_class(found, "members"))
    assert [text_of(each[0][0]) for each in members] == [
        f"/dev/sd{letter} on /mnt/d{n}: /dev/sd{letter} is slow." for n, letter in enumerate("abc")
    ]
    assert "dirty_ratio" not in text_of(members)
    assert text_of(found).count("dirty_ratio") == 1


def test_host_findings_are_named_by_their_subject() -> None:
    """Findings about two lines of fstab name their mount points; "the host" would hide them."""

    @host_rule("CMP003", "fstab-unstable-device", severity=Severity.HIGH, since="0.2")
    def names(_host: Host) -> RuleOutput:
        for point in ("/a", "/b"):
            message = f"{point} has a name that changes."
            yield Finding(
                message, Severity.HIGH, Confidence.LIKELY, (), fact=point, summary="it changes"
            )

    found = only(with_class(rendered(report(host(), names)), "finding"))
    assert text_of(found[0]) == "HIGH CMP003 fstab-unstable-device (likely) /a, /b it changes"
    members = only(with_class(found, "members"))
    assert [text_of(each) for each in members] == [
        f"{point}: {point} has a name that changes." for point in ("/a", "/b")
    ]


def test_different_causes_are_separate_entries() -> None:
    """Without a summary, findings are grouped by their message."""
    page = rendered(slow_disks(3, lambda fs: (device_remedy(fs),), summary=""))
    assert len(with_class(page, "finding")) == 3


def test_commands_of_a_host_remedy_occur_once() -> None:
    """A second entry links to the commands of the first."""
    page = rendered(slow_disks(3, lambda _: (SYSCTL,), summary=""))
    assert [text_of(each) for each in with_class(page, "command")] == ["sysctl -w vm.a=1"]
    second = with_class(page, "finding")[1]
    assert "The commands are those of PRF009, /dev/sda on /mnt/d0." in text_of(second)


def test_title_counts_many_filesystems() -> None:
    """The title names three filesystems, the list all of them."""
    page = rendered(slow_disks(5, lambda _: ()))
    found = only(with_class(page, "finding"))
    assert "/dev/sdc on /mnt/d2 and 2 more" in text_of(found[0])
    assert len(only(with_class(found, "members"))) == 5


@pytest.mark.parametrize(
    ("threshold", "opened"),
    [(Severity.HIGH, False), (Severity.MEDIUM, True), (Severity.INFO, True), (None, True)],
)
def test_findings_below_the_threshold_are_one_line(
    threshold: Severity | None, *, opened: bool
) -> None:
    """The entry expands to the rest; if nothing fails the audit, the default threshold applies."""
    page = rendered(slow_disks(3, lambda _: (SYSCTL,)), page=Page("1", "t", threshold=threshold))
    found = only(with_class(page, "finding"))
    assert (found.get("open") is not None) is opened
    assert bool(with_class(found, "short")) is not opened


def test_detail_evidence_is_folded() -> None:
    """The details are in the entry, below the other evidence."""
    page = rendered(slow_disks(3, lambda _: ()))
    assert "ratio1.00computed" in text_of(details_element(page, "1 more line of evidence"))


def test_rule_page_is_included_and_folded() -> None:
    """The headings and paragraphs are those of the docstring, and code is marked up as code."""
    why = details_element(rendered(slow_disks(3, lambda _: ())), "Why it matters")
    assert why.get("open") is None
    assert [text_of(each) for each in why.iter("dt")] == ["What it checks", "When to ignore"]
    assert [text_of(each) for each in why.iter("dd")] == ["Whether noatime is set.", "Never."]
    assert [each.text for each in why.iter("code")] == ["noatime"]


def test_rule_page_occurs_once() -> None:
    """Only the first entry of a rule has the rule's page."""
    found = with_class(rendered(slow_disks(3, lambda _: (), summary="")), "finding")
    assert [len(with_class(each, "why")) for each in found] == [1, 0, 0]


def test_findings_on_one_filesystem_are_listed_by_message() -> None:
    """If there is one subject, the title names it and the lines do not."""
    of = slow_disks(1, lambda _: ())
    (verdict,) = of.verdicts
    first = verdict.findings[0]
    both = (first, first._replace(message="It is very slow.", fact="again"))
    page = rendered(of._replace(verdicts=(verdict._replace(findings=both),)))
    members = only(with_class(page, "members"))
    assert [text_of(each) for each in members] == ["/dev/sda is slow.", "It is very slow."]
