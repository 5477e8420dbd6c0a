from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

import pytest
from hypothesis import given, settings

from ext4audit.engine import audit
from ext4audit.finding import Severity, Suppression
from ext4audit.renderers.html_style import DARK, LIGHT
from ext4audit.renderers.shared.escape import visible
from ext4audit.renderers.shared.page import Audited, Page
from ext4audit.report import GoneFinding, Report, Source
from ext4audit.rules import all_rules
from support.builders import host, unknown
from support.formats.sample_reports import (
    HOSTILE_NAMES,
    LIVE,
    QUOTED,
    barriers,
    boot,
    buggy,
    hostile_report,
    hotspot,
    inodes,
    md127,
    murky_report,
    night_report,
    old_kernel,
    renames,
    report,
    root,
)
from support.hosts.any_host import HOSTS
from support.html_page import (
    PAGE,
    attributes,
    fold,
    markup,
    only,
    parsed,
    read,
    tags,
    with_class,
    words,
)

UNREAD = Audited("snaps/db7.tgz", None, "not a tar archive")
HOLE = unknown("it")
INJECTIONS = {
    "script": "<script>alert(1)</script>",
    "image": "<img src=x onerror=alert(1)>",
    "end of the style": "</style><script>alert(1)</script>",
    "end of an attribute": "\" onload=alert(1) x='",
    "comment": "<!-- <svg/onload=alert(1)> -->",
    "reference": "&lt;script&gt;&#0;&amp",
    "refresh": '<meta http-equiv="refresh" content="0;url=https://example.org">',
    "cdata": "]]><a href=javascript:alert(1)>x</a>",
    "formula": "=cmd|'/c calc'!A1",
}
TAGS = frozenset(
    "html head meta title style body a header main footer nav section h1 h2 h3 h4 p div span "
    "strong ul li dl dt dd table thead tbody tr th td details summary pre code svg rect path "
    "text".split()
)
ATTRIBUTES = frozenset(
    "lang charset http-equiv content name class id href tabindex open role aria-label aria-hidden "
    "scope colspan viewBox width height x y rx d preserveAspectRatio".split()
)


def suppressed(of: Report, code: str) -> Report:
    """Suppress the findings of one rule."""
    why = Suppression("Replaced in spring", "dba@example", "2027-03-31")
    verdicts = [
        replace(v, findings=tuple(replace(f, suppression=why) for f in v.findings))
        if v.rule.code == code
        else v
        for v in of.verdicts
    ]
    return replace(of, verdicts=tuple(verdicts))


def known_before(of: Report) -> Report:
    """Say that a baseline has every finding."""
    verdicts = [
        replace(v, findings=tuple(replace(f, known=True) for f in v.findings)) for v in of.verdicts
    ]
    return replace(of, verdicts=tuple(verdicts), fixed=())


Hosts: TypeAlias = tuple[Report | Audited, ...]
SAMPLES: dict[str, Hosts] = {
    "night": (night_report(),),
    "murky": (murky_report(),),
    "no filesystem": (report(host()),),
    "unread": (UNREAD,),
    "fleet": (night_report(), UNREAD, murky_report(), report(host(root()), barriers)),
    "nothing": (),
}


@pytest.mark.parametrize("hosts", SAMPLES.values(), ids=SAMPLES)
def test_the_page_is_html_without_an_error(hosts: Hosts) -> None:
    """A strict parser reads every page; its elements and attributes are those of the report."""
    page = read(*hosts)
    assert set(tags(page)) <= TAGS
    assert {name for name, _ in attributes(page)} <= ATTRIBUTES


@pytest.mark.parametrize("hosts", SAMPLES.values(), ids=SAMPLES)
def test_nothing_outside_of_the_page_is_named(hosts: Hosts) -> None:
    """All links stay within the page and lead somewhere, and no id stands twice."""
    page = read(*hosts)
    names = [value for name, value in attributes(page) if name == "id"]
    assert len(names) == len(set(names))
    links = [value for name, value in attributes(page) if name == "href"]
    assert all(link.startswith("#") and link[1:] in names for link in links)


@pytest.mark.parametrize("name", [*HOSTILE_NAMES.values(), *INJECTIONS.values()])
@pytest.mark.parametrize("fleet", [False, True])
def test_a_name_is_text_wherever_it_stands(name: str, *, fleet: bool) -> None:
    """A name that is markup, or that a terminal would obey, is words of the page and no more."""
    hosts: list[Report | Audited] = [hostile_report(name)]
    if fleet:
        hosts += [Audited(name, None, name), night_report()]
    text = markup(*hosts)
    page = parsed(text)
    assert set(tags(page)) <= TAGS
    assert {attribute for attribute, _ in attributes(page)} <= ATTRIBUTES
    assert all(char == "\n" or char.isprintable() for char in text)
    shown = [element for element in page.iter() if element.text == visible(name)]
    assert len(shown) > 5


