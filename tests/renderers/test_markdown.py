from __future__ import annotations

import pytest
from hypothesis import given

from ext4audit.engine import audit
from ext4audit.facts.host import Host
from ext4audit.renderers import Audited, visible
from ext4audit.renderers.markdown import render
from ext4audit.renderers.markdown.syntax import code, code_block, prose, table
from ext4audit.renderers.shared.commands import phases
from ext4audit.report import Report, ReportSource
from ext4audit.rules import all_rules
from support.builders import host, mount
from support.examples import examples
from support.formats.github_markdown import RenderedPage
from support.formats.sample_reports import (
    CLEAN_HOST,
    CRITICAL,
    FLEET,
    HOSTILE_NAMES,
    INCOMPLETE,
    LIVE,
    NOTICE,
    PAGE,
    PROCESSED_REPORT,
    QUOTED,
    UNREADABLE_HOST,
    edits,
    hostile_report,
    repeated_report,
    report,
    root,
    unread_report,
)
from support.hosts.fixture_hosts import report_of, some_fixture_hosts
from support.hosts.strategies import HOSTS

ALLOWED_TAGS = {"h1", "h2", "h3", "p", "strong", "code", "pre", "span", "ul", "li"} | {
    *("table", "thead", "tbody", "tr", "th", "td")
}
MARKUP = {
    "bar": "/mnt/a|b",
    "bar behind a backslash": "/mnt/a\\|b",
    "backslash at the end": "/mnt/a\\",
    "backticks": "/mnt/``` `a`",
    "only a backtick": "`",
    "script": "<script>alert(1)</script>",
    "image": "<img src=x onerror=alert(1)>",
    "comment": "<!-- a -->",
    "comment's end": "--><b>",
    "link": "[click](https://example.com)",
    "picture": "![x](//example.com/x.png)",
    "autolink": "<https://example.com>",
    "bare link": "https://example.com/a?b=c",
    "www": "www.example.com",
    "WWW": "WWW.example.com",
    "mail": "root@example.com",
    "mention": "@octocat",
    "team": "/mnt/(@github/security)",
    "reference": "#1",
    "reference in a repository": "a/b#12",
    "old reference": "GH-1",
    "emoji": ":smile:",
    "formula": "$a$ $$b$$",
    "emphasis": "*a* **b** _c_ __d__ ~~e~~",
    "list": "- a",
    "number": "1. a",
    "heading": "# a",
    "heading's end": "a ##",
    "quote": "> a",
    "rule": "---",
    "underline": "===",
    "entity": "&lt;b&gt; &#64;octocat",
    "footnote": "[^1]",
    "task": "[ ] a",
    "spaces": "  a  ",
    "fence": "~~~",
    "fence of backticks": "````",
    "table": "| a | b |",
    "definition": "[a]: /b",
}
NAMES = {**HOSTILE_NAMES, **MARKUP}


def markdown_of(host_: Audited) -> str:
    """Render one host."""
    return render((host_,), PAGE)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_hostile_names_are_text(name: str) -> None:
    """GitHub's parser sees only text: no link, element, mention or extra cell."""
    shown = RenderedPage(render((Audited(name, hostile_report(name)), UNREADABLE_HOST), PAGE))
    assert shown.tags <= ALLOWED_TAGS
    assert f"The mount point {visible(name)} is odd." in shown.everything
    assert f"umount -- {visible(name)}\n" in "".join(shown.blocks)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("write", [prose, code], ids=["prose", "code"])
def test_cell_is_read_back_unchanged(write: object, name: str) -> None:
    """A cell is read back unchanged, except for blanks at its ends."""
    assert callable(write)
    shown = RenderedPage(table(("a", "b"), [(write(name), "next")]))
    assert shown.rows == [["a", "b"], [shown.rows[1][0], "next"]]
    assert shown.rows[1][0].strip() == visible(name).strip()


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_code_block_has_the_exact_commands(name: str) -> None:
    """A fence is longer than any run of backticks inside it."""
    shown = RenderedPage(code_block([name, "next"], "sh") + "\n\nafter")
    assert "".join(shown.blocks) == f"{visible(name)}\nnext\n"
    assert "after" in shown.texts


