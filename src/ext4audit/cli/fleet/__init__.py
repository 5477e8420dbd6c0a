"""`ext4audit fleet`: audit the hosts of an Ansible inventory; `fleet fix` applies remedies."""

from __future__ import annotations

from typing import Any

import click

from ext4audit import lazily
from ext4audit.cli import completed, completer
from ext4audit.cli.fleet.ansible_options import ansible_options, options_of, passwords_of
from ext4audit.cli.options import chosen, report_options
from ext4audit.cli.output import FORMATS
from ext4audit.sources.ansible import AnsibleError, playbook_program

HOST_SECONDS = 300
_FORMATS = tuple(fmt for fmt in FORMATS if fmt != "json")


def subcommand(name: str) -> click.Command:
    """Return a subcommand of `fleet`."""
    module = lazily("cli.fleet.fixing", "made")
    return completed(module(), f"fleet-{name}")


def host_timeout_option(command: Any) -> Any:  # noqa: ANN401 - a decorator
    """Add the option --host-timeout, as `host_seconds`."""
    return click.option(
        "--host-timeout",
        "host_seconds",
        type=click.IntRange(1, 86400),
        default=HOST_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="Time limit of each host; one that takes longer is unread.",
    )(command)


def require_ansible() -> None:
    """Refuse to run without Ansible; raises UsageError."""
    try:
        playbook_program()
    except AnsibleError as error:
        raise click.UsageError(str(error)) from None


@click.command("fleet")
@click.option(
    "--keep",
    metavar="DIR",
    shell_complete=completer("files"),
    help="Keep the snapshots in DIR, for `ext4audit scan --from DIR`.",
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
      ext4audit fleet fix -i hosts.ini -b --select DUR001
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    from ext4audit.cli.fleet.gather import Wanted  # noqa: PLC0415 - --help needs no Ansible

    require_ansible()
    options = options_of(given)
    passwords = passwords_of(given)
    asked = chosen(given)
    wanted = Wanted(options, passwords, host_seconds, keep, asked.verbosity < 0)
    code: int = lazily("cli.fleet.gather", "audit_inventory")(wanted, asked)
    return code
