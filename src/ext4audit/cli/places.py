"""The hosts that `--from` names: where the evidence of each lies, and the key that it has."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click

from ext4audit.cli import print_diagnostic
from ext4audit.renderers.shared import visible
from ext4audit.renderers.shared.terms import listed
from ext4audit.sources import encode
from ext4audit.sources.captured import STANDARD_INPUT
from ext4audit.sources.containers import ArchiveError
from ext4audit.sources.fleet import exists, expected_names, hosts_in, key_of

_SHOWN = 5


class Place(NamedTuple):
    """The location of a host's evidence; `in_fleet` means that it was found, not named.

    `key` is what the operator calls the host, None where only its evidence has a name. `missing`
    is why an expected host has no evidence; `path` is its key then. `label` is shown in place of
    a path that only this run has. `groups` are those of the host's inventory.
    """

    path: str
    in_fleet: bool
    key: str | None = None
    missing: str = ""
    label: str = ""
    groups: tuple[str, ...] = ()

    @property
    def is_read_here(self) -> bool:
        """Whether the evidence is standard input, which no worker has."""
        return self.path == STANDARD_INPUT and not self.missing


def utf8(word: str) -> str:
    """Return an argument as all names are: UTF-8 with surrogateescape."""
    return os.fsencode(word).decode("utf-8", "surrogateescape")


def places_of(sources: Sequence[str], expect: str | None = None) -> list[Place]:
    """Return the place of each host; hosts that only `expect` lists are at the end.

    Raises UsageError for a bad source, and for two hosts with one key.
    """
    try:
        named = [_named(utf8(source)) for source in sources]
        if [path for _, path in named].count(STANDARD_INPUT) > 1:
            raise click.UsageError("--from - can be given only once")
        ignored: list[str] = []
        places = [place for key, path in named for place in _places(key, path, ignored)]
    except ArchiveError as error:
        raise click.UsageError(str(error)) from None
    if expect is not None:
        # The list may lie beside the snapshots: it is not a host, and not reported as ignored.
        places = [each for each in places if not _is_same_file(each.path, expect)]
        ignored = [path for path in ignored if not _is_same_file(path, expect)]
    refuse_alike(places)
    if expect is not None:
        places += _missing(places, expect)
    if ignored:
        files = "1 file that is" if len(ignored) == 1 else f"{len(ignored)} files that are"
        print_diagnostic(f"ignored {files} not evidence of a host: {listed(ignored, _SHOWN)}")
    return places


def _named(word: str) -> tuple[str | None, str]:
    """Split NAME=SOURCE; a file of that whole name precedes. A NAME holds no slash."""
    name, equals, path = word.partition("=")
    if not (name and equals and path) or "/" in name or exists(word):
        return None, word
    return name, path


def _places(key: str | None, path: str, ignored: list[str]) -> Iterator[Place]:
    """Yield the places of one source; raises ArchiveError, and UsageError for a NAME of many."""
    fleet = hosts_in(path)
    if fleet is None:
        yield Place(path, in_fleet=False, key=key or key_of(path))
        return
    ignored += fleet.ignored
    if key is not None and len(fleet.hosts) > 1:
        number = len(fleet.hosts)
        raise click.UsageError(f"{key}={path}: NAME= is for one host, but {path} holds {number}")
    for found in fleet.hosts:
        yield Place(found.path, in_fleet=True, key=key or found.key)


def refuse_alike(places: Sequence[Place]) -> None:
    """Raise UsageError where two hosts have one key, or keys that look the same."""
    taken: dict[str, Place] = {}
    for place in places:
        if place.key is None:
            continue
        first = taken.setdefault(visible(place.key), place)
        if first is not place:
            raise click.UsageError(
                f"two hosts have the name {place.key}: {first.path} and {place.path}; "
                "give one of them another name: --from NAME=SOURCE"
            )


def _missing(places: Sequence[Place], expect: str) -> list[Place]:
    """Return the expected hosts that no source holds, and report hosts that are not expected."""
    if any(place.key is None for place in places):
        raise click.UsageError("--expect needs a name for each source: use --from NAME=-")
    try:
        expected = dict.fromkeys(expected_names(expect))
    except ArchiveError as error:
        raise click.UsageError(f"--expect {error}") from None
    found = {place.key for place in places}
    extra = [str(place.key) for place in places if place.key not in expected]
    if extra:
        print_diagnostic(f"not in {expect}: {listed(extra, _SHOWN)}")
    why = f"listed in {utf8(expect)}, but not found in any source"
    return [Place(name, True, name, why) for name in expected if name not in found]


def _is_same_file(path: str, other: str) -> bool:
    name = os.path.basename(other)  # noqa: PTH119 - for each of ten thousand hosts
    return path.endswith(utf8(name)) and os.path.realpath(encode(path)) == os.path.realpath(
        os.fsencode(other)
    )