def test_findings_are_sorted_with_their_remedies() -> None:
    """The table is first, followed by a section for each finding; each phase has its own block."""
    shown = RenderedPage(markdown_of(CRITICAL))
    assert shown.headings[0] == "Host db1"
    assert [heading.partition(" ")[0] for heading in shown.headings[1:]] == ["CRITICAL", "MEDIUM"]
    assert [row[:2] for row in shown.rows[1:3]] == [
        ["CRITICAL", "DUR001 barrier-disabled"],
        ["MEDIUM", "LAY001 striped-metadata-hotspot"],
    ]
    assert shown.blocks[:4] == [
        f'mount -o remount,barrier "{QUOTED}"\n',
        "tune2fs -o ^nobarrier /dev/md127\n",
        "grep -x barrier /proc/fs/ext4/md127/options\n",
        f'tune2fs -o nobarrier /dev/md127 &&\nmount -o remount,nobarrier "{QUOTED}"\n',
    ]
    assert "Audit complete; 3 filesystems; 1 critical, 1 medium." in shown.texts


def test_file_change_is_a_diff_above_the_commands() -> None:
    """GitHub colours the lines of a fence marked as diff."""
    text = markdown_of(Audited("x", report(host(root()), edits)))
    assert "For good:\n\n```diff\n--- /etc/fstab, line 7\n- /dev/sda" in text
    assert [block.split("\n") for block in RenderedPage(text).blocks[1:3]] == [
        [
            "--- /etc/fstab, line 7",
            "- /dev/sda        /data   ext4    defaults,nodelalloc 0 2",
            "+ /dev/sda        /data   ext4    defaults 0 2",
            "+++ /etc/new, new file",
            *("+ a = 1", "+ ", "+ b = 2"),
            "",
        ],
        [
            "sed -i '7s/,nodelalloc//' /etc/fstab &&",
            r"printf 'a = 1\n\nb = 2\n' > /etc/new",
            "",
        ],
    ]


def test_finding_on_many_filesystems_is_one_section() -> None:
    """The section lists all filesystems and messages, and the commands of one as an example."""
    shown = RenderedPage(markdown_of(Audited("x", repeated_report(40))))
    assert shown.headings[1:] == ["MEDIUM CAP002 slow-disk: 40 of 40 filesystems"]
    (line,) = [row for row in shown.rows if row[0] == "MEDIUM"]
    assert line[2].split(", ") == [f"/dev/d{n} on /srv/{n}" for n in range(40)]
    assert line[3] == "the disk is slow"
    assert ["/dev/d39 on /srv/39", "The disk /dev/d39 is slow."] in shown.rows
    assert shown.blocks == ["mount -o remount,barrier /dev/d0\n"]
    assert "Commands for 39 more: -v, or as a script ext4audit fix." in shown.everything


def test_verbose_has_a_section_for_each_finding() -> None:
    """The commands of each finding are there to copy."""
    whole = PAGE._replace(verbosity=1)
    few, each = (
        markdown_of(Audited("x", repeated_report(2))),
        render([Audited("x", repeated_report(3))], whole),
    )
    assert RenderedPage(few).blocks == [f"mount -o remount,barrier /dev/d{n}\n" for n in range(2)]
    assert RenderedPage(each).blocks == [f"mount -o remount,barrier /dev/d{n}\n" for n in range(3)]
    assert "an example" not in few + each


def test_many_equal_filesystems_fit_in_a_comment() -> None:
    """GitHub refuses comments beyond 65,536 characters; 8 KB are enough here."""
    assert len(markdown_of(Audited("x", repeated_report(40, edits)))) < 8192


def test_hundreds_of_volumes_fit_in_a_comment() -> None:
    """A cell names the first of them and counts the others; -v has a row for each."""
    node = repeated_report(300, edits)
    volumes = tuple(
        fs._replace(mounts=(mount(f"/var/lib/kubelet/pods/{number:036}/volumes/{number:080}"),))
        for number, fs in enumerate(node.host.filesystems)
    )
    node = node._replace(host=node.host._replace(filesystems=volumes))
    text = markdown_of(Audited("x", node))
    cells = [row[2] for row in RenderedPage(text).rows if row[0] == "MEDIUM"]
    assert [cell.partition(" and ")[2] for cell in cells] == ["250 more"] * 2
    assert len(text) < 32768
    whole = render([Audited("x", node)], PAGE._replace(verbosity=1))
    assert all(fs.mount_points[0] in whole for fs in volumes)


