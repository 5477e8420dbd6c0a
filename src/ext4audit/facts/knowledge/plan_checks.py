"""What an entry must have that plans take: kernels of distributions, and kinds of disks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ext4audit.facts.knowledge.values import (
    NAME,
    NUMBERS,
    Near,
    Place,
    Sources,
    Wrong,
    check_keys,
    check_source,
    text_of,
)

RELEASE = re.compile(r"[a-z0-9._-]+:[0-9][0-9.]*")
PLANNED = (
    *("rotational", "write_cache", "virtualization", "wbt_lat_usec", "max_sectors_kb"),
    *("nr_requests", "model"),
)
"""What a kind of disk decides in a plan."""


def check_release(name: str, entry: Mapping[str, Any], sources: Sources, near: Near) -> None:
    """Refuse a release of a distribution without kernels, or a kernel without its source."""
    place: Place = (name,)
    if RELEASE.fullmatch(name) is None:
        raise Wrong(place, "it is not ID:VERSION of os-release, such as debian:12")
    check_keys(place, entry, ("kernel", "newest_of"), near)
    text_of(place, entry, "newest_of", needed=False)
    kernels = entry.get("kernel")
    if not isinstance(kernels, list) or not kernels:
        raise Wrong(place, f'it has no kernels: write [["{name}".kernel]]')
    for number, each in enumerate(kernels):
        _os_kernel((name, "kernel", number), each, sources, near)


def _os_kernel(place: Place, each: object, sources: Sources, near: Near) -> None:
    if not isinstance(each, dict):
        raise Wrong(place, "it is not a table with release, source and confirmed")
    check_keys(place, each, ("release", "version", "source", "confirmed"), near)
    text_of(place, each, "release")
    text_of(place, each, "version", needed=False)
    check_source(place, each, sources, note=True)


def check_planned_disk(name: str, entry: Mapping[str, Any], sources: Sources, near: Near) -> None:
    """Refuse a kind of disk that decides what no plan has, or a value without its source."""
    place: Place = (name,)
    if NAME.fullmatch(name) is None:
        raise Wrong(place, "it is not a name of lower-case letters, digits and dashes")
    text_of(place, entry, "says")
    for key, each in entry.items():
        if key != "says":
            _planned_value((name, key), key, each, sources, near)


def _planned_value(place: Place, key: str, each: object, sources: Sources, near: Near) -> None:
    if key not in PLANNED:
        raise Wrong(place, f"unknown key {key!r}{near(key, PLANNED)}")
    if not isinstance(each, dict) or "value" not in each:
        raise Wrong(place, "it is not a table with value, source and confirmed")
    check_keys(place, each, ("value", "since", "later", "source", "confirmed"), near)
    if ("since" in each) != ("later" in each):
        raise Wrong(place, "since and later go together: a kernel, and the value from it on")
    if "since" in each and NUMBERS.fullmatch(text_of(place, each, "since")) is None:
        raise Wrong((*place, "since"), "it is not a version like 6.17")
    if "later" in each and type(each["later"]) is not type(each["value"]):
        raise Wrong((*place, "later"), "it is not of the kind of value")
    check_source(place, each, sources, note=True)
