"""In every format, a gap that cannot lead to exit code 3 does not make the audit incomplete."""

from __future__ import annotations

import pytest

from support.hosts.fixture_hosts import HOSTS
from support.program import run

SAYS = {
    "text": "incomplete",
    "markdown": "INCOMPLETE",
    "github": "audit INCOMPLETE",
    "html": "incomplete</",
    "prometheus": 'ext4audit_host_audit_complete{host="lvm-striped"} 0',
    "nagios": "EXT4AUDIT UNKNOWN",
}
"""How each format marks an incomplete audit."""
RULE = "DRF003"
"""A rule that is undetermined on this host and never critical."""


@pytest.mark.parametrize("fmt", SAYS)
def test_header_and_summary_count_what_the_exit_code_counts(fmt: str) -> None:
    """The one undetermined rule cannot reach the threshold, so no failure can be hidden."""
    place = str(HOSTS / "lvm-striped" / "snapshot")
    words = ("scan", "--from", place, "--select", RULE, "-f", fmt)
    calm, strict = (run(*words, "--fail-on", each) for each in ("critical", "low"))
    assert (calm.returncode, strict.returncode) == (0, 3)
    assert SAYS[fmt] not in calm.stdout
    assert SAYS[fmt] in strict.stdout
