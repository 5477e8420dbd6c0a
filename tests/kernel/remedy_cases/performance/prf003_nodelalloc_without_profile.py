"""Delayed allocation goes on by remount, from wherever nodelalloc was set."""

from __future__ import annotations

from support.remedies.case import RemedyCase

SUMMARY = "Turn delayed allocation on"
CASES = (
    RemedyCase("set by fstab", SUMMARY, mount="nodelalloc", fstab="nodelalloc"),
    RemedyCase("set by the superblock", SUMMARY, tune=("-o", "nodelalloc"), fstab="noatime"),
    RemedyCase("set by hand", SUMMARY, mount="nodelalloc,nosuid"),
)
