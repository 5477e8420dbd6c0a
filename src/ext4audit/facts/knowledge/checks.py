"""Checks of the entries of each table, for built-in and newer files; they raise InvalidEntry."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from ext4audit.facts.features_and_bugs import LEVELS, SHARED, WORST_OF, parse_version
from ext4audit.facts.host import AT_LEAST
from ext4audit.facts.knowledge.values import (
    NAME,
    NUMBERS,
    InvalidEntry,
    Near,
    Place,
    Sources,
    check_choice,
    check_form,
    check_keys,
    check_kind,
    check_name,
    check_source,
    text_of,
    texts_of,
)
from ext4audit.facts.mount import ATIME_OPTIONS
from ext4audit.facts.options import NOT_VERIFIED, all_options, numbers_of, recognize
from ext4audit.facts.versions import ANY, BOUNDS, DPKG_TREES, RPM_TREES, TREES

BOUNDS_OF_OPTIONS = (
    *("taken_from", "taken_to", "refused_from", "refused_to", "ignored_from", "ignored_to"),
)
FLAGS_OF_OPTIONS = ("power_of_two", "not_ext2", "not_ext3")
KINDS = ("none", "int", "optional-int", "text", "any")


def check_grammar(name: str, entry: Mapping[str, Any], sources: Sources, near: Near) -> None:
    """Refuse an invalid entry of option_grammar."""
    place: Place = (name,)
    check_name(name, NAME, "the name of a mount option")
    keys = ("value", "with_value", "most", "needs_journal", "needs_feature")
    known = (*keys, *BOUNDS_OF_OPTIONS, *FLAGS_OF_OPTIONS, "source", "confirmed")
    check_keys(place, entry, known, near)
    if isinstance(entry.get("value"), list):
        if not all(isinstance(each, str) for each in entry["value"]):
            raise InvalidEntry((name, "value"), "it is not a list of texts")
    else:
        check_choice(place, entry, "value", KINDS, near)
    check_kind(place, entry, "most", int, "a whole number")
    if not isinstance(entry.get("needs_journal"), list):
        check_kind(place, entry, "needs_journal", bool, "true, false, or a list of values")
    else:
        texts_of(place, entry, "needs_journal")
    check_form(place, entry, "needs_feature", NAME, "the name of a feature")
    for key in FLAGS_OF_OPTIONS:
        check_kind(place, entry, key, bool, "true or false")
    _check_bounds(place, entry)
    if "with_value" in entry:
        check_kind(place, entry, "with_value", dict, "a table of versions")
        check_keys((name, "with_value"), entry["with_value"], BOUNDS_OF_OPTIONS, near)
        _check_bounds((name, "with_value"), entry["with_value"])
    check_source(place, entry, sources, note=True)


def _check_bounds(place: Place, entry: Mapping[str, Any]) -> None:
    for key in BOUNDS_OF_OPTIONS:
        check_form(place, entry, key, NUMBERS, "a version like 5.15")


SPELLING_KEYS = ("on", "off", "aliases", "defaults", "superblock_bits", "source", "confirmed")
TOKEN = re.compile(r"[a-z0-9_]+(?:=[a-z0-9_]*)?")
"""A state of an option as in the options file: "nobarrier", "data=ordered", "commit="."""


def check_spelling(name: str, entry: Mapping[str, Any], sources: Sources, near: Near) -> None:
    """Refuse an invalid entry of option_spellings."""
    place: Place = (name,)
    check_name(name, NAME, "the name of a mount option")
    check_keys(place, entry, SPELLING_KEYS, near)
    for key in ("on", "off"):
        check_form(place, entry, key, TOKEN, "a token of the options file, such as nobarrier")
    for key in ("aliases", "superblock_bits"):
        tokens_of((name, key), entry.get(key, {}), ())
    _check_defaults((name, "defaults"), entry.get("defaults", {}))
    check_source(place, entry, sources, note=True)


def _check_defaults(place: Place, defaults: object) -> None:
    """Refuse a value that is not a table of ascending versions and tokens, "" or NOT_VERIFIED."""
    kernels = list(tokens_of(place, defaults, ("", NOT_VERIFIED)))
    for version in kernels:
        if NUMBERS.fullmatch(version) is None:
            raise InvalidEntry((*place, version), "it is not a version like 5.15")
    versions = list(map(numbers_of, kernels))
    if versions != sorted(versions):
        raise InvalidEntry(place, "its versions do not ascend")


def tokens_of(place: Place, words: object, marks: tuple[str, ...]) -> dict[str, str]:
    """Return a table of tokens of the options file, in which `marks` are allowed as well."""
    if not isinstance(words, dict):
        raise InvalidEntry(place, "it is not a table of tokens")
    for word, token in words.items():
        if token not in marks and (not isinstance(token, str) or TOKEN.fullmatch(token) is None):
            raise InvalidEntry((*place, word), "it is not a token of the options file")
    return words


RELEASE = re.compile(r"[a-z0-9._-]+:[0-9][0-9.]*")
PLANNED = (
    *("rotational", "write_cache", "virtualization", "wbt_lat_usec", "max_sectors_kb"),
    *("nr_requests", "model"),
)
"""The keys of a plan that a kind of disk can set."""


def check_release(name: str, entry: Mapping[str, Any], sources: Sources, near: Near) -> None:
    """Refuse a distribution release without kernels, or a kernel without a source."""
    place: Place = (name,)
    check_name(name, RELEASE, "ID:VERSION of os-release, such as debian:12")
    check_keys(place, entry, ("kernel", "newest_of"), near)
    text_of(place, entry, "newest_of", needed=False)
    kernels = entry.get("kernel")
    if not isinstance(kernels, list) or not kernels:
        raise InvalidEntry(place, f'it has no kernels: write [["{name}".kernel]]')
    for number, each in enumerate(kernels):
        _os_kernel((name, "kernel", number), each, sources, near)


def _os_kernel(place: Place, each: object, sources: Sources, near: Near) -> None:
    if not isinstance(each, dict):
        raise InvalidEntry(place, "it is not a table with release, source and confirmed")
    check_keys(place, each, ("release", "version", "source", "confirmed"), near)
    text_of(place, each, "release")
    text_of(place, each, "version", needed=False)
    check_source(place, each, sources, note=True)


def check_planned_disk(name: str, entry: Mapping[str, Any], sources: Sources, near: Near) -> None:
    """Refuse a kind of disk with unknown plan keys, or a value without a source."""
    place: Place = (name,)
    check_name(name, NAME, "a name of lower-case letters, digits and dashes")
    text_of(place, entry, "says")
    for key, each in entry.items():
        if key != "says":
            _planned_value((name, key), key, each, sources, near)


def _planned_value(place: Place, key: str, each: object, sources: Sources, near: Near) -> None:
    if key not in PLANNED:
        raise InvalidEntry(place, f"unknown key {key!r}{near(key, PLANNED)}")
    if not isinstance(each, dict) or "value" not in each:
        raise InvalidEntry(place, "it is not a table with value, source and confirmed")
    check_keys(place, each, ("value", "since", "later", "source", "confirmed"), near)
    if ("since" in each) != ("later" in each):
        raise InvalidEntry(place, "since and later go together: a kernel, and the value from it on")
    check_form(place, each, "since", NUMBERS, "a version like 6.17")
    if "later" in each and type(each["later"]) is not type(each["value"]):
        raise InvalidEntry((*place, "later"), "it is not of the kind of value")
    check_source(place, each, sources, note=True)


CODE = re.compile(r"[A-Z]{3}[0-9]{3}")
PACKAGE = re.compile(r"[0-9][0-9A-Za-z.+~^:-]*")
TREES_OF_RANGES = tuple(sorted({*TREES, ANY}))
RANGE_KEYS = (
    *("tree", "since", "after", "before", "until", "affected", "confidence", "severity", "note"),
    *SHARED,
)


def _kernel_bug(code: str, entry: Mapping[str, Any], sources: Sources, near: Near) -> None:
    check_name(code, CODE, "the code of a rule, such as KRN001")
    check_keys((code,), entry, (*SHARED, "range"), near)
    ranges = entry.get("range")
    if not isinstance(ranges, list) or not ranges or not all(isinstance(r, dict) for r in ranges):
        raise InvalidEntry((code,), f"it has no ranges: write [[{code}.range]]")
    shared = {key: value for key, value in entry.items() if key != "range"}
    for number, each in enumerate(ranges):
        _range((code, "range", number), {**shared, **each}, sources, near)


def _range(place: Place, each: Mapping[str, Any], sources: Sources, near: Near) -> None:
    check_keys(place, each, RANGE_KEYS, near)
    check_kind(place, each, "affected", bool, "true or false")
    text_of(place, each, "tree")
    check_choice(place, each, "tree", TREES_OF_RANGES, near)
    _bounds(place, each)
    text_of(place, each, "note")
    text_of(place, each, "confirmed")
    if each.get("affected") is False:
        return
    check_source(place, each, sources, note=True)
    for key in ("symptom", "condition", "fix"):
        text_of(place, each, key)
    check_choice(place, each, "confidence", tuple(WORST_OF), near)
    check_choice(place, each, "severity", LEVELS, near)
    confidence, severity = each.get("confidence", "confirmed"), each.get("severity", "info")
    if LEVELS.index(severity) < LEVELS.index(WORST_OF[confidence]):
        why = f"what is {confidence} has severity {WORST_OF[confidence]} at most"
        raise InvalidEntry((*place, "severity"), why)


def _bounds(place: Place, each: Mapping[str, Any]) -> None:
    """Refuse bounds that are not versions of the tree, or two bounds on the same side."""
    for pair in (("since", "after"), ("before", "until")):
        if all(key in each for key in pair):
            raise InvalidEntry(place, f"it has both {' and '.join(pair)}")
    packaged = each["tree"] in DPKG_TREES | RPM_TREES
    form = PACKAGE if packaged else NUMBERS
    words = "a package's version" if packaged else "a version like 6.1.64"
    bounds = {key: text_of(place, each, key, needed=False) for key in BOUNDS if key != "tree"}
    for key, value in bounds.items():
        if key in each and form.fullmatch(value) is None:
            raise InvalidEntry((*place, key), f"it is not {words}")
    low = bounds["since"] or bounds["after"]
    high = bounds["before"] or bounds["until"]
    if not packaged and low and high and numbers_of(low) > numbers_of(high):
        raise InvalidEntry(place, f"it ends at {high}, before it begins at {low}")


READERS = ("kernel", "e2fsprogs", "grub", "debian_grub", "default")


def _feature(name: str, entry: Mapping[str, Any], sources: Sources, near: Near) -> None:
    check_name(name, NAME, "the name of a feature")
    check_keys((name,), entry, READERS, near)
    if not entry:
        raise InvalidEntry((name,), f"it has no reader: one of {', '.join(READERS)}")
    for reader, line in entry.items():
        if not isinstance(line, dict):
            raise InvalidEntry((name, reader), "it is not a table with since, source and confirmed")
        _reader((name, reader), reader, line, sources, near)


def _reader(
    place: Place, reader: str, line: Mapping[str, Any], sources: Sources, near: Near
) -> None:
    extra = ("moves_metadata", "instead") if reader == "default" else ()
    check_keys(place, line, ("since", "source", "confirmed", *extra), near)
    since = text_of(place, line, "since", needed=reader != "grub")
    check_source(place, line, sources, note=True)
    form = PACKAGE if reader == "debian_grub" else NUMBERS
    if (since or "since" not in line) and form.fullmatch(since) is None:
        raise InvalidEntry((*place, "since"), "it is not a version")
    if reader == "default":
        check_kind(place, line, "moves_metadata", bool, "true or false")
        text_of(place, line, "instead", needed=False)
        if "moves_metadata" not in line:
            raise InvalidEntry(place, "moves_metadata is missing")
        try:
            parse_version(since)
        except ValueError as error:
            raise InvalidEntry((*place, "since"), str(error)) from None


PROFILE_KEYS = (
    *("product", "says", "source", "confirmed", "options", "shown", "features", "cluster_bytes"),
    *("reserved_percent", "forbid", "enable", "rate", "instead_of_ext4"),
)
MOST_PERCENT = 50


def _profile(name: str, entry: Mapping[str, Any], sources: Sources, near: Near) -> None:
    place: Place = (name,)
    check_name(name, NAME, "a name of lower-case letters, digits and dashes")
    check_keys(place, entry, PROFILE_KEYS, near)
    for key in ("product", "says"):
        text_of(place, entry, key)
    check_source(place, entry, sources, note=False)
    for key in ("confirmed", "instead_of_ext4"):
        text_of(place, entry, key, needed=False)
    check_demands(name, entry, near)


def check_demands(name: str, entry: Mapping[str, Any], near: Near) -> None:
    """Refuse invalid requirements of a profile, built-in or of a site."""
    place: Place = (name,)
    for option in texts_of(place, entry, "options"):
        check_option((name, "options"), option, near)
    texts_of(place, entry, "features")
    _codes((name, "enable"), texts_of(place, entry, "enable"))
    check_kind(place, entry, "shown", bool, "true or false")
    check_kind(place, entry, "cluster_bytes", int, "a number of bytes")
    check_kind(place, entry, "reserved_percent", int | float, "a number")
    if not 0 <= entry.get("reserved_percent", 0) <= MOST_PERCENT:
        raise InvalidEntry((name, "reserved_percent"), f"it is not between 0 and {MOST_PERCENT}")
    for key in ("forbid", "rate"):
        check_kind(place, entry, key, dict, "a table")
    for option, code in entry.get("forbid", {}).items():
        check_option((name, "forbid"), option, near)
        _codes((name, "forbid"), (code,))
    _codes((name, "rate"), entry.get("rate", {}))
    for rate in entry.get("rate", {}).values():
        check_rate((name, "rate"), rate, near)


def _codes(place: Place, codes: Collection[object]) -> None:
    for code in codes:
        if not isinstance(code, str) or CODE.fullmatch(code) is None:
            raise InvalidEntry(place, f"{code!r} is not the code of a rule, such as DUR001")


def check_rate(place: Place, rate: object, near: Near) -> None:
    """Refuse a value that is not a severity, with or without the prefix "+"."""
    word = rate.removeprefix(AT_LEAST) if isinstance(rate, str) else str(rate)
    if word not in LEVELS:
        raise InvalidEntry(place, f"unknown severity {word!r}{near(word, LEVELS)}")


def check_option(place: Place, option: str, near: Near) -> None:
    """Refuse a mount option that is neither an ext4 option nor about access times."""
    if option in ATIME_OPTIONS or recognize(option) is not None:
        return
    words = [word for each in all_options() for word in (each.on, each.off, *each.aliases) if word]
    raise InvalidEntry(place, f"unknown option {option!r}{near(option, [*words, *ATIME_OPTIONS])}")


CLASS_KEYS = ("title", "names", "megabytes_per_second", "slow", "source", "confirmed")
FASTEST = 1_000_000


def _disk_class(name: str, entry: Mapping[str, Any], sources: Sources, near: Near) -> None:
    place: Place = (name,)
    check_keys(place, entry, CLASS_KEYS, near)
    for key in ("names", "megabytes_per_second", "slow"):
        if key not in entry:
            raise InvalidEntry(place, f"{key} is missing")
    text_of(place, entry, "title")
    texts_of(place, entry, "names")
    check_kind(place, entry, "slow", bool, "true or false")
    check_kind(place, entry, "megabytes_per_second", int, "a whole number")
    if not 0 < entry["megabytes_per_second"] <= FASTEST:
        raise InvalidEntry((name, "megabytes_per_second"), f"it is not between 1 and {FASTEST}")
    check_source(place, entry, sources, note=True)


Check = Callable[[str, Mapping[str, Any], Sources, Near], None]
CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "kernel_bugs": _kernel_bug,
        "features": _feature,
        "option_grammar": check_grammar,
        "profiles": _profile,
        "disk_classes": _disk_class,
        "os_kernels": check_release,
        "planned_disks": check_planned_disk,
        "option_spellings": check_spelling,
    }
)
"""The check for the entries of each table. It gets the name, the entry and the shared sources."""
