"""Which kernels map buffered writes page by page under dioread_nolock without delalloc."""

from __future__ import annotations

import re

from ext4audit.facts.kernel import Kernel
from ext4audit.facts.rpm_version import compare_rpm, split_release
from ext4audit.finding import Confidence, Severity
from ext4audit.records import dataclass

ALIBABA = re.compile(r"\.al7(\.|$)")
ALIBABA_COMPARABLE = re.compile(r"^(\d+)\.(\d+)\.(\d+)-(\d+)((?:\.\d+)*)\.al7(\.|$)")
ALIBABA_AFFECTED = ("4.19.24", "9.al7"), ("4.19.91", "26.al7")
"""[from, before), as Alibaba's page of 2025-05-26 states it."""
RED_HAT_8 = re.compile(r"^4\.18\.0-(\d+)\..*el8")
RED_HAT_8_LAST_READ = 240
"""The last el8 release whose source was read: without the guard."""
DEFAULT_SINCE = (5, 6)
"""dioread_nolock is the default (244adf6426ee)."""
GUARD_SINCE = (5, 6, 13)
"""dioread_nolock is ignored where delalloc is off (c8980e1980cc; 5.7, and stable 5.6.13)."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """How the two options together fare on a kernel; `note` says how that is known."""

    affected: bool
    note: str
    severity: Severity = Severity.INFO
    confidence: Confidence = Confidence.CONFIRMED


def exposure(kernel: Kernel) -> Exposure:
    """Judge a kernel by its release alone: in a container os-release is another system's."""
    if ALIBABA.search(kernel.release):
        return _alibaba(kernel)
    red_hat = RED_HAT_8.match(kernel.release)
    if red_hat and int(red_hat[1]) > RED_HAT_8_LAST_READ:
        note = f"el8 after 4.18.0-{RED_HAT_8_LAST_READ}: whether the guard was backported is open"
        return Exposure(True, note, Severity.LOW, Confidence.POSSIBLE)
    if kernel.since(*GUARD_SINCE):
        return Exposure(False, "ignores dioread_nolock where delalloc is off (c8980e1980cc)")
    if kernel.since(*DEFAULT_SINCE):
        note = "dioread_nolock is its default, and the guard c8980e1980cc not in it"
    else:
        note = "older than 5.6.13, which has the guard c8980e1980cc"
    return Exposure(True, note, Severity.MEDIUM, Confidence.LIKELY)


def _alibaba(kernel: Kernel) -> Exposure:
    """Judge a kernel of Alibaba Cloud Linux 2 by the range of the vendor's page."""
    if not ALIBABA_COMPARABLE.match(kernel.release):
        note = "an al7 build named after a commit, which cannot be compared with 4.19.91-26.al7"
        return Exposure(True, note, Severity.LOW, Confidence.POSSIBLE)
    lower, upper = ALIBABA_AFFECTED
    if _is_before(kernel.release, lower):
        note = "al7 before 4.19.24-9: not in the vendor's range, but without the guard"
        return Exposure(True, note, Severity.MEDIUM, Confidence.LIKELY)
    if _is_before(kernel.release, upper):
        note = "Alibaba Cloud Linux 2, inside [4.19.24-9.al7, 4.19.91-26.al7)"
        return Exposure(True, note, Severity.HIGH, Confidence.CONFIRMED)
    note = (
        "Alibaba Cloud Linux 2 from 4.19.91-26.al7 on: repaired, says the vendor's page of 2025, "
        "which replaces that of 2023"
    )
    return Exposure(False, note)


def _is_before(release: str, bound: tuple[str, str]) -> bool:
    """Whether a release is older than (version, release), compared as rpm does."""
    version, rest = split_release(release)
    return (compare_rpm(version, bound[0]) or compare_rpm(rest, bound[1])) < 0
