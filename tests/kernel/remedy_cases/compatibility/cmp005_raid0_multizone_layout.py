"""CMP005 on real devices: not run."""

from __future__ import annotations

NOT_RUN = "Which layout is right, only a person can find out: its remedy is advice, no command."
