"""The playbook that applies remedies: with Ansible modules if possible, else with the script.

The playbook contains the script, line by line, and copies it to the host. A dry run of the script
checks the preconditions of every remedy. Modules make only the changes that they make as carefully
as the script: kernel settings, files, and fstab lines that the module writes unchanged. The
playbook is JSON, which is also YAML, and needs no quoting rules.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ext4audit.finding import LineEdit, NewFile, Phase, Step
from ext4audit.fixing import ChosenRemedy
from ext4audit.fixing.script import Script

FOLDER = "/var/lib/ext4audit"
NAME = re.compile(r"\{(?=[{%#])")
FSTAB = "/etc/fstab"
FIELDS = 6
PLAIN = re.compile(r"[A-Za-z0-9/_.:=,-]+")
MODES = {"folder": "0755", "script": "0700", "file": "0644"}
MOUNT = "ansible.posix.mount"
JOINED = "{{ script_lines | join('\n') }}"
"""Contains a literal newline: versions of Ansible differ in what a backslash means there."""
TO_APPLY = "'0 to apply' not in {}.stdout"


def playbook(script: Script) -> str:
    """Return the playbook as JSON."""
    path = f"{FOLDER}/fix-{script.identity}.sh"
    tasks = [
        _task(
            "the folder of the script",
            "ansible.builtin.file",
            {"path": FOLDER, "state": "directory", "mode": MODES["folder"]},
            check_mode=False,
        ),
        _task(
            "the script that checks the preconditions",
            "ansible.builtin.copy",
            {"content": JOINED, "dest": path, "mode": MODES["script"]},
            check_mode=False,
            diff=False,
        ),
    ]
    for number, each in enumerate(script.chosen, start=1):
        tasks += _remedy(number, each, path)
    play = {
        "name": "ext4audit: remedies",
        "hosts": "all",
        "become": True,
        "gather_facts": False,
        "vars": {"script_lines": [_escaped(line) for line in script.text.split("\n")]},
        "tasks": tasks,
    }
    return json.dumps([play], indent=2) + "\n"


def _script(path: str, number: int, *words: str) -> list[str]:
    """Return the command that runs the script for a remedy, by sh because /var may be noexec."""
    return ["sh", path, *words, "--only", str(number)]


def _remedy(number: int, each: ChosenRemedy, path: str) -> list[dict[str, Any]]:
    """Return the tasks of a remedy: preconditions, the change if needed, and the verification."""
    found = f"remedy_{number}"
    needed = TO_APPLY.format(found)
    title = _escaped(each.title)
    made = _by_modules(number, each, path)
    tasks = [
        _command(f"{title}: preconditions", _script(path, number), check_mode=False)
        | {"register": found, "changed_when": False}
    ]
    if made is None:
        run = _command(f"{title}: apply", _script(path, number, "--apply"))
        return [*tasks, run | {"when": needed, **_register_change(f"applied_{number}")}]
    for task in made:
        task["when"] = [needed, *([task["when"]] if "when" in task else [])]
    tasks += made
    verify = _command(f"{title}: verify", _script(path, number, "--verify"))
    return [*tasks, verify | {"changed_when": False}]


def _register_change(variable: str) -> dict[str, Any]:
    """Return task keys that register the script's output, and whether it changed anything."""
    changed = f"'nothing was changed' not in {variable}.stdout"
    return {"register": variable, "changed_when": changed}


def _by_modules(number: int, each: ChosenRemedy, path: str) -> list[dict[str, Any]] | None:
    """Return tasks that make the changes of a remedy with modules, None if that is impossible."""
    work = [step for step in each.remedy.steps if step.phase is not Phase.VERIFY]
    # A file comes before its settings, so that their tasks have nothing left to write there.
    work.sort(key=lambda step: not isinstance(step.change, NewFile))
    files = [step.change.path for step in work if isinstance(step.change, NewFile)]
    tasks: list[dict[str, Any]] = []
    for step in work:
        made = _by_module(each, step, files)
        if made is None:
            return None
        tasks += made
    places = {task[MOUNT]["path"] for task in tasks if MOUNT in task}
    if not places:
        return tasks
    return _if_one_line(number, each, path, tasks, *places) if len(places) == 1 else None


def _by_module(each: ChosenRemedy, step: Step, files: list[str]) -> list[dict[str, Any]] | None:
    title = _escaped(each.title)
    match step.change:
        case NewFile(path, content):
            words = {"dest": path, "content": _escaped(content), "mode": MODES["file"]}
            return [_task(f"{title}: {path}", "ansible.builtin.copy", words)]
        case LineEdit() as edit:
            return _mount(title, edit)
    settings = [each for each in step.sets if not each.device]
    if not settings or len(settings) < len(step.sets) or len(files) != 1:
        return None
    return [_setting(f"{title}: {each.name}", each.name, each.value, files[0]) for each in settings]


def _setting(title: str, name: str, value: str, file: str) -> dict[str, Any]:
    words = {"name": name, "value": value, "sysctl_file": file, "sysctl_set": True, "reload": False}
    return _task(title, "ansible.posix.sysctl", words)


def _mount(title: str, edit: LineEdit) -> list[dict[str, Any]] | None:
    """Return the task that edits a line, None if the module would change more than the step.

    The module finds the line by the mount point, and separates six fields by single blanks.
    """
    fields = edit.after.split(" ")
    plain = all(PLAIN.fullmatch(field) for field in fields)
    if len(fields) != FIELDS or not plain or edit.before.split(" ")[1:2] != fields[1:2]:
        return None
    keys = ("src", "path", "fstype", "opts", "dump", "passno")
    words = {**dict(zip(keys, fields, strict=True)), "state": "present", "backup": True}
    return [_task(f"{title}: {edit.where}", MOUNT, words)]


def _if_one_line(
    number: int, each: ChosenRemedy, path: str, tasks: list[dict[str, Any]], place: str
) -> list[dict[str, Any]]:
    """Return tasks that use the module if fstab has one line for the mount point, else the script.

    ansible.posix.mount changes all lines for a mount point.
    """
    lines, title = f"lines_{number}", _escaped(each.title)
    count = f'$1 !~ /^#/ && $2 == "{place}" {{ n++ }} END {{ print n + 0 }}'
    look = _command(f"{title}: lines for {place}", ["awk", count, FSTAB], check_mode=False)
    run = _command(f"{title}: apply", _script(path, number, "--apply"))
    return [
        look | {"register": lines, "changed_when": False},
        *(task | {"when": f"{lines}.stdout == '1'"} for task in tasks),
        run | {"when": f"{lines}.stdout != '1'", **_register_change(f"applied_{number}")},
    ]


def _command(name: str, argv: list[str], **more: Any) -> dict[str, Any]:  # noqa: ANN401 - keywords of a task
    return _task(name, "ansible.builtin.command", {"argv": argv}, **more)


def _task(name: str, module: str, words: dict[str, Any], **more: Any) -> dict[str, Any]:  # noqa: ANN401 - the same
    return {"name": name, module: words, **more}


def _escaped(text: str) -> str:
    """Escape a text for Jinja; names can contain braces."""
    return NAME.sub("{{ '{' }}", text)
