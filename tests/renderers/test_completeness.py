"""In every format, a gap that cannot lead to exit code 3 does not make the audit incomplete."""

from __future__ import annotations

import pytest

from support.hosts.fixture_hosts import HOSTS
from support.program import run

INCOMPLETE_TEXT = {
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


@pytest.mark.parametrize("fmt", INCOMPLETE_TEXT)
def test_header_and_summary_agree_with_the_exit_code(fmt: str) -> None:
    """The one undetermined rule cannot reach the threshold, so no failure can be hidden."""
    place = str(HOSTS / "lvm-striped" / "snapshot")
    words = ("scan", "--from", place, "--select", RULE, "-f", fmt)
    calm, strict = (run(*words, "--fail-on", each) for each in ("critical", "low"))
    assert (calm.returncode, strict.returncode) == (0, 3)
    assert INCOMPLETE_TEXT[fmt] not in calm.stdout
    assert INCOMPLETE_TEXT[fmt] in strict.stdout
