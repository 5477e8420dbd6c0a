from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from support.docs.pages import blocks
from support.hosts.fixture_hosts import HOSTS
from support.packages.action import ACTION, TEMPLATE, Runner, read_yaml
from support.packages.built import ROOT, needs, run, succeed
from support.packages.chroot import chroot
from support.packages.containerfile import Image

pytestmark = pytest.mark.packages

HEALTHY_HOST, FAILING_HOST = HOSTS / "healthy-debian-12", HOSTS / "lvm-linear-nobarrier"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Build a repository with the action and the workflow of docs/ci.md."""
    shutil.copytree(ROOT / ACTION, tmp_path / ACTION)
    page = (ROOT / "docs/ci.md").read_text()
    (workflow,) = (b.text for b in blocks(page, "yaml") if "runs-on:" in b.text)
    folder = tmp_path / ".github/workflows"
    folder.mkdir()
    used = re.sub(r"uses: \S+/ext4audit@\S+", f"uses: ./{ACTION}", workflow)
    assert used != workflow
    (folder / "ext4.yml").write_text(used)
    succeed("git", "init", "-q", tmp_path)
    return tmp_path


def test_actionlint_accepts_the_workflow_and_the_action(repository: Path) -> None:
    """The inputs that docs/ci.md sets exist in the action."""
    actionlint = needs(os.environ.get("EXT4AUDIT_ACTIONLINT", "actionlint"))
    done = run(actionlint, "-no-color", cwd=repository)
    assert (done.returncode, done.stdout) == (0, "")
    workflow = repository / ".github/workflows/ext4.yml"
    workflow.write_text(workflow.read_text().replace("from:", "form:"))
    assert run(actionlint, cwd=repository).returncode == 1


def test_shellcheck_accepts_the_steps(tmp_path: Path) -> None:
    """Actionlint checks the steps of workflows, but not those of actions."""
    for number, step in enumerate(read_yaml(ROOT / ACTION / "action.yml")["runs"]["steps"]):
        if "run" in step:
            script = tmp_path / f"{number}.sh"
            script.write_text(step["run"])
            succeed(needs("shellcheck"), "--shell=bash", "--exclude=SC2154", script)


def test_inputs_are_not_interpolated_into_scripts() -> None:
    """An input with `$(…)` in it is an argument, never a command."""
    for step in read_yaml(ROOT / ACTION / "action.yml")["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Copy the parts of the repository from which the action installs the program."""
    source = tmp_path / "source"
    names = "src share docs README.md CHANGELOG.md LICENSE pyproject.toml".split()
    source.mkdir()
    for name in names:
        path = ROOT / name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, source / name)
    shutil.copytree(ROOT / ACTION, source / ACTION)
    return source


def test_action_installs_scans_and_writes_sarif(installed: Path, tmp_path: Path) -> None:
    """Findings fail the job after the upload, a usage error fails it at once; a line is a host."""
    inputs = {"from": f"{HEALTHY_HOST}/snapshot\n{FAILING_HOST}/snapshot\n", "fail-on": "high"}
    folder = tmp_path / "runner"
    folder.mkdir()
    runner = Runner(folder, inputs)
    (folder / "source").symlink_to(installed)
    assert runner.step("Install").returncode == 0
    assert runner.step("Scan").returncode == 0
    sarif = json.loads((folder / "ext4audit.sarif").read_text())
    assert "DUR001" in {result["ruleId"] for result in sarif["runs"][0]["results"]}
    assert runner.step("Result").returncode == 1
    runner.values |= {"inputs.fail-on": "bad", "inputs.sarif": "other.sarif"}
    assert runner.step("Scan").returncode == 2


def test_gitlab_template_runs(one_file: Path, tmp_path: Path) -> None:
    """Its script writes the reports that it declares."""
    job = read_yaml(TEMPLATE)["ext4audit"]
    (tmp_path / "bin").mkdir()
    shutil.copy(one_file, tmp_path / "bin/ext4audit")
    shutil.copytree(HEALTHY_HOST / "snapshot", tmp_path / "hosts/web")
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    env = {**os.environ, **job["variables"], "PATH": path}
    done = run("sh", "-ec", "\n".join(job["script"]), env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    reports = job["artifacts"]["reports"]
    assert (tmp_path / reports["junit"]).read_text().startswith("<?xml")
    assert isinstance(json.loads((tmp_path / reports["codequality"]).read_text()), list)


@pytest.mark.xdist_group("chroot")
def test_container_image_audits_a_mounted_folder(image: Image, tmp_path: Path) -> None:
    """It runs as nobody, in the folder of its evidence, with only Python and the one file."""
    with chroot(tmp_path, image.layer) as system:
        shutil.copytree(HEALTHY_HOST / "snapshot", system.root / "evidence/web")
        arguments = ("scan", "--from", "/evidence")
        done = system.run(*image.entry_point, *arguments, user=image.user)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1].endswith("complete.")
        size = succeed("du", "-sxm", image.layer).split()[0]
    print(f"\nthe image is {size} MB more than its base")
