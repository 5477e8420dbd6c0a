"""Steps as short lines: what an edit of fstab changes, and all other commands as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ext4audit.finding import Step

EDIT = re.compile(
    r"LC_ALL=C sed -i -E '(?P<line>[0-9]+)s#.*\)(?P<before>[^()#]*)\(\[\[:blank:\]\]\|\$\)#"
    r"\\1(?P<after>.*)\\2#' /etc/fstab"
)
AROUND = re.compile(r"test -e /etc/fstab\.ext4audit \|\| .*|sed -n [0-9]+p /etc/fstab \| .*")
"""The backup before an edit and the check behind it, which tests/remedies/test_fstab.py judges."""


def plain(steps: Iterable[Step]) -> list[str]:
    """Return a line for each step: "persistent: fstab 7: noatime,nobarrier -> noatime"."""
    return list(_lines(steps))


def _lines(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        edit = EDIT.fullmatch(step.command)
        if edit:
            change = f"fstab {edit['line']}: {edit['before']} -> {edit['after']}"
            yield f"{step.phase.value}: {change}"
        elif not AROUND.fullmatch(step.command):
            yield f"{step.phase.value}: {step.command}"
