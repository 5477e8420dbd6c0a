"""What an entry of each table must have; built-in files and newer ones are checked alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ext4audit.facts.features_and_bugs import LEVELS, SHARED, WORST_OF, parse_version
from ext4audit.facts.mount import ATIME_OPTIONS
from ext4audit.facts.option_table import OPTIONS, recognize
from ext4audit.facts.profile import AT_LEAST
from ext4audit.facts.versions import ANY, BOUNDS, DPKG_TREES, RPM_TREES, TREES

Near = Callable[[str, Sequence[str]], str]
Place = tuple[str | int, ...]
Sources = Mapping[str, Any]
CODE = re.compile(r"[A-Z]{3}[0-9]{3}")
NAME = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")
NUMBERS = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,6}){1,2}")
PACKAGE = re.compile(r"[0-9][0-9A-Za-z.+~^:-]*")
URL = re.compile(r"https://[^\s\"<>]+")
TREES_OF_RANGES = tuple(sorted({*TREES, ANY}))
LONGEST_TEXT = 2000
RELEASE = re.compile(r"[a-z0-9._-]+:[0-9][0-9.]*")
PLANNED = (
    *("rotational", "write_cache", "virtualization", "wbt_lat_usec", "max_sectors_kb"),
    *("nr_requests", "model"),
)
"""What a kind of disk decides in a plan."""


class Wrong(ValueError):  # noqa: N818 - what the file is
    """An entry is not valid; `place` is where, the message why."""

    def __init__(self, place: Place, why: str) -> None:
        super().__init__(why)
        self.place = place


def _keys(place: Place, entry: Mapping[str, Any], known: Collection[str], near: Near) -> None:
    for key in entry:
        if key not in known:
            raise Wrong((*place, key), f"unknown key {key!r}{near(key, list(known))}")


def _text(place: Place, entry: Mapping[str, Any], key: str, *, needed: bool = True) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise Wrong((*place, key), "it is not a text")
    if needed and not value.strip():
        raise Wrong((*place, key) if key in entry else place, f"{key} is missing")
    if len(value) > LONGEST_TEXT or not value.isprintable():
        raise Wrong((*place, key), f"it is not a printable text of at most {LONGEST_TEXT} letters")
    return value


def _of_kind(place: Place, entry: Mapping[str, Any], key: str, kind: type, words: str) -> None:
    """Refuse a value of another type; a truth value is no number."""
    value = entry.get(key)
    is_truth = isinstance(value, bool) and kind is not bool
    if value is not None and (is_truth or not isinstance(value, kind)):
        raise Wrong((*place, key), f"it is not {words}")


def _texts(place: Place, entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = entry.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise Wrong((*place, key), "it is not a list of texts")
    return tuple(value)


def _choice(
    place: Place, entry: Mapping[str, Any], key: str, words: Sequence[str], near: Near
) -> None:
    value = entry.get(key)
    if value is not None and value not in words:
        known = near(str(value), words) or f" (choose from {', '.join(words)})"
        raise Wrong((*place, key), f"unknown {key} {value!r}{known}")


def _source(place: Place, entry: Mapping[str, Any], sources: Sources, *, note: bool) -> None:
    """Refuse an entry without an https source, or without how it was confirmed."""
    named = sources.get(str(entry.get("source")), entry)
    if not isinstance(named, dict) or URL.fullmatch(_text(place, named, "source")) is None:
        raise Wrong((*place, "source"), "it is not a URL that begins with https://")
    if note:
        _text(place, named, "confirmed")


RANGE_KEYS = (
    *("tree", "since", "after", "before", "until", "affected", "confidence", "severity", "note"),
    *SHARED,
)


def _kernel_bug(code: str, entry: Mapping[str, Any], sources: Sources, near: Near) -> None:
    if CODE.fullmatch(code) is None:
        raise Wrong((code,), "it is not the code of a rule, such as KRN001")
    _keys((code,), entry, (*SHARED, "range"), near)
    ranges = entry.get("range")
    if not isinstance(ranges, list) or not ranges or not all(isinstance(r, dict) for r in ranges):
        raise Wrong((code,), f"it has no ranges: write [[{code}.range]]")
    shared = {key: value for key, value in entry.items() if key != "range"}
    for number, each in enumerate(ranges):
        _range((code, "range", number), {**shared, **each}, sources, near)


def _range(place: Place, each: Mapping[str, Any], sources: Sources, near: Near) -> None:
    _keys(place, each, RANGE_KEYS, near)
    _of_kind(place, each, "affected", bool, "true or false")
    _text(place, each, "tree")
    _choice(place, each, "tree", TREES_OF_RANGES, near)
    _bounds(place, each)
    _text(place, each, "note")
    _text(place, each, "confirmed")
    if each.get("affected") is False:
        return
    _source(place, each, sources, note=True)
    for key in ("symptom", "condition", "fix"):
        _text(place, each, key)
    _choice(place, each, "confidence", tuple(WORST_OF), near)
    _choice(place, each, "severity", LEVELS, near)
    confidence, severity = each.get("confidence", "confirmed"), each.get("severity", "info")
    if LEVELS.index(severity) < LEVELS.index(WORST_OF[confidence]):
        why = f"what is {confidence} has severity {WORST_OF[confidence]} at most"
        raise Wrong((*place, "severity"), why)


def _bounds(place: Place, each: Mapping[str, Any]) -> None:
    """Refuse bounds that the tree does not compare, or two of one side."""
    for pair in (("since", "after"), ("before", "until")):
        if all(key in each for key in pair):
            raise Wrong(place, f"it has both {' and '.join(pair)}")
    packaged = each["tree"] in DPKG_TREES | RPM_TREES
    form = PACKAGE if packaged else NUMBERS
    words = "a package's version" if packaged else "a version like 6.1.64"
    bounds = {key: _text(place, each, key, needed=False) for key in BOUNDS if key != "tree"}
    for key, value in bounds.items():
        if key in each and form.fullmatch(value) is None:
            raise Wrong((*place, key), f"it is not {words}")
    low = bounds["since"] or bounds["after"]
    high = bounds["before"] or bounds["until"]
    if not packaged and low and high and _numbers(low) > _numbers(high):
        raise Wrong(place, f"it ends at {high}, before it begins at {low}")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


READERS = ("kernel", "e2fsprogs", "grub", "debian_grub", "default")


def _feature(name: str, entry: Mapping[str, Any], sources: Sources, near: Near) -> None:
    if NAME.fullmatch(name) is None:
        raise Wrong((name,), "it is not the name of a feature")
    _keys((name,), entry, READERS, near)
    if not entry:
        raise Wrong((name,), f"it has no reader: one of {', '.join(READERS)}")
    for reader, line in entry.items():
        if not isinstance(line, dict):
            raise Wrong((name, reader), "it is not a table with since, source and confirmed")
        _reader((name, reader), reader, line, sources, near)


def _reader(
    place: Place, reader: str, line: Mapping[str, Any], sources: Sources, near: Near
) -> None:
    extra = ("moves_metadata", "instead") if reader == "default" else ()
    _keys(place, line, ("since", "source", "confirmed", *extra), near)
    since = _text(place, line, "since", needed=reader != "grub")
    _source(place, line, sources, note=True)
    form = PACKAGE if reader == "debian_grub" else NUMBERS
    if (since or "since" not in line) and form.fullmatch(since) is None:
        raise Wrong((*place, "since"), "it is not a version")
    if reader == "default":
        _of_kind(place, line, "moves_metadata", bool, "true or false")
        _text(place, line, "instead", needed=False)
        if "moves_metadata" not in line:
            raise Wrong(place, "moves_metadata is missing")
        try:
            parse_version(since)
        except ValueError as error:
            raise Wrong((*place, "since"), str(error)) from None


BOUNDS_OF_OPTIONS = (
    *("taken_from", "taken_to", "refused_from", "refused_to", "ignored_from", "ignored_to"),
)
FLAGS_OF_OPTIONS = ("power_of_two", "not_ext2", "not_ext3")
KINDS = ("none", "int", "optional-int", "text", "any")


def _option(name: str, entry: Mapping[str, Any], sources: Sources, near: Near) -> None:
    place: Place = (name,)
    if NAME.fullmatch(name) is None:
        raise Wrong(place, "it is not the name of a mount option")
    keys = ("value", "most", "needs_journal", *BOUNDS_OF_OPTIONS, *FLAGS_OF_OPTIONS)
    known = (*keys, "source", "confirmed")
    _keys(place, entry, known, near)
    if isinstance(entry.get("value"), list):
        if not all(isinstance(each, str) for each in entry["value"]):
            raise Wrong((name, "value"), "it is not a list of texts")
    else:
        _choice(place, entry, "value", KINDS, near)
    _of_kind(place, entry, "most", int, "a number")
    if not isinstance(entry.get("needs_journal"), list):
        _of_kind(place, entry, "needs_journal", bool, "true, false, or a list of values")
    else:
        _texts(place, entry, "needs_journal")
    for key in FLAGS_OF_OPTIONS:
        _of_kind(place, entry, key, bool, "true or false")
    for key in BOUNDS_OF_OPTIONS:
        if key in entry and NUMBERS.fullmatch(_text(place, entry, key)) is None:
            raise Wrong((name, key), "it is not a version like 5.15")
    _source(place, entry, sources, note=True)


PROFILE_KEYS = (
    *("product", "says", "source", "confirmed", "options", "shown", "features", "cluster_bytes"),
    *("reserved_percent", "forbid", "enable", "rate", "instead_of_ext4"),
)
MOST_PERCENT = 50


def _profile(name: str, entry: Mapping[str, Any], sources: Sources, near: Near) -> None:
    place: Place = (name,)
    if NAME.fullmatch(name) is None:
        raise Wrong(place, "it is not a name of lower-case letters, digits and dashes")
    _keys(place, entry, PROFILE_KEYS, near)
    for key in ("product", "says"):
        _text(place, entry, key)
    _source(place, entry, sources, note=False)
    for key in ("confirmed", "instead_of_ext4"):
        _text(place, entry, key, needed=False)
    check_demands(name, entry, near)


def check_demands(name: str, entry: Mapping[str, Any], near: Near) -> None:
    """Refuse what a profile cannot demand, forbid or rate: of a vendor, or of a site."""
    place: Place = (name,)
    for option in _texts(place, entry, "options"):
        check_option((name, "options"), option, near)
    _texts(place, entry, "features")
    _codes((name, "enable"), _texts(place, entry, "enable"))
    _of_kind(place, entry, "shown", bool, "true or false")
    _of_kind(place, entry, "cluster_bytes", int, "a number of bytes")
    _of_kind(place, entry, "reserved_percent", int, "a number")
    if not 0 <= entry.get("reserved_percent", 0) <= MOST_PERCENT:
        raise Wrong((name, "reserved_percent"), f"it is not between 0 and {MOST_PERCENT}")
    for key in ("forbid", "rate"):
        _of_kind(place, entry, key, dict, "a table")
    for option, code in entry.get("forbid", {}).items():
        check_option((name, "forbid"), option, near)
        _codes((name, "forbid"), (code,))
    _codes((name, "rate"), entry.get("rate", {}))
    for rate in entry.get("rate", {}).values():
        check_rate((name, "rate"), rate, near)


def _codes(place: Place, codes: Collection[object]) -> None:
    for code in codes:
        if not isinstance(code, str) or CODE.fullmatch(code) is None:
            raise Wrong(place, f"{code!r} is not the code of a rule, such as DUR001")


def check_rate(place: Place, rate: object, near: Near) -> None:
    """Refuse what is no severity, with or without the sign of a least one."""
    word = rate.removeprefix(AT_LEAST) if isinstance(rate, str) else str(rate)
    if word not in LEVELS:
        raise Wrong(place, f"unknown severity {word!r}{near(word, LEVELS)}")


def check_option(place: Place, option: str, near: Near) -> None:
    """Refuse a mount option whose state no rule can tell: of neither ext4 nor access times."""
    if option in ATIME_OPTIONS or recognize(option) is not None:
        return
    words = [word for each in OPTIONS for word in (each.on, each.off, *each.aliases) if word]
    raise Wrong(place, f"unknown option {option!r}{near(option, [*words, *ATIME_OPTIONS])}")


CLASS_KEYS = ("title", "names", "megabytes_per_second", "slow", "source", "confirmed")
FASTEST = 1_000_000


def _disk_class(name: str, entry: Mapping[str, Any], sources: Sources, near: Near) -> None:
    place: Place = (name,)
    _keys(place, entry, CLASS_KEYS, near)
    for key in ("names", "megabytes_per_second", "slow"):
        if key not in entry:
            raise Wrong(place, f"{key} is missing")
    _text(place, entry, "title")
    _texts(place, entry, "names")
    _of_kind(place, entry, "slow", bool, "true or false")
    _of_kind(place, entry, "megabytes_per_second", int, "a whole number")
    if not 0 < entry["megabytes_per_second"] <= FASTEST:
        raise Wrong((name, "megabytes_per_second"), f"it is not between 1 and {FASTEST}")
    _source(place, entry, sources, note=True)


def _os_kernels(name: str, entry: Mapping[str, Any], _sources: Sources, near: Near) -> None:
    place: Place = (name,)
    if RELEASE.fullmatch(name) is None:
        raise Wrong(place, "it is not ID:VERSION of os-release, such as debian:12")
    _keys(place, entry, ("kernel", "newest_of"), near)
    _text(place, entry, "newest_of", needed=False)
    kernels = entry.get("kernel")
    if not isinstance(kernels, list) or not kernels:
        raise Wrong(place, f'it has no kernels: write [["{name}".kernel]]')
    for number, each in enumerate(kernels):
        _os_kernel((name, "kernel", number), each, near)


def _os_kernel(place: Place, each: object, near: Near) -> None:
    if not isinstance(each, dict):
        raise Wrong(place, "it is not a table with release and source")
    _keys(place, each, ("release", "version", "source"), near)
    _text(place, each, "release")
    _text(place, each, "version", needed=False)
    _text(place, each, "source")


def _planned_disk(name: str, entry: Mapping[str, Any], _sources: Sources, near: Near) -> None:
    place: Place = (name,)
    if NAME.fullmatch(name) is None:
        raise Wrong(place, "it is not a name of lower-case letters, digits and dashes")
    _text(place, entry, "says")
    for key, each in entry.items():
        if key != "says":
            _planned_value((name, key), key, each, near)


def _planned_value(place: Place, key: str, each: object, near: Near) -> None:
    if key not in PLANNED:
        raise Wrong(place, f"unknown key {key!r}{near(key, PLANNED)}")
    if not isinstance(each, dict) or "value" not in each:
        raise Wrong(place, "it is not a table with value and source")
    _keys(place, each, ("value", "source"), near)
    _text(place, each, "source")


Check = Callable[[str, Mapping[str, Any], Sources, Near], None]
CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "kernel_bugs": _kernel_bug,
        "features": _feature,
        "option_grammar": _option,
        "profiles": _profile,
        "disk_classes": _disk_class,
        "os_kernels": _os_kernels,
        "planned_disks": _planned_disk,
    }
)
"""The check of one entry of each table: its name, the entry, and the sources it may name."""
