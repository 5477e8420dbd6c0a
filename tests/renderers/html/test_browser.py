"""The HTML report in a real browser: its security policy, keyboard access and appearance."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from ext4audit.renderers import Audited
from ext4audit.report import Report
from support.browser.chromium import Tab, executable, running_browser
from support.browser.html_page import markup
from support.builders import host
from support.examples import sample_of
from support.formats.sample_reports import (
    barriers,
    boot,
    critical_report,
    hostile_report,
    hotspot,
    incomplete_report,
    md127,
    old_kernel,
    renames,
    report,
    root,
)
from support.hosts.fixture_hosts import FIXTURE_HOSTS, report_of

REQUIRED = os.environ.get("EXT4AUDIT_REQUIRE_BROWSER") == "1"
"""True in CI, where a browser test must run: a skip would look like a pass."""
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(executable() is None and not REQUIRED, reason="needs Chromium"),
]
INJECTION = (
    "<script>document.title='owned'</script><img src=https://example.org/x onerror=\"alert(1)\">"
    "<style>*{display:none}</style><iframe src=https://example.org></iframe>"
)
PERMISSIONS = ["clipboardReadWrite", "clipboardSanitizedWrite"]
TAB = ("Tab", 9)
ENTER = ("Enter", 13)
FLEET: tuple[Report | Audited, ...] = (
    critical_report(),
    incomplete_report(),
    Audited("snaps/db7.tgz", None, "not a tar archive"),
    report(host(root(), name="web1"), barriers, old_kernel),
)
PAGES = {
    "one": (critical_report(),),
    "murky": (incomplete_report(),),
    "notes": (report(host(boot("renames"), md127("/data")), renames, barriers),),
    "fleet": FLEET,
    "hostile": (hostile_report(INJECTION),),
}


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """Start the browser once for the module."""
    with running_browser(tmp_path_factory.mktemp("chromium")) as made:
        made.call("Browser.grantPermissions", permissions=PERMISSIONS)
        yield made


def open_report(tab: Tab, folder: Path, *hosts: Report | Audited) -> None:
    """Open the page of these hosts."""
    open_page(tab, folder, markup(*hosts))


def open_page(tab: Tab, folder: Path, text: str) -> None:
    """Open a page in the tab, written to a file first."""
    path = folder / "report.html"
    path.write_text(text, encoding="utf-8")
    tab.open(path)


@cache
def rendered_page(name: str) -> str:
    """Return a page of PAGES, rendered once."""
    return markup(*PAGES[name])


@pytest.mark.parametrize("name", sample_of(PAGES, "complaints"))
def test_page_loads_without_errors_or_requests(tab: Tab, tmp_path: Path, name: str) -> None:
    """The console is empty, no policy is violated, and no resource but the file is requested."""
    tab.set_media()
    open_page(tab, tmp_path, rendered_page(name))
    assert tab.errors() == []
    assert tab.requests() == [(tmp_path / "report.html").as_uri()]
    assert tab.value("document.compatMode") == "CSS1Compat"


@pytest.mark.parametrize(
    "hosts", [(hostile_report(INJECTION),), (hostile_report(INJECTION), *FLEET)]
)
def test_injected_markup_is_shown_as_text(
    tab: Tab, tmp_path: Path, hosts: tuple[Report | Audited, ...]
) -> None:
    """A name that holds a script, image or style is shown as text and adds no such element."""
    tab.set_media()
    open_report(tab, tmp_path, *hosts)
    assert tab.value("document.querySelectorAll('img, iframe, object, link').length") == 0
    assert tab.value("document.querySelectorAll('script').length") == 1
    assert tab.value("document.querySelectorAll('style').length") == 1
    assert tab.value("document.title").startswith("ext4audit: ")
    assert INJECTION in tab.value("document.body.textContent")


def test_content_security_policy_blocks_injected_elements(tab: Tab, tmp_path: Path) -> None:
    """If markup does slip in, its scripts, styles, images and frames are still blocked."""
    broken = markup(critical_report()).replace("<main", f"{INJECTION}<main", 1)
    path = tmp_path / "broken.html"
    path.write_text(broken, encoding="utf-8")
    tab.open(path)
    assert tab.value("document.title") == "ext4audit: db1"
    assert tab.value("getComputedStyle(document.querySelector('h1')).display") == "block"
    complaints = " ".join(tab.errors())
    assert all(f"'{kind}" in complaints for kind in ("script-src", "style-src", "img-src"))
    assert [url for url in tab.answers() if url.startswith("http")] == []


@pytest.mark.parametrize(
    "place",
    [
        "/var/lib/kubelet/plugins/kubernetes.io/csi/ebs.csi.aws.com/26c7946aaa/globalmount",
        "/srv/dev-disk-by-uuid-b7b8b35e-933b-5d66-ae7b-beadd41a7fb4",
    ],
)
def test_long_path_is_cut_off_at_its_box(tab: Tab, tmp_path: Path, place: str) -> None:
    """Text that overflows its box is cut off at the edge."""
    tab.set_media()
    open_report(tab, tmp_path, report(host(md127(place)), barriers))
    over = (
        "[...document.querySelectorAll('svg svg')].flatMap(box => [...box.querySelectorAll('text')]"
        ".filter(e => e.getBBox().x + e.getBBox().width > box.width.baseVal.value - 3)"
        ".map(e => e.textContent))"
    )
    assert tab.value(over) == []


@pytest.mark.parametrize(("name", "width"), sample_of(product(PAGES, [1400, 900, 400]), "widths"))
def test_page_does_not_scroll_horizontally(tab: Tab, tmp_path: Path, name: str, width: int) -> None:
    """On a wide and on a phone-sized screen, wide content scrolls within its own box."""
    tab.set_media(width=width)
    open_page(tab, tmp_path, rendered_page(name))
    for scheme in ("light", "dark"):
        tab.set_media(width=width, scheme=scheme)
        assert tab.value("document.documentElement.scrollWidth") <= width, scheme


@pytest.mark.parametrize("name", sample_of(PAGES, "painted"))
def test_whole_page_can_be_captured(tab: Tab, tmp_path: Path, name: str) -> None:
    """The whole page can be captured, including the part far below the window."""
    tab.set_media()
    open_page(tab, tmp_path, rendered_page(name))
    picture = tab.screenshot()
    assert picture.startswith(b"\x89PNG")
    height = tab.value("document.documentElement.scrollHeight")
    assert struct.unpack(">II", picture[16:24]) == (1200, height)


@pytest.mark.parametrize(
    ("media", "scheme", "ground"),
    [
        ("screen", "light", "rgb(255, 255, 255)"),
        ("screen", "dark", "rgb(15, 20, 25)"),
        ("print", "light", "rgb(255, 255, 255)"),
        ("print", "dark", "rgb(255, 255, 255)"),
    ],
)
def test_print_is_always_light(
    tab: Tab, tmp_path: Path, media: str, scheme: str, ground: str
) -> None:
    """The screen follows the reader's colour preference; print is always light."""
    tab.set_media(media=media, scheme=scheme)
    open_page(tab, tmp_path, rendered_page("one"))
    colour = tab.value("getComputedStyle(document.body).backgroundColor")
    assert colour == ground


