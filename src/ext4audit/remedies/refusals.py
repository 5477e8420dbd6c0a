"""Devices that this machine refuses to open, even to root: remedies on them run elsewhere.

The device rules of a cgroup refuse them in containers, and in some virtual machines. Every
program of e2fsprogs then ends with "Operation not permitted".
"""

from __future__ import annotations

import re

from ext4audit.evidence import OUTSIDE, Unknown, Why
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Remedy

_ON_DEVICES = re.compile(r"\b(?:tune2fs|e2fsck|resize2fs|debugfs|mkfs\.ext4)\b")


def with_refusal(remedy: Remedy, fs: Filesystem) -> Remedy:
    """Return a remedy with the sentence that its commands fail here, if they do."""
    primary = fs.primary
    if not isinstance(primary, Unknown) or (primary.why, primary.hint) != (Why.DENIED, OUTSIDE):
        return remedy
    if not any(_ON_DEVICES.search(step.command) for step in remedy.steps):
        return remedy
    note = f"{fs.device} cannot be opened here, even by root: {OUTSIDE}."
    return remedy._replace(summary=f"{remedy.summary} {note}")
