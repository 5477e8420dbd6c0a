"""The GitHub action and the GitLab template, and a runner for their steps."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from support.packages.built import ROOT, run

ACTION = Path(".github/actions/ext4audit")
TEMPLATE = ROOT / ".gitlab/ext4audit.yml"
EXPRESSION = re.compile(r"\$\{\{ ([\w.-]+) \}\}")


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file."""
    loaded = yaml.safe_load(path.read_text())
    assert isinstance(loaded, dict)
    return loaded


class Runner:
    """Runs the steps of the action as GitHub's runner does.

    `folder` is the runner's; its subfolder `source` is the repository of the action.
    """

    def __init__(self, folder: Path, inputs: Mapping[str, str]) -> None:
        self.action = read_yaml(ROOT / ACTION / "action.yml")
        self.folder = folder
        defaults = {name: str(each.get("default")) for name, each in self.action["inputs"].items()}
        self.values = {f"inputs.{name}": each for name, each in {**defaults, **inputs}.items()}
        self.values["github.action_path"] = str(folder / "source/.github/actions/ext4audit")
        self.output = folder / "output"

    def step(self, name: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the step with this name, with additional environment variables."""
        (step,) = (each for each in self.action["runs"]["steps"] if each["name"] == name)
        env = {key: self._filled(value) for key, value in step["env"].items()}
        github = {"RUNNER_TEMP": str(self.folder), "GITHUB_OUTPUT": str(self.output)}
        script = self.folder / "step.sh"
        script.write_text(step["run"])
        return run(
            "bash", "--noprofile", "--norc", "-eo", "pipefail", script,
            env={**os.environ, **env, **github, **variables}, cwd=self.folder,
        )  # fmt: skip

    def _filled(self, text: str) -> str:
        outputs = self.output.read_text().splitlines() if self.output.exists() else []
        pairs = dict(line.split("=", 1) for line in outputs)
        steps = {f"steps.scan.outputs.{name}": value for name, value in pairs.items()}
        return EXPRESSION.sub(lambda found: {**self.values, **steps}[found[1]], text)
