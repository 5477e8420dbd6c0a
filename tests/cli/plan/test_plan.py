"""`ext4audit plan`, run as by a user."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ext4audit.cli import run_program
from ext4audit.evidence import Known
from ext4audit.sources import Answer, Ask, ReadFile, Uname, VirtualMemory
from support.hosts.snapshots import write_snapshot
from support.images.mke2fs import needs_e2fsprogs
from support.program import run, run_as_nobody

pytestmark = needs_e2fsprogs

TWELVE_DISKS = "--raid0 12 --chunk 512K --size 1287684882432".split()
COMPLETE_INPUT = (
    "--kernel 6.1.0-18-amd64 --os debian:12 --memory 64G --rotational --write-cache back "
    "--nr-requests 256 --max-sectors-kb 1280 --wbt-lat-usec 0"
).split()
DISK = ["--size", "256M", *COMPLETE_INPUT]
TAKEN_AT = "2026-01-02T03:04:05Z"


def plan_json(*arguments: str) -> Any:
    """Judge a plan and return the JSON report."""
    done = run("plan", "-f", "json", *arguments)
    assert done.returncode in {0, 1, 3}, done.stderr
    return json.loads(done.stdout)


def outcomes(report: Any) -> dict[str, str]:
    """Return the outcome of each rule."""
    return {verdict["rule"]: verdict["outcome"] for verdict in report["verdicts"]}


def test_plan_of_twelve_disks_fails_and_printed_lines_pass() -> None:
    """The exit code is that of the given plan; the printed lines are judged, and are clean."""
    ignored = ["--ignore", "PRF002"]
    done = run("plan", *TWELVE_DISKS, *COMPLETE_INPUT, *ignored)
    assert (done.returncode, done.stderr) == (1, "")
    assert "HIGH  LAY001" in done.stdout
    assert "Effectively 3 of 12 disks" in done.stdout
    assert "the same rules then report: nothing of low severity or worse" in done.stdout
    line = "mkfs.ext4 -g 32744 -G 16 -E stride=128,stripe_width=1536 /dev/md0"
    assert line in done.stdout.split("\n    ")[-1] or f"    {line}\n" in done.stdout
    again = run("plan", *TWELVE_DISKS, *COMPLETE_INPUT, *ignored, "--mkfs", "-g 32744 -G 16")
    assert again.returncode == 0


def test_report_is_marked_as_a_plan() -> None:
    """The first line, the simulation and the kind of source show it."""
    lines = run("plan", *DISK).stdout.splitlines()
    assert lines[0] == "PLAN /dev/sdX on /data does not exist yet; it is audited as planned."
    assert lines[1].startswith("  simulated in memory by mke2fs 1.")
    source = plan_json(*DISK)["source"]
    assert (source["kind"], source["label"]) == ("plan", "/dev/sdX on /data")


def test_clean_plan_exits_0() -> None:
    """All inputs are given, and no rule has a finding."""
    done = run("plan", *DISK, "--mount-options", "noatime")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("word", "rules"),
    [
        ("kernel", {"DUR001", "PRF001", "PRF002"}),
        ("memory", {"PRF002"}),
        ("rotational", {"PRF002"}),
        ("nr-requests", {"PRF002"}),
        ("max-sectors-kb", {"PRF002"}),
        ("wbt-lat-usec", {"PRF002"}),
    ],
)
def test_missing_input_is_undetermined(word: str, rules: set[str]) -> None:
    """Rules that need the value are undetermined, and the hint names the flag.

    The exit code is 3 if one of them could fail the plan: PRF002 is never worse than low.
    """
    at = COMPLETE_INPUT.index(f"--{word}")
    rest = [*COMPLETE_INPUT[:at], *COMPLETE_INPUT[at + (1 if word == "rotational" else 2) :]]
    if word == "kernel":  # otherwise the distribution supplies it
        at = rest.index("--os")
        del rest[at : at + 2]
    arguments = ["--size", "256M", *rest]
    report = plan_json(*arguments)
    unseen = [verdict for verdict in report["verdicts"] if verdict["unknowns"]]
    assert {verdict["rule"] for verdict in unseen} >= rules
    hints = {gap["hint"] for verdict in unseen for gap in verdict["unknowns"]}
    assert all(hint.startswith(f"--{word}") for hint in hints), hints
    assert run("plan", "-q", *arguments).returncode == (3 if word == "kernel" else 0)
    assert run("plan", "-q", "--fail-on", "low", *arguments).returncode == 3
    allowed = run("plan", "-q", "--fail-on", "low", "--allow-incomplete", *arguments)
    assert allowed.returncode == 0


def test_json_matches_the_schema() -> None:
    """This includes the key that only a plan has."""
    schema = json.loads(run("schema").stdout)
    report = plan_json(*TWELVE_DISKS, *COMPLETE_INPUT, "--mount-options", "nobarrier")
    jsonschema.Draft202012Validator(schema).validate(report)
    plan = report["plan"]
    assert (plan["basis"], plan["corrected"], plan["left"]) == ("simulated", True, [])
    assert plan["changes"] == [
        "Create it with -g 32744 -G 16",
        "Leave nobarrier out of the mount options",
    ]
    assert sorted(plan["lines"]) == ["fstab", "mkfs", "mount", "tune2fs_stripe", "verify"]


def test_large_plans_are_computed_without_simulation() -> None:
    """The report names the method."""
    report = plan_json("--size", "100T", "--select", "DUR001")
    assert report["plan"]["basis"] == "computed"


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        ([], "a plan needs --size"),
        (["--size", "1X"], "is not a size"),
        (["--size", "0"], "and 1 PiB"),
        (["--size", "2048P"], "and 1 PiB"),
        (["--size", "1G", "--raid0", "12"], "a plan needs --chunk"),
        (["--size", "1G", "--chunk", "512K"], "--chunk needs --raid0"),
        (["--size", "1G", "--raid0", "2", "--raid5", "3"], "exclude each other"),
        (
            ["--size", "1G", "--raid6", "3", "--chunk", "64K"],
            "--raid6 3: raid6 takes 4 to 1920 members",
        ),
        (
            ["--size", "1G", "--raid5", "3", "--chunk", "520K"],
            "md does not support this chunk size for raid5",
        ),
        (
            ["--size", "1G", "--raid0", "3", "--chunk", "512"],
            "--chunk: 512 is not a multiple of 4096 bytes (512K?)",
        ),
        (
            ["--size", "1T", "--raid0", "4", "--chunk", "1T"],
            "--chunk 1T: the array has no whole stripe",
        ),
        (["--size", "1G", "--mkfs", "-g 100"], "blocks per group must be multiple of 8"),
        (["--size", "1G", "--mkfs", "-S"], "-S: it writes superblocks"),
        (["--size", "1G", "--mkfs", "; reboot"], "is not an option"),
        (["--size", "1G", "--mkfs", "/dev/sda"], "is not an option"),
        (["--size", "1G", "--device", "sda"], "--device: 'sda' is not an absolute path"),
        (["--size", "1G", "--device", "/dev/a\nb"], "printable"),
        (["--size", "1G", "--mount-point", "-x"], "--mount-point: '-x' is not an absolute path"),
        (
            ["--size", "1G", "--mount-options", "a b"],
            "--mount-options: mount options cannot contain",
        ),
        (["--size", "1G", "--kernel", "x y"], "--kernel: 'x y' is not a release"),
        (["--size", "1G", "--kernel", "linux"], "does not start with a version number"),
        (["--size", "1G", "--memory", "much"], "--memory: 'much' is not a size"),
        (["--size", "1G", "--target-e2fsprogs", "1.48"], "known are 1.42 to 1.47."),
        (["--size", "1G", "--mke2fs-conf", "/nope"], "/nope: No such file or directory"),
        (["--size", "1G", "--mke2fs-conf", "/etc/passwd"], "/etc/passwd: does not define ext4"),
        (["--size", "1G", "--mount-options", "data=bogus"], "data=bogus: the kernel refuses it"),
        (["--size", "1G", "--nr-requests", "-1"], "--nr-requests: -1 is negative"),
        (["--size", "1G", "--from", "/nope"], "--from /nope"),
        (["/nope.toml"], "/nope.toml: No such file"),
        (["--size", "1G", "--select", "DUR099"], "did you mean"),
        (["--size", "1G", "-v", "-q"], "exclude each other"),
        (["--size", "1G", "--timeout", "nan"], "at most 86400 seconds"),
    ],
)
def test_invalid_plan_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], reported: str
) -> None:
    """The error is one line, with exit code 2 and no standard output."""
    code = run_program(["plan", *arguments])
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert reported in printed.err.splitlines()[0]


def test_plan_file_equals_the_flags(tmp_path: Path) -> None:
    """The keys are the flags' names, with "-" or "_"; a flag overrides the file."""
    file = tmp_path / "storage.toml"
    file.write_text(
        'raid0 = 12\nchunk = "512K"\nsize = 1287684882432\nmkfs = "-m 0"\n'
        'mount-options = "noatime"\nmount_point = "/srv/store"\nrotational = true\n'
        'kernel = "6.1.0-18-amd64"\nwrite-cache = "back"\n'
    )
    report = plan_json(str(file), "--select", "LAY001,DUR001")
    (fs,) = report["filesystems"]
    assert (fs["mount_points"], fs["device"]) == (["/srv/store"], "/dev/md0")
    assert report["plan"]["lines"]["mkfs"] == (
        "mkfs.ext4 -m 0 -g 32744 -G 16 -E stride=128,stripe_width=1536 /dev/md0"
    )
    assert report["source"]["label"] == str(file)
    other = plan_json(str(file), "--raid5", "11", "--select", "LAY001", "--allow-incomplete")
    assert other["filesystems"][0]["stack"][0]["kind"] == "raid5"


