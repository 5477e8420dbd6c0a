"""`ext4audit fleet fix`: run the playbook of `fix -f ansible` on one host after another."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import click

from ext4audit.api import audit_snapshot
from ext4audit.cli.captured import Place
from ext4audit.cli.fix import choices_of, remedy_options, script_of
from ext4audit.cli.fleet import (
    ansible_options,
    host_timeout_option,
    options_of,
    passwords_of,
    require_ansible,
)
from ext4audit.cli.fleet.gathering import (
    GatherOptions,
    Stop,
    answered_places,
    gathering,
    stopped_by_signals,
)
from ext4audit.cli.options import ReportOptions, findings_of, rule_options
from ext4audit.cli.output import write
from ext4audit.finding import Disruption
from ext4audit.fixing.playbook import playbook
from ext4audit.fixing.script import Script
from ext4audit.renderers import visible
from ext4audit.report import EXIT_CLEAN, EXIT_FINDINGS, EXIT_INCOMPLETE
from ext4audit.sources import ArchiveError
from ext4audit.sources.ansible import Play
from ext4audit.sources.ansible.gathering import Gathering, Run

UNREAD, FAILED, NOT_STARTED = "unread", "failed", "not started"
NOTHING, OMITTED = "nothing to fix", "no remedy is left"
FIXED, AS_IT_WAS, WOULD_CHANGE = "fixed", "already fixed", "would change"
TO_APPLY = re.compile(r"^[1-9]\d* to apply, ", re.MULTILINE)
"""The start of the summary of a dry run (fix.sh) if a remedy has to be applied."""


class RemedyOptions(NamedTuple):
    """The options that choose remedies, and whether to apply them."""

    disruption: Disruption
    choices: dict[str, str]
    is_applied: bool


class HostState(NamedTuple):
    """The result of a host: one of the words above, and the reason or number of remedies."""

    word: str
    detail: str = ""


@click.command("fix")
@click.option(
    "--apply",
    "is_applied",
    is_flag=True,
    help="Apply the remedies; without it Ansible runs with --check --diff.",
)
@remedy_options
@host_timeout_option
@rule_options
@ansible_options
def command(
    *,
    is_applied: bool,
    disruption: str,
    choices: tuple[str, ...],
    host_seconds: int,
    **given: Any,  # noqa: ANN401 - every type that an option can have
) -> int:
    """Apply the safest remedies of each host's findings, one host after the other.

    All hosts are gathered and audited first. Then Ansible runs the playbook of
    `ext4audit fix -f ansible` on one host at a time, as root: with --check --diff, which shows the
    changes, unless --apply is given. With --apply, the first host on which a change or its
    verification fails ends the run; a remedy that fails its verification is rolled back.
    At the end each host has a line with its state.

    These playbooks need Python on the hosts, and keep their script and its record for --undo in
    /var/lib/ext4audit there.

    Exit codes: 0 done, 1 a host failed, 2 usage error, 3 a host is unread, 70 internal error,
    130 interrupted.

    \b
    Examples:
      ext4audit fleet fix -i hosts.ini --select DUR001 --disruption remount
      ext4audit fleet fix -i hosts.ini --disruption remount -K --apply
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    require_ansible()
    options = ("--become", *options_of(given))
    asked = findings_of(given)
    chosen_words = choices_of(choices, asked.rules)
    remedies = RemedyOptions(Disruption(disruption), chosen_words, is_applied)
    passwords = passwords_of(given)
    wanted = GatherOptions(options, passwords, host_seconds, None, quiet=False)
    with stopped_by_signals() as stop, gathering(wanted) as made:
        states = _fix_all(made, wanted, asked, remedies, stop)
    write("".join(f"{line}\n" for line in _lines(states)), None)
    if stop.exit_code is not None:
        return stop.exit_code
    words = {state.word for state in states.values()}
    if FAILED in words:
        return EXIT_FINDINGS
    return EXIT_INCOMPLETE if UNREAD in words else EXIT_CLEAN


