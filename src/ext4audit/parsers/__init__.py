"""Parsers that turn one text into a fact; they are pure and raise ValueError for other input.

This module parses short texts of the kernel and the system (sysfs, uname, os-release, the command
line, GRUB, device-mapper tables), and escapes and times that several formats share.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

from ext4audit.facts.devices import DmSegment, ThinPool
from ext4audit.facts.host import Kernel, OperatingSystem, Usage
from ext4audit.facts.mount import DeviceNumber, ResolvedPath

_RELEASE = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.([0-9]{1,9}))?")
_DEBIAN_PACKAGE = r"\bDebian ([0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9})"
_LINES = 4
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_ESCAPED_IN_QUOTES = r'\\([$"\\`])'
_ESCAPED = r"\\(.)"
# An unclosed quote protects the rest of the text, as in next_arg() of lib/cmdline.c.
_ARGUMENT = re.compile(r'(?:[^\s"]|"[^"]*(?:"|$))+', re.ASCII)
_VERSION = r"\S+ \(GRUB\) ([0-9]\S*)"


def parse_kernel(text: str) -> Kernel:
    """Parse the running kernel; raise ValueError if the release does not start with a number.

    Missing numbers are 0: "5.10" is (5, 10, 0). Debian's release has the ABI ("6.1.0-18-amd64"),
    not the stable update. The version string has the package version, which includes it ("#1 SMP
    PREEMPT_DYNAMIC Debian 6.1.76-1") and is used if both belong to the same series.
    """
    release, version, machine, _ = _lines(text)
    upstream = _numbers(release)
    package = re.search(_DEBIAN_PACKAGE, version) if "Debian " in version else None
    if package is not None and _numbers(package[1])[:2] == upstream[:2]:
        upstream = _numbers(package[1])
    return Kernel(release=release, version=version, upstream=upstream, machine=machine)


def parse_nodename(text: str) -> str:
    """Parse the host name: the rest of the text, since sethostname(2) also accepts newlines."""
    return _lines(text)[-1].removesuffix("\n")


def _lines(text: str) -> list[str]:
    """Split the text into its four values; the last value, the host name, may be empty."""
    lines = text.split("\n", _LINES - 1)
    if len(lines) != _LINES:
        raise ValueError(f"{text[:80]!r} is not the answer of uname")
    return lines


def _numbers(release: str) -> tuple[int, int, int]:
    """Parse up to three numbers at the start of a release; missing numbers are 0."""
    match = _RELEASE.match(release)
    if match is None:
        raise ValueError(f"{release[:40]!r} does not start with a version number")
    major, minor, patch = (int(number or 0) for number in match.groups())
    return major, minor, patch


def parse_os_release(text: str) -> OperatingSystem:
    """Parse an os-release file; skip lines that are not assignments. Later assignments win.

    Raises ValueError if no line is an assignment.
    """
    matches = (_ASSIGNMENT.fullmatch(line.strip()) for line in text.split("\n"))
    values = {match[1]: _shell_unquoted(match[2]) for match in matches if match is not None}
    if not values:
        raise ValueError("no line is an assignment")
    return OperatingSystem(
        id=values.get("ID", ""),
        version_id=values.get("VERSION_ID", ""),
        pretty_name=values.get("PRETTY_NAME", ""),
    )


def _shell_unquoted(value: str) -> str:
    """Remove the shell quoting that os-release(5) allows: one pair of quotes, or backslashes."""
    quoted = len(value) > 1 and value[0] == value[-1]
    escaped = "\\" in value
    if quoted and value[0] == "'":
        return value[1:-1]
    if quoted and value[0] == '"':
        return re.sub(_ESCAPED_IN_QUOTES, r"\1", value[1:-1]) if escaped else value[1:-1]
    return re.sub(_ESCAPED, r"\1", value) if escaped else value


def parse_kernel_arguments(text: str) -> tuple[str, ...]:
    """Parse the kernel command line; double quotes protect spaces.

    Quotes around a whole argument or around its value are removed, as in next_arg() of
    lib/cmdline.c: root="LABEL=a b" becomes `root=LABEL=a b`. "--" and the arguments after it (for
    init) are kept.
    """
    return tuple(_unquoted(argument) for argument in _ARGUMENT.findall(text))


def _unquoted(argument: str) -> str:
    """Remove the quotes around an argument or around its value."""
    if argument.startswith('"'):
        return argument[1:].removesuffix('"')
    name, separator, value = argument.partition("=")
    if value.startswith('"'):
        value = value[1:].removesuffix('"')
    return name + separator + value


def parse_grub_version(text: str) -> str:
    """Parse "grub-install (GRUB) 2.06-13+deb12u1"; raise ValueError for other text."""
    match = re.match(_VERSION, text)
    if match is None:
        raise ValueError(f"{text[:80]!r} is not a version of GRUB")
    return match[1]


_INTEGER = re.compile(r"-?[0-9]{1,20}")
_COUNTS = 6
_TYPES = frozenset({"file", "directory", "block", "other"})


def parse_integer(text: str) -> int:
    """Parse a decimal number of at most 20 digits; raise ValueError for other text.

    This is stricter than int(), which accepts "1_0" and the digits of every script.
    """
    word = text.strip()
    if not _INTEGER.fullmatch(word):
        raise ValueError(f"{word[:40]!r} is not a decimal number")
    return int(word)


def parse_count(text: str) -> int:
    """Parse a decimal number of at least 0; raise ValueError for other text.

    A negative size or limit is smaller than every threshold: a rule would pass it.
    """
    number = parse_integer(text)
    if number < 0:
        raise ValueError(f"{text.strip()[:40]!r} is negative")
    return number


def parse_device_size(text: str) -> int:
    """Parse the sectors of a device in use; ValueError for 0, as of a disk that was pulled out."""
    sectors = parse_count(text)
    if not sectors:
        raise ValueError("it is 0: the device is gone, or has no medium")
    return sectors


def parse_word(text: str, pattern: str, what: str) -> str:
    """Parse a word that matches `pattern`; raise ValueError for other text: it "is `what`"."""
    word = text.strip()
    if not re.fullmatch(pattern, word):
        raise ValueError(f"{word[:40]!r} is {what}")
    return word


def parse_flag(text: str) -> bool:
    """Parse a sysfs truth value, "1" or "0"; raise ValueError for other text."""
    return parse_word(text, "[01]", "neither 0 nor 1") == "1"


def parse_device_number(text: str) -> DeviceNumber:
    """Parse a device number such as "9:127", as printed by sysfs `dev`, mountinfo and lsblk."""
    major, separator, minor = text.strip().partition(":")
    if not separator:
        raise ValueError(f"{text.strip()[:40]!r} is not a device number")
    number = DeviceNumber(parse_integer(major), parse_integer(minor))
    if number.major < 0 or number.minor < 0:
        raise ValueError(f"{text.strip()[:40]!r} is not a device number")
    return number


def parse_key_values(text: str) -> dict[str, str]:
    """Parse KEY=value lines (`uevent`, the udev database, answers to asks in this format).

    The first of several lines with the same key is used: the kernel's lines come first, and a later
    line may be part of a name that a user chose. Raises ValueError for other lines.
    """
    values: dict[str, str] = {}
    for line in text.split("\n"):
        if not line.strip():
            continue
        key, separator, value = line.partition("=")
        if not separator or not key:
            raise ValueError(f"{line[:40]!r} is not KEY=value")
        values.setdefault(key, value)
    return values


def parse_write_cache(text: str) -> str:
    """Parse `queue/write_cache`: "write back" or "write through" (ABI sysfs-block)."""
    return parse_word(text, "write (?:back|through)", "not a write cache mode")


def parse_scheduler(text: str) -> str:
    """Return the active scheduler of `queue/scheduler` ("mq-deadline kyber [none]").

    A device without a choice has only "none". Raises ValueError if no scheduler is active.
    """
    words = text.split()
    active = [word[1:-1] for word in words if word.startswith("[") and word.endswith("]")]
    if len(active) == 1 and active[0]:
        return active[0]
    if words == ["none"]:
        return "none"
    raise ValueError(f"{text[:40]!r} names no active scheduler")


def parse_names(text: str) -> tuple[str, ...]:
    """Parse a directory listing separated by NUL; an empty text is an empty directory."""
    return tuple(name for name in text.split("\0") if name)


def parse_device_names(text: str) -> tuple[str, ...]:
    """Parse a listing of device names; raise ValueError for a name that no device can have."""
    found = parse_names(text)
    invalid = [name for name in found if not re.fullmatch(r"[\w.:!-]+", name)]
    if invalid:
        raise ValueError(f"{invalid[0]!r} is no name of a device")
    return found


def parse_stat_filesystem(text: str) -> tuple[DeviceNumber, Usage]:
    """Return the device number and the usage of a filesystem; raise ValueError for other text."""
    number, *counts = text.split() or [""]
    values = [parse_integer(count) for count in counts]
    if len(values) != _COUNTS or values[0] == 0 or min(values) < 0:
        raise ValueError(f"{text[:80]!r} is not the answer of statvfs")
    return parse_device_number(number), Usage(*values)


def parse_resolved_path(text: str) -> ResolvedPath:
    """Parse a resolved path; raise ValueError for a missing key or an invalid value."""
    values = parse_key_values(text)
    missing = {"mount_id", "device_number", "type"} - values.keys()
    if missing:
        raise ValueError(f"the answer lacks {', '.join(sorted(missing))}")
    if values["type"] not in _TYPES:
        raise ValueError(f"{values['type'][:40]!r} is not a type of path")
    represents = values.get("represents")
    if values["type"] == "block" and not represents:
        raise ValueError("the answer lacks the number of the block device")
    return ResolvedPath(
        mount_id=parse_count(values["mount_id"]),
        device_number=parse_device_number(values["device_number"]),
        type=values["type"],
        represents=parse_device_number(represents) if represents else None,
    )


_TIME = re.compile(
    r"[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) (?P<day>[ 0-9][0-9]) "
    r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2}) (?P<year>[0-9]{4})"
)
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_FIRST_YEAR = 1970


def parse_ctime(text: str) -> int | None:
    """Return seconds since 1970, assuming UTC; None for "n/a" and any other text.

    An invalid time does not reject the whole superblock, because all other fields remain valid.
    """
    match = _TIME.fullmatch(text)
    if match is None or match["month"] not in _MONTHS or int(match["year"]) < _FIRST_YEAR:
        return None
    day, hour, minute, second = map(int, match.group("day", "hour", "minute", "second"))
    date = int(match["year"]), _MONTHS.index(match["month"]) + 1, day
    try:
        return int(datetime(*date, hour, minute, second, tzinfo=timezone.utc).timestamp())
    except ValueError:  # the calendar has no such day, or the day no such hour
        return None


# Few hosts need these patterns, so they are compiled only when the unit is parsed.
_STARTED = r"(?m)^ExecStart=[-@:+!|]*(?:\S*/)?fstrim((?:[ \t]+\S+)*)[ \t]*$"
_LISTS = r"(?:--listed-in[ \t=]+|-[vn]*I[ \t]*)(\S+)"
_ALL = r"--all|-[vn]*a[vn]*"
_OF_FSTAB = r"--fstab|-[vn]*A[vn]*"


def parse_fstrim_unit(text: str) -> str:
    """Return what the unit fstrim.service trims: "all", "fstab", or the files of --listed-in.

    Raises ValueError if it runs another command, or more than one.
    """
    started = re.findall(r"^ExecStart=.+$", text, re.MULTILINE)
    command = re.findall(_STARTED, text)
    if len(started) != 1 or len(command) != 1:
        raise ValueError("it does not run fstrim once")
    words = command[0].split()
    listed = re.search(_LISTS, command[0])
    if listed:
        return str(listed[1])
    if any(re.fullmatch(_ALL, word) for word in words):
        return "all"
    if any(re.fullmatch(_OF_FSTAB, word) for word in words):
        return "fstab"
    raise ValueError("it runs fstrim for single mount points")


_FIXED_FIELDS = 3
_POOL_MODES, _FAILED_POOLS = frozenset({"rw", "ro", "out_of_data_space"}), {"Fail", "Error"}


def parse_dm_table(text: str) -> tuple[DmSegment, ...]:
    """Parse the table of one device: "0 1024000 linear 9:127 618496" a line, in sectors.

    ValueError for another text, and for an empty one: a device without a live table holds no
    filesystem.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        raise ValueError("the device has no live table")
    return tuple(_segment(line) for line in lines)


def _segment(line: str) -> DmSegment:
    """Parse one line: start, length, target type, and the target's own arguments."""
    fields = line.split()
    if len(fields) < _FIXED_FIELDS:
        raise ValueError(f"{line[:60]!r} is not a line of a device-mapper table")
    start, length, target, *arguments = fields
    return DmSegment(parse_count(start), parse_count(length), target, tuple(arguments))


def parse_thin_pool(text: str) -> ThinPool:
    """Parse `dmsetup status` of a thin pool; ValueError for another device.

    "0 409600 thin-pool 1 173/1024 80/3200 - rw no_discard_passdown queue_if_no_space - 1024".
    """
    fields = text.split()
    if len(fields) < _FIXED_FIELDS + 1 or fields[2] != "thin-pool":
        raise ValueError(f"{text[:60]!r} is not the status of a thin pool")
    if fields[3] in _FAILED_POOLS:
        return ThinPool("Fail")
    (used_metadata, metadata), (used_data, data) = map(_share, fields[4:6])
    words = fields[7:]
    if not words or words[0] not in _POOL_MODES:
        raise ValueError(f"{text[:60]!r} names no mode of the pool")
    checked = {"needs_check": True, "-": False}
    return ThinPool(
        mode=words[0],
        used_data=used_data,
        data=data,
        used_metadata=used_metadata,
        metadata=metadata,
        queues="error_if_no_space" not in words,
        needs_check=next((checked[word] for word in words if word in checked), None),
    )


def _share(text: str) -> tuple[int, int]:
    used, _, whole = text.partition("/")
    return parse_count(used), parse_count(whole)


_OCTAL = rb"\\([0-7]{3})"
_OPTION = re.compile(r'(?:[^,"]+|"[^"]*"|")*')


def split_options(text: str) -> tuple[str, ...]:
    """Split an option list at its commas, but not inside quotes.

    `context="system_u:object_r:container_file_t:s0:c498,c574"` is one option, as printed by
    security/selinux/hooks.c on every container host with MCS labels. Quotes are allowed anywhere
    in an option of fstab (mnt_optstr_next_option() of libmount 2.38.1, by test); an unclosed quote
    protects nothing.
    """
    found: list[str] = []
    position = 0
    while position <= len(text):
        match = _OPTION.match(text, position)
        end = match.end() if match else position
        found.append(text[position:end])
        position = end + 1
    return tuple(option for option in found if option)


def decode_octal(text: str) -> str:
    r"""Decode the octal escapes that the kernel and fstab(5) use for whitespace in names ("\040").

    The escapes stand for bytes, not characters: "\303\244" is one UTF-8 character, so the text is
    decoded as bytes. Bytes that are not UTF-8 become surrogates again. Backslashes without three
    octal digits are kept (as in util-linux). Raises ValueError for a surrogate that is not a byte.
    Source: mangle_path() in fs/seq_file.c, fstab(5).
    """
    return decode_escapes(text, _OCTAL, 8) if "\\" in text else text


def decode_escapes(text: str, escape: bytes, base: int) -> str:
    """Decode escapes that stand for bytes; raise ValueError for a surrogate that is not a byte."""
    raw = text.encode("utf-8", "surrogateescape")
    decoded = re.sub(escape, lambda match: bytes([int(match[1], base) & 0xFF]), raw)
    return decoded.decode("utf-8", "surrogateescape")
