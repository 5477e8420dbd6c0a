"""HLT005 on real devices: not run."""

from __future__ import annotations

NOT_RUN = "A failed disk is replaced by hand: its remedy is advice, without a command."
