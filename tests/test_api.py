"""The public interface: the audit as functions, without the command line."""

from __future__ import annotations

import json
import math
import pickle
import sys
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from inspect import isfunction
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

import ext4audit
from ext4audit import (
    ActiveProfile,
    ArchiveError,
    Outcome,
    Report,
    Rule,
    Severity,
    all_profiles,
    audit_host,
    audit_snapshot,
    select_rules,
)
from support.archives.contents import DATA_UUID, MOUNTINFO, dumpe2fs_header, sos_files
from support.hosts.fixture_hosts import HOSTS
from support.program import run_python

SNAPSHOT = HOSTS / "lvm-linear-nobarrier" / "snapshot"


def test_a_snapshot_is_audited_by_the_default_rules() -> None:
    """The report has the findings with their severities and remedies."""
    report = audit_snapshot(SNAPSHOT)
    assert isinstance(report, Report)
    (verdict,) = [each for each in report.verdicts if each.rule.code == "DUR001"]
    assert verdict.outcome is Outcome.FAIL
    assert verdict.findings[0].severity.at_least(Severity.HIGH)
    assert verdict.findings[0].remedies


def test_rules_are_selected_by_code_family_and_name() -> None:
    """A snapshot is judged by the selected rules only."""
    rules = select_rules(["KRN", "DUR001", "commit-large"], ["KRN003"])
    kernels = [f"KRN00{number}" for number in (1, 2, 4, 5, 6, 7)]
    assert [rule.code for rule in rules] == ["DUR001", "DUR007", *kernels]
    report = audit_snapshot(SNAPSHOT, rules=rules)
    assert {verdict.rule.code for verdict in report.verdicts} == {rule.code for rule in rules}


def test_a_text_is_one_term() -> None:
    """A string is not split into letters: "SLK" selected three families, DUR001 failed at "U"."""
    assert select_rules("DUR001") == select_rules(["DUR001"])
    assert select_rules([], "DUR") == select_rules([], ["DUR"])
    with pytest.raises(ValueError, match="SLK"):
        select_rules("SLK")


@pytest.mark.parametrize("rules", [(), select_rules(["DUR001"]) * 2])
def test_an_audit_has_each_rule_once(rules: tuple[Rule, ...]) -> None:
    """No rules and repeated rules are errors; a report of no rules was complete and clean."""
    with pytest.raises(ValueError, match=r"^rules: "):
        audit_snapshot(SNAPSHOT, rules=rules)
    with pytest.raises(ValueError, match=r"^rules: "):
        audit_host(rules=rules)


@pytest.mark.parametrize("rules", ["DUR001", ["DUR001"]])
def test_codes_are_no_rules(rules: Any) -> None:
    """Codes in place of rules raise a TypeError that names `select_rules`."""
    with pytest.raises(TypeError, match="select_rules"):
        audit_snapshot(SNAPSHOT, rules=rules)


@pytest.mark.parametrize("profiles", ["tidb", ["tidb"], [all_profiles()["tidb"]]])
def test_names_are_no_profiles(profiles: Any) -> None:
    """The error was of an attribute that a str lacks."""
    with pytest.raises(TypeError, match=r"^profiles: ActiveProfile\("):
        audit_snapshot(SNAPSHOT, profiles=profiles)
    with pytest.raises(TypeError, match=r"^profiles: ActiveProfile\("):
        audit_host(profiles=profiles)


def test_profiles_can_come_from_a_generator() -> None:
    """It was used up by the choice of the rules, and no filesystem had a profile."""
    tidb = ActiveProfile(all_profiles()["tidb"])
    given: Any = iter([tidb])
    assert audit_snapshot(SNAPSHOT, profiles=given) == audit_snapshot(SNAPSHOT, profiles=[tidb])


def test_a_dash_is_standard_input(tmp_path: Path) -> None:
    """As for `--from -`; a file of that name has a folder before it."""
    packed = tmp_path / "-"
    with tarfile.open(packed, "w") as tar:
        tar.add(SNAPSHOT, "snapshot")
    code = "import ext4audit, sys; print(len(ext4audit.audit_snapshot(sys.argv[1]).verdicts))"
    expected = f"{len(audit_snapshot(SNAPSHOT).verdicts)}\n"
    for path, standard_input in (("-", packed), ("./-", Path("/dev/null"))):
        with standard_input.open("rb") as given:
            run = run_python("-c", code, path, stdin=given, cwd=tmp_path)
        assert (run.stdout, run.stderr) == (expected, "")


