"""The form of citations: commits of 12 or 40 digits, and addresses in the form of their hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import ext4audit
from ext4audit.rules import all_rules

PACKAGE = Path(ext4audit.__file__).parent
DATA = sorted((PACKAGE / "facts" / "tables").glob("*.toml"))
RULES = sorted((PACKAGE / "rules").rglob("*.py"))
HEX = re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b")
"""A commit: hexadecimal digits with both letters and figures."""
ADDRESS = re.compile(r"https?://[^\s\"'<>)\]]+")
COMMIT = r"[0-9a-f]{12}|[0-9a-f]{40}"
PATTERNS = {
    "git.kernel.org": rf"/linus/({COMMIT})|/stable/c/({COMMIT})|/pub/scm/.+/tree/.+"
    rf"|/pub/scm/.+\?id=({COMMIT})",
    "git.savannah.gnu.org": r"/cgit/[a-z]+\.git/tree/.+",
    "github.com": rf"/[\w.-]+/[\w.-]+(?:/(?:issues|pull)/\d+|/commit/({COMMIT})"
    r"|/(?:blob|tree|wiki)/[\w./-]+)?",
    "lore.kernel.org": r"/(?:all|stable|linux-ext4|lkml|linux-[a-z0-9-]+)/[^/]+@[^/]+/|/[a-z-]+/.*",
    "bugzilla.kernel.org": r"/show_bug\.cgi\?id=\d+",
    "bugzilla.redhat.com": r"/(?:show_bug\.cgi\?id=)?\d+",
    "bugs.debian.org": r"/\d+|/cgi-bin/bugreport\.cgi\?bug=\d+",
    "bugs.launchpad.net": r"(?:/[\w./+-]+)?/\+?bugs?/\d+",
    "man7.org": r"/linux/man-pages/man\d/[\w.-]+\.\d[a-z]?\.html",
    "nvd.nist.gov": r"/vuln/detail/CVE-\d{4}-\d{4,}",
}
"""The part after the host name, for hosts whose addresses have a known form."""
HOSTS = frozenset(
    """
    bugs.debian.org bugs.launchpad.net bugzilla.kernel.org bugzilla.redhat.com clickhouse.com
    cloud.google.com developer.hashicorp.com docs.aws.amazon.com docs.docker.com docs.kernel.org
    docs.pingcap.com doc.lustre.org documentation.suse.com en.wikipedia.org git.kernel.org
    git.savannah.gnu.org github.com kafka.apache.org kernelnewbies.org kubernetes.io
    learn.microsoft.com lore.kernel.org lwn.net man7.org neo4j.com nvartolomei.com nvd.nist.gov
    patchwork.ozlabs.org raid.wiki.kernel.org systemd.io wiki.postgresql.org wiki.ubuntu.com
    www.alibabacloud.com www.freedesktop.org www.gbase8.cn www.kernel.org www.mongodb.com
    www.postgresql.org www.sdcard.org www.suse.com access.redhat.com wiki.archlinux.org
    listman.redhat.com thunk.org packages.debian.org tracker.debian.org
    canonical-kteam-docs.readthedocs-hosted.com docs.amazonaws.cn lkml.iu.edu man.archlinux.org
    mirrors.aliyun.com packages.ubuntu.com ubuntu.com wiki.rockylinux.org www.repost.aws
    """.split()
)
"""The hosts that are cited: adding a new one here makes typing errors visible."""


def cited() -> Iterator[tuple[str, str]]:
    """Yield each address with its citing place: data files, and references of rules."""
    for path in DATA:
        for address in ADDRESS.findall(path.read_text(encoding="utf-8")):
            yield path.name, address
    for rule in all_rules():
        for reference in rule.references:
            yield from ((rule.code, address) for address in ADDRESS.findall(reference))


@pytest.mark.parametrize("path", [*DATA, *RULES], ids=lambda path: path.name)
def test_a_commit_has_12_or_40_digits(path: Path) -> None:
    """Shorter ones are ambiguous in the kernel's tree, and other lengths are mistakes."""
    text = ADDRESS.sub("", path.read_text(encoding="utf-8"))
    lengths = {commit: len(commit) for commit in HEX.findall(text)}
    assert {commit for commit, length in lengths.items() if length not in {12, 40}} == set()


@pytest.mark.parametrize(("by", "address"), sorted(set(cited())), ids=str)
def test_an_address_has_the_form_of_its_host(by: str, address: str) -> None:
    """The host is known, the scheme https, and the path one that the host uses for such pages."""
    parts = urlsplit(address)
    assert parts.scheme == "https", by
    assert parts.hostname in HOSTS, f"{by} cites {address}: add its host here"
    rest = f"{parts.path}{'?' if parts.query else ''}{parts.query}"
    assert re.fullmatch(PATTERNS.get(str(parts.hostname), ".*"), rest), f"{by} cites {address}"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("c8980e1980cc", set()),
        ("c8980e1980ccdc2229aa2218d532ddc62e0aabe5", set()),
        ("c8980e1", {"c8980e1"}),
        ("c8980e1980ccd", {"c8980e1980ccd"}),
        ("deadbeef", set()),
        ("20240101", set()),
    ],
)
def test_what_counts_as_a_commit(text: str, wrong: set[str]) -> None:
    """A commit has both letters and figures, unlike words and dates."""
    assert {each for each in HEX.findall(text) if len(each) not in {12, 40}} == wrong
