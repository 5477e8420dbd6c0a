"""Site profiles: [profile.NAME] of a policy file, checked like the profiles of vendors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ext4audit.facts.host import ActiveProfile, Profile, profile_of
from ext4audit.facts.knowledge.checks import PROFILE_KEYS, check_demands
from ext4audit.facts.knowledge.values import NAME, InvalidEntry
from ext4audit.facts.options import canonical, option_name
from ext4audit.policy import Near, PolicyError
from ext4audit.rule import OF_BROKEN, OF_SITES

SPELLED = {"requires": "options", "forbids": "forbid", "rates": "rate"}
"""Keys of a policy file that have a different name in data files."""
OWN = ("features", "cluster_bytes", "reserved_percent", "enable", "shown")
SITE_KEYS = ("reason", *SPELLED, "mounts", "product", *OWN)
DEMANDS = frozenset({*SPELLED, "features", "cluster_bytes", "reserved_percent", "enable"})


class SiteProfile(NamedTuple):
    """A profile of a policy file, with globs of mount points on which it is always active."""

    profile: Profile
    mounts: tuple[str, ...]

    def active(self) -> Iterator[ActiveProfile]:
        """Yield the profile for each glob in `mounts`, or for every filesystem if it is empty."""
        places: Sequence[str | None] = self.mounts or (None,)
        yield from (ActiveProfile(self.profile, place) for place in places)


class ProfileContext(NamedTuple):
    """Context of profile parsing: built-in names (`taken`), rule codes, and the file's path."""

    taken: Collection[str]
    codes: Collection[str]
    near: Near
    path: str


def site_profiles(tables: Mapping[str, Any], context: ProfileContext) -> tuple[SiteProfile, ...]:
    """Return the profiles that a policy file defines; raises PolicyError."""
    return tuple(_site_profile(name, each, context) for name, each in tables.items())


def _site_profile(name: str, table: object, context: ProfileContext) -> SiteProfile:
    where = f"profile.{name}"
    if not isinstance(table, dict):
        raise PolicyError(f"{where} is not a table: write [profile.{name}]")
    if NAME.fullmatch(name) is None:
        raise PolicyError(f"{where}: a name has lower-case letters, digits and dashes")
    if name in context.taken:
        raise PolicyError(f"{where}: a built-in profile has this name: choose another one")
    for key in table:
        if key not in SITE_KEYS:
            raise PolicyError(f"{where}: unknown key {key!r}{context.near(key, SITE_KEYS)}")
    if DEMANDS.isdisjoint(table):
        raise PolicyError(f"{where}: it has none of {', '.join((*SPELLED, *OWN[:-1]))}")
    return SiteProfile(_profile(name, table, context), _mounts(where, table))


def _profile(name: str, table: Mapping[str, Any], context: ProfileContext) -> Profile:
    where = f"profile.{name}"
    for key in ("reason", "product"):
        value = table.get(key, name)
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise PolicyError(f"{where}: {key} is not a text of one line")
    if "reason" not in table:
        raise PolicyError(f"{where}: reason is missing: why the site demands it, in one line")
    entry = {
        SPELLED.get(key, key): value
        for key, value in table.items()
        if SPELLED.get(key, key) in PROFILE_KEYS
    }
    entry["forbid"] = _forbidden(where, table.get("forbids", []))
    _check(name, {**entry, "forbid": {}}, context)
    _check(name, {"options": list(entry["forbid"])}, context, key="forbids")
    for code in (*entry.get("rate", {}), *entry.get("enable", ())):
        if code not in context.codes and not _may_be_broken(code, context.codes):
            known = context.near(code, list(context.codes))
            raise PolicyError(f"{where}: unknown rule {code!r}{known}")
    _refuse_contradictions(where, entry)
    head = {"product": table.get("product", f"profile {name}"), "says": table["reason"]}
    return profile_of(name, {**entry, **head, "source": context.path})


def _check(name: str, demands: Mapping[str, Any], context: ProfileContext, key: str = "") -> None:
    """Raise PolicyError for an invalid requirement; `key` is its key in the policy file."""
    try:
        check_demands(name, demands, context.near)
    except InvalidEntry as wrong:
        key = key or _spelled(wrong.place[-1])
        raise PolicyError(f"profile.{name}: {f'{key}: ' if key else ''}{wrong}") from None


def _may_be_broken(code: str, codes: Collection[str]) -> bool:
    """Return whether a code may belong to a site rule that could not be loaded."""
    return code.startswith(OF_SITES) and any(each.startswith(OF_BROKEN) for each in codes)


def _spelled(key: object) -> str:
    """Return the name in policy files of a key of data files."""
    return {known: own for own, known in SPELLED.items()}.get(str(key), str(key))


def _forbidden(where: str, value: object) -> dict[str, str]:
    """Return the forbidden options, each with "" for the rule that would explain it."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise PolicyError(f"{where}: forbids is not a list of texts")
    return dict.fromkeys(value, "")


def _refuse_contradictions(where: str, entry: Mapping[str, Any]) -> None:
    """Raise PolicyError if required options conflict, or if one is also forbidden."""
    states: dict[str, str] = {}
    for option in entry.get("options", ()):
        name, state = option_name(option), canonical(option)
        if states.setdefault(name, state) != state:
            raise PolicyError(
                f"{where}: requires {states[name]} and {state}, which exclude each other"
            )
    for option in entry["forbid"]:
        name, state = option_name(option), canonical(option)
        if states.get(name) == state:
            raise PolicyError(f"{where}: {option} is both required and forbidden")


def _mounts(where: str, table: Mapping[str, Any]) -> tuple[str, ...]:
    value = table.get("mounts", [])
    places = [value] if isinstance(value, str) else value
    if not isinstance(places, list) or not all(isinstance(each, str) for each in places):
        raise PolicyError(f"{where}: mounts is not a list of texts")
    for place in places:
        if not place.startswith(("/", "*")):
            raise PolicyError(f"{where}: mounts: {place!r} does not start with / or *")
    return tuple(places)
