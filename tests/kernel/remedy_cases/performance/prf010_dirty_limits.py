"""The limits of dirty memory are the machine's own, and are put back whatever happens."""

from __future__ import annotations

from pathlib import Path

from ext4audit.rule import Rule
from support.remedies.case import RemedyCase, Stage
from support.scratch import run

LIMITS = "dirty_background_ratio", "dirty_ratio", "dirty_background_bytes", "dirty_bytes"


def limits() -> dict[str, str]:
    """Read the limits."""
    return {name: Path(f"/proc/sys/vm/{name}").read_text().strip() for name in LIMITS}


class WithLimits(RemedyCase):
    """A case with a backlog of 12 GiB, which takes any device long enough."""

    def run(self, rule: Rule, stage: Stage) -> None:
        """Set the limit, run the case, see that the rollback brought it back, and restore."""
        before = limits()
        run("sysctl", "-qw", "vm.dirty_bytes=12884901888")
        try:
            odd = limits()
            super().run(rule, stage)
            assert limits() == odd
        finally:
            for name, value in before.items():
                if value != "0":
                    run("sysctl", "-qw", f"vm.{name}={value}")


CASES = (WithLimits("a backlog of gigabytes", "Bound the backlog", size="16G"),)
