"""Site rules: loaded from files and packages, validated; broken ones are ERROR verdicts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from ext4audit.cli import run_program
from ext4audit.cli.output import FORMATS
from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import (
    Assignment,
    Citation,
    Confidence,
    Disruption,
    Finding,
    LineEdit,
    MountCommand,
    Phase,
    Programs,
    Remedy,
    Severity,
    Step,
)
from ext4audit.policy.site_rules import SiteRuleError, rules_of_text, type_errors
from ext4audit.report import Outcome
from ext4audit.rule import Rule
from ext4audit.rules import all_rules
from ext4audit.testing import host_of, load_rules, problems, unheeded, verdicts
from support.builders import filesystem, host
from support.examples import sample_of
from support.hosts.fixture_hosts import HOSTS
from support.program import run_new

SNAPSHOT = HOSTS / "lvm-linear-nobarrier" / "snapshot"
HEALTHY = HOSTS / "healthy-debian-12" / "snapshot"
HEAD = '"""XAC001: A label is missing."""\nfrom ext4audit import *\n'
GOOD = f"""{HEAD}
@filesystem_rule("XAC001", "label-missing", severity=Severity.LOW, since="1")
def check(fs, host):
    '''## What it checks

    Labels.
    '''
    if fs.label:
        yield Citation("label", fs.label, "superblock")
    else:
        yield Finding("It has no label.", Severity.LOW, Confidence.CONFIRMED, ())
"""


@pytest.fixture(autouse=True)
def modules() -> Any:
    """Unload the rule modules that a test has loaded."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("ext4audit_site_"):
            del sys.modules[name]


def check_that(body: str, *, head: str = HEAD, severity: str = "Severity.LOW") -> Rule:
    """Return a rule whose check function has the given body."""
    declared = f'@filesystem_rule("XAC001", "label-missing", severity={severity}, since="1")\n'
    text = f'{head}{declared}def check(fs, host):\n    """Page."""\n    yield from ()\n'
    (rule,) = rules_of_text(f"{text}    {body}\n", "/etc/site.py")
    return rule


def judged(body: str, **changes: Any) -> tuple[Outcome, str]:
    """Return the outcome of a check and the last line of its note."""
    fs = filesystem()
    verdict = judge(check_that(body, **changes), fs, host(fs))
    return verdict.outcome, (verdict.note or "").strip().rpartition("\n")[2]


def put(folder: Path, text: str, name: str = "site.py") -> Path:
    """Write a file that only its owner may write to."""
    path = folder / name
    path.write_text(text)
    path.chmod(0o644)
    return path


def policy(folder: Path, *sources: str, more: str = "") -> list[str]:
    """Write a policy with these rule sources; return the option that selects it."""
    path = put(folder, f"rules = {json.dumps(sources)}\n{more}", "policy.toml")
    return ["--config", str(path)]


