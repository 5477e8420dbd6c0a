"""The hosts of an Ansible inventory: Ansible reaches them, and each answers with a snapshot.

There is no ssh and no scheduling here: ansible-playbook runs one task on every host, with the
configuration of whoever calls it, and ansible-runner passes on what happens.
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
"""The modules that a run imports, and the packages that have them."""
PROMPTS = {
    "ask_pass": r"SSH password: ?$",
    "ask_become_pass": r"BECOME password(?:\[defaults to SSH password\])?: ?$",
    "ask_vault_pass": r"Vault password(?: \([^)\n]*\))?: ?$",
}
"""Ansible's own prompts, by the option that asks for each."""


class AnsibleError(Exception):
    """Ansible cannot be run, or no host matches; the message is printed as it is."""


class Answer(NamedTuple):
    """What became of a host: its snapshot is at `path`, or `reason` says why there is none."""

    name: str
    groups: tuple[str, ...] = ()
    path: str = ""
    reason: str = ""


class Play(NamedTuple):
    """One run of ansible-playbook: its playbook, its options, and what its prompts are answered.

    `folder` is private to the run. `passwords` are answers by the prompt's regular expression.
    """

    folder: str
    playbook: str
    options: tuple[str, ...]
    passwords: Mapping[str, str]
    shown: bool = False


def playbook_program() -> str:
    """Return the path of ansible-playbook: ours, else that of PATH; raises AnsibleError.

    It is that also where a module that a run needs is missing: a distribution may have Ansible,
    and not the rest of the extra.
    """
    beside = Path(sys.executable).with_name(PLAYBOOK_PROGRAM)
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(PLAYBOOK_PROGRAM)
    missing = [package for module, package in _MODULES.items() if find_spec(module) is None]
    if found is None or missing:
        what = PLAYBOOK_PROGRAM if found is None else missing[0]
        raise AnsibleError(f"{what} is not installed; {INSTALL}")
    return found
