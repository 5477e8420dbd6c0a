"""`ext4audit fleet`: audit the hosts of an Ansible inventory; `fleet fix` applies remedies.

Options that are passed to Ansible unchanged have the same names as in Ansible.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import starmap
from pathlib import Path
from typing import Any

import click

from ext4audit import lazily
from ext4audit.cli import completed, completer, path_option
from ext4audit.cli.options import Number, chosen, flag_of, report_options, with_options
from ext4audit.cli.output import FORMATS
from ext4audit.sources.ansible import PROMPTS, AnsibleError, playbook_program

Command = Callable[..., int]
Completer = Callable[[click.Context, click.Parameter, str], list[Any]]

_VALUES = {
    "inventory": ("-i", "HOSTS", "Inventory: a file, a directory, a program or host,host,…"),
    "limit": ("-l", "PATTERN", "Only the hosts that match PATTERN."),
    "user": ("-u", "NAME", "Connect as this user."),
    "private_key": ("", "FILE", "Private key for ssh."),
    "become_user": ("", "NAME", "User to become; root by default."),
    "become_method": ("", "NAME", "How to become that user: sudo (default), su, doas, …"),
    "vault_id": ("", "ID", "Vault identity, such as prod@file."),
    "vault_password_file": ("", "FILE", "File with a vault password."),
    "extra_vars": ("-e", "VARS", "Variables: NAME=VALUE, YAML, JSON or @FILE."),
}
_REPEATED = frozenset({"inventory", "vault_id", "vault_password_file", "extra_vars"})
_OF_FILES = frozenset({"inventory", "private_key", "vault_password_file"})
_ASKED = {
    "ask_pass": ("-k", "Ask for the password of ssh.", "SSH password"),
    "ask_become_pass": ("-K", "Ask for the password to become root.", "BECOME password"),
    "ask_vault_pass": ("-J", "Ask for the password of the vault.", "Vault password"),
}
_STEPWISE = ("--step", "--ste")
"""The interactive option of ansible-playbook, which accepts unambiguous abbreviations."""
REST, REST_SHOWN = "ansible_options", "[-- ANSIBLE_OPTION...]"


def ansible_options(command: Command, complete_rest: Completer | None = None) -> Command:
    """Add the options of Ansible, and the arguments after -- that are passed to it."""
    options = (
        *starmap(_value_option, _VALUES.items()),
        click.option("--forks", type=Number(min=1), metavar="N", help="Hosts at the same time."),
        click.option("-b", "--become", is_flag=True, help="Become root on the hosts."),
        *(
            click.option(short, flag_of(name), name, is_flag=True, help=text)
            for name, (short, text, _) in _ASKED.items()
        ),
        click.argument(REST, nargs=-1, metavar=REST_SHOWN, shell_complete=complete_rest),
    )
    return with_options(command, options)


def _value_option(name: str, about: tuple[str, str, str]) -> Callable[[Any], Any]:
    short, what, text = about
    return click.option(
        *filter(None, (short, flag_of(name))),
        name,
        multiple=name in _REPEATED,
        metavar=what,
        help=text,
        shell_complete=completer("files") if name in _OF_FILES else None,
    )


def options_of(given: dict[str, Any]) -> tuple[str, ...]:
    """Remove the options from `given` and return them for ansible-playbook; raises UsageError."""
    rest = given.pop(REST)
    if rest and not rest[0].startswith("-"):
        raise click.UsageError(
            f"unexpected argument {rest[0]}: hosts are chosen by --inventory and --limit, and "
            "options of Ansible follow --"
        )
    if any(word in _STEPWISE for word in rest):
        raise click.UsageError("--step asks on a terminal before each task, which no run here has")
    for inventory in given["inventory"]:
        _refuse_endless(inventory)
    return (*_given(given), *rest)


def _refuse_endless(inventory: str) -> None:
    """Raise UsageError for a device: Ansible would read /dev/zero until memory runs out."""
    path = Path(inventory)
    if path.is_block_device() or (path.is_char_device() and inventory != os.devnull):
        raise click.UsageError(f"--inventory {inventory}: a device is no inventory")


def _given(given: dict[str, Any]) -> Iterator[str]:
    for name in _VALUES:
        value = given.pop(name)
        for each in value if name in _REPEATED else filter(None, (value,)):
            yield f"{flag_of(name)}={each}"
    forks = given.pop("forks")
    if forks is not None:
        yield f"--forks={forks}"
    for name in ("become", *_ASKED):
        if given.get(name):
            yield flag_of(name)
    given.pop("become")


def passwords_of(given: dict[str, Any]) -> dict[str, str]:
    """Remove the password flags from `given`; prompt for passwords, and return them by prompt."""
    wanted = [name for name in _ASKED if given.pop(name)]
    return {
        PROMPTS[name]: click.prompt(
            _ASKED[name][2], hide_input=True, err=True, default="", show_default=False
        )
        for name in wanted
    }


HOST_SECONDS = 300
_FORMATS = tuple(fmt for fmt in FORMATS if fmt != "json")


def subcommand(name: str) -> click.Command:
    """Return a subcommand of `fleet`."""
    return completed(import_module("ext4audit.cli.fleet.fixing").command, f"fleet-{name}")


host_timeout_option = click.option(
    "--host-timeout",
    "host_seconds",
    type=Number(1, 86400),
    default=HOST_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of each host; one that takes longer is unread.",
)


def require_ansible() -> None:
    """Raise UsageError if Ansible is not installed."""
    try:
        playbook_program()
    except AnsibleError as error:
        raise click.UsageError(str(error)) from None


@click.command("fleet")
@path_option(
    "--keep",
    metavar="DIR",
    help="Keep the snapshots in DIR, for `ext4audit scan --from DIR`; of a host that does not "
    "answer, move the one of an earlier run to DIR/.earlier.",
)
@click.option(
    "--group-by",
    "group_by",
    multiple=True,
    metavar="GLOB",
    help="Count hosts by the groups that match GLOB, in text and HTML; '*' for all; repeatable.",
)
@host_timeout_option
@lambda command: report_options(command, _FORMATS)
@lambda command: ansible_options(command, completer("fleet_commands"))
def command(
    *,
    keep: str | None,
    host_seconds: int,
    **given: Any,  # noqa: ANN401 - every type that an option can have
) -> int:
    """Gather snapshots from the hosts of an Ansible inventory, and audit each as it arrives.

    Ansible reaches the hosts: ansible.cfg, ssh, become and the vault apply as for ansible-playbook.
    The hosts need a POSIX shell and no Python; nothing is changed or left there. Without
    --become, what only root can read is not determined. The options from --inventory to
    --ask-vault-pass are Ansible's own; any other option of ansible-playbook can follow --.

    A host that is unreachable, fails or times out has a row with the reason in each format, and
    makes the audit incomplete. Ctrl-C reports the hosts that have answered and exits with 130.

    `ext4audit fleet fix` applies remedies to such hosts: see `ext4audit fleet fix --help`.

    Exit codes: 0 clean and complete, 1 findings at or above --fail-on, 2 usage error,
    3 incomplete, 70 internal error, 130 interrupted.

    \b
    Examples:
      ext4audit fleet -i hosts.ini --become
      ext4audit fleet -i hosts.ini -l 'db*' -b -K --keep snapshots/
      ext4audit fleet -i db1,db2, -b -f html -o report.html
      ext4audit fleet -i hosts.ini -b --group-by 'dc_*'
      ext4audit fleet -i hosts.ini -b -- --ssh-common-args='-J bastion'
      ext4audit fleet fix -i hosts.ini --select DUR001 --disruption remount
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    from ext4audit.cli.fleet.gathering import GatherOptions  # noqa: PLC0415 - --help needs no Ansible

    require_ansible()
    options = options_of(given)
    passwords = passwords_of(given)
    asked = chosen(given)
    wanted = GatherOptions(options, passwords, host_seconds, keep, asked.verbosity < 0)
    code: int = lazily("cli.fleet.gathering", "audit_inventory")(wanted, asked)
    return code
