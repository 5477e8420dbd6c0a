"""Archives of other programs, judged end to end: from a directory or a tar to a report."""

from __future__ import annotations

import random
import tarfile
from pathlib import Path

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import audit
from ext4audit.evidence import need
from ext4audit.renderers import Audited, json_v1
from ext4audit.report import Outcome, Report, ReportSource
from ext4audit.rules import all_rules
from ext4audit.sources.archive import is_wanted, recognise
from ext4audit.sources.captured import open_captured
from support.archives.contents import archive
from support.archives.fixtures import ARCHIVES, INSIGHTS, SUPPORTCONFIG, insights, supportconfig
from support.examples import share_of
from support.formats.golden import FOR_EVERY_HOST, check_golden
from support.hosts.evidence_loss import better_verdicts

FIXTURE_ARCHIVES = sorted(path for path in ARCHIVES.iterdir() if path.is_dir())


def report_of(path: Path) -> Report:
    """Audit an archive with all rules."""
    found = open_captured(path.as_posix())
    host = assemble_host(found.source, found.taken_at)
    return audit(ReportSource(found.kind, host.name), host, all_rules())


def packed_as_tar(fixture: Path, folder: Path) -> Path:
    """Write the fixture as the tar that its program creates."""
    path = folder / "packed.tar.xz"
    with tarfile.open(path, mode="w:xz") as tar:
        for entry in sorted((fixture / "archive").iterdir()):
            tar.add(entry, entry.name)
    return path


@pytest.mark.parametrize("fmt", FOR_EVERY_HOST)
@pytest.mark.parametrize("fixture", FIXTURE_ARCHIVES, ids=lambda fixture: fixture.name)
def test_archive_gives_the_expected_report(fixture: Path, fmt: str, *, accept: bool) -> None:
    """The report of a fixture archive equals the kept one."""
    report = report_of(fixture / "archive")
    check_golden(fixture, [Audited(fixture.name, report)], fmt, accept=accept)


@pytest.mark.parametrize("fixture", FIXTURE_ARCHIVES, ids=lambda fixture: fixture.name)
def test_tar_gives_the_same_report_as_its_directory(fixture: Path, tmp_path: Path) -> None:
    """A tar gives the same report, although not all of its files are kept in memory."""
    reports = [report_of(path) for path in (packed_as_tar(fixture, tmp_path), fixture / "archive")]
    first, second = (json_v1.render_report(report, tool_version="0") for report in reports)
    assert first == second


def contents_of(fixture: Path) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the relevant files of an archive, and its links."""
    top = fixture / "archive"
    paths = {str(path.relative_to(top)): path for path in top.rglob("*")}
    links = {name: str(path.readlink()) for name, path in paths.items() if path.is_symlink()}
    files = {
        name: path.read_bytes()
        for name, path in paths.items()
        if name not in links and path.is_file() and is_wanted(name)
    }
    return files, links


NOT_TRUNCATED = ("etc/fstab", "etc/os-release")
ALLOWED_IMPROVEMENT = "CAP003: pass, then not_applicable"
"""It passes because of a feature; without the superblock the size alone excludes the problem."""


@pytest.mark.parametrize("fixture", FIXTURE_ARCHIVES, ids=lambda fixture: fixture.name)
def test_archives_with_fewer_files_give_no_better_verdicts(fixture: Path) -> None:
    """Files are removed, emptied, or cut in the middle of a line."""
    files, links = contents_of(fixture)
    before = report_without(files, links)
    names = [name for name in files if not name.endswith(NOT_TRUNCATED)]
    chance = random.Random(fixture.name)  # noqa: S311
    broken = {}
    for name in chance.sample(names, min(len(names), share_of(12))):
        content = files[name]
        places = range(1, len(content))
        inside = [at for at in places if b"\n" not in content[at - 1 : at + 1]]
        cuts = [content[:at] for at in chance.sample(inside, min(len(inside), 4))]
        others = {other: text for other, text in files.items() if other != name}
        for less in (others, *({**files, name: text} for text in (b"", *cuts))):
            after = report_without(less, links)
            found = better_verdicts(before, after) if before and after else []
            shown = [change for change in found if change != ALLOWED_IMPROVEMENT]
            if shown:
                broken[name] = shown
    assert broken == {}


def report_without(files: dict[str, bytes], links: dict[str, str]) -> Report | None:
    """Audit the rest of an archive; return None if it is no longer recognised as one."""
    found = recognise(archive(files, links=links))
    if found is None:
        return None
    host = assemble_host(found.source, found.taken_at)
    return audit(ReportSource(found.kind, host.name), host, all_rules())


RULES_ABOUT_OPTIONS = "DRF001 DRF002 DRF006 DUR001 DUR002 LAY001 PRF001 PRF002".split()
"""Rules that need only options, fstab and the device stack, which every sosreport has."""


def test_old_sosreport_is_audited_by_its_options_file() -> None:
    """Its mount table shows rw,noatime,nodelalloc; its options file shows nobarrier."""
    report = report_of(ARCHIVES / "sosreport-hidden-nobarrier" / "archive")
    (data,) = (fs for fs in report.host.filesystems if fs.mount_points == ("/srv/data",))
    options = need(data.options)
    assert options.mount_table == ("rw", "nodelalloc")
    assert [option.token for option in options.hidden] == ["nobarrier"]
    judged = [v for v in report.verdicts if v.rule.code in RULES_ABOUT_OPTIONS]
    assert len(judged) == 2 * len(RULES_ABOUT_OPTIONS) - 1  # DRF006 judges the host
    assert not any(v.unknowns or v.outcome is Outcome.UNDETERMINED for v in judged)


@pytest.mark.parametrize(
    ("fixture", "files"), [(INSIGHTS, insights()), (SUPPORTCONFIG, supportconfig())]
)
def test_written_archives_equal_their_script(fixture: str, files: dict[str, str]) -> None:
    """A manual change would be lost when the script runs again."""
    top = ARCHIVES / fixture
    found = {
        str(path.relative_to(top)): path.read_text(encoding="utf-8")
        for path in top.rglob("*")
        if path.is_file()
    }
    assert found == files
