"""Filesystems with a name that no shell word stands for: a newline at the end, which `$()` strips.

A builder that forgets that `quote` can refuse writes "None" into its command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Remedy

_NO_WORD = re.compile(r"\bNone\b")


def unquotable(fs: Filesystem) -> Iterator[Filesystem]:
    """Yield a filesystem with one kind of name at a time that cannot be quoted."""
    yield fs._replace(device=f"{fs.device}\n")
    yield fs._replace(name=f"{fs.name}\n")
    for change in (
        lambda m: m._replace(mount_point=f"{m.mount_point}\n"),
        lambda m: m._replace(source=f"{m.source}\n"),
        lambda m: m._replace(super_options=(*m.super_options, "context=a\n")),
        lambda m: m._replace(user_options=(*(m.user_options or ()), "x-a=\n")),
    ):
        yield fs._replace(mounts=tuple(map(change, fs.mounts)))
    if isinstance(fs.superblock, Known):
        journal = fs.superblock.value._replace(journal_uuid="1\n", label="a\n")
        yield fs._replace(superblock=Known(journal, fs.superblock.origin))


def unwritten(remedy: Remedy) -> Iterator[str]:
    """Yield the commands of a remedy that have None in the place of a word."""
    for step in remedy.lines:
        texts = step.command, step.undo, step.done, step.undo_by_unmount, step.forced
        yield from (text for text in texts if _NO_WORD.search(text))
