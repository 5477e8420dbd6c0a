"""The words of --profile: a product, and the mount points that it is on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from ext4audit.cli.app import did_you_mean
from ext4audit.facts.profile import ActiveProfile, all_profiles


def active_profiles(words: Sequence[str]) -> tuple[ActiveProfile, ...]:
    """Return the profiles that "tidb", "tidb,kafka=/srv/*" name; raises UsageError."""
    return tuple(_active(words)) if words else ()


def _active(words: Sequence[str]) -> Iterator[ActiveProfile]:
    known = all_profiles()
    for word in (part.strip() for value in words for part in value.split(",")):
        name, equals, place = word.partition("=")
        if name.lower() not in known:
            near = did_you_mean(name.lower(), known) or f" (there are {', '.join(known)})"
            raise click.UsageError(f"no profile is called {name!r}{near}")
        if equals and not place.startswith(("/", "*")):
            raise click.UsageError(f"--profile {word}: a mount point begins with /")
        yield ActiveProfile(known[name.lower()], place or None)
