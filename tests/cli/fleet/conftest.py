"""The fleet shared by all tests here: one sshd per session."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ext4audit.sources.ansible import AnsibleError, playbook_program
from support.sshd import Fleet, missing, running

REQUIRED = os.environ.get("EXT4AUDIT_REQUIRE_FLEET") == "1"
"""In CI the tests of the fleet must run: a skip would look like a pass."""


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    """Start the hosts, or skip with the name of what is missing."""
    why = missing()
    try:
        playbook_program()
    except AnsibleError as error:
        why = str(error)
    if why is not None and not REQUIRED:
        pytest.skip(why)
    assert why is None, why
    with running() as started:
        yield started