ONE_ARRAY = """raid0 = 4
chunk = "64K"
size = "1G"
[[filesystem]]
mount-point = "/a"
[[filesystem]]
mount-point = "/b"
"""


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ('sise = "1G"', "unknown key 'sise' (did you mean size?)"),
        ("size = [1]", "size is not a string, number or boolean"),
        ("size = 1e12", 'size = 1e12 is a number in TOML: quote it, size = "1e12"'),
        ("size = 1.5", 'size = 1.5 is a number in TOML: quote it, size = "1.5"'),
        ("mke2fs-conf = 1", 'mke2fs-conf = 1 is a number in TOML: quote it, mke2fs-conf = "1"'),
        ("from = true", 'from = true is a boolean in TOML: quote it, from = "true"'),
        ("kernel = 6.10", 'kernel = 6.10 is a number in TOML: quote it, kernel = "6.10"'),
        ('ignore = [1]\nsize = "1G"', "ignore is not a string or a list of strings"),
        ('fail-on = "bad"\nsize = "1G"', "fail-on is none of critical, high"),
        ('filesystem = "1G"', "filesystem is not a list of tables"),
        ('[[filesystem]]\nsice = "1G"', "unknown key 'sice' (did you mean size?)"),
        ('size = "1G"\nnr_requests = 1\nnr-requests = 2', "nr-requests is set twice"),
        ('size = "1G"\nfail_on = "low"\nfail-on = "high"', "fail-on is set twice"),
        ("size = 1200", "1200 is 1200 bytes: 1200G?"),
        ('size = "1G"\nmemory = 64', "64 is 64 bytes: 64G?"),
        ('size = "1G"\n[[filesystem]]\n[[filesystem]]', "the same mount point"),
        (ONE_ARRAY, "two filesystems are on /dev/md0: set device"),
        ("size = ", "Invalid value"),
        ('size = "1G"\nraid0 = "many"\nchunk = "64K"', "--raid0: many is not a whole number"),
        ('size = "1G"\nraid0 = true\nchunk = "64K"', "--raid0: True is not a whole number"),
        ('size = "1G"\nwrite-cache = "maybe"', "'maybe' is neither back nor through"),
        ('size = "1G"\nrotational = "no"', "--rotational: 'no' is neither true nor false"),
    ],
)
def test_invalid_plan_file_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, reported: str
) -> None:
    """An ignored misspelt key would silently be missing from the audit."""
    file = tmp_path / "plan.toml"
    file.write_text(text)
    code = run_program(["plan", str(file)])
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert reported in printed.err.splitlines()[0]


