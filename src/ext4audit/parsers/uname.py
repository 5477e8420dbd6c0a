"""uname(2): release, version, machine and nodename, one a line in this order."""

from __future__ import annotations

import re

from ext4audit.facts.kernel import Kernel

_RELEASE = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.([0-9]{1,9}))?")
_DEBIAN_PACKAGE = re.compile(r"\bDebian ([0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9})")
_LINES = 4


def parse_kernel(text: str) -> Kernel:
    """Parse the kernel that runs; ValueError where the release does not begin with a number.

    Missing numbers are 0: "5.10" is (5, 10, 0). Debian's release names the ABI
    ("6.1.0-18-amd64"), not the stable update; its package version, which has it, stands in the
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
    """Cut the text into its four answers."""
    lines = text.removesuffix("\n").split("\n", _LINES - 1)
    if len(lines) != _LINES:
        raise ValueError(f"{text[:80]!r} is not the answer of uname")
    return lines


def _numbers(release: str) -> tuple[int, int, int]:
    """Read the first up to three numbers of a release."""
    match = _RELEASE.match(release)
    if match is None:
        raise ValueError(f"{release[:40]!r} does not begin with a version number")
    major, minor, patch = (int(number or 0) for number in match.groups())
    return major, minor, patch
