"""An option of a captured host is data: no command lets a shell interpret its value."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import Provenance
from ext4audit.facts.options import all_options
from ext4audit.rule import Scope
from ext4audit.rules import all_rules
from support.builders import filesystem, fstab_entry, host, known, mount, options, superblock

SHELL_MARK = "owned"
VALUES = (f"1;{SHELL_MARK}", f"$({SHELL_MARK})", f"`{SHELL_MARK}`", f"1 {SHELL_MARK}")
NAMES = [spec.on for spec in all_options() if spec.has_value]
QUOTED = re.compile(r"'[^']*'")


def hosts_with(token: str) -> Iterator[Filesystem]:
    """Yield filesystems with a token in force, in fstab, or in the superblock."""
    in_force, in_fstab = known(options(token)), known((fstab_entry(token),))
    yield filesystem(options=in_force, fstab=known((fstab_entry(),)))
    yield filesystem(fstab=in_fstab)
    yield filesystem(
        options=known(options(token, hidden=(token,), set_by=Provenance.SUPERBLOCK_STRING)),
        superblock=known(superblock(mount_option_string=token)),
        mounts=(mount(super_options=("rw", token)),),
        fstab=known((fstab_entry(),)),
    )
    yield filesystem(
        alive=False, mounts=(), superblock=known(superblock(mount_option_string=token))
    )


@pytest.mark.parametrize("name", NAMES)
def test_option_values_are_quoted_in_commands(name: str) -> None:
    """The value comes from the snapshot's author, and a person runs the commands as root."""
    found = [
        (rule.code, command)
        for value in VALUES
        for fs in hosts_with(f"{name}{value}")
        for rule in all_rules()
        for finding in judge(rule, None if rule.scope is Scope.HOST else fs, host(fs)).findings
        for remedy in finding.remedies
        for step in (*remedy.steps, *remedy.lines)
        for command in (step.command, step.rollback, step.done)
        if SHELL_MARK in QUOTED.sub("", command)
    ]
    assert found == []
