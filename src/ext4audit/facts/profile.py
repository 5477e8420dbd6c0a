"""What vendors demand of the ext4 below their products: profiles, and where they are in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from ext4audit.facts.toml_table import read_table

TABLE = "profiles.toml"


@dataclass(frozen=True, slots=True)
class Profile:
    """One product's demands; the fields are those that profiles.toml explains.

    `forbid` are pairs of a word and the rule that reports it, `rate` pairs of a rule and a
    severity, with "+" in front where it is the least and not the most.
    """

    name: str
    product: str
    says: str
    source: str
    options: tuple[str, ...] = ()
    shown: bool = False
    features: tuple[str, ...] = ()
    cluster_bytes: int | None = None
    reserved_percent: int | None = None
    forbid: tuple[tuple[str, str], ...] = ()
    enable: tuple[str, ...] = ()
    rate: tuple[tuple[str, str], ...] = ()
    instead_of_ext4: str | None = None


@dataclass(frozen=True, slots=True)
class ActiveProfile:
    """A profile and what it is for: a glob of mount points, None for every filesystem."""

    profile: Profile
    place: str | None = None

    def covers(self, mount_points: tuple[str, ...]) -> bool:
        """Whether a filesystem with these mount points is one that the profile is for."""
        place = self.place
        return place is None or any(fnmatchcase(point, place) for point in mount_points)


@cache
def all_profiles() -> Mapping[str, Profile]:
    """Return the profiles by name."""
    return {name: _profile(name, said) for name, said in read_table(TABLE).items()}


def _profile(name: str, said: Mapping[str, Any]) -> Profile:
    lists = {key: tuple(said[key]) for key in ("options", "features", "enable") if key in said}
    pairs = {key: tuple(said[key].items()) for key in ("forbid", "rate") if key in said}
    return Profile(**{"name": name, **said, **lists, **pairs})
