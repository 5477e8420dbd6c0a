"""Find and read the policy file: --config, or the nearest ext4audit.toml, or that of the host."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import click

from ext4audit.cli.app import did_you_mean
from ext4audit.cli.profile_words import active_profiles
from ext4audit.policy.file import Policy, parse_policy
from ext4audit.rules import all_rules

NAME = "ext4audit.toml"
OF_THE_HOST = "/etc/ext4audit.toml"
LARGEST_BYTES = 1 << 20


def read_policy(config: str | None) -> Policy:
    """Return the policy that is in force, an empty one without a file; raises UsageError.

    The nearest file counts alone: nothing of another is mixed in.
    """
    path = config if config is not None else _nearest()
    if path is None:
        return Policy()
    from ext4audit.facts.toml_table import toml_reader  # noqa: PLC0415 - for a file only

    try:
        policy = parse_policy(toml_reader().loads(_text(path)), all_rules(), did_you_mean)
        active_profiles(policy.profile)
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror or error}") from None
    except click.UsageError as error:
        raise click.UsageError(f"{path}: {error.message}") from None
    except (ValueError, RecursionError) as error:  # of the policy, of TOML, of UTF-8
        raise click.UsageError(f"{path}: {error}") from None
    return policy


def _text(path: str) -> str:
    """Return a file's text; raises OSError or ValueError."""
    with Path(path).open("rb") as file:
        raw = file.read(LARGEST_BYTES + 1)
    if len(raw) > LARGEST_BYTES:
        raise ValueError("it is longer than 1 MiB")
    return raw.decode("utf-8")


def _nearest() -> str | None:
    """Return the first file on the way up from the working directory, else the host's."""
    for folder in _upwards():
        path = f"{folder.rstrip('/')}/{NAME}"
        if os.path.isfile(path):  # noqa: PTH113 - pathlib costs a scan its start
            _refuse_a_strangers(path)
            return path
    return OF_THE_HOST if os.path.isfile(OF_THE_HOST) else None  # noqa: PTH113 - the same


def _upwards() -> Iterator[str]:
    """Yield the working directory and those above it; none where it was removed."""
    try:
        here = os.getcwd()  # noqa: PTH109 - pathlib costs a scan its start
    except FileNotFoundError:
        return
    while here != "/":
        yield here
        here = os.path.dirname(here)  # noqa: PTH120 - the same
    yield here


def _refuse_a_strangers(path: str) -> None:
    """Refuse a file that anybody could have put there: it could suppress what root must see.

    In /tmp every user may make a file of this name above the directory in which root works.
    """
    folder = os.stat(os.path.dirname(path))  # noqa: PTH116, PTH120 - the same
    owners = {os.stat(path).st_uid, os.lstat(path).st_uid}  # noqa: PTH116 - the same
    if folder.st_mode & stat.S_IWOTH and owners - {0, os.geteuid()}:
        raise click.UsageError(
            f"{path} belongs to another user in a directory that anybody may write to; "
            "use --config to name a file"
        )
