"""DRF005: what holds the filesystem is a process of somebody else."""

from __future__ import annotations

NOT_RUN = (
    "Who has it mounted elsewhere is found by a command of the advice, which "
    "tests/kernel/test_mounted_elsewhere.py runs; what to stop is for people to say."
)