def test_print_shows_folded_findings(tab: Tab, tmp_path: Path) -> None:
    """Findings that are folded on the screen are open in print."""
    box = "document.querySelector('.finding .remedy').checkVisibility()"
    tall = "document.querySelector('.finding').getBoundingClientRect().height"
    tab.set_media()
    open_report(tab, tmp_path, report(host(boot("renames")), renames))
    assert not tab.value(box)
    folded = tab.value(tall)
    tab.set_media(media="print")
    assert tab.value(box)
    assert tab.value(tall) > folded + 50
    assert tab.pdf().startswith(b"%PDF-")


def test_keyboard_reaches_every_link_and_fold(tab: Tab, tmp_path: Path) -> None:
    """The first Tab reaches the skip link to the findings; then every link and fold gets focus."""
    controls = "a, summary, input, select, button"
    tab.set_media()
    open_page(tab, tmp_path, rendered_page("fleet"))
    tab.press_key(*TAB)
    assert tab.value("document.activeElement.className") == "skip"
    assert tab.value("document.activeElement.getBoundingClientRect().left") >= 0
    wanted = tab.value(
        f"[...document.querySelectorAll('{controls}')].filter(e => "
        "e.checkVisibility({contentVisibilityAuto: true})).length"
    )
    reached = 0
    for _ in range(wanted + 5):
        reached += tab.value(f"document.activeElement.matches('{controls}')")
        style = "getComputedStyle(document.activeElement).outlineStyle"
        assert tab.value("document.activeElement === document.body") or tab.value(style) == "solid"
        if tab.value("document.activeElement === document.body"):
            break
        tab.press_key(*TAB)
    assert reached == wanted