def scanned(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    """Scan a captured host as JSON; return the exit code and the verdicts of site rules."""
    code = run_program(["scan", "--from", str(SNAPSHOT), "-f", "json", *words])
    report = json.loads(capsys.readouterr().out)
    return code, [each for each in report["verdicts"] if each["rule"].startswith("X")]


def test_no_built_in_code_begins_with_x() -> None:
    """A site's code can therefore never collide with a built-in code of a later version."""
    assert not [rule.code for rule in all_rules() if rule.is_of_site]


def test_site_rules_in_a_file_beside_the_policy_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Site rules are on by default; --select, --ignore and suppressions apply to them."""
    put(tmp_path, GOOD)
    named = policy(tmp_path, "site.py")
    code, found = scanned(capsys, *named, "--select", "XAC", "--fail-on", "low")
    assert (code, [each["outcome"] for each in found]) == (1, ["fail"])
    assert scanned(capsys, *named)[1] == found
    assert scanned(capsys, *named, "--ignore", "XAC001")[1] == []
    accepted = '[[suppress]]\nrule = "label-missing"\nsubject = "*"\nreason = "so"\n'
    named = policy(tmp_path, "site.py", more=accepted)
    code, found = scanned(capsys, *named, "--select", "XAC", "--fail-on", "low")
    assert code == 0
    assert found[0]["suppression"]["reason"] == "so"


def test_profiles_rate_rules_of_the_site(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A site's own profile may raise the severity of its own rule."""
    put(tmp_path, GOOD)
    rated = '[profile.data]\nreason = "so"\nrates = { XAC001 = "+high" }\nmounts = ["*"]\n'
    _, found = scanned(capsys, *policy(tmp_path, "site.py", more=rated), "--select", "XAC")
    assert found[0]["findings"][0]["severity"] == "high"


def test_without_a_policy_nothing_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rule files in the working directory are not loaded."""
    put(tmp_path, GOOD, "xac001_label_missing.py")
    monkeypatch.chdir(tmp_path)
    assert scanned(capsys)[1] == []


def test_a_policy_found_in_the_directory_runs_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Entering a directory, such as a clone of a repository, must not run its code."""
    marked = tmp_path / "ran"
    put(tmp_path, f"import pathlib\npathlib.Path({str(marked)!r}).touch()\n{GOOD}")
    put(tmp_path, 'rules = ["site.py"]\n', "ext4audit.toml")
    monkeypatch.chdir(tmp_path)
    assert run_program(["scan", "--from", str(SNAPSHOT)]) == 2
    assert "only a file that is named may run rules" in capsys.readouterr().err
    assert run_program(["rules"]) == 0
    assert "only the built-in rules are shown" in capsys.readouterr().err
    assert not marked.exists()
    assert run_program(["rules", "--config", "ext4audit.toml"]) == 0
    assert "XAC001" in capsys.readouterr().out


BROKEN = {
    "syntax": ("def (", "SyntaxError"),
    "import": ("import no_such_module_here", "ModuleNotFoundError"),
    "exception": ("1 / 0", "ZeroDivisionError"),
    "exit": ("raise SystemExit(0)", "SystemExit"),
    "no rule": ("x = 3", "declares no rule: use @filesystem_rule"),
    "bad code": (GOOD.replace("XAC001", "ACM001"), "its code is not X with two more capital"),
    "reserved code": (GOOD.replace("XAC001", "XXX001"), "codes that begin with XXX are reserved"),
    "taken code": (GOOD.replace("XAC001", "DUR001"), "its code is not X"),
    "taken name": (GOOD.replace("label-missing", "barrier-disabled"), "is taken by DUR001"),
    "bad name": (GOOD.replace("label-missing", "Label"), "its name 'Label' is not of lower-case"),
    "bad scope": (
        f'{HEAD}check = Rule("XAC001", "a-b", Severity.LOW, "1", (), "filesystem", "s", "p", len)',
        "its scope is 'filesystem'",
    ),
    "exit that is no Exception": ("class Stop(BaseException): pass\nraise Stop", "Stop"),
    "bad severity": (GOOD.replace("Severity.LOW,", '"low",', 1), "'low' is not a Severity"),
    "text of references": (
        GOOD.replace('since="1"', 'since="1", references="x"'),
        "its references are not a tuple",
    ),
    "no summary": (GOOD.partition("\n")[2], "it has no summary"),
    "no page": (GOOD.replace("'''", '#"""#').replace("Labels.", ""), ""),
    "number for a page": (f"{GOOD}check = check._replace(docstring=5)", "has no docstring"),
    "nothing for a page": (f"{GOOD}check = check._replace(docstring=None)", "has no docstring"),
    "twice": (f"{GOOD}\n{GOOD.partition('*')[2].replace('check', 'again')}", "XAC001 is taken by"),
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_file_is_an_error_verdict(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The audit continues and is incomplete, whatever is selected; the report has the reason."""
    source, reason = BROKEN[text]
    put(tmp_path, source)
    named = policy(tmp_path, "site.py")
    code, found = scanned(capsys, *named, "--select", "LAY001", "--fail-on", "critical")
    assert code == 3
    assert {each["outcome"] for each in found} == {"error"}
    assert all(reason in each["note"] for each in found)


def test_a_broken_file_keeps_the_codes_that_it_declares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy that names them remains valid, and each of them is reported."""
    other = GOOD.replace("XAC001", "XAC002").replace("label-missing", "label-old")
    put(tmp_path, f"{GOOD}\n{other}\ndef (")
    named = policy(tmp_path, "site.py", more='ignore = ["XAC002"]\nselect = ["label-missing"]\n')
    _, found = scanned(capsys, *named)
    assert [each["name"] for each in found] == ["label-missing", "label-old"]


def test_two_files_with_one_code_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second file is reported as broken, with the rule that has the code."""
    put(tmp_path, GOOD)
    put(tmp_path, GOOD, "other.py")
    _, found = scanned(capsys, *policy(tmp_path, "site.py", "other.py"), "--select", "X")
    assert [(each["rule"], each["outcome"]) for each in found] == [
        ("XAC001", "fail"),
        ("XXX002", "error"),
    ]
    assert "other.py: XAC001 is taken by XAC001 label-missing" in found[1]["note"]


@pytest.mark.parametrize("fmt", sample_of(FORMATS, __name__))
def test_every_format_shows_rules_of_the_site(
    fmt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Formats show the finding's code, or an incomplete audit if the file is broken."""
    put(tmp_path, GOOD)
    words = ["scan", "--from", str(SNAPSHOT), "--select", "XAC", "--fail-on", "low", "-f", fmt]
    assert run_program([*words, *policy(tmp_path, "site.py")]) == 1
    assert "XAC001" in capsys.readouterr().out
    put(tmp_path, "def (")
    assert run_program([*words, *policy(tmp_path, "site.py")]) == 3
    assert capsys.readouterr().out


def test_an_error_in_a_site_rule_is_not_reported_as_a_bug(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The note does not present it as a bug of ext4audit."""
    put(tmp_path, "def (")
    run_program(["scan", "--from", str(SNAPSHOT), *policy(tmp_path, "site.py")])
    shown = " ".join(capsys.readouterr().out.split())
    assert "SyntaxError: invalid syntax (site.py, line 1) (an error in a rule of the site)" in shown


@pytest.mark.parametrize("broken", [False, True])
def test_the_hosts_of_a_fleet_are_judged_by_site_rules(
    broken: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Workers apply the rules, and their verdicts arrive in the main process."""
    put(tmp_path, "def (" if broken else GOOD)
    sources = [f"--from=db{number}={SNAPSHOT}" for number in range(3)]
    words = ["scan", *sources, *policy(tmp_path, "site.py"), "--select", "XAC"]
    for fmt in ("ndjson", "sarif"):
        run_program([*words, "-f", fmt])
        assert ("XXX001" if broken else "XAC001") in capsys.readouterr().out


def test_images_and_plans_do_not_hide_a_broken_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Few rules about the host judge them, but this one does."""
    put(tmp_path, "def (")
    words = ["plan", "--size", "1G", "-f", "json", *policy(tmp_path, "site.py")]
    assert run_program(words) in {1, 3}
    codes = {each["rule"] for each in json.loads(capsys.readouterr().out)["verdicts"]}
    assert "XXX001" in codes


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("absent.py", "absent.py: No such file or directory"),
        ("./folder/", "Is a directory"),
        ("no-such-package", "no installed package 'no-such-package' has rules"),
    ],
)
def test_a_missing_rule_source_is_a_usage_error(
    source: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Like an unknown profile, it means that the policy is wrong."""
    (tmp_path / "folder").mkdir()
    assert run_program(["scan", "--from", str(SNAPSHOT), *policy(tmp_path, source)]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["owner", "mode", "directory"])
def test_a_file_that_others_can_write_is_refused(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy named explicitly is no exception: the file would run as root."""
    path = put(tmp_path, GOOD)
    if what == "owner":
        os.chown(path, 65534, 65534)
    else:
        (path if what == "mode" else tmp_path).chmod(0o777)
    assert run_program(["scan", "--from", str(SNAPSHOT), *policy(tmp_path, "site.py")]) == 2
    assert "must belong to root or to you" in capsys.readouterr().err


def install(folder: Path, text: str = GOOD, value: str = "acme_rules") -> None:
    """Install a package with rules into a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "acme_rules.py").write_text(text)
    info = folder / "acme_rules-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rules\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[ext4audit.rules]\nlabels = {value}\n")


@pytest.mark.parametrize("name", ["acme-rules", "labels"])
@pytest.mark.parametrize("value", ["acme_rules", "acme_rules:check"])
def test_an_installed_package_has_rules(name: str, value: str, tmp_path: Path) -> None:
    """It can be named by package or entry point, which refers to a module or one rule."""
    install(tmp_path / "lib", value=value)
    named = policy(tmp_path, name)
    words = ["scan", "--from", str(SNAPSHOT), "--select", "XAC", "-f", "json", *named]
    done = run_new(*words, env={"PYTHONPATH": str(tmp_path / "lib")})
    assert [each["rule"] for each in json.loads(done.stdout)["verdicts"]] == ["XAC001"]


def test_a_package_in_the_working_directory_is_not_loaded(tmp_path: Path) -> None:
    """`python -m ext4audit` can import modules there, but does not load rules from them."""
    install(tmp_path / "here")
    words = ["scan", "--from", str(SNAPSHOT), *policy(tmp_path, "labels")]
    done = run_new(*words, cwd=tmp_path / "here")
    assert done.returncode == 2
    assert "no installed package 'labels' has rules" in done.stderr


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("yield 3", "a rule yielded int"),
        ("yield Finding('m', 'low', Confidence.LIKELY, ())", "severity of a Finding is 'low'"),
        ("yield Finding('m', Severity.LOW, Confidence.LIKELY, [])", "citations of a Finding is"),
        (
            "yield Finding('m', Severity.LOW, Confidence.LIKELY, (), (Remedy('r', 'online'),))",
            "disruption of a Remedy is 'online'",
        ),
        (
            (
                "remedy = Remedy('r', Disruption.ONLINE, (Step(Phase.IMMEDIATE, 3),)); "
                "yield Finding('m', Severity.LOW, Confidence.LIKELY, (), (remedy,))"
            ),
            "command of a Step is 3",
        ),
        (
            "yield Finding('m', Severity.LOW, Confidence.LIKELY, (Citation('a', 3, 'b'),))",
            "value of a Citation is 3",
        ),
        ("yield Citation('a', 3, 'b')", "value of a Citation is 3"),
        (
            "yield Finding('m', Severity.HIGH, Confidence.LIKELY, ())",
            "a finding is high, and the rule low at worst",
        ),
        (
            "yield Finding('m', Severity.LOW, Confidence.LIKELY, (), known=True)",
            "a rule cannot accept what it finds",
        ),
        ("raise SystemExit(0)", "XAC001: SystemExit: 0"),
        ("import asyncio; raise asyncio.CancelledError", "XAC001: CancelledError:"),
        ("raise KeyError('x')", "KeyError: 'x'"),
    ],
)
def test_output_that_a_report_cannot_show_is_an_error(body: str, reason: str) -> None:
    """It neither crashes a renderer nor lets a rule exit with 0."""
    outcome, note = judged(body)
    assert outcome is Outcome.ERROR
    assert reason in note


def every_field(value: Any) -> Iterator[Any]:
    """Yield copies of a value, each with one field of a wrong type."""
    for name, old in value._asdict().items():
        yield value._replace(**{name: b"no text"})
        if isinstance(old, tuple):
            for changed in every_field(old[0]) if hasattr(old[0], "_fields") else ():
                yield value._replace(**{name: (changed,)})
        if hasattr(old, "_fields"):
            for changed in every_field(old):
                yield value._replace(**{name: changed})


def test_no_field_of_a_finding_can_have_another_type() -> None:
    """A renderer crash, exit code 70, would lose the report of the whole host."""
    edit = LineEdit("/etc/fstab", 1, "a", "b")
    step = Step(
        Phase.IMMEDIATE,
        "true",
        change=edit,
        programs=Programs(*(("a",) for _ in Programs._fields)),
        sets=(Assignment("a", "b", "c"),),
        devices=("a",),
        mounts=(MountCommand("a", "b", ("c",), "d", "e"),),
    )
    remedy = Remedy("r", Disruption.ONLINE, (step,))
    cited = Citation("a", "b", "c")
    finding = Finding("m", Severity.LOW, Confidence.LIKELY, (cited,), (remedy,))
    assert not list(type_errors(finding, Finding, "it"))
    changed = list(every_field(finding))
    assert len(changed) > 20
    for each in changed:
        assert list(type_errors(each, Finding, "it"))


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("yield Citation('a', 'b', 'c')", Outcome.PASS),
        ("yield Finding('m', Severity.INFO, Confidence.LIKELY, ())", Outcome.FAIL),
        ("raise NotApplicable('so')", Outcome.NOT_APPLICABLE),
        ("need(Unknown('x', Why.DENIED))", Outcome.UNDETERMINED),
    ],
)
def test_a_site_rule_can_have_every_outcome(body: str, outcome: Outcome) -> None:
    """A site rule can have all four outcomes of the built-in rules."""
    assert judged(body)[0] is outcome


