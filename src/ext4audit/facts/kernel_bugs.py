"""Which kernels have which bug: ranges of versions, compared as their distributor orders them.

The ranges are data, in kernel_bugs.toml, which is parsed at the first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts import read_table
from ext4audit.facts.host import Kernel
from ext4audit.facts.versions import (
    ANY,
    BOUNDS,
    DEBIAN,
    UPSTREAM,
    Exposure,
    KernelRange,
    KernelTree,
    identify,
)

TABLE = "kernel_bugs.toml"
WORST_OF = {"confirmed": "high", "likely": "medium", "possible": "low"}
"""The worst severity for each confidence."""
LEVELS = ("critical", "high", "medium", "low", "info")
UNAFFECTED_NOTE = "outside of every range of kernels that is known to have it"
VERSION_HINT = "uname -v (Debian) or /proc/version_signature (Ubuntu); in a plan, --kernel 6.1.76"
UNKNOWN_VENDOR_FIX = "whether its vendor corrected that is not known"


def exposure(code: str, kernel: Evidence[Kernel]) -> Evidence[Exposure]:
    """Return whether a kernel has the bug of a rule.

    The ranges of its own tree count first, then those for any tree. Without either, upstream's
    ranges decide: likely for Debian, whose kernels follow the stable updates, and possible at best
    for other vendors, whose backports are not known. Unknown where a range begins or ends inside
    a series and the kernel's stable update is not known.
    """
    if isinstance(kernel, Unknown):
        return kernel
    tree = identify(kernel.value)
    ranges = all_ranges()[code]
    own = (r for r in ranges if r.tree in {tree.name, ANY} and r.holds(tree))
    found = next(own, None)
    if found is not None:
        return Known(found.exposure, kernel.origin)
    return _by_upstream(ranges, tree, kernel.origin)


def _by_upstream(
    ranges: tuple[KernelRange, ...], tree: KernelTree, origin: str
) -> Evidence[Exposure]:
    """Return the exposure of a kernel of another tree by upstream's ranges."""
    bad = [r for r in ranges if r.tree == UPSTREAM and r.exposure.affected and r.may_hold(tree)]
    if not bad:
        return Known(Exposure(affected=False, note=UNAFFECTED_NOTE), origin)
    lowest, highest = (next((r for r in bad if r.holds(end)), None) for end in tree.ends())
    if lowest is None or highest is None:
        what, detail = "stable update of the kernel", f"{tree.package} does not tell it"
        return Unknown(what, Why.ABSENT, detail, VERSION_HINT)
    order = tuple(WORST_OF)
    found = max(lowest.exposure, highest.exposure, key=lambda one: order.index(one.confidence))
    if tree.name == DEBIAN:
        return Known(_capped(found, "likely"), origin)
    found = _capped(found, "possible")
    return Known(found._replace(note=f"{found.note}; {UNKNOWN_VENDOR_FIX}"), origin)


def _capped(found: Exposure, confidence: str) -> Exposure:
    """Return an exposure with at most this confidence, and the severity that goes with it."""
    order = tuple(WORST_OF)
    lower = max(found.confidence, confidence, key=order.index)
    severity = max(found.severity, WORST_OF[lower], key=LEVELS.index)
    return found._replace(confidence=lower, severity=severity)


@cache
def all_ranges() -> Mapping[str, tuple[KernelRange, ...]]:
    """Return the ranges by the code of the rule, in the order in which they are tried."""
    return {code: tuple(_ranges(bug)) for code, bug in read_table(TABLE).items()}


def _ranges(bug: Mapping[str, Any]) -> Iterator[KernelRange]:
    shared = {name: bug[name] for name in ("symptom", "condition", "fix", "source") if name in bug}
    for entry in bug["range"]:
        bounds = {name: entry[name] for name in BOUNDS if name in entry}
        rest = {name: value for name, value in entry.items() if name not in bounds}
        bounds["exposure"] = Exposure(**{"affected": True, **shared, **rest})
        yield KernelRange(**bounds)