def test_snapshot_supplies_missing_values(tmp_path: Path) -> None:
    """Kernel and memory come from the snapshot; flags override it."""
    vm = "/proc/sys/vm/dirty"
    answers: dict[Ask, Answer] = {
        Uname(): Known("4.19.91-25.6.al7.x86_64\n#1 SMP\nx86_64\ntikv-1", "uname"),
        VirtualMemory(): Known(f"{32 << 30}\n{30 << 30}", "memory"),
        ReadFile(f"{vm}_bytes"): Known("0\n", f"{vm}_bytes"),
        ReadFile(f"{vm}_ratio"): Known("20\n", f"{vm}_ratio"),
        ReadFile(f"{vm}_background_bytes"): Known("0\n", f"{vm}_background_bytes"),
        ReadFile(f"{vm}_background_ratio"): Known("10\n", f"{vm}_background_ratio"),
    }
    write_snapshot(tmp_path / "db1", answers, taken_at=TAKEN_AT)
    words = ["--size", "1G", "--mount-options", "nodelalloc,dioread_nolock", "--from"]
    report = plan_json(*words, str(tmp_path / "db1"))
    assert report["host"]["name"] == "tikv-1"
    assert outcomes(report)["PRF001"] == "fail"
    file = tmp_path / "plan.toml"
    file.write_text(
        f'size = "1G"\nmount-options = "nodelalloc,dioread_nolock"\nfrom = "{tmp_path}/db1"\n'
    )
    assert outcomes(plan_json(str(file)))["PRF001"] == "fail"
    newer = plan_json(*words, str(tmp_path / "db1"), "--kernel", "6.1.0")
    assert outcomes(newer)["PRF001"] == "pass"


