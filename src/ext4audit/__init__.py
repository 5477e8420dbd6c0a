"""ext4audit: what your ext4 filesystems will do to you, and how to fix it.

The public interface is `audit_host()`, `audit_snapshot()`, `select_rules()` and the types of their
results. It is loaded on first use: `ext4audit --version` needs none of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ext4audit.api import audit_host, audit_snapshot, select_rules
    from ext4audit.finding import Confidence, Finding, Remedy, Severity
    from ext4audit.report import Outcome, Report, Verdict
    from ext4audit.sources.containers import ArchiveError

__version__ = "0.2.0"
__all__ = [
    "ArchiveError",
    "Confidence",
    "Finding",
    "Outcome",
    "Remedy",
    "Report",
    "Severity",
    "Verdict",
    "__version__",
    "audit_host",
    "audit_snapshot",
    "select_rules",
]
_MODULES = {
    "api": ("audit_host", "audit_snapshot", "select_rules"),
    "finding": ("Confidence", "Finding", "Remedy", "Severity"),
    "report": ("Outcome", "Report", "Verdict"),
    "sources.containers": ("ArchiveError",),
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
