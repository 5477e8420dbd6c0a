"""The texts of every rule on a filesystem with many mounts: a few are named, the rest counted."""

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

NUMBERED_MOUNT_POINT = re.compile(r"/b/\d+")
OPTION_SETS = (
    *((word,) for word in "nobarrier sync norecovery commit=900 discard errors=continue".split()),
    *(("data=writeback", word) for word in "delalloc nodelalloc".split()),
    ("data=journal", "journal_async_commit"),
    ("noauto_da_alloc", "dioread_nolock"),
    ("nodelalloc", "dioread_nolock"),
)


def twenty_mounts(*words: str) -> tuple[Mount, ...]:
    """Build twenty mounts of one filesystem."""
    numbers = range(100, 120)
    return tuple(
        mount(f"/b/{number}", super_options=("rw", *words), mount_id=number) for number in numbers
    )


def filesystems_with_many_mounts() -> Iterator[Filesystem]:
    """Yield filesystems with many mounts, each of which gives other rules a reason."""
    for words in OPTION_SETS:
        yield filesystem(mounts=twenty_mounts(*words), options=known(options(*words)))
    bare = superblock(features=frozenset({"extent"}))
    yield filesystem(mounts=twenty_mounts(), superblock=known(bare))


def texts(output: Finding | Citation) -> Iterator[str]:
    """Yield what a report prints of a finding or of evidence, without commands."""
    if isinstance(output, Citation):
        yield from (output.label, output.value)
        return
    yield from (output.message, output.summary)
    yield from (text for cited in output.citations for text in texts(cited))
    yield from (text for each in output.remedies for text in (each.summary, each.trade_off or ""))


def rule_outputs(fs: Filesystem, release: str) -> Iterator[tuple[str, Finding | Citation]]:
    """Yield what all rules say of a filesystem and its host, with their codes."""
    of = host(fs, kernel=known(kernel(release)))
    for rule in all_rules():
        verdict = judge(rule, None if rule.scope is Scope.HOST else fs, of)
        yield from ((rule.code, finding) for finding in verdict.findings)
        yield from ((rule.code, cited) for cited in verdict.evidence)


@pytest.mark.parametrize("release", ["6.1.0-18-amd64", "6.1.64", "4.9.0"])
def test_texts_name_only_the_first_mount_points(release: str) -> None:
    """The others are counted."""
    found = {
        code
        for fs in filesystems_with_many_mounts()
        for code, output in rule_outputs(fs, release)
        if any(len({*NUMBERED_MOUNT_POINT.findall(text)}) > MOST_NAMED for text in texts(output))
    }
    assert found == set()


@pytest.mark.parametrize(
    ("code", "words", "decisive"),
    [
        ("DUR003", ("data=writeback",), "/home"),
        ("DUR008", ("noauto_da_alloc",), "/var/lib/mysql"),
    ],
)
def test_decisive_mount_point_is_shown(code: str, words: tuple[str, ...], decisive: str) -> None:
    """Without it, nothing in the report shows why the finding is more severe."""
    fs = filesystem(
        mounts=(*twenty_mounts(*words), mount(decisive, super_options=("rw", *words), mount_id=7)),
        options=known(options(*words)),
    )
    rule = next(rule for rule in all_rules() if rule.code == code)
    (finding,) = judge(rule, fs, host(fs)).findings
    (cited,) = (each for each in finding.citations if each.label == "mount points")
    assert cited.value.startswith(f"{decisive}, ")
