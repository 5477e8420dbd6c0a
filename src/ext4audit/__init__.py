"""ext4audit: audit ext4 filesystems by the settings that are in force, and get fixes for them.

The public interface is `audit_host()`, `audit_snapshot()`, `select_rules()`, the types of their
results, and what custom rules import (docs/site-rules.md). It is loaded on first use, so that
`ext4audit --version` imports none of it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ext4audit.api import audit_host, audit_snapshot, select_rules
    from ext4audit.evidence import (
        Evidence,
        Known,
        Undetermined,
        Unknown,
        Why,
        absent_means,
        for_wording,
        need,
        origin_of,
    )
    from ext4audit.facts.host import ActiveProfile, Filesystem, Host, Profile, all_profiles
    from ext4audit.finding import (
        Assignment,
        Citation,
        Confidence,
        Disruption,
        Finding,
        Inspection,
        Phase,
        Programs,
        Remedy,
        Severity,
        Step,
        Suppression,
    )
    from ext4audit.report import DataFile, FixedFinding, Outcome, Report, ReportSource, Verdict
    from ext4audit.rule import (
        NotApplicable,
        Rule,
        RuleOutput,
        Scope,
        filesystem_rule,
        host_rule,
    )
    from ext4audit.sources import ArchiveError

__version__ = "0.2.0"
__all__ = [
    "ActiveProfile",
    "ArchiveError",
    "Assignment",
    "Citation",
    "Confidence",
    "DataFile",
    "Disruption",
    "Evidence",
    "Filesystem",
    "Finding",
    "FixedFinding",
    "Host",
    "Inspection",
    "Known",
    "NotApplicable",
    "Outcome",
    "Phase",
    "Profile",
    "Programs",
    "Remedy",
    "Report",
    "ReportSource",
    "Rule",
    "RuleOutput",
    "Scope",
    "Severity",
    "Step",
    "Suppression",
    "Undetermined",
    "Unknown",
    "Verdict",
    "Why",
    "__version__",
    "absent_means",
    "all_profiles",
    "audit_host",
    "audit_snapshot",
    "filesystem_rule",
    "for_wording",
    "host_rule",
    "need",
    "origin_of",
    "select_rules",
]
_MODULES = {
    "api": ("audit_host", "audit_snapshot", "select_rules"),
    "evidence": (
        *("Evidence", "Known", "Undetermined", "Unknown", "Why"),
        *("absent_means", "for_wording", "need", "origin_of"),
    ),
    "facts.host": ("ActiveProfile", "Filesystem", "Host", "Profile", "all_profiles"),
    "finding": (
        *("Assignment", "Citation", "Confidence", "Disruption", "Finding", "Inspection"),
        *("Phase", "Programs", "Remedy", "Severity", "Step", "Suppression"),
    ),
    "report": ("DataFile", "FixedFinding", "Outcome", "Report", "ReportSource", "Verdict"),
    "rule": ("NotApplicable", "Rule", "RuleOutput", "Scope", "filesystem_rule", "host_rule"),
    "sources": ("ArchiveError",),
}


def __getattr__(name: str) -> object:
    """Import a public name on first use (PEP 562). Raises AttributeError for any other name."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__


def lazily(module: str, name: str) -> Callable[..., Any]:
    """Return a wrapper of a function of another ext4audit module, imported on the first call.

    Runs that do not need the module do not import it. tests/cli/entry/test_startup.py checks what
    each command imports, and tests/test_house.py treats these names as imports.
    """

    def call(*args: object, **kwargs: object) -> object:
        return getattr(import_module(f"ext4audit.{module}"), name)(*args, **kwargs)

    return call


NO_MORE_FILES = frozenset({errno.EMFILE, errno.ENFILE})
"""Limits of the process and of the host, and no fault of the place that is written to."""


def shortage_of(error: BaseException) -> str:
    """Return which resource of the process is used up, or "": such an error is none of ours.

    It also ends attempts to report it that import a module or open a file.
    """
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, OSError) and error.errno in NO_MORE_FILES:
        return error.strerror or str(error)
    return ""