def test_enter_follows_links_and_opens_folds(tab: Tab, tmp_path: Path) -> None:
    """Enter follows the skip link and opens the focused fold."""
    tab.set_media()
    open_page(tab, tmp_path, rendered_page("fleet"))
    tab.press_key(*TAB)
    tab.press_key(*ENTER, text="\r")
    assert tab.value("document.activeElement.id") == "findings"
    tab.value("document.querySelector('details.host > summary').focus()")
    tab.press_key(*ENTER, text="\r")
    assert tab.value("document.querySelector('details.host').open")


def test_link_of_the_table_opens_the_host(tab: Tab, tmp_path: Path) -> None:
    """The target of a link is shown even if it is inside a closed fold."""
    tab.set_media()
    open_page(tab, tmp_path, rendered_page("fleet"))
    assert not tab.value("document.querySelector('#host-web1').closest('details').open")
    tab.value("document.querySelector('.matrix a[href=\"#host-web1\"]').click()")
    assert tab.value("document.querySelector('#host-web1').closest('details').open")


def test_click_selects_the_whole_command(tab: Tab, tmp_path: Path) -> None:
    """A click selects a command from its first to its last character, and nothing else."""
    tab.set_media()
    open_page(tab, tmp_path, rendered_page("one"))
    tab.value("document.querySelector('pre.command code').scrollIntoView({block: 'center'})")
    tab.click("pre.command code")
    marked = tab.value("getSelection().toString()")
    assert marked == tab.value("document.querySelector('pre.command code').textContent")


def test_accessibility_tree_has_names(tab: Tab, tmp_path: Path) -> None:
    """Images, tables and regions have names in the accessibility tree."""
    tab.set_media()
    open_page(tab, tmp_path, rendered_page("fleet"))
    tab.value("document.querySelectorAll('details').forEach(d => d.open = true)")
    tab.call("Accessibility.enable")
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    asked = {"image", "img", "table", "region", "search", "link", "DisclosureTriangle"}
    asked |= {"button", "searchbox", "combobox"}
    found = [node for node in nodes if node.get("role", {}).get("value") in asked]
    assert {"table", "region", "link", "searchbox", "combobox", "button"} <= {
        node["role"]["value"] for node in found
    }
    nameless = [node for node in found if not node["ignored"] and not node["name"]["value"]]
    assert nameless == []


def test_table_headers_stay_visible(tab: Tab, tmp_path: Path) -> None:
    """The matrix of a fleet of hundreds scrolls in its box, with the rule names fixed on top."""
    tab.set_media()
    hosts = [report(host(root(), name=f"web{n}"), barriers, old_kernel) for n in range(200)]
    open_report(tab, tmp_path, *hosts)
    tab.value("document.querySelector('.tall').scrollTo(0, 3000)")
    top = "document.querySelector('{}').getBoundingClientRect().top"
    assert abs(tab.value(top.format(".matrix thead th")) - tab.value(top.format(".tall"))) < 3
    assert tab.value(top.format(".matrix tbody th")) < -2000


@cache
def many_hosts() -> str:
    """Return the page of hosts that differ in severity, name and evidence."""
    fine = [report(host(root(), name=f"web{n}"), barriers) for n in range(3)]
    low = [report(host(root(), name=f"app{n}"), barriers, old_kernel) for n in range(2)]
    return markup(*fine, *low, report(host(md127("/data"), name="db1"), barriers, hotspot))


