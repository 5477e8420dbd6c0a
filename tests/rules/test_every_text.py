"""Every citation of every rule says what was read, and where; no text names a thousand mounts."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import Mount
from ext4audit.finding import MOST_NAMED, Citation, Finding
from ext4audit.rule import Scope
from ext4audit.rules import all_rules
from support.builders import filesystem, host, kernel, known, mount, options, superblock
from support.hosts.stories import every_story, report_of

PLACE = re.compile(r"/b/\d+")
STATES = (
    *((word,) for word in "nobarrier sync norecovery commit=900 discard errors=continue".split()),
    *(("data=writeback", word) for word in "delalloc nodelalloc".split()),
    ("data=journal", "journal_async_commit"),
    ("noauto_da_alloc", "dioread_nolock"),
    ("nodelalloc", "dioread_nolock"),
)


@every_story
def test_a_citation_has_a_value_and_an_origin(story: str) -> None:
    """Nobody has to believe evidence that could be from anywhere."""
    verdicts = report_of(story).verdicts
    cited = [(v.rule.code, each) for v in verdicts for each in v.evidence]
    cited += [(v.rule.code, each) for v in verdicts for f in v.findings for each in f.citations]
    assert cited
    assert [(code, each) for code, each in cited if not (each.value and each.origin)] == []


def mounts(*words: str) -> tuple[Mount, ...]:
    """Build twenty mounts of one filesystem."""
    numbers = range(100, 120)
    return tuple(
        mount(f"/b/{number}", super_options=("rw", *words), mount_id=number) for number in numbers
    )


def filesystems() -> Iterator[Filesystem]:
    """Yield filesystems with many mounts, each of which gives other rules a reason."""
    for words in STATES:
        yield filesystem(mounts=mounts(*words), options=known(options(*words)))
    bare = superblock(features=frozenset({"extent"}))
    yield filesystem(mounts=mounts(), superblock=known(bare))


def texts(output: Finding | Citation) -> Iterator[str]:
    """Yield what a report prints of a finding or of evidence, without commands."""
    if isinstance(output, Citation):
        yield from (output.label, output.value)
        return
    yield from (output.message, output.summary)
    yield from (text for cited in output.citations for text in texts(cited))
    yield from (text for each in output.remedies for text in (each.summary, each.trade_off or ""))


def outputs(fs: Filesystem, release: str) -> Iterator[tuple[str, Finding | Citation]]:
    """Yield what all rules say of a filesystem and its host, with their codes."""
    of = host(fs, kernel=known(kernel(release)))
    for rule in all_rules():
        verdict = judge(rule, None if rule.scope is Scope.HOST else fs, of)
        yield from ((rule.code, finding) for finding in verdict.findings)
        yield from ((rule.code, cited) for cited in verdict.evidence)


@pytest.mark.parametrize("release", ["6.1.0-18-amd64", "6.1.64", "4.9.0"])
def test_no_text_names_more_than_a_few(release: str) -> None:
    """The others are counted."""
    found = {
        code
        for fs in filesystems()
        for code, output in outputs(fs, release)
        if any(len({*PLACE.findall(text)}) > MOST_NAMED for text in texts(output))
    }
    assert found == set()