def test_cell_of_hundreds_of_hosts_names_the_first() -> None:
    """The table of hosts has all of them."""
    many = [Audited("x", repeated_report(1, edits), key=f"h{n}") for n in range(300)]
    shown = RenderedPage(render(many, PAGE))
    cells = [row[2] for row in shown.rows if row[0] == "MEDIUM"]
    assert [cell.partition(" and ")[2] for cell in cells] == ["250 more"] * 2
    assert [row[0] for row in shown.rows if row[0] == "h299"] == ["h299"]


def test_rules_with_the_same_gap_share_a_line() -> None:
    """A scan without privileges lacks the same evidence in many rules, on many filesystems."""
    found = unread_report(3)
    lines = [
        row for row in RenderedPage(markdown_of(Audited("x", found))).rows if row[0] == "CAP001"
    ]
    assert [row[1] for row in lines] == ["/dev/d0 on /srv/0, /dev/d1 on /srv/1, /dev/d2 on /srv/2"]
    assert lines[0][2] == "superblock of ... (permission denied)"
    whole = RenderedPage(render([Audited("x", found)], PAGE._replace(verbosity=1)))
    assert [row[1] for row in whole.rows[1:]] == lines[0][1].split(", ")
    assert "superblock of /dev/d2 (permission denied)" in whole.everything


def test_clean_host_has_no_table() -> None:
    """One line states that nothing was found and that the audit is complete."""
    assert markdown_of(CLEAN_HOST) == "## Host web1\n\nAudit complete; 1 filesystem; no findings.\n"


def test_incomplete_host() -> None:
    """The first line has INCOMPLETE; a table lists what is missing and how to determine it."""
    shown = RenderedPage(markdown_of(INCOMPLETE))
    assert "Audit INCOMPLETE" in shown.everything
    assert [
        "evidence of the host",
        "the host",
        "the mount table of PID 1 (timed out: after 10 s)",
        "",
    ] in (shown.rows)
    wanted = ["CAP001", "/dev/sda on /data", "something (permission denied)", "run as root"]
    assert wanted in shown.rows


def test_suppressed_known_and_fixed_findings_are_separate() -> None:
    """They are listed separately, as are fixed findings and notices about the policy file."""
    shown = RenderedPage(markdown_of(PROCESSED_REPORT))
    assert [row[1][:6] for row in shown.rows[1:3]] == ["KRN003", "PRF002"]
    because = {row[1][:6]: row[4] for row in shown.rows if len(row) == 5}
    assert because["DUR001"] == "suppressed: replaced in May, storage team, until 2026-05-31"
    assert because["LAY001"] == "in the baseline"
    assert ["CAP001", "/dev/sdz on /old", "Only 1 inode is left."] in shown.rows
    assert f"policy: {NOTICE}." in shown.everything


def test_fleet_begins_with_a_table_of_hosts_and_rules() -> None:
    """A cell is the worst severity, or "?" for an unread host; every host has a row."""
    shown = RenderedPage(render(FLEET, PAGE))
    assert shown.headings[0] == "ext4audit: 5 hosts"
    assert shown.rows[:6] == [
        ["Host", "Audit", "DUR001", "KRN003", "LAY001", "PRF002"],
        ["db1", "complete", "critical", "", "medium", ""],
        ["web1", "complete", "", "", "", ""],
        ["m", "INCOMPLETE", "", "", "", ""],
        ["bad.tar.gz", "could not be read", "?", "?", "?", "?"],
        ["db9", "complete", "", "low", "", "info"],
    ]
    assert "fleet/bad.tar.gz: not a snapshot" in shown.everything


