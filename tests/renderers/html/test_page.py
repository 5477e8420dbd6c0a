from __future__ import annotations

import base64
import hashlib
import re
from itertools import pairwise
from typing import TypeAlias
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given

from ext4audit.engine import audit
from ext4audit.renderers import Audited, visible
from ext4audit.renderers.shared.subjects import causes
from ext4audit.report import Report
from ext4audit.rules import all_rules
from support.browser.html_page import (
    PAGE,
    attributes,
    markup,
    parsed,
    rendered,
    tag_names,
    text_of,
    with_class,
)
from support.builders import host
from support.examples import examples
from support.formats.sample_reports import (
    HOSTILE_NAMES,
    LIVE,
    barriers,
    critical_report,
    edits,
    hostile_report,
    incomplete_report,
    report,
    root,
)
from support.hosts.strategies import HOSTS

UNREAD = Audited("snaps/db7.tgz", None, "not a tar archive")
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
    "text del ins script form label select option input button".split()
)
ATTRIBUTES = frozenset(
    "lang charset http-equiv content name class id href tabindex open role aria-label aria-hidden "
    "scope colspan viewBox width height x y rx d preserveAspectRatio data-rank hidden type value "
    "placeholder autocomplete".split()
)
Hosts: TypeAlias = tuple[Report | Audited, ...]
SAMPLES: dict[str, Hosts] = {
    "night": (critical_report(),),
    "murky": (incomplete_report(),),
    "no filesystem": (report(host()),),
    "edits": (report(host(root()), edits),),
    "unread": (UNREAD,),
    "fleet": (
        critical_report(),
        UNREAD,
        Audited("x", incomplete_report(), key="db2"),
        report(host(root(), name="web 1"), barriers),
    ),
    "nothing": (),
}


@pytest.mark.parametrize("hosts", SAMPLES.values(), ids=SAMPLES)
def test_page_is_valid_html(hosts: Hosts) -> None:
    """A strict parser reads every page; only elements and attributes of the report occur."""
    page = rendered(*hosts)
    assert set(tag_names(page)) <= TAGS
    assert {name for name, _ in attributes(page)} <= ATTRIBUTES


@pytest.mark.parametrize("hosts", SAMPLES.values(), ids=SAMPLES)
def test_links_stay_inside_the_page(hosts: Hosts) -> None:
    """All links point to an anchor in the page, and no id occurs twice."""
    page = rendered(*hosts)
    names = [value for name, value in attributes(page) if name == "id"]
    assert len(names) == len(set(names))
    links = [value for name, value in attributes(page) if name == "href"]
    assert all(link.startswith("#") and link[1:] in names for link in links)


@pytest.mark.parametrize("name", [*HOSTILE_NAMES.values(), *INJECTIONS.values()])
@pytest.mark.parametrize("fleet", [False, True])
def test_hostile_names_are_text(name: str, *, fleet: bool) -> None:
    """Markup and terminal escapes in a name are plain text everywhere in the report."""
    hosts: list[Report | Audited] = [hostile_report(name)]
    if fleet:
        hosts += [Audited(name, None, name), critical_report()]
    text = markup(*hosts)
    page = parsed(text)
    assert set(tag_names(page)) <= TAGS
    assert {attribute for attribute, _ in attributes(page)} <= ATTRIBUTES
    assert all(char == "\n" or char.isprintable() for char in text)
    shown = [element for element in page.iter() if element.text == visible(name)]
    assert len(shown) > 5


@pytest.mark.parametrize("hosts", SAMPLES.values(), ids=SAMPLES)
def test_content_security_policy_has_the_hashes(hosts: Hosts) -> None:
    """The policy precedes both, lists their hashes, and blocks everything else by default."""
    page = rendered(*hosts)
    head = list(page[0])
    (policy,) = [each for each in head if each.get("http-equiv")]
    (style,) = page.iter("style")
    (script,) = page.iter("script")
    assert policy.get("http-equiv") == "Content-Security-Policy"
    assert head.index(policy) < head.index(style)
    assert script.attrib == {}
    assert policy.get("content") == (
        f"default-src 'none'; style-src 'sha256-{digest(style)}'; script-src "
        f"'sha256-{digest(script)}'; base-uri 'none'; form-action 'none'"
    )
    assert "url(" not in (style.text or "")
    assert "@import" not in (style.text or "")


def digest(element: Element) -> str:
    """Return the hash of an element's text for a content security policy."""
    raw = (element.text or "").encode()
    return base64.b64encode(hashlib.sha256(raw).digest()).decode()


def test_heading_levels_are_not_skipped() -> None:
    """No heading level is skipped, so that the headings form an outline."""
    for hosts in SAMPLES.values():
        levels = [int(tag[1]) for tag in tag_names(rendered(*hosts)) if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))


def test_same_audit_gives_the_same_page() -> None:
    """The page depends only on its input, not on when or where it is rendered."""
    assert markup(critical_report()) == markup(critical_report())
    assert f"Made by ext4audit {PAGE.tool_version} at {PAGE.taken_at}." in markup(critical_report())


@given(HOSTS, HOSTS)
@examples(25)
def test_page_of_any_hosts_has_every_finding_and_unknown(first: object, second: object) -> None:
    """The document is strictly valid and has every finding and every unknown."""
    reports = [audit(LIVE, each, all_rules()) for each in (first, second)]  # type: ignore[arg-type]
    for hosts in (reports[:1], reports):
        page = rendered(*hosts)
        assert set(tag_names(page)) <= TAGS
        shown = text_of(page)
        for each in hosts:
            expected = [finding.message for finding in each.findings]
            expected += [unknown.what for verdict in each.verdicts for unknown in verdict.unknowns]
            assert all(" ".join(visible(sentence).split()) in shown for sentence in expected)
            assert len(causes(each)) <= len(with_class(page, "finding"))
