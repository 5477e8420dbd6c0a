"""Online discard goes off by remount, from wherever it was set."""

from __future__ import annotations

from support.remedies.case import RemedyCase

SUMMARY = "Turn online discard off"
CASES = (
    RemedyCase("set by fstab", SUMMARY, mount="noatime,discard", fstab="noatime,discard"),
    RemedyCase("set by the superblock", SUMMARY, tune=("-o", "discard"), fstab="defaults"),
    RemedyCase("set by hand", SUMMARY, mount="discard,nodev"),
)