def test_output_printed_by_a_rule_is_not_part_of_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Output during import or check is suppressed: JSON stays valid."""
    put(
        tmp_path,
        GOOD.replace("    if fs", "    print('in it')\n    if fs") + "print('at import')\n",
    )
    scanned(capsys, *policy(tmp_path, "site.py"))


def test_each_rule_of_a_file_has_its_own_summary() -> None:
    """The docstring of the module is the summary of rules without their own."""
    text = dedent("""
        from ext4audit import *
        @host_rule("XAC010", "one-thing", severity=Severity.INFO, since="1", summary="One thing.")
        def one(host):
            '''Page.'''
            yield Citation("name", host.name, "uname")
        @host_rule("XAC011", "other-thing", severity=Severity.INFO, since="1", summary="Other.")
        def other(host):
            '''Page.'''
            yield Citation("name", host.name, "uname")
    """)
    found = rules_of_text(text, "/etc/two.py")
    assert [(rule.code, rule.summary) for rule in found] == [
        ("XAC010", "One thing."),
        ("XAC011", "Other."),
    ]


def test_explain_prints_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rule is found by code, short code and name; a family gives a list."""
    put(tmp_path, GOOD)
    named = policy(tmp_path, "site.py")
    for word in ("XAC001", "xac1", "label-missing"):
        assert run_program(["explain", word, *named]) == 0
        assert "Labels." in capsys.readouterr().out
    assert run_program(["explain", "xac", *named]) == 0
    assert capsys.readouterr().out.startswith("XAC001  label-missing")


