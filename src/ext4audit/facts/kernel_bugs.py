"""Which kernels have which bug: ranges of versions, compared as their distributor orders them.

The ranges are data, in kernel_bugs.toml, which is parsed when a rule asks for the first time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.host import Kernel
from ext4audit.facts.toml_table import read_table
from ext4audit.facts.versions.kernels import (
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
"""The worst severity that goes with a confidence."""
LEVELS = ("critical", "high", "medium", "low", "info")
NOT_KNOWN = "outside of every range of kernels that is known to have it"
WHO_TELLS = "uname -v (Debian) or /proc/version_signature (Ubuntu); in a plan, --kernel 6.1.76"
UNSEEN = "whether its vendor corrected that is not known"


def exposure(code: str, kernel: Evidence[Kernel]) -> Evidence[Exposure]:
    """Say whether a kernel has the bug of a rule.

    The ranges of its own tree count first, then those for any tree. Without either, a kernel is
    judged by upstream's ranges: Debian's follow the stable updates and are likely to be as those
    are; what other vendors put back into theirs cannot be seen, so that it is possible at best.
    Unknown where a range begins or ends inside a series and the kernel does not tell its update.
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
    """Say what upstream's ranges mean for a kernel of another tree."""
    bad = [r for r in ranges if r.tree == UPSTREAM and r.exposure.affected and r.may_hold(tree)]
    if not bad:
        return Known(Exposure(affected=False, note=NOT_KNOWN), origin)
    lowest, highest = (next((r for r in bad if r.holds(end)), None) for end in tree.ends())
    if lowest is None or highest is None:
        what, detail = "stable update of the kernel", f"{tree.package} does not tell it"
        return Unknown(what, Why.ABSENT, detail, WHO_TELLS)
    said = max(lowest.exposure, highest.exposure, key=lambda s: tuple(WORST_OF).index(s.confidence))
    if tree.name == DEBIAN:
        return Known(_capped(said, "likely"), origin)
    said = _capped(said, "possible")
    return Known(replace(said, note=f"{said.note}; {UNSEEN}"), origin)


def _capped(said: Exposure, confidence: str) -> Exposure:
    """Return an exposure with at most this confidence, and the severity that goes with it."""
    order = tuple(WORST_OF)
    lower = max(said.confidence, confidence, key=order.index)
    severity = max(said.severity, WORST_OF[lower], key=LEVELS.index)
    return replace(said, confidence=lower, severity=severity)


@cache
def all_ranges() -> Mapping[str, tuple[KernelRange, ...]]:
    """Return the ranges by the code of the rule, in the order in which they are tried."""
    return {code: tuple(_ranges(said)) for code, said in read_table(TABLE).items()}


def _ranges(bug: Mapping[str, Any]) -> Iterator[KernelRange]:
    shared = {name: bug[name] for name in ("symptom", "condition", "fix", "source") if name in bug}
    for said in bug["range"]:
        bounds = {name: said[name] for name in BOUNDS if name in said}
        rest = {name: value for name, value in said.items() if name not in bounds}
        bounds["exposure"] = Exposure(**{"affected": True, **shared, **rest})
        yield KernelRange(**bounds)
