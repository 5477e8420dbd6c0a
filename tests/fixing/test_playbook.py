"""Changes made by Ansible modules, and those left to the script."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ext4audit.finding import (
    Assignment,
    Disruption,
    LineEdit,
    NewFile,
    Phase,
    Remedy,
    Remount,
    Step,
)
from ext4audit.fixing import ChosenRemedy
from ext4audit.fixing.playbook import playbook
from ext4audit.fixing.script import Script
from ext4audit.rules import all_rules

RULE = next(rule for rule in all_rules() if rule.code == "DUR001")
BEFORE, AFTER = "/dev/a /data ext4 nobarrier 0 2", "/dev/a /data ext4 defaults 0 2"
FILE = NewFile("/etc/sysctl.d/60-x.conf", "vm.x = {{ 1 }}\n")
FILED = Step(Phase.PERSISTENT, "printf", change=FILE)
X, FIELD = Assignment("", "vm.x", "1"), Assignment("/dev/a", "tune2fs -e", "panic")


def tasks(*steps: Step, title: str = "/data") -> list[dict[str, Any]]:
    """Return the tasks of a playbook for one remedy with these steps."""
    chosen = ChosenRemedy(RULE, title, Remedy("Do it.", Disruption.ONLINE, steps), ())
    (play,) = json.loads(playbook(Script("#!/bin/sh\n", "abc", (chosen,), ())))
    made: list[dict[str, Any]] = play["tasks"]
    return made


def modules(made: list[dict[str, Any]]) -> list[str]:
    """Return the modules that change the host, without tasks that only support the script."""
    return [key for task in made[3:] for key in task if "." in key]


def edit(before: str, after: str) -> Step:
    """Build an edit of line 2."""
    return Step(Phase.PERSISTENT, "sed", change=LineEdit("/etc/fstab", 2, before, after))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([edit(BEFORE, AFTER)], ["command", "mount", "command", "command"]),
        ([edit(BEFORE.replace(" ", "\t"), AFTER.replace(" ", "\t"))], ["command"]),
        ([edit(BEFORE[:-4], AFTER[:-4])], ["command"]),
        ([edit(f"{BEFORE} # x", f"{AFTER} # x")], ["command"]),
        ([edit(BEFORE.replace("data", "a\\040b"), AFTER.replace("data", "a\\040b"))], ["command"]),
        (
            [edit(BEFORE, AFTER), edit(*(line.replace("data", "d2") for line in (BEFORE, AFTER)))],
            ["command"],
        ),
        (
            [Step(Phase.IMMEDIATE, "mount", change=Remount("/data", (), ("barrier",)))],
            ["command"],
        ),
        ([Step(Phase.PERSISTENT, "printf", change=FILE)], ["copy", "command"]),
        (
            [
                Step(Phase.IMMEDIATE, "set both", sets=(X, Assignment("", "vm.y", "2"))),
                Step(Phase.PERSISTENT, "printf", change=FILE),
            ],
            ["copy", "sysctl", "sysctl", "command"],
        ),
        ([Step(Phase.IMMEDIATE, "sysctl -w vm.x=1", sets=(X,))], ["command"]),
        ([Step(Phase.IMMEDIATE, "sysctl -w vm.x=1"), FILED], ["command"]),
        ([Step(Phase.IMMEDIATE, "set both", sets=(X, FIELD)), FILED], ["command"]),
        ([Step(Phase.IMMEDIATE, "tune2fs -m 0 /dev/a")], ["command"]),
    ],
)
def test_a_module_does_only_what_it_does_as_safely(steps: list[Step], expected: list[str]) -> None:
    """The last command is the script's: it applies, or it verifies what modules did."""
    assert [module.rpartition(".")[2] for module in modules(tasks(*steps))] == expected


def test_settings_are_in_the_file_before_they_are_set() -> None:
    """The module, which also writes the file, then finds nothing to write."""
    made = tasks(Step(Phase.IMMEDIATE, "set it", sets=(X,)), FILED)
    copy, setting = made[3], made[4]
    assert copy["ansible.builtin.copy"]["dest"] == FILE.path
    assert setting["ansible.posix.sysctl"] == {
        "name": "vm.x",
        "value": "1",
        "sysctl_file": FILE.path,
        "sysctl_set": True,
        "reload": False,
    }


def test_what_jinja_would_evaluate_is_text() -> None:
    """This holds for the content of files and for names."""
    step = Step(Phase.PERSISTENT, "printf", change=FILE)
    made = tasks(step, title="/{{ lookup('pipe', 'id') }}{% raw %}{# x #}")
    text = json.dumps(made[2:]).replace("{{ '{' }}", "")
    assert "{{" not in text
    assert "{%" not in text
    assert "{#" not in text


def test_the_preconditions_are_checked_in_check_mode_and_change_nothing() -> None:
    """Each remedy starts with the script's dry run, and only changes what it lists."""
    made = tasks(edit(BEFORE, AFTER))
    guard = made[2]
    assert guard["ansible.builtin.command"]["argv"] == [
        "sh",
        "/var/lib/ext4audit/fix-abc.sh",
        "--only",
        "1",
    ]
    assert (guard["check_mode"], guard["changed_when"]) == (False, False)
    needed = f"'0 to apply' not in {guard['register']}.stdout"
    changing = [task for task in made[3:] if "check_mode" not in task and "when" in task]
    assert changing
    assert all(needed in task["when"] for task in changing)


def test_the_playbook_copies_the_script_first() -> None:
    """It does so in check mode too: the dry run guards each remedy. Only root can read it."""
    folder, copy, *_ = tasks(edit(BEFORE, AFTER))
    assert folder["check_mode"] is copy["check_mode"] is False
    assert folder["ansible.builtin.file"] == {
        "path": "/var/lib/ext4audit",
        "state": "directory",
        "mode": "0755",
    }
    assert copy["ansible.builtin.copy"]["dest"] == "/var/lib/ext4audit/fix-abc.sh"
    assert copy["ansible.builtin.copy"]["mode"] == "0700"


def test_a_line_is_edited_by_the_module_where_it_is_the_only_one() -> None:
    """It keeps six fields and a backup; if two lines name the directory, the script edits."""
    look, mount, apply, verify = tasks(edit(BEFORE, AFTER))[3:]
    assert (look["check_mode"], look["changed_when"]) == (False, False)
    assert mount["ansible.posix.mount"] == {
        "src": "/dev/a",
        "path": "/data",
        "fstype": "ext4",
        "opts": "defaults",
        "dump": "0",
        "passno": "2",
        "state": "present",
        "backup": True,
    }
    assert mount["when"][1] == f"{look['register']}.stdout == '1'"
    assert apply["when"][1] == f"{look['register']}.stdout != '1'"
    script = "/var/lib/ext4audit/fix-abc.sh"
    argv = [each["ansible.builtin.command"]["argv"] for each in (apply, verify)]
    words = (["sh", script, word, "--only", "1"] for word in ("--apply", "--verify"))
    assert argv == list(words)
    assert verify["changed_when"] is False


def test_a_play_becomes_root_and_gathers_no_facts() -> None:
    """The playbook contains the script as a list of lines."""
    (play,) = json.loads(playbook(Script("#!/bin/sh\n:\n", "abc", (), ())))
    assert (play["hosts"], play["become"], play["gather_facts"]) == ("all", True, False)
    assert play["vars"] == {"script_lines": ["#!/bin/sh", ":", ""]}