SHOWN_HOSTS = (
    "[...document.querySelectorAll('details.host')].filter(e => e.checkVisibility())"
    ".map(e => e.querySelector('h2').textContent).join(' ')"
)
ROWS = (
    "[...document.querySelectorAll('.matrix tbody tr')].filter(e => e.checkVisibility())"
    ".map(e => e.querySelector('a').textContent).join(' ')"
)
COLUMNS = (
    "[...document.querySelectorAll('.matrix th.rule')].filter(e => e.checkVisibility())"
    ".map(e => e.querySelector('strong').textContent).join(' ')"
)
CELLS = (
    "[...document.querySelectorAll('.matrix tbody tr:first-child td')]"
    ".filter(e => e.checkVisibility()).length"
)
RULES = (
    "[...document.querySelectorAll('details.rule')].filter(e => e.checkVisibility())"
    ".map(e => e.querySelector('strong').textContent).join(' ')"
)
EVERY_HOST = "db1 app0 app1 web0 web1 web2"
EVERY_RULE = "DUR001 LAY001 KRN003"


def set_filters(tab: Tab, **values: str) -> None:
    """Set controls of the filter as a user does: each change dispatches an event."""
    for name, value in values.items():
        tab.value(
            f"(e => {{ e.value = {value!r}; e.dispatchEvent(new Event('input', "
            f"{{bubbles: true}})); }})(document.querySelector('form.filter [name={name}]'))"
        )


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ({}, (EVERY_HOST, EVERY_RULE, EVERY_RULE)),
        ({"severity": "0"}, ("db1", "DUR001", "DUR001")),
        ({"severity": "2"}, ("db1", "DUR001 LAY001", "DUR001 LAY001")),
        ({"severity": "3"}, ("db1 app0 app1", EVERY_RULE, EVERY_RULE)),
        ({"host": "APP"}, ("app0 app1", EVERY_RULE, "KRN003")),
        ({"text": "hotspot"}, ("db1", EVERY_RULE, "DUR001 LAY001")),
        ({"text": "fast-COMMIT"}, ("app0 app1", EVERY_RULE, "KRN003")),
        ({"text": "lose", "host": "1"}, ("app1", EVERY_RULE, "KRN003")),
        ({"text": "hotspot", "severity": "0"}, ("db1", "DUR001", "DUR001")),
        ({"host": "nothing"}, ("", EVERY_RULE, "")),
    ],
)
def test_filter_shows_matching_hosts(
    tab: Tab, tmp_path: Path, values: dict[str, str], kept: tuple[str, str, str]
) -> None:
    """Severity, name and text filters combine, for the sections and the table alike."""
    hosts, columns, rules = kept
    tab.set_media()
    open_page(tab, tmp_path, many_hosts())
    set_filters(tab, **values)
    assert tab.value(SHOWN_HOSTS) == tab.value(ROWS) == hosts
    assert tab.value(COLUMNS) == columns
    assert tab.value(RULES) == rules
    if hosts.startswith("db1"):
        assert tab.value(CELLS) == len(columns.split())
    result = "document.querySelector('.filter .result').textContent"
    assert tab.value(result) == f"{len(hosts.split())} of 6 hosts shown"
    assert tab.errors() == []


def test_unread_host_keeps_its_reason(tab: Tab, tmp_path: Path) -> None:
    """The cell with the reason spans all columns and is not treated as one of them."""
    tab.set_media()
    open_report(tab, tmp_path, report(host(root(), name="app"), barriers, old_kernel), FLEET[2])
    set_filters(tab, severity="0")
    set_filters(tab, severity="9")
    set_filters(tab, host="db7")
    assert tab.value(ROWS) == "db7.tgz"
    assert tab.value("document.querySelector('.matrix td.words').checkVisibility()")
    assert tab.errors() == []


def test_reset_shows_all_hosts(tab: Tab, tmp_path: Path) -> None:
    """The button clears all controls."""
    tab.set_media()
    open_page(tab, tmp_path, many_hosts())
    set_filters(tab, severity="0", host="db")
    assert tab.value(SHOWN_HOSTS) == "db1"
    tab.value("document.querySelector('form.filter [type=reset]').click()")
    assert tab.wait_for(f"({SHOWN_HOSTS}) === {EVERY_HOST!r}")
    assert tab.value(COLUMNS) == EVERY_RULE


