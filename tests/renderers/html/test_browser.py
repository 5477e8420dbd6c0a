"""The HTML report in a real browser: what it refuses, what the keyboard reaches, how it looks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ext4audit.renderers.shared import Audited
from ext4audit.report import Report
from support.builders import host
from support.chromium import Tab, executable, opened
from support.formats.sample_reports import (
    barriers,
    boot,
    hostile_report,
    md127,
    murky_report,
    night_report,
    old_kernel,
    renames,
    report,
    root,
)
from support.html_page import markup

REQUIRED = os.environ.get("EXT4AUDIT_REQUIRE_BROWSER") == "1"
"""In CI a test that needs the browser must run: a skip would read as a pass."""
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(executable() is None and not REQUIRED, reason="needs Chromium"),
]
INJECTION = (
    "<script>document.title='owned'</script><img src=https://example.org/x onerror=\"alert(1)\">"
    "<style>*{display:none}</style><iframe src=https://example.org></iframe>"
)
TAB = ("Tab", 9)
ENTER = ("Enter", 13)
FLEET: tuple[Report | Audited, ...] = (
    night_report(),
    murky_report(),
    Audited("snaps/db7.tgz", None, "not a tar archive"),
    report(host(root(), name="web1"), barriers, old_kernel),
)
PAGES = {
    "one": (night_report(),),
    "murky": (murky_report(),),
    "notes": (report(host(boot("renames"), md127("/data")), renames, barriers),),
    "fleet": FLEET,
    "hostile": (hostile_report(INJECTION),),
}


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """Start the browser once for the module."""
    with opened(tmp_path_factory.mktemp("chromium")) as made:
        yield made


def show(tab: Tab, folder: Path, *hosts: Report | Audited, fragment: str = "") -> None:
    """Open the page of these hosts."""
    path = folder / "report.html"
    path.write_text(markup(*hosts), encoding="utf-8")
    tab.open(path, fragment)


@pytest.mark.parametrize("name", PAGES)
def test_the_browser_has_nothing_to_complain_of(tab: Tab, tmp_path: Path, name: str) -> None:
    """The console is silent, no policy is broken, and nothing but the file is asked for."""
    tab.look()
    show(tab, tmp_path, *PAGES[name])
    assert tab.complaints() == []
    assert tab.requests() == [(tmp_path / "report.html").as_uri()]
    assert tab.value("document.compatMode") == "CSS1Compat"


@pytest.mark.parametrize(
    "hosts", [(hostile_report(INJECTION),), (hostile_report(INJECTION), *FLEET)]
)
def test_injected_markup_is_only_shown(
    tab: Tab, tmp_path: Path, hosts: tuple[Report | Audited, ...]
) -> None:
    """A name that is a script, an image or a style is text: the page has none of these."""
    tab.look()
    show(tab, tmp_path, *hosts)
    assert tab.value("document.querySelectorAll('script, img, iframe, object, link').length") == 0
    assert tab.value("document.querySelectorAll('style').length") == 1
    assert tab.value("document.title").startswith("ext4audit: ")
    assert INJECTION in tab.value("document.body.textContent")


def test_the_policy_refuses_what_became_markup_after_all(tab: Tab, tmp_path: Path) -> None:
    """Beside markup that slipped in, script, style, image and frame are still refused."""
    broken = markup(night_report()).replace("<main", f"{INJECTION}<main", 1)
    path = tmp_path / "broken.html"
    path.write_text(broken, encoding="utf-8")
    tab.open(path)
    assert tab.value("document.title") == "ext4audit: db1"
    assert tab.value("getComputedStyle(document.querySelector('h1')).display") == "block"
    complaints = " ".join(tab.complaints())
    assert all(f"'{kind}" in complaints for kind in ("script-src", "style-src", "img-src"))
    assert [url for url in tab.answers() if url.startswith("http")] == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 400])
def test_nothing_is_wider_than_the_page(
    tab: Tab, tmp_path: Path, name: str, scheme: str, width: int
) -> None:
    """On a wide screen and on a telephone, what is wide scrolls within its own box."""
    tab.look(width=width, scheme=scheme)
    show(tab, tmp_path, *PAGES[name])
    assert tab.value("document.documentElement.scrollWidth") <= width
    assert tab.picture().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("media", "scheme", "ground"),
    [
        ("screen", "light", "rgb(255, 255, 255)"),
        ("screen", "dark", "rgb(15, 20, 25)"),
        ("print", "light", "rgb(255, 255, 255)"),
        ("print", "dark", "rgb(255, 255, 255)"),
    ],
)
def test_paper_is_light_whatever_the_screen_is(
    tab: Tab, tmp_path: Path, media: str, scheme: str, ground: str
) -> None:
    """The screen follows the reader's wish; paper is white."""
    tab.look(media=media, scheme=scheme)
    show(tab, tmp_path, night_report())
    colour = tab.value("getComputedStyle(document.body).backgroundColor")
    assert colour == ground


