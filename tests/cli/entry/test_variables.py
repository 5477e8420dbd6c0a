"""Options from the environment: for one command, for all, and overridden by arguments."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from ext4audit.cli import COMMANDS, NO_PAGER, SHARED, WITH_REPORTS, app, variables
from support.program import affects_output, run

HOST = str(Path(__file__).parents[3] / "fixtures" / "hosts" / "lvm-linear-nobarrier" / "snapshot")
SCAN = ("scan", "--from", HOST, "-q")


@pytest.mark.parametrize(
    ("given", "arguments", "code"),
    [
        ({}, (), 1),
        ({"EXT4AUDIT_FAIL_ON": "never"}, (), 3),
        ({"EXT4AUDIT_SCAN_FAIL_ON": "never"}, (), 3),
        ({"EXT4AUDIT_FAIL_ON": "never", "EXT4AUDIT_SCAN_FAIL_ON": "low"}, (), 1),
        ({"EXT4AUDIT_FAIL_ON": "low", "EXT4AUDIT_SCAN_FAIL_ON": "never"}, (), 3),
        ({"EXT4AUDIT_FAIL_ON": "never"}, ("--fail-on", "low"), 1),
        ({"EXT4AUDIT_PLAN_FAIL_ON": "never"}, (), 1),
        ({"EXT4AUDIT_FAIL_ON": ""}, (), 1),
        ({"EXT4AUDIT_SCAN_SELECT": "LAY001 HLT"}, (), 3),
        ({"EXT4AUDIT_SELECT": "LAY001"}, (), 1),
    ],
    ids=str,
)
def test_precedence_of_options_and_variables(
    given: dict[str, str], arguments: tuple[str, ...], code: int
) -> None:
    """The order is: command line, the command's variable, the variable of all, the default.

    The host has findings and lacks evidence: if findings do not count, the exit code is 3.
    """
    assert run(*SCAN, *arguments, env=given).returncode == code


def test_variables_for_format_and_policy(tmp_path: Path) -> None:
    """EXT4AUDIT_FORMAT applies to reports only, and EXT4AUDIT_CONFIG names the file."""
    policy = tmp_path / "policy.toml"
    policy.write_text('select = ["LAY001"]\n')
    given = {"EXT4AUDIT_FORMAT": "json", "EXT4AUDIT_CONFIG": str(policy)}
    found = json.loads(run("scan", "--from", HOST, env=given).stdout)
    assert {each["rule"] for each in found["verdicts"]} == {"LAY001"}
    assert run("fix", "--from", HOST, env=given).stdout.startswith("#!/bin/sh")
    assert run("scan", "--from", HOST, "-f", "csv", env=given).stdout.startswith("host,")
    assert json.loads(run("rules", env={"EXT4AUDIT_RULES_FORMAT": "json"}).stdout)


def test_invalid_value_names_its_variable() -> None:
    """The command line does not show where the value comes from."""
    done = run("scan", env={"EXT4AUDIT_FAIL_ON": "worst"})
    assert done.returncode == 2
    assert done.stderr.startswith("ext4audit: --fail-on (EXT4AUDIT_FAIL_ON): invalid value 'worst'")
    done = run("scan", "--fail-on", "worst", env={"EXT4AUDIT_FAIL_ON": "low"})
    assert done.stderr.startswith("ext4audit: --fail-on: invalid value 'worst'")


@pytest.mark.parametrize("name", ["EXT4AUDIT_FORMAT", "EXT4AUDIT_SCAN_FORMAT"])
def test_nagios_format_from_the_environment(name: str) -> None:
    """A usage error of the plugin is UNKNOWN."""
    done = run("scan", "--nonsense", env={name: "nagios"})
    assert done.returncode == 3
    assert done.stdout.startswith("EXT4AUDIT UNKNOWN")


def test_help_names_the_variables_of_all_commands() -> None:
    """The help lists each shared option, and the commands to which EXT4AUDIT_FORMAT applies."""
    page = " ".join(run("--help").stdout.split())
    shared = {f"EXT4AUDIT_{name.upper().replace('-', '_')}" for name in SHARED}
    named = set(re.findall(r"EXT4AUDIT_[A-Z_]+", page)) - {"EXT4AUDIT_SCAN_SELECT"}
    assert named == shared | {"EXT4AUDIT_FORMAT", NO_PAGER}
    commands = [name for name in COMMANDS if name in WITH_REPORTS]
    assert f"EXT4AUDIT_FORMAT ({', '.join(commands[:-1])} and {commands[-1]})" in page


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_its_own_variable(command: str) -> None:
    """The variable is named after the long option."""
    found = app.get_command(click.Context(app), command)
    assert found is not None
    options = [each for each in found.params if isinstance(each, click.Option)]
    named = {max(each.opts, key=len)[2:]: each.envvar for each in options}
    assert named.pop("help") is None
    assert named.pop("no-pager") == "EXT4AUDIT_NO_PAGER"
    assert named == {name: variables(command, name) for name in named}
    prefix = f"EXT4AUDIT_{command.upper()}_"
    assert all(variables(command, name)[0].startswith(prefix) for name in named)


def test_tests_do_not_see_the_developers_variables() -> None:
    """tests/conftest.py removes those of every option; those for the tests themselves stay."""
    options = [
        f"{name}"
        for command in COMMANDS
        for each in app.get_command(click.Context(app), command).params  # type: ignore[union-attr]
        for name in (each.envvar if isinstance(each.envvar, list) else filter(None, [each.envvar]))
    ]
    assert options
    assert [name for name in options if not affects_output(name)] == []
    assert not any(map(affects_output, ("EXT4AUDIT_FLEET_HOSTS", "EXT4AUDIT_LOSSES", "PATH")))
