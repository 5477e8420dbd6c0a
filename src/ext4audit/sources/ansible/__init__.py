"""Collect a snapshot from every host of an Ansible inventory.

This package implements neither ssh nor scheduling: ansible-playbook runs one task on every host,
with the configuration of the calling user, and ansible-runner reports the events.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

PLAYBOOK_PROGRAM = "ansible-playbook"
INSTALL = "pip install 'ext4audit[fleet]'"
_MODULES = {"ansible_runner": "ansible-runner", "psutil": "psutil"}
"""The modules that a run imports, each with the package that provides it."""
PROMPTS = {
    "ask_pass": r"SSH password: ?$",
    "ask_become_pass": r"BECOME password(?:\[defaults to SSH password\])?: ?$",
    "ask_vault_pass": r"Vault password(?: \([^)\n]*\))?: ?$",
}
"""Regular expressions of Ansible's password prompts, by the option that enables each."""


class AnsibleError(Exception):
    """Ansible cannot be run, or no host matches; the message is shown to the user unchanged."""


class Answer(NamedTuple):
    """The result of one host: `path` of its snapshot, or the `reason` why there is none."""

    name: str
    groups: tuple[str, ...] = ()
    path: str = ""
    reason: str = ""


class Play(NamedTuple):
    """The playbook, options and prompt answers of one run of ansible-playbook.

    `folder` is private to the run. `passwords` maps regular expressions of prompts to answers.
    """

    folder: str
    playbook: str
    options: tuple[str, ...]
    passwords: Mapping[str, str]
    shown: bool = False


def playbook_program() -> str:
    """Return the path of ansible-playbook, from our own environment or else from PATH.

    Raises AnsibleError if it is missing, or if a required module is: a distribution may provide
    Ansible but not the other packages of the extra.
    """
    beside = Path(sys.executable).with_name(PLAYBOOK_PROGRAM)
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(PLAYBOOK_PROGRAM)
    missing = [package for module, package in _MODULES.items() if find_spec(module) is None]
    if found is None or missing:
        what = PLAYBOOK_PROGRAM if found is None else missing[0]
        raise AnsibleError(f"{what} is not installed; {INSTALL}")
    return found
