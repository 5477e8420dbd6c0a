"""Audit captured evidence: one source, one report."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.selection import only_filesystems
from ext4audit.engine import audit
from ext4audit.facts.profile import ActiveProfile
from ext4audit.report import Report, Source
from ext4audit.rule import Rule
from ext4audit.sources.captured import open_captured


def audit_captured(
    path: str,
    rules: Sequence[Rule],
    targets: Sequence[str],
    profiles: Sequence[ActiveProfile] = (),
    *,
    in_fleet: bool = False,
) -> Report:
    """Judge one host's evidence, or what the TARGETs name of it; raises ArchiveError."""
    captured = open_captured(path, in_fleet=in_fleet)
    host = assemble_host(captured.source, captured.taken_at)
    if targets:
        host = only_filesystems(host, targets)
    return audit(Source(captured.kind, captured.label), host, rules, profiles)


def utf8(word: str) -> str:
    """Return a word of the command line as names are everywhere: UTF-8 with surrogateescape."""
    return os.fsencode(word).decode("utf-8", "surrogateescape")
