"""Find and read the policy file: --config, or the nearest ext4audit.toml, or that of the host."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import click

from ext4audit.cli.app import did_you_mean
from ext4audit.policy.file import Policy, parse_policy
from ext4audit.rules import all_rules

NAME = "ext4audit.toml"
OF_THE_HOST = "/etc/ext4audit.toml"
LARGEST_BYTES = 1 << 20


def read_policy(config: str | None) -> Policy:
    """Return the policy that is in force, an empty one without a file; raises UsageError.

    The nearest file counts alone: nothing of another is mixed in.
    """
    path = config or _nearest()
    if path is None:
        return Policy()
    from ext4audit.facts.toml_table import toml_reader  # noqa: PLC0415 - for a file only

    try:
        with Path(path).open("rb") as file:
            said = toml_reader().loads(file.read(LARGEST_BYTES).decode("utf-8"))
        return parse_policy(said, all_rules(), did_you_mean)
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:  # PolicyError, TOMLDecodeError and UnicodeDecodeError are
        raise click.UsageError(f"{path}: {error}") from None


def _nearest() -> str | None:
    """Return the first file on the way up from the working directory, else the host's."""
    here = os.getcwd()  # noqa: PTH109 - pathlib costs a scan its start
    while True:
        path = f"{here.rstrip('/')}/{NAME}"
        if os.path.isfile(path):  # noqa: PTH113 - the same
            _refuse_a_strangers(path)
            return path
        if here == "/":
            break
        here = os.path.dirname(here)  # noqa: PTH120 - the same
    return OF_THE_HOST if os.path.isfile(OF_THE_HOST) else None  # noqa: PTH113 - the same


def _refuse_a_strangers(path: str) -> None:
    """Refuse a file that anybody could have put there: it could suppress what root must see.

    In /tmp every user may make a file of this name above the directory in which root works.
    """
    owner, folder = os.stat(path).st_uid, os.stat(os.path.dirname(path))  # noqa: PTH116, PTH120 - the same
    if folder.st_mode & stat.S_IWOTH and owner not in {0, os.geteuid()}:
        raise click.UsageError(
            f"{path} belongs to another user in a directory that anybody may write to; "
            "use --config to name a file"
        )
