"""`--knowledge`: newer data files, which are in force for this run."""

from collections.abc import Sequence
from functools import partial

import click

from ext4audit.cli import did_you_mean
from ext4audit.cli.policy.trusted import read_text
from ext4audit.facts import put_in_force
from ext4audit.facts.knowledge import NewerFile, by_file
from ext4audit.facts.knowledge.newer import read_newer
from ext4audit.sources.waiting import about

LARGEST_BYTES = 4 << 20
OWN_IT = "a data file must belong to root or to you, in such a directory"


def use_newer(paths: Sequence[str]) -> tuple[NewerFile, ...]:
    """Put data files in force, all or none; raises UsageError. Later files win."""
    files = tuple(map(_newer, paths))
    put_in_force(by_file(files))
    return files


def _newer(path: str) -> NewerFile:
    """Return a valid data file; raises UsageError, which names it."""
    read = partial(read_text, path, LARGEST_BYTES, trusted=False, advice=OWN_IT)
    try:
        return read_newer(about(path, read), path, did_you_mean)
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror or error}") from None
    except click.UsageError as error:
        raise click.UsageError(f"{path}: {error.message}") from None
    except (ValueError, RecursionError) as error:  # of the data, of TOML, of UTF-8
        raise click.UsageError(f"{path}: {error}") from None
