from __future__ import annotations

import csv
import re
from io import StringIO

import pytest
from hypothesis import given

from ext4audit.engine import audit
from ext4audit.facts.host import Host
from ext4audit.finding import Confidence, Finding, Severity
from ext4audit.renderers import Audited, visible
from ext4audit.renderers.csv import COLUMNS, render
from ext4audit.renderers.shared.rows import gaps
from ext4audit.rule import RuleOutput, host_rule
from ext4audit.rules import all_rules
from support.builders import host
from support.examples import examples
from support.formats.sample_reports import (
    CLEAN_HOST,
    CRITICAL,
    FIXED_FINDING,
    FLEET,
    HOSTILE_NAMES,
    INCOMPLETE,
    LIVE,
    PAGE,
    PROCESSED_REPORT,
    UNREADABLE_HOST,
    edits,
    hostile_report,
    md127,
    processed_report,
    report,
    root,
)
from support.hosts.strategies import HOSTS

FORMULAS = {
    "link": '=HYPERLINK("http://example.com","a")',
    "plus": "+1",
    "minus": "-1+cmd|' /C calc'!A0",
    "at": "@SUM(1)",
    "wide": "\uff1d1+1",
    "quotes": '"a","b"',
    "comma": "a,b",
}
NAMES = {**HOSTILE_NAMES, **FORMULAS}


def read(*hosts: Audited) -> list[dict[str, str]]:
    """Render and parse: the header has the columns, and each row ends with CR LF."""
    text = render(hosts, PAGE)
    text.encode()
    assert text.endswith("\r\n")
    assert not re.search(r"\r(?!\n)", text)
    reader = csv.DictReader(StringIO(text, newline=""), strict=True)
    found = list(reader)
    assert tuple(reader.fieldnames or ()) == COLUMNS
    assert all(None not in row and None not in row.values() for row in found)
    return found


def test_finding_is_a_row() -> None:
    """The commands are one line that stops at a failure, without rollback commands."""
    critical, medium = read(CRITICAL)
    assert critical == {
        "host": "db1",
        "kind": "finding",
        "rule": "DUR001",
        "name": "barrier-disabled",
        "severity": "critical",
        "confidence": "confirmed",
        "state": "active",
        "device": "/dev/md127",
        "mount_point": r"/mnt/a\x1b[b",
        "uuid": "u-md127",
        "fact": "",
        "message": "Write barriers are off above disks with a volatile write cache: a power cut "
        "can corrupt the filesystem.",
        "evidence": "option in force: nobarrier (/proc/fs/ext4/md127/options); "
        r"mount point: /mnt/a\x1b[b (/proc/self/mountinfo)",
        "remedy": "Enable barriers again.",
        "disruption": "online",
        "commands": "mount -o remount,barrier \"$(printf '/mnt/a\\033\\133b')\" && "
        "tune2fs -o ^nobarrier /dev/md127 && grep -x barrier /proc/fs/ext4/md127/options",
        "hint": "",
        "reason": "",
        "owner": "",
        "expires": "",
        "source": "fleet/night",
        "policy": "",
        "knowledge": "",
    }
    assert medium["disruption"] == "destroys and recreates the filesystem"


@pytest.mark.parametrize(
    ("fact", "device", "uuid"), [("/data", "/dev/md127", "u-md127"), ("/gone", "", "")]
)
def test_finding_about_fstab_has_its_mount_point(fact: str, device: str, uuid: str) -> None:
    """As in JSON, a table can be filtered by mount point, whatever a rule judges."""

    @host_rule("CMP003", "fstab-unstable-device", severity=Severity.HIGH, since="0.2")
    def names(_host: Host) -> RuleOutput:
        yield Finding("Odd.", Severity.LOW, Confidence.LIKELY, (), fact=fact)
        yield Finding("Odd.", Severity.LOW, Confidence.LIKELY, (), fact=fact)

    found = read(Audited("db1", report(host(md127("/data")), names)))
    assert [row["fact"] for row in found] == [fact, f"{fact} #2"]
    for row in found:
        assert (row["mount_point"], row["device"], row["uuid"]) == (fact, device, uuid)