def test_rules_can_come_from_a_generator() -> None:
    """All filesystems are judged, although the first one exhausts the generator."""
    several = HOSTS / "healthy-rhel-9" / "snapshot"
    given: Any = iter(select_rules(["DUR"]))
    report = audit_snapshot(several, rules=given)
    assert report == audit_snapshot(several, rules=select_rules(["DUR"]))
    assert len(report.host.filesystems) > 1


def test_a_term_that_selects_nothing_is_an_error() -> None:
    """A misspelt rule must not silently audit less."""
    with pytest.raises(ValueError, match=r"^unknown rule 'DUR999'$"):
        select_rules(["DUR999"])
    with pytest.raises(ValueError, match=r"^the selection leaves no rule to run$"):
        select_rules(["DUR"], ["DUR"])


def test_what_is_no_evidence_is_an_error_with_the_reason() -> None:
    """The message of the ArchiveError begins with the path."""
    with pytest.raises(ArchiveError, match=r"^/proc/nonexistent: No such file or directory$"):
        audit_snapshot("/proc/nonexistent")


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_a_path_that_can_name_nothing_is_an_error(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty path (`--from "$UNSET"`) does not make the program search the working directory."""
    monkeypatch.chdir(SNAPSHOT)
    with pytest.raises(ArchiveError, match=r"(the path is empty|it holds a NUL)$"):
        audit_snapshot(path)


def test_a_relative_path_is_that_of_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook may change it between two audits; the second one must not use the old one."""
    report = audit_snapshot(SNAPSHOT)
    monkeypatch.chdir(SNAPSHOT.parent)
    assert audit_snapshot("snapshot").verdicts == report.verdicts


def test_times_in_an_archive_are_in_an_unknown_zone(tmp_path: Path) -> None:
    """dumpe2fs prints no zone: this filesystem may have been mounted hours before the audit."""
    mounted = "Last mount time:          Sat Nov 21 05:58:00 2026\n"
    superblock = dumpe2fs_header(DATA_UUID).replace("has_journal", "has_journal needs_recovery")
    files = {
        **sos_files(),
        "proc/1/mountinfo": "".join(MOUNTINFO.splitlines(keepends=True)[:2]),
        "sos_commands/filesys/dumpe2fs_-h_.dev.vdb": superblock + mounted,
        "sys/block/vdb/size": "20971520\n",
    }
    del files["proc/fs/ext4/vdb/options"]
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "sys/block/vdb/holders").mkdir()
    report = audit_snapshot(tmp_path, rules=select_rules("HLT003"))
    assert [each.outcome for each in report.verdicts] == [Outcome.FAIL]


def test_targets_restrict_the_audit() -> None:
    """A mount point of the captured host names its filesystem."""
    report = audit_snapshot(SNAPSHOT)
    mount_point = report.host.filesystems[-1].mount_points[0]
    for targets in ([mount_point], mount_point, Path(mount_point)):
        only = audit_snapshot(bytes(SNAPSHOT), targets=targets)
        assert [fs.mount_points[0] for fs in only.host.filesystems] == [mount_point]


@pytest.mark.parametrize("targets", [["UUID=none"], "UUID=none", ["/", "sdz"], ["/", ""], ""])
def test_a_target_that_names_nothing_is_an_error(targets: str | list[str]) -> None:
    """It must not give a complete, clean report of no filesystems; a string is one target."""
    with pytest.raises(ValueError, match=r"filesystem is called (UUID=none|sdz|'')$"):
        audit_snapshot(HOSTS / "healthy-debian-12" / "snapshot", targets=targets)


def test_one_host_of_many_may_lack_a_target() -> None:
    """With `may_lack_targets`, a target that is not found is left out: other hosts have it."""
    snapshot = HOSTS / "healthy-debian-12" / "snapshot"
    found = audit_snapshot(snapshot, targets=["/", "sdz"], may_lack_targets=True)
    assert [fs.mount_points[0] for fs in found.host.filesystems] == ["/"]