def test_finding_on_many_hosts_is_one_section() -> None:
    """Printed once per host, a defect of 50 hosts took 100 KB, too much for a comment."""
    many = [Audited("x", repeated_report(1 + n // 49, edits), key=f"h{n}") for n in range(50)]
    shown = RenderedPage(text := render(many, PAGE))
    assert shown.headings[2:] == [
        "MEDIUM CAP002 slow-disk: 50 of 50 hosts",
        "MEDIUM PRF003 nodelalloc-without-profile: 50 of 50 hosts",
    ]
    where = [*(f"h{n} /dev/d0 on /srv/0" for n in range(49)), "h49 (2 places)"]
    assert shown.rows[52][2].split(", ") == where
    assert "1 more: -v" in shown.everything
    assert len(text) < 16384
    pairs = [Audited("x", repeated_report(2, edits), key=f"h{n}") for n in range(25)]
    fifty = RenderedPage(render(pairs, PAGE))
    assert "\n0 more: -v" not in fifty.everything
    whole = RenderedPage(render(many, PAGE._replace(verbosity=1)))
    assert [each for each in whole.headings if each.startswith("Host h")] == [
        f"Host h{n}" for n in range(50)
    ]


def test_gaps_of_many_hosts_name_them() -> None:
    """Each gap lists the hosts and filesystems that it affects."""
    many = [Audited("x", unread_report(1), key=f"h{n}") for n in range(3)]
    lacks = "superblock of /dev/d0 (permission denied)"
    where = ", ".join(f"h{n} /dev/d0 on /srv/0" for n in range(3))
    assert RenderedPage(render(many, PAGE)).rows[-1] == ["CAP001", where, lacks, "run as root"]


def test_undetermined_rule_is_a_question_mark() -> None:
    """An empty cell would mean that nothing was found."""
    assert INCOMPLETE.report is not None
    found = hostile_report("/x")
    shown = RenderedPage(render((Audited("a", found), Audited("b", hostile_report("/y"))), PAGE))
    assert shown.rows[1][:4] == ["/x", "INCOMPLETE", "high", "low"]
    incomplete = found._replace(verdicts=tuple(v._replace(findings=()) for v in found.verdicts))
    shown = RenderedPage(
        render((Audited("a", incomplete), Audited("b", hostile_report("/y"))), PAGE)
    )
    assert shown.rows[1][:3] == ["/x", "INCOMPLETE", "?"]


def test_quiet_omits_the_sections() -> None:
    """The tables of findings and gaps remain."""
    quiet = RenderedPage(render((CRITICAL,), PAGE._replace(verbosity=-1)))
    assert quiet.headings == ["Host db1"]
    assert not quiet.blocks
    assert len(quiet.rows) == 3
    assert len(RenderedPage(render((INCOMPLETE,), PAGE._replace(verbosity=-1))).rows) == 6


@examples(25)
@given(judged=HOSTS)
def test_any_host_is_read_back(judged: Host) -> None:
    """Every table row has as many cells as its header, and every command is in a separate block."""
    assert_shown(audit(LIVE, judged, all_rules()))


@some_fixture_hosts(__name__)
def test_every_fixture_host_is_read_back(fixture: str) -> None:
    """Fixture hosts combine facts in ways that the strategy does not generate."""
    assert_shown(report_of(fixture))


def assert_shown(found: Report) -> None:
    """Assert that GitHub shows every finding, and with -v every command."""
    shown = RenderedPage(markdown_of(Audited("x", found)))
    whole = RenderedPage(render([Audited("x", found)], PAGE._replace(verbosity=1)))
    assert shown.tags | whole.tags <= ALLOWED_TAGS
    lines = "".join(whole.blocks).split("\n")
    assert set("".join(shown.blocks).split("\n")) <= set(lines)
    for finding in found.findings:
        assert visible(finding.message).strip() in shown.everything
        assert visible(finding.message).strip() in whole.everything
        for remedy in finding.remedies:
            expected = [line for part in phases(remedy) for line in part.commands]
            assert all(visible(line) in lines for line in expected)


def test_plan_is_not_called_a_host() -> None:
    """Readers must not look for a filesystem that does not exist yet."""
    assert CLEAN_HOST.report
    report = CLEAN_HOST.report._replace(source=ReportSource("plan", "/dev/md0 on /data"))
    lines = render([Audited("plan", report)], PAGE).splitlines()
    assert lines[:3] == [
        "## Plan /dev/md0 on /data",
        "",
        "It does not exist yet; it is audited as planned.",
    ]