def test_the_policy_allows_the_one_style_and_nothing_else() -> None:
    """The policy stands before the style, names its hash, and falls back to nothing."""
    page = read(night_report())
    head = list(page[0])
    (policy,) = [each for each in head if each.get("http-equiv")]
    (style,) = [each for each in head if each.tag == "style"]
    assert policy.get("http-equiv") == "Content-Security-Policy"
    assert head.index(policy) < head.index(style)
    digest = base64.b64encode(hashlib.sha256((style.text or "").encode()).digest()).decode()
    assert policy.get("content") == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert "url(" not in (style.text or "")
    assert "@import" not in (style.text or "")


def test_the_headings_go_down_by_single_steps() -> None:
    """No level of headings is left out, so that a list of them is the outline."""
    for hosts in SAMPLES.values():
        levels = [int(tag[1]) for tag in tags(read(*hosts)) if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))


def test_a_finding_shows_consequence_evidence_and_commands() -> None:
    """The worst subject stands first, with the commands byte for byte, each to be copied whole."""
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
        "tune2fs -o nobarrier /dev/md127",
        f'mount -o remount,nobarrier "{QUOTED}"',
    ]
    rows = [words(each) for each in only(list(found[0].iter("tbody")))]
    assert rows[0] == "option in forcenobarrier/proc/fs/ext4/md127/options"
    assert "Trade-off: Each fsync() waits for a cache flush." in words(found[0])
    assert "Or needs an unmount Use drives with power-loss protection." in words(found[0])


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


@pytest.mark.parametrize(
    ("of", "threshold", "lenient", "expected"),
    [
        (night_report(), Severity.MEDIUM, False, "Failed: there are findings at medium or worse."),
        (night_report(), None, False, "Complete. No severity fails this audit."),
        (report(host(root()), barriers), Severity.LOW, False, "Passed: complete"),
        (report(host(), old_kernel), Severity.MEDIUM, False, "Passed: complete"),
        (murky_report(), Severity.MEDIUM, False, "Incomplete: no findings at medium or worse"),
        (murky_report(), Severity.MEDIUM, True, "Incomplete: no findings at medium or worse"),
        (suppressed(report(host(md127()), hotspot), "LAY001"), Severity.MEDIUM, False, "Passed"),
    ],
)
def test_the_banner_says_what_the_exit_code_says(
    of: Report, threshold: Severity | None, *, lenient: bool, expected: str
) -> None:
    """It says failed, incomplete or passed; what could not be seen never reads as passed."""
    page = Page("1", "t", threshold=threshold, allow_incomplete=lenient)
    assert words(only(with_class(read(of, page=page), "banner"))).startswith(expected)


def test_a_blind_spot_is_told_and_is_no_pass() -> None:
    """It says what is not known, why, how to know it, and which rules need it."""
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


def test_a_baseline_shows_what_it_knew_and_what_is_fixed() -> None:
    """Known findings are folded and marked; those that are gone have a list."""
    gone = GoneFinding("DUR002", "/data", "barrier", "Barriers were hidden.")
    known_ = replace(known_before(night_report()), fixed=(gone,), notices=("CAP001 is unused",))
    page = read(known_)
    assert "In the baseline." in words(fold(page, "2 findings set aside"))
    fixed = fold(page, "1 finding of the baseline fixed")
    assert "DUR002 on /data: Barriers were hidden." in words(fixed)
    assert "CAP001 is unused." in words(fold(page, "Notices on the policy file"))
    assert words(only(with_class(page, "banner"))).startswith("Passed")


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (report(host()), "There is no ext4 filesystem on this host: nothing to audit."),
        (
            report(host(gaps=murky_report().host.gaps)),
            "No ext4 filesystem could be seen on this host.",
        ),
    ],
)
def test_no_filesystem_is_not_the_same_as_none_seen(of: Report, expected: str) -> None:
    """With a gap in the view, nobody says that there is none."""
    assert expected in words(read(of))


def test_an_image_is_not_called_a_host() -> None:
    """A filesystem in a file has the file's name where a host has its own."""
    page = read(audit(Source("image", "disk.img"), host(root(), name="disk.img"), [barriers]))
    assert words(next(page.iter("dt"))) == "Image"


def test_a_plan_is_not_called_a_host() -> None:
    """Nobody must look for a filesystem that was never made."""
    page = read(audit(Source("plan", "/dev/md0 on /data"), host(root()), [barriers]))
    assert "/dev/md0 on /data: judged as if it ran, nothing of it exists yet" in words(page)


def test_one_subject_needs_no_contents() -> None:
    """Links to the subjects are there where there are several of them."""
    alone = read(report(host(root()), barriers))
    assert len(list(alone.iter("nav"))) == len(list(read(report(host())).iter("nav"))) == 0
    assert len(list(read(night_report()).iter("nav"))) == 1


def test_a_broken_rule_alone_is_a_blind_spot() -> None:
    """A rule that raised needs no hole to be told; there is no empty table of holes."""
    page = read(report(host(root()), buggy))
    assert fold(page, "HLT009 rule-with-a-bug stopped with an error: KeyError") is not None
    assert "To know it" not in words(page)
    assert words(with_class(page, "subject")[0][0]).startswith("INCOMPLETE")