def test_plan_needs_no_privileges() -> None:
    """The simulation creates no named file and mounts nothing."""
    mine, theirs = run("plan", *DISK), run_as_nobody("plan", *DISK)
    assert theirs.returncode == mine.returncode
    assert theirs.stdout == mine.stdout


def test_report_is_written_to_a_file(tmp_path: Path) -> None:
    """The file is written completely or not at all, as by a scan."""
    file = tmp_path / "plan.json"
    done = run("plan", *DISK, "-f", "json", "-o", str(file))
    assert (done.returncode, done.stdout) == (0, "")
    assert json.loads(file.read_text())["source"]["kind"] == "plan"
    refused = run("plan", *DISK, "-o", str(tmp_path))
    assert refused.returncode == 2


def test_quiet_is_one_line() -> None:
    """It is the summary alone, as for a scan."""
    assert re.fullmatch(r"/dev/sdX on /data: 1 filesystem: .*\n", run("plan", "-q", *DISK).stdout)


def test_any_locale_works() -> None:
    """Characters that the stream cannot encode are replaced."""
    done = run("plan", *TWELVE_DISKS, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode in {0, 1, 3}
    assert done.stdout.isascii()


def test_environment_does_not_affect_mke2fs(tmp_path: Path) -> None:
    """Neither the user's configuration nor a mke2fs on the user's PATH is used."""
    fake = tmp_path / "mke2fs"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    configuration = tmp_path / "mke2fs.conf"
    configuration.write_text("[defaults]\n\tblocksize = 1024\n")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "MKE2FS_CONFIG": str(configuration)}
    assert run("plan", *DISK, env=env).stdout == run("plan", *DISK).stdout


def test_help_example_runs() -> None:
    """The first example works as printed."""
    help_text = run("plan", "--help").stdout
    assert "ext4audit plan --raid0 12 --chunk 512K --size 1200G --rotational" in help_text
    done = run(*"plan --raid0 12 --chunk 512K --size 1200G --rotational".split())
    assert done.returncode == 1


def test_memory_uses_the_default_dirty_limits() -> None:
    """The kernel allows 20 % of it to be dirty; the assumption is printed."""
    report = plan_json("--size", "1T", *COMPLETE_INPUT)
    (finding,) = next(v for v in report["verdicts"] if v["rule"] == "PRF002")["findings"]
    limit = next(each for each in finding["evidence"] if each["label"] == "dirty limit")
    assert limit["value"].startswith("13107 MiB (vm.dirty_ratio = 20 % of 65536 MiB available")
    assert any("vm.dirty_*" in each for each in report["plan"]["assumed"])
