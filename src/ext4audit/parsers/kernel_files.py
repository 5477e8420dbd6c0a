"""Short texts of the kernel and the system: sysfs, uname, os-release, the command line, GRUB."""

from __future__ import annotations

import re

from ext4audit.facts.host import Kernel, OperatingSystem, Usage
from ext4audit.facts.mount import DeviceNumber, ResolvedPath

_RELEASE = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.([0-9]{1,9}))?")
_DEBIAN_PACKAGE = re.compile(r"\bDebian ([0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9})")
_LINES = 4
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_ESCAPED_IN_QUOTES = re.compile(r'\\([$"\\`])')
_ESCAPED = re.compile(r"\\(.)")
# A quote that is never closed protects the rest, as in next_arg() of lib/cmdline.c.
_ARGUMENT = re.compile(r'(?:[^\s"]|"[^"]*(?:"|$))+', re.ASCII)
_VERSION = re.compile(r"\S+ \(GRUB\) ([0-9]\S*)")


def parse_kernel(text: str) -> Kernel:
    """Parse the kernel that runs; ValueError where the release does not start with a number.

    Missing numbers are 0: "5.10" is (5, 10, 0). Debian's release names the ABI
    ("6.1.0-18-amd64"), not the stable update; its package version, which has it, is in the
    version string ("#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1") and counts where the two belong to
    the same series.
    """
    release, version, *_ = _lines(text)
    upstream = _numbers(release)
    package = _DEBIAN_PACKAGE.search(version)
    if package is not None and _numbers(package[1])[:2] == upstream[:2]:
        upstream = _numbers(package[1])
    return Kernel(release=release, version=version, upstream=upstream)


def parse_nodename(text: str) -> str:
    """Parse the host name: the rest of the text, since sethostname(2) takes a newline too."""
    return _lines(text)[-1]


def _lines(text: str) -> list[str]:
    """Split the text into its four values."""
    lines = text.removesuffix("\n").split("\n", _LINES - 1)
    if len(lines) != _LINES:
        raise ValueError(f"{text[:80]!r} is not the answer of uname")
    return lines


def _numbers(release: str) -> tuple[int, int, int]:
    """Parse the first up to three numbers of a release."""
    match = _RELEASE.match(release)
    if match is None:
        raise ValueError(f"{release[:40]!r} does not start with a version number")
    major, minor, patch = (int(number or 0) for number in match.groups())
    return major, minor, patch


def parse_os_release(text: str) -> OperatingSystem:
    """Parse an os-release file; lines that are no assignment are skipped, the last one counts.

    ValueError where no line is an assignment at all.
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
    """Remove the shell quoting that os-release(5) allows: no quotes, one pair, or backslashes."""
    quoted = len(value) > 1 and value[0] == value[-1]
    if quoted and value[0] == "'":
        return value[1:-1]
    if quoted and value[0] == '"':
        return _ESCAPED_IN_QUOTES.sub(r"\1", value[1:-1])
    return _ESCAPED.sub(r"\1", value)


def parse_kernel_arguments(text: str) -> tuple[str, ...]:
    """Parse the kernel's command line; double quotes protect blanks.

    Quotes round a whole argument or round its value are dropped, as next_arg() of
    lib/cmdline.c drops them: root="LABEL=a b" is `root=LABEL=a b`. "--" and what follows it
    (for init) are kept.
    """
    return tuple(_unquoted(argument) for argument in _ARGUMENT.findall(text))


def _unquoted(argument: str) -> str:
    """Drop the quotes round an argument or round its value."""
    if argument.startswith('"'):
        return argument[1:].removesuffix('"')
    name, separator, value = argument.partition("=")
    if value.startswith('"'):
        value = value[1:].removesuffix('"')
    return name + separator + value


def parse_grub_version(text: str) -> str:
    """Parse "grub-install (GRUB) 2.06-13+deb12u1"; ValueError for another text."""
    match = _VERSION.match(text)
    if match is None:
        raise ValueError(f"{text[:80]!r} is not a version of GRUB")
    return match[1]


_INTEGER = re.compile(r"-?[0-9]{1,20}")
_FLAGS = {"0": False, "1": True}
_WRITE_CACHES = frozenset({"write back", "write through"})
_COUNTS = 6
_TYPES = frozenset({"file", "directory", "block", "other"})


def parse_integer(text: str) -> int:
    """Parse one decimal number of at most 64 bits; ValueError for anything else.

    Stricter than int(), which takes "1_0" and the digits of every script.
    """
    word = text.strip()
    if not _INTEGER.fullmatch(word):
        raise ValueError(f"{word[:40]!r} is not a decimal number")
    return int(word)


def parse_flag(text: str) -> bool:
    """Parse a sysfs truth value: "1" or "0"."""
    word = text.strip()
    if word not in _FLAGS:
        raise ValueError(f"{word[:40]!r} is neither 0 nor 1")
    return _FLAGS[word]


def parse_device_number(text: str) -> DeviceNumber:
    """Parse "9:127", as sysfs `dev`, mountinfo and lsblk print a device number."""
    major, separator, minor = text.strip().partition(":")
    if not separator:
        raise ValueError(f"{text.strip()[:40]!r} is not a device number")
    number = DeviceNumber(parse_integer(major), parse_integer(minor))
    if number.major < 0 or number.minor < 0:
        raise ValueError(f"{text.strip()[:40]!r} is not a device number")
    return number


def parse_key_values(text: str) -> dict[str, str]:
    """Parse KEY=value lines (`uevent`, the udev database, the asks that answer so).

    The first of two lines with one key counts: the kernel's own lines come first, and a later one
    may be part of a name that a user chose.
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
    word = text.strip()
    if word not in _WRITE_CACHES:
        raise ValueError(f"{word[:40]!r} is not a write cache mode")
    return word


def parse_scheduler(text: str) -> str:
    """Parse `queue/scheduler`, "mq-deadline kyber [none]", to the active one; ValueError.

    A lone "none" is that of a device without a choice.
    """
    words = text.split()
    active = [word[1:-1] for word in words if word.startswith("[") and word.endswith("]")]
    if len(active) == 1 and active[0]:
        return active[0]
    if words == ["none"]:
        return "none"
    raise ValueError(f"{text[:40]!r} names no active scheduler")


def parse_names(text: str) -> tuple[str, ...]:
    """Parse the names of a directory, separated by NUL; an empty text is an empty directory."""
    return tuple(name for name in text.split("\0") if name)


def parse_stat_filesystem(text: str) -> tuple[DeviceNumber, Usage]:
    """Return the filesystem's device number and its usage; ValueError for another text."""
    number, *counts = text.split() or [""]
    values = [parse_integer(count) for count in counts]
    if len(values) != _COUNTS or values[0] == 0 or min(values) < 0:
        raise ValueError(f"{text[:80]!r} is not the answer of statvfs")
    return parse_device_number(number), Usage(*values)


def parse_resolved_path(text: str) -> ResolvedPath:
    """Parse a resolved path; ValueError where a key is missing or has another value."""
    values = parse_key_values(text)
    missing = {"mount_id", "device_number", "type"} - values.keys()
    if missing:
        raise ValueError(f"the answer lacks {', '.join(sorted(missing))}")
    if values["type"] not in _TYPES:
        raise ValueError(f"{values['type'][:40]!r} is not a type of path")
    represents = values.get("represents")
    return ResolvedPath(
        mount_id=parse_integer(values["mount_id"]),
        device_number=parse_device_number(values["device_number"]),
        type=values["type"],
        represents=parse_device_number(represents) if represents else None,
    )