def test_page_without_scripts(tab: Tab, tmp_path: Path) -> None:
    """No control without a function is shown, and the table states its size."""
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.set_media(width=500)
        open_page(tab, tmp_path, many_hosts())
        assert tab.value(SHOWN_HOSTS) == EVERY_HOST
        controls = "[...document.querySelectorAll('form, button')].some(e => e.checkVisibility())"
        assert tab.value(controls) is False
        text = tab.value("document.querySelector('.beyond').textContent")
        assert text.startswith("3 rules in columns, 6 hosts in rows.")
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)


@cache
def every_fixture_host() -> str:
    """Return the page of all fixture hosts, which has more rules than a narrow screen can show."""
    return markup(*map(report_of, FIXTURE_HOSTS))


@pytest.mark.parametrize("width", sample_of([500, 900, 1400], "hidden"))
def test_buttons_count_hidden_columns_and_hosts(tab: Tab, tmp_path: Path, width: int) -> None:
    """A button at each edge counts the hidden columns and hosts, and scrolls to them."""
    tab.set_media(width=width)
    open_page(tab, tmp_path, every_fixture_host())
    box = "document.querySelector('.tall')"
    buttons = (
        "[...document.querySelectorAll('.beyond button')].filter(e => !e.hidden)"
        ".map(e => e.textContent.replace(/[0-9]+/, 'N')).join(', ')"
    )
    hidden = tab.value(
        f"[...document.querySelectorAll('th.rule')].filter(e => e.getBoundingClientRect().right > "
        f"{box}.getBoundingClientRect().right).length"
    )
    assert hidden > 0
    right = "[...document.querySelectorAll('.beyond button')].find(e => /→/.test(e.textContent))"
    assert tab.value(buttons) == "N more columns →, N more hosts ↓"
    assert tab.value(f"{right}.textContent") == f"{hidden} more columns →"
    assert tab.value(f"{box}.matches('.more-right.more-down:not(.more-left, .more-up)')")
    tab.value(f"{right}.click()")
    assert tab.wait_for(f"{box}.scrollLeft > 0 && {box}.matches('.more-left')")
    tab.value(f"{box}.scrollTo(99999, 99999)")
    assert tab.wait_for(f"{box}.matches('.more-left.more-up:not(.more-right, .more-down)')")
    assert tab.value(buttons) == "← N more columns, ↑ N more hosts"
    first = "document.querySelector('.matrix tbody th').getBoundingClientRect().left"
    assert abs(tab.value(first) - tab.value(f"{box}.getBoundingClientRect().left")) < 3


def test_no_buttons_if_the_table_fits(tab: Tab, tmp_path: Path) -> None:
    """There is no button if nothing is hidden."""
    tab.set_media(width=1400)
    open_page(tab, tmp_path, many_hosts())
    shown = "[...document.querySelectorAll('.beyond button')].some(e => e.checkVisibility())"
    assert tab.value(shown) is False


@pytest.mark.parametrize("denied", [False, True])
def test_copy_button_copies_the_command(tab: Tab, tmp_path: Path, *, denied: bool) -> None:
    """The clipboard gets the command byte for byte, even if the page may not write to it."""
    tab.set_media()
    open_page(tab, tmp_path, rendered_page("one"))
    if denied:
        tab.value("navigator.clipboard.writeText = () => Promise.reject(new Error('denied'))")
    number = tab.value("document.querySelectorAll('pre.command').length")
    assert tab.value("document.querySelectorAll('button.copy').length") == number > 0
    tab.value("document.querySelector('button.copy').scrollIntoView({block: 'center'})")
    tab.click("button.copy")
    assert tab.wait_for("document.querySelector('button.copy').textContent === 'Copied'")
    pasted = tab.value("navigator.clipboard.readText()")
    assert pasted == tab.value("document.querySelector('pre.command code').textContent")


def test_controls_are_not_printed(tab: Tab, tmp_path: Path) -> None:
    """Print has no buttons, and the table is not cut off."""
    tab.set_media(media="print")
    open_page(tab, tmp_path, every_fixture_host())
    shown = "[...document.querySelectorAll('form, button')].some(e => e.checkVisibility())"
    assert tab.value(shown) is False
    assert tab.value("getComputedStyle(document.querySelector('.tall')).overflowX") == "visible"