def test_paper_shows_folded_findings(tab: Tab, tmp_path: Path) -> None:
    """What is folded on the screen and belongs to the findings is open on paper."""
    box = "document.querySelector('.finding .remedy').checkVisibility()"
    tall = "document.querySelector('.finding').getBoundingClientRect().height"
    tab.look()
    show(tab, tmp_path, report(host(boot("renames")), renames))
    assert not tab.value(box)
    folded = tab.value(tall)
    tab.look(media="print")
    assert tab.value(box)
    assert tab.value(tall) > folded + 50
    assert tab.paper().startswith(b"%PDF-")


def test_the_keyboard_reaches_everything_that_opens(tab: Tab, tmp_path: Path) -> None:
    """The first Tab shows the way to the findings; then each link and each fold has its turn."""
    tab.look()
    show(tab, tmp_path, *FLEET)
    tab.press(*TAB)
    assert tab.value("document.activeElement.className") == "skip"
    assert tab.value("document.activeElement.getBoundingClientRect().left") >= 0
    wanted = tab.value(
        "[...document.querySelectorAll('a, summary')].filter(e => "
        "e.checkVisibility({contentVisibilityAuto: true})).length"
    )
    reached = 0
    for _ in range(wanted + 5):
        reached += tab.value("document.activeElement.matches('a, summary')")
        style = "getComputedStyle(document.activeElement).outlineStyle"
        assert tab.value("document.activeElement === document.body") or tab.value(style) == "solid"
        if tab.value("document.activeElement === document.body"):
            break
        tab.press(*TAB)
    assert reached == wanted


def test_enter_skips_unfolds_and_follows(tab: Tab, tmp_path: Path) -> None:
    """Enter follows the skip link, and opens the fold that has the focus."""
    tab.look()
    show(tab, tmp_path, *FLEET)
    tab.press(*TAB)
    tab.press(*ENTER, text="\r")
    assert tab.value("document.activeElement.id") == "findings"
    tab.value("document.querySelector('details.host > summary').focus()")
    tab.press(*ENTER, text="\r")
    assert tab.value("document.querySelector('details.host').open")


def test_a_link_of_the_table_opens_the_host(tab: Tab, tmp_path: Path) -> None:
    """What a link points to is shown, although it lies in a fold."""
    tab.look()
    show(tab, tmp_path, *FLEET)
    assert not tab.value("document.querySelector('#host-web1').closest('details').open")
    tab.value("document.querySelector('.matrix a[href=\"#host-web1\"]').click()")
    assert tab.value("document.querySelector('#host-web1').closest('details').open")


def test_a_click_marks_a_command_whole(tab: Tab, tmp_path: Path) -> None:
    """A command is marked from its first to its last character, and nothing beside it."""
    tab.look()
    show(tab, tmp_path, night_report())
    tab.value("document.querySelector('pre.command code').scrollIntoView({block: 'center'})")
    place = tab.value(
        "(r => [r.left + 20, r.top + r.height / 2])"
        "(document.querySelector('pre.command code').getBoundingClientRect())"
    )
    mouse = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1}
    tab.ask("Input.dispatchMouseEvent", type="mousePressed", **mouse)
    tab.ask("Input.dispatchMouseEvent", type="mouseReleased", **mouse)
    marked = tab.value("getSelection().toString()")
    assert marked == tab.value("document.querySelector('pre.command code').textContent")


def test_those_who_hear_the_page_hear_names(tab: Tab, tmp_path: Path) -> None:
    """Pictures, tables and regions have names in the accessibility tree."""
    tab.look()
    show(tab, tmp_path, *FLEET)
    tab.value("document.querySelectorAll('details').forEach(d => d.open = true)")
    tab.ask("Accessibility.enable")
    nodes = tab.ask("Accessibility.getFullAXTree")["nodes"]
    asked = {"image", "img", "table", "region", "navigation", "link", "DisclosureTriangle"}
    found = [node for node in nodes if node.get("role", {}).get("value") in asked]
    assert {"table", "region", "link"} <= {node["role"]["value"] for node in found}
    nameless = [node for node in found if not node["ignored"] and not node["name"]["value"]]
    assert nameless == []


def test_the_heads_of_a_long_table_stay_in_sight(tab: Tab, tmp_path: Path) -> None:
    """A fleet of hundreds scrolls within its box, below the names of the rules."""
    tab.look()
    hosts = [report(host(root(), name=f"web{n}"), barriers, old_kernel) for n in range(200)]
    show(tab, tmp_path, *hosts)
    tab.value("document.querySelector('.tall').scrollTo(0, 3000)")
    top = "document.querySelector('{}').getBoundingClientRect().top"
    assert abs(tab.value(top.format(".matrix thead th")) - tab.value(top.format(".tall"))) < 3
    assert tab.value(top.format(".matrix tbody th")) < -2000