def test_commands_stop_at_the_first_failure() -> None:
    """A cell has no phases, so all its commands form one list for a shell."""
    (row,) = read(Audited("x", report(host(root()), edits)))
    assert row["commands"].split(" && ") == [
        "type e2fsck",
        "umount /data",
        "{ e2fsck -p /dev/sda || test $? -eq 1; }",
        "mount /data",
        "sed -i '7s/,nodelalloc//' /etc/fstab",
        r"printf 'a = 1\n\nb = 2\n' > /etc/new",
        "! grep nodelalloc /etc/fstab",
        "test -e /etc/new",
    ]


def test_suppressed_and_known_findings_are_marked() -> None:
    """The reason, its owner and its last day have separate columns."""
    by_rule = {row["rule"]: row for row in read(PROCESSED_REPORT)}
    assert {code: row["state"] for code, row in by_rule.items()} == {
        "DUR001": "suppressed",
        "LAY001": "known",
        "KRN003": "active",
        "PRF002": "active",
        "CAP001": "",
    }
    suppressed = by_rule["DUR001"]
    shown = [suppressed[column] for column in ("reason", "owner", "expires")]
    assert shown == ["replaced in May", "storage team", "2026-05-31"]


def test_gaps_and_errors_are_rows() -> None:
    """The row has the unknown and how to determine it; a rule that raised is an error."""
    gap, unknown, broken, *_ = read(INCOMPLETE)
    assert (gap["kind"], gap["rule"]) == ("undetermined", "")
    assert gap["message"] == "the mount table of PID 1 (timed out: after 10 s)"
    assert (unknown["kind"], unknown["rule"], unknown["hint"]) == (
        "undetermined",
        "CAP001",
        "run as root",
    )
    assert unknown["device"] == "/dev/sda"
    assert (broken["kind"], broken["rule"]) == ("error", "HLT009")


def test_every_host_has_a_row() -> None:
    """A host without findings is clean; a host without a report has the reason."""
    found = read(*FLEET)
    assert {row["host"] for row in found} == {"db1", "web1", "m", "bad.tar.gz", "db9"}
    (clean,) = read(CLEAN_HOST)
    assert (clean["kind"], clean["severity"]) == ("clean", "")
    (unread,) = read(UNREADABLE_HOST)
    assert (unread["kind"], unread["message"]) == ("unread", "fleet/bad.tar.gz: not a snapshot")


def test_fixed_finding_is_a_row() -> None:
    """The row has the baseline's name of the filesystem, or its columns if it still exists."""
    (gone,) = [row for row in read(PROCESSED_REPORT) if row["kind"] == "fixed"]
    shown = [gone[column] for column in ("host", "rule", "device", "mount_point", "message")]
    assert shown == ["db9", "CAP001", "/dev/sdz on /old", "", "Only 1 inode is left."]
    there = FIXED_FINDING._replace(superblock="u-md127")
    fixed = Audited("x", processed_report()._replace(fixed=(there,)))
    (gone,) = [row for row in read(fixed) if row["kind"] == "fixed"]
    assert (gone["device"], gone["mount_point"]) == ("/dev/md127", "/srv/a")
    on_host = Audited(
        "x", processed_report()._replace(fixed=(FIXED_FINDING._replace(subject="the host"),))
    )
    (gone,) = [row for row in read(on_host) if row["kind"] == "fixed"]
    assert (gone["device"], gone["mount_point"]) == ("", "")


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_cells_are_never_formulas(name: str) -> None:
    """A name that begins like a formula gets an apostrophe; other text is unchanged."""
    found = read(Audited(name, hostile_report(name)))
    cells = [cell for row in found for cell in row.values()]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\uff1d"))]
    assert found[0]["mount_point"] in (visible(name), f"'{visible(name)}")
    assert found[0]["commands"] == f"umount -- {visible(name)}"
    assert not any("\n" in cell for cell in cells)


@examples(25)
@given(judged=HOSTS)
def test_any_host_is_read_back(judged: Host) -> None:
    """There is a row for each finding and each gap, and at least one row."""
    report = audit(LIVE, judged, all_rules())
    found = read(Audited("x", report))
    expected = len(report.findings) + len(gaps("x", report))
    assert len(found) == max(expected, 1)
    assert (found[0]["kind"] == "clean") is (expected == 0)
