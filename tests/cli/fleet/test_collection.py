"""Ansible's collection, used from a playbook as by its users."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.docs.generated_files import SHARE
from support.program import environment
from support.sshd import NOISY, Fleet
from support.timing import PATIENCE_SECONDS

pytestmark = [pytest.mark.fleet, pytest.mark.xdist_group("fleet")]

PROGRAMS = Path(sys.executable).parent
COLLECTION = SHARE / "ansible_collections" / "ext4audit" / "audit"


def run(program: str, *arguments: object, cwd: Path) -> str:
    """Run a program of Ansible with the collection, and return its output."""
    words = {"ANSIBLE_COLLECTIONS_PATH": str(SHARE), "ANSIBLE_NOCOLOR": "1"}
    command = [str(PROGRAMS / program), *map(str, arguments)]
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment(**words, PATH=f"{PROGRAMS}:/usr/bin:/bin:/usr/sbin:/sbin"),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_playbook_audits_with_the_role(fleet: Fleet, tmp_path: Path) -> None:
    """It works in check mode and changes nothing; the facts have counts and findings."""
    kept, facts = tmp_path / "{{ inventory_hostname }}.txt", tmp_path / "facts.json"
    role = {
        "role": "ext4audit.audit.audit",
        "vars": {"audit_fail_on": "never", "audit_dest": str(kept)},
    }
    tell = {
        "ansible.builtin.copy": {"content": "{{ ext4audit | to_json }}", "dest": str(facts)},
        "delegate_to": "localhost",
        "check_mode": False,
        "run_once": True,
        "changed_when": False,
        "vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
    }
    play = {"hosts": "all", "gather_facts": False, "roles": [role], "post_tasks": [tell]}
    book = tmp_path / "play.yml"
    book.write_text(json.dumps([play]))
    out = run("ansible-playbook", "--check", "-l", f"h01,{NOISY}", book, cwd=fleet.folder)
    recap = out.rpartition("PLAY RECAP")[2]
    assert recap.count("changed=0") == 2, out
    assert (tmp_path / f"{NOISY}.txt").exists()
    found = json.loads(facts.read_text())
    assert found["host"] in {"h01", NOISY}
    assert sum(found["counts"].values()) == len(found["findings"])
    assert list(found["counts"]) == ["critical", "high", "medium", "low", "info"]


def test_collection_is_documented_and_built(tmp_path: Path) -> None:
    """Both ansible-doc and ansible-galaxy succeed."""
    documented = run("ansible-doc", "--json", "ext4audit.audit.snapshot", cwd=tmp_path)
    assert "options" in json.loads(documented)["ext4audit.audit.snapshot"]["doc"]
    role = run("ansible-doc", "--json", "-t", "role", "ext4audit.audit.audit", cwd=tmp_path)
    assert "main" in json.loads(role)["ext4audit.audit.audit"]["entry_points"]
    run("ansible-galaxy", "collection", "build", COLLECTION, cwd=tmp_path)
    assert list(tmp_path.glob("ext4audit-audit-*.tar.gz"))
