from __future__ import annotations

from support.builders import host, unknown
from support.formats.sample_reports import (
    QUOTED,
    barriers,
    boot,
    buggy,
    edits,
    hotspot,
    inodes,
    md127,
    murky_report,
    night_report,
    renames,
    report,
    root,
)
from support.html_page import fold, only, read, suppressed, with_class, words


def test_a_finding_shows_consequence_evidence_and_commands() -> None:
    """The worst subject stands first, with its commands byte for byte, phase by phase."""
    page = read(night_report())
    first = with_class(page, "subject")[0]
    assert words(first[0]) == r"CRITICAL /dev/md127 on /mnt/a\x1b[b, /srv"
    found = with_class(first, "finding")
    assert [words(each[0]) for each in found] == [
        (
            "CRITICAL DUR001 barrier-disabled (confirmed) Write barriers are off above disks with "
            "a volatile write cache: a power cut can corrupt the filesystem."
        ),
        "MEDIUM LAY001 striped-metadata-hotspot (likely) All bitmaps lie on 1 of 2 disks.",
    ]
    assert all(each.get("open") is not None for each in found)
    commands = [each[0].text for each in with_class(found[0], "command")]
    assert commands == [
        f'mount -o remount,barrier "{QUOTED}"',
        "tune2fs -o ^nobarrier /dev/md127",
        "grep -x barrier /proc/fs/ext4/md127/options",
        f'tune2fs -o nobarrier /dev/md127 &&\nmount -o remount,nobarrier "{QUOTED}"',
    ]
    rows = [words(each) for each in only(list(found[0].iter("tbody")))]
    assert rows[0] == "option in forcenobarrier/proc/fs/ext4/md127/options"
    assert "Trade-off: Each fsync() waits for a cache flush." in words(found[0])
    assert "Or needs an unmount Use drives with power-loss protection." in words(found[0])


def test_a_change_of_a_file_is_a_diff_above_the_commands() -> None:
    """What is removed and what is added have tags of their own, on lines of their own."""
    remedy = only(with_class(read(report(host(root()), edits)), "remedy"))
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


def test_a_remedy_that_destroys_says_so_aloud() -> None:
    """What destroys data is in capitals on the colour of the worst severity."""
    remedies = with_class(read(report(host(md127()), hotspot)), "remedy")
    assert words(only(with_class(only(remedies), "critical"))) == (
        "DESTROYS AND RECREATES THE FILESYSTEM"
    )


def test_what_only_informs_is_folded() -> None:
    """A note shows its title and its sentence; the rest is a click away."""
    page = read(report(host(boot("renames")), renames))
    note = only(with_class(page, "finding"))
    assert note.get("open") is None
    assert words(note[0]).startswith("INFO PRF002 auto-da-alloc-stall (possible)")


def test_passes_and_what_does_not_apply_are_folded() -> None:
    """A pass has its evidence, a rule that does not apply its reason."""
    page = read(report(host(root()), barriers, hotspot))
    passed, spared = fold(page, "1 rule passed"), fold(page, "1 rule not applicable")
    assert "DUR001barrier-disabledbarrier: barrier (/proc/fs/ext4/sda/options)" in words(passed)
    assert "LAY001striped-metadata-hotspotno stripe lies below" in words(spared)
    assert {passed.get("open"), spared.get("open")} == {None}


def test_a_blind_spot_is_told_and_is_no_pass() -> None:
    """The table has what is unknown, why, how to determine it, and the rules that need it."""
    page = read(murky_report())
    assert not with_class(page, "fine")
    first = with_class(page, "subject")[0]
    assert words(first[0]) == "INCOMPLETE /dev/sda on /data"
    assert "No findings, but 2 rules could not be judged." in words(first)
    assert "somethingpermission deniedrun as rootCAP001" in words(first)
    broken = fold(first, "HLT009 rule-with-a-bug stopped with an error: KeyError")
    assert "This is a bug in ext4audit." in words(broken)
    assert "the mount table of PID 1timed out: after 10 s" in words(page)


def test_what_is_suppressed_is_folded_with_its_reason() -> None:
    """A suppressed finding stays in the page, and counts nowhere."""
    page = read(suppressed(night_report(), "LAY001"))
    aside = fold(page, "1 finding set aside")
    assert aside.get("open") is None
    assert "printed" in aside.get("class", "")
    assert (
        "Suppressed: Replaced in spring (answered for by dba@example), until 2027-03-31"
    ) in words(aside)
    assert "All bitmaps lie on 1 of 2 disks." in words(aside)
    assert words(with_class(page, "chips")[0]) == "1 critical 1 suppressed"


def test_nothing_but_what_is_set_aside_is_no_pass() -> None:
    """A subject whose one finding is suppressed is neither judged fine nor left unjudged."""
    page = read(suppressed(report(host(md127()), hotspot), "LAY001"))
    assert words(with_class(page, "subject")[0][0]).startswith("SET ASIDE")
    assert "SET ASIDE All that was found is set aside, see below." in words(page)


def test_a_broken_rule_alone_is_a_blind_spot() -> None:
    """A rule that raised is shown without an unknown; there is no empty table."""
    page = read(report(host(root()), buggy))
    assert fold(page, "HLT009 rule-with-a-bug stopped with an error: KeyError") is not None
    assert "To know it" not in words(page)
    assert words(with_class(page, "subject")[0][0]).startswith("INCOMPLETE")


def test_every_gap_of_a_rule_is_told() -> None:
    """A rule that needs two things that are not known names both, once each."""
    two = (unknown("the journal"), unknown("the superblock"))
    verdicts = [verdict._replace(unknowns=two) for verdict in murky_report().verdicts]
    shown = words(read(murky_report()._replace(verdicts=tuple(verdicts))))
    assert shown.count("the journalpermission denied") == shown.count("the superblockp") == 2


def test_inodes_pass_with_their_evidence() -> None:
    """A subject with nothing but passes is fine, and a sentence states it."""
    page = read(report(host(root()), inodes))
    assert "NO FINDINGS All the rules that apply have passed." in words(page)