def _fix_all(
    made: Gathering,
    wanted: GatherOptions,
    asked: ReportOptions,
    remedies: RemedyOptions,
    stop: Stop,
) -> dict[str, HostState]:
    """Gather and fix the hosts, and return the state of each, in inventory order."""
    states: dict[str, HostState] = {}
    scripts: dict[str, Script] = {}
    for place in answered_places(made, wanted, stop):
        if place is not None and place.key is not None:
            found = _script(place, asked, remedies)
            if isinstance(found, Script):
                scripts[place.key] = found
            else:
                states[place.key] = found
    ended = False
    for name in (each for each in made.members if each in scripts):
        if ended or stop():
            states[name] = HostState(NOT_STARTED, _remedies(len(scripts[name].chosen)))
            continue
        states[name] = _fix(name, scripts[name], wanted, remedies, stop)
        ended = remedies.is_applied and states[name].word == FAILED
    return {name: states[name] for name in made.members if name in states}


def _script(place: Place, asked: ReportOptions, remedies: RemedyOptions) -> Script | HostState:
    """Return the script of a host, or its state if there is nothing to run; raises UsageError."""
    name = str(place.key)
    if place.missing:
        return HostState(UNREAD, place.missing)
    try:
        report = audit_snapshot(
            place.path, rules=asked.rules, profiles=asked.profiles, in_fleet=True, key=name
        )
    except ArchiveError as error:
        return HostState(UNREAD, str(error).replace(place.path, name))
    report = asked.post_processing.one(report, asked.rules, whole=True)
    script = script_of(report, asked, remedies.disruption, remedies.choices, host=name)
    return script if script.chosen else without_remedies(script)


def without_remedies(script: Script) -> HostState:
    """Return the state of a host with no remedy to apply, which may still have findings."""
    return HostState(OMITTED, f"{len(script.left)} omitted") if script.left else HostState(NOTHING)


def _fix(
    name: str, script: Script, wanted: GatherOptions, remedies: RemedyOptions, stop: Stop
) -> HostState:
    """Run the playbook on one host, and return its state."""
    with gathering(wanted) as folder:
        path = Path(folder.folder) / "fix.yml"
        path.write_text(_only(name, playbook(script)), encoding="utf-8")
        mode = ("--diff",) if remedies.is_applied else ("--check", "--diff")
        options = (*wanted.options, *mode, f"--limit={ansible_pattern(name)}")
        play = Play(folder.folder, str(path), options, wanted.passwords, shown=True)
        return _state(Run(play), script, remedies, stop)


def _state(run: Run, script: Script, remedies: RemedyOptions, stop: Stop) -> HostState:
    needed, reason, code = 0, "", ""
    try:
        for event in run.events():
            if stop():
                return HostState(FAILED, "interrupted")
            if event is not None and event.kind == "end":
                code = event.text
            elif event is not None and event.kind in {"failed", "unreachable"}:
                reason = reason or event.text or event.kind
            elif event is not None:
                needed += bool(TO_APPLY.search(event.output))
    finally:
        run.stop()
    if reason or code != "0":
        return HostState(FAILED, reason or f"ansible-playbook ended with status {code}")
    if not needed:
        return HostState(AS_IT_WAS, _remedies(len(script.chosen)))
    return HostState(FIXED if remedies.is_applied else WOULD_CHANGE, _remedies(needed))


def _only(name: str, text: str) -> str:
    """Limit the playbook to one host, because --limit also matches a group of that name."""
    plays = json.loads(text)
    hashed = sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
    guard = {
        "name": "this host only",
        "ansible.builtin.meta": "end_host",
        "when": f"(inventory_hostname | hash('sha256')) != '{hashed}'",
    }
    for play in plays:
        play["tasks"].insert(0, guard)
    return json.dumps(plays, indent=2)


def ansible_pattern(name: str) -> str:
    """Return an Ansible pattern for one name, with special characters of patterns escaped."""
    return f"~^{''.join(_quoted(char) for char in name)}$"


def _quoted(char: str) -> str:
    if char.isascii() and char.isalnum():
        return char
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\U{ord(char):08x}"  # noqa: PLR2004


def _remedies(count: int) -> str:
    return "1 remedy" if count == 1 else f"{count} remedies"


def _lines(states: dict[str, HostState]) -> Iterator[str]:
    width = max((len(visible(name)) for name in states), default=0)
    for name, state in states.items():
        detail = f": {state.detail}" if state.detail else ""
        yield f"{visible(name):<{width}}  {visible(state.word + detail)}"