def test_a_fleet_is_a_table_of_hosts_and_rules() -> None:
    """Each cell says the worst in words; the worst host stands first, an unread one is told."""
    fine = report(host(root(), name="web1"), barriers)
    page = read(fine, UNREAD, murky_report(), suppressed(night_report(), "LAY001"))
    matrix = only(with_class(page, "matrix"))
    heads = [words(each) for each in next(matrix.iter("thead"))[0]]
    assert heads == [
        "Host",
        "CAP001 inode-exhaustion",
        "DUR001 barrier-disabled",
        "HLT009 rule-with-a-bug",
        "LAY001 striped-metadata-hotspot",
    ]
    rows = [[words(cell) for cell in row] for row in next(matrix.iter("tbody"))]
    assert rows == [
        ["db1 (this host)", "", "critical", "", "aside"],
        ["snaps/db7.tgz", "? could not be read: not a tar archive"],
        ["db1 (this host) ? gaps", "?", "", "?", ""],
        ["web1 (this host)", "", "ok", "", ""],
    ]
    assert words(with_class(page, "chips")[0]) == (
        "4 hosts 1 with findings 1 incomplete 1 could not be read"
    )
    assert len(with_class(page, "host")) == 4
    assert "This host could not be read: not a tar archive." in words(page)


def test_a_finding_and_a_hole_of_one_rule_are_both_in_the_cell() -> None:
    """What was found does not hide what could not be seen."""
    matrix = only(with_class(read(hostile_report("x"), night_report()), "matrix"))
    cells = [words(cell) for cell in matrix.iter("td")]
    assert "high ?" in cells


def test_the_cell_has_the_worst_of_all_filesystems() -> None:
    """A host with a mild and a bad filesystem is a bad host."""
    (bad,) = [
        verdict
        for verdict in night_report().verdicts
        if verdict.rule.code == "LAY001" and verdict.findings
    ]
    mild = replace(bad, findings=(replace(bad.findings[0], severity=Severity.INFO),))
    of = replace(night_report(), verdicts=(mild, bad, mild))
    matrix = only(with_class(read(of, UNREAD), "matrix"))
    assert words(next(matrix.iter("td"))) == "medium"


def test_every_hole_of_a_rule_is_told() -> None:
    """A rule that needs two things that are not known names both, once each."""
    two = (unknown("the journal"), unknown("the superblock"))
    verdicts = [replace(verdict, unknowns=two) for verdict in murky_report().verdicts]
    told = words(read(replace(murky_report(), verdicts=tuple(verdicts))))
    assert told.count("the journalpermission denied") == told.count("the superblockp") == 2


def test_the_same_audit_gives_the_same_page() -> None:
    """Nothing in the page but what it was given depends on when or where it is made."""
    assert markup(night_report()) == markup(night_report())
    assert f"Made by ext4audit {PAGE.tool_version} at {PAGE.taken_at}." in markup(night_report())


PAIRS = [
    *((f"on-{look}", look) for look in "critical high medium low info open fine".split()),
    *((ink, ground) for ink in ("ink", "faint", "link") for ground in ("ground", "panel")),
]
SHAPES = [
    (shape, ground)
    for shape in "bitmaps tables descriptors focus".split()
    for ground in ("ground", "panel")
]


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("front", "back", "least"),
    [*((*pair, 4.5) for pair in PAIRS), *((*pair, 3.0) for pair in SHAPES)],
)
def test_the_colours_have_contrast(theme: str, front: str, back: str, least: float) -> None:
    """Words have 4.5:1 and shapes 3:1 in both themes (WCAG 2.2, 1.4.3 and 1.4.11, level AA)."""
    colours = dict(re.findall(r"--([a-z-]+):#([0-9a-f]{6});", theme))
    light, dark = sorted((luminance(colours[front]), luminance(colours[back])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= least


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.2)."""
    shares = [int(colour[start : start + 2], 16) / 255 for start in (0, 2, 4)]
    linear = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@given(HOSTS, HOSTS)
@settings(max_examples=25, deadline=None)
def test_any_host_gives_a_page_that_tells_all(first: object, second: object) -> None:
    """Whatever a host is like, every finding and every hole of its rules is in a strict page."""
    reports = [audit(LIVE, each, all_rules()) for each in (first, second)]  # type: ignore[arg-type]
    for hosts in (reports[:1], reports):
        page = read(*hosts)
        assert set(tags(page)) <= TAGS
        told = words(page)
        for each in hosts:
            said = [finding.message for finding in each.findings]
            said += [hole.what for verdict in each.verdicts for hole in verdict.unknowns]
            assert all(" ".join(visible(sentence).split()) in told for sentence in said)
            assert len(each.findings) <= len(with_class(page, "finding"))


def test_inodes_pass_with_their_evidence() -> None:
    """A subject with nothing but passes is fine, and says so in words."""
    page = read(report(host(root()), inodes))
    assert "NO FINDINGS All the rules that apply have passed." in words(page)
