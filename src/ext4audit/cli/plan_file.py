"""A plan in a TOML file: the words of the flags as keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import click

from ext4audit.cli.app import did_you_mean
from ext4audit.facts.toml_table import toml_reader

_LARGEST_BYTES = 1 << 20


def read_plan_file(path: str, keys: Collection[str]) -> Mapping[str, Any]:
    """Return what the file says by key, `-` spelled `_`; raises UsageError for what is wrong."""
    toml = toml_reader()
    try:
        with Path(path).open("rb") as file:
            text = file.read(_LARGEST_BYTES).decode("utf-8")
        said = toml.loads(text)
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        raise click.UsageError(f"{path}: {error}") from None
    found = {}
    for key, value in said.items():
        name = key.replace("-", "_")
        if name not in keys:
            raise click.UsageError(f"{path}: no key is called {key!r}{did_you_mean(key, keys)}")
        if isinstance(value, dict | list | float) or not isinstance(value, str | int):
            raise click.UsageError(f"{path}: {key} is no text, number or boolean")
        found[name] = value
    return found
