"""The identity of a system: uname, os-release, kernel command line, version of GRUB."""

from __future__ import annotations

import re

from ext4audit.facts.host import Kernel, OperatingSystem

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
    """Parse the kernel that runs; ValueError where the release does not begin with a number.

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
        raise ValueError(f"{release[:40]!r} does not begin with a version number")
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
        raise ValueError(f"{text[:80]!r} names no version of GRUB")
    return match[1]
