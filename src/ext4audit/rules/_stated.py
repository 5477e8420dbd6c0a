"""What a superblock states, as evidence: not every reader of one sees all its fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.host import Filesystem
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation

T = TypeVar("T")


def stated(fs: Filesystem, what: str, read: Callable[[Superblock], T | None]) -> Evidence[T]:
    """Return what `read` finds in the superblock; None is a hole that names `what`.

    The ioctl that answers without root leaves out sizes, and the superblock's own bytes can
    leave out the journal's size.
    """
    if isinstance(fs.superblock, Unknown):
        return fs.superblock
    value = read(fs.superblock.value)
    if value is None:
        detail = f"{fs.superblock.origin} does not tell it"
        return Unknown(what, Why.NOT_CAPTURED, detail, "run as root, with dumpe2fs")
    return Known(value, fs.superblock.origin)


def cite_features(fs: Filesystem) -> tuple[Citation, ...]:
    """Cite the features that the superblock has, if it is known."""
    if isinstance(fs.superblock, Unknown):
        return ()
    words = " ".join(sorted(fs.superblock.value.features))
    return (Citation("features", words, fs.superblock.origin),)