def test_a_code_without_its_policy_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """No similar code is suggested, because it is not misspelt."""
    assert run_program(["explain", "XAC001"]) == 2
    assert "a rule of a site is in the policy that --config names" in capsys.readouterr().err


def test_the_helper_judges_a_captured_host(tmp_path: Path) -> None:
    """It returns all verdicts, including undetermined ones."""
    (rule,) = load_rules(put(tmp_path, GOOD))
    assert [each.outcome for each in verdicts(rule, SNAPSHOT)] == [Outcome.FAIL]
    assert [problem for problem in problems(rule) if "heading" not in problem] == [
        "it has no references"
    ]
    with pytest.raises(SiteRuleError, match="SyntaxError"):
        load_rules(put(tmp_path, "def ("))
    place = put(tmp_path, f"\ufeff{GOOD}")
    assert [each.code for each in load_rules(place)] == ["XAC001"]
    place.write_bytes(b"\xff")
    with pytest.raises(SiteRuleError, match=r"site\.py: it is not UTF-8 \(byte 0\)$"):
        load_rules(place)


def test_the_helper_takes_evidence_away() -> None:
    """A rule that treats a gap as good news is found, and one that respects it is not."""
    finds = 'yield Finding("Old.", Severity.LOW, Confidence.LIKELY, ())'
    careless = check_that(
        f"known = for_wording(fs.superblock, None)\n    if known and known.inode_count: {finds}"
    )
    heedful = check_that(f"if need(fs.superblock).inode_count: {finds}")
    assert verdicts(careless, HEALTHY)[0].outcome is Outcome.FAIL
    (read,) = [each for each in unheeded(careless, HEALTHY) if each.startswith("dumpe2fs -h")]
    assert unheeded(heedful, HEALTHY) == ()
    assert verdicts(careless, HEALTHY, without=[read])[0].outcome is Outcome.PASS
    assert verdicts(heedful, HEALTHY, without=[read])[0].outcome is Outcome.UNDETERMINED
    assert host_of(HEALTHY).filesystems


