"""Profiles: vendors' requirements for the ext4 below their products, and where they apply."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from ext4audit.facts import read_table, remembered

TABLE = "profiles.toml"
AT_LEAST = "+"
"""The prefix of a severity in a profile that raises milder findings and lowers none."""


class Profile(NamedTuple):
    """One product's requirements; profiles.toml explains the fields.

    `forbid` are pairs of an option and the rule that explains it, `rate` pairs of a rule and a
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
    confirmed: str = ""


class ActiveProfile(NamedTuple):
    """A profile and where it applies: a glob of mount points, None for every filesystem."""

    profile: Profile
    place: str | None = None

    def covers(self, mount_points: tuple[str, ...]) -> bool:
        """Whether the profile applies to a filesystem with these mount points."""
        place = self.place
        return place is None or any(fnmatchcase(point, place) for point in mount_points)


def all_profiles() -> Mapping[str, Profile]:
    """Return the profiles by name."""
    return _all(read_table(TABLE))


@remembered
def _all(table: dict[str, Any]) -> Mapping[str, Profile]:
    return {name: profile_of(name, entry) for name, entry in table.items()}


def profile_of(name: str, entry: Mapping[str, Any]) -> Profile:
    """Return the profile of an entry of profiles.toml."""
    lists = {key: tuple(entry[key]) for key in ("options", "features", "enable") if key in entry}
    pairs = {key: tuple(entry[key].items()) for key in ("forbid", "rate") if key in entry}
    return Profile(**{"name": name, **entry, **lists, **pairs})