@pytest.mark.parametrize(
    "limits",
    [
        {"timeout_seconds": 0},
        {"timeout_seconds": -1},
        {"timeout_seconds": math.nan},
        {"deadline_seconds": math.inf},
        {"mounts_of": 0},
    ],
)
def test_a_limit_that_is_none_is_an_error(limits: dict[str, Any]) -> None:
    """The ValueError names the limit; -1 used to cause an IndexError deep inside."""
    with pytest.raises(ValueError, match=next(iter(limits))):
        audit_host(**limits)


def test_an_audit_leaves_no_process_behind() -> None:
    """A program that audits every hour used to keep a process per audit until a collection."""
    code = (
        "import gc, pathlib, ext4audit; gc.disable(); [ext4audit.audit_host() for _ in range(2)]; "
        "print(pathlib.Path('/proc/self/task').glob('*/children').__next__().read_text())"
    )
    assert run_python("-c", code).stdout == "\n"


@pytest.mark.usefixtures("own_helpers")
def test_threads_audit_archives_side_by_side(tmp_path: Path) -> None:
    """A helper shared by threads used to read the bytes of one archive as those of another."""
    fixtures = sorted(each.parent for each in HOSTS.glob("*/snapshot"))[:12]
    expected = [audit_snapshot(fixture / "snapshot").verdicts for fixture in fixtures]
    packed = [tmp_path / f"{fixture.name}.tar" for fixture in fixtures]
    for fixture, path in zip(fixtures, packed, strict=True):
        with tarfile.open(path, "w") as archive:
            archive.add(fixture / "snapshot", "snapshot")
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = [report.verdicts for report in pool.map(audit_snapshot, packed)]
    finally:
        sys.setswitchinterval(usual)
    assert found == expected


def test_a_report_is_unpickled_by_another_process(tmp_path: Path) -> None:
    """A pickled report refers to rules whose modules the other process has not imported."""
    path = tmp_path / "report"
    report = audit_snapshot(SNAPSHOT)
    path.write_bytes(pickle.dumps(report))
    code = "import pickle, sys; print(len(pickle.load(open(sys.argv[1], 'rb')).findings))"
    assert run_python("-c", code, str(path)).stdout == f"{len(report.findings)}\n"


def test_the_interface_is_what_it_exports() -> None:
    """Every public name can be imported, and no other name can."""
    for name in ext4audit.__all__:
        assert getattr(ext4audit, name) is not None
    assert dir(ext4audit) == ext4audit.__all__
    with pytest.raises(AttributeError):
        _ = ext4audit.engine_of_the_world


def test_what_public_functions_and_reports_have_is_public() -> None:
    """A caller can name the type of every argument and result; types inside facts are exempt."""
    public = [getattr(ext4audit, name) for name in ext4audit.__all__]
    reported = {Report, ext4audit.Verdict, ext4audit.Finding, ext4audit.Remedy, Rule}
    owners = [each for each in public if isfunction(each) or each in reported]
    named = {
        each for owner in owners for hint in get_type_hints(owner).values() for each in inside(hint)
    }
    assert {each for each in named if each.__module__.startswith("ext4audit.")} <= set(public)


def inside(hint: Any) -> Iterator[type]:
    """Yield the classes in a type hint."""
    for part in (get_origin(hint), hint):
        if isinstance(part, type):
            yield part
    for part in get_args(hint):
        yield from inside(part)


def test_profiles_add_the_rules_that_judge_them() -> None:
    """Without these rules, the demands of a profile are not judged and read as met."""
    profiles = [ActiveProfile(all_profiles()["tidb"])]
    codes = {each.rule.code for each in audit_snapshot(SNAPSHOT, profiles=profiles).verdicts}
    usual = {each.code for each in select_rules([])}
    assert codes - usual == {"CMP007", *profiles[0].profile.enable} - usual


def test_importing_the_package_costs_nothing() -> None:
    """`ext4audit --version` imports the package, but none of its modules."""
    code = "import json, sys, ext4audit; print(json.dumps(sorted(sys.modules)))"
    modules = set(json.loads(run_python("-c", code).stdout))
    assert not {name for name in modules if name.startswith("ext4audit.")}


@pytest.mark.kernel
def test_this_host_is_audited_without_the_command_line() -> None:
    """The interface imports neither click nor rich."""
    code = (
        "import sys, ext4audit; report = ext4audit.audit_host(timeout_seconds=10); "
        "print(len(report.verdicts) > 0, sorted({'click', 'rich'} & set(sys.modules)))"
    )
    assert run_python("-c", code).stdout == "True []\n"
