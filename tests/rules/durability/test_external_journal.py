"""Missing barriers with an external journal, which is on another disk."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import judge
from ext4audit.evidence import Known, Unknown, need
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Severity
from ext4audit.report import Verdict
from ext4audit.rule import Rule
from ext4audit.rules.durability import dur001_barrier_disabled as dur001
from ext4audit.rules.durability import dur004_async_journal_commit as dur004
from support.builders import disk, filesystem, host, known, options, queue, superblock, unknown
from support.hosts.evidence_host import DATA_UUID, TAKEN_AT, debian_host, dumpe2fs_text


def journaled(journal: Any) -> Verdict:
    """Judge a filesystem on a write-through disk, with its journal on another device."""
    through = disk(limits=queue(write_cache="write through"))
    fs = filesystem(
        stack=known(through), journal_stack=journal, options=known(options("nobarrier"))
    )
    return judge(dur001.check, fs, host(fs))


@pytest.mark.parametrize(
    ("journal", "severity", "words"),
    [
        (None, Severity.INFO, "sda: no volatile write cache is reported"),
        (known(disk("sdb", DeviceNumber(8, 16))), Severity.CRITICAL, "sdb (journal): the write"),
        (
            known(disk("sdb", DeviceNumber(8, 16), queue(write_cache="write through"))),
            Severity.INFO,
            "sda, sdb (journal): no volatile",
        ),
        (unknown("block device 8:16"), Severity.HIGH, "the journal's device: whether its write"),
    ],
)
def test_dur001_severity_by_disk_of_the_external_journal(
    journal: Any, severity: Severity, words: str
) -> None:
    """Commits go to the journal first, and without flushes they can be lost there."""
    verdict = journaled(journal)
    (finding,) = verdict.findings
    assert finding.severity is severity
    assert words in finding.message
    assert bool(verdict.unknowns) is (severity is Severity.HIGH)


@pytest.mark.parametrize(
    "unread",
    [unknown("superblock"), known(superblock(journal_bytes=None, block_bytes=None))],
    ids=["not read", "from the ioctl"],
)
@pytest.mark.parametrize(
    ("rule", "tokens", "severity"),
    [
        (dur001.check, ("nobarrier",), Severity.INFO),
        (dur004.check, ("data=writeback", "journal_async_commit"), Severity.MEDIUM),
    ],
)
def test_gap_where_the_superblock_does_not_place_the_journal(
    rule: Rule, tokens: tuple[str, ...], severity: Severity, unread: Any
) -> None:
    """The journal may be on a disk with a volatile cache, which only the superblock names."""
    through = known(disk(limits=queue(write_cache="write through")))
    fs = filesystem(stack=through, superblock=unread, options=known(options(*tokens)))
    verdict = judge(rule, fs, host(fs))
    assert verdict.findings[0].severity is severity
    assert [gap.what for gap in verdict.unknowns] == [
        "superblock" if isinstance(unread, Unknown) else "place of the journal"
    ]


def test_device_number_of_an_external_journal() -> None:
    """The superblock has its device number; an internal journal has none."""
    plain = debian_host()
    inside = assemble_host(plain.source(), TAKEN_AT)
    assert [fs.journal_stack for fs in inside.filesystems] == [None, None]
    outside = "Journal device:\t          0x0820\nInode size: "
    text = dumpe2fs_text(DATA_UUID).partition("Total journal size:")[0]
    text = text.replace("Inode size: ", outside)
    away = plain.disk("sdc", "8:32").dumpe2fs("/dev/sdb", text)
    stacks = {
        fs.name: fs.journal_stack for fs in assemble_host(away.source(), TAKEN_AT).filesystems
    }
    assert stacks["sda1"] is None
    assert isinstance(stacks["sdb"], Known)
    assert need(stacks["sdb"]).name == "sdc"