@pytest.mark.parametrize("milder", ["Severity.INFO", "None"])
def test_the_helper_finds_what_is_milder_without_evidence(milder: str) -> None:
    """A lost or less severe finding also counts, even if the rule still fails."""
    found = 'Finding("Old.", {}, Confidence.LIKELY, (), fact="{}")'
    careless = check_that(
        f"known = for_wording(fs.superblock, None)\n    yield {found.format('Severity.LOW', 'a')}"
        f"\n    severity = Severity.LOW if known else {milder}"
        f"\n    if severity: yield {found.format('severity', 'b')}"
    )
    assert [each for each in unheeded(careless, HEALTHY) if each.startswith("dumpe2fs -h")]
    heedful = check_that(
        f"yield {found.format('Severity.LOW', 'a')}\n    need(fs.superblock)"
        f"\n    yield {found.format('Severity.LOW', 'b')}"
    )
    assert unheeded(heedful, HEALTHY) == ()


def test_an_answer_that_the_host_lacks_is_refused() -> None:
    """Otherwise a rule's test would judge the complete host and pass."""
    assert host_of(HEALTHY, without=["/proc/self/mountinfo"]).gaps
    with pytest.raises(ValueError, match=r"no answer is called '/proc/self/mount' \(did you mean"):
        host_of(HEALTHY, without=["/proc/self/mount"])


def test_a_rule_may_be_called_as_it_was_declared() -> None:
    """The public types are those of the engine, so a decorated rule stays callable."""

    def check(fs: Filesystem, _host: Host) -> Any:
        yield Finding("m", Severity.LOW, Confidence.LIKELY, (Citation("a", fs.device, "b"),))

    assert list(check(filesystem(), host()))


def test_a_module_is_named_after_its_file() -> None:
    """A traceback shows the file of the rule; two files of one name are two modules."""
    one, two = (rules_of_text(GOOD, f"/etc/{folder}/my-rules.py")[0].module for folder in "ab")
    assert one.endswith("_my_rules")
    assert two.endswith("_my_rules")
    assert one != two
