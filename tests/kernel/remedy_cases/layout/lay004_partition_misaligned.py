"""LAY004 on real devices: not run."""

from __future__ import annotations

NOT_RUN = "Its remedy is to make the partition anew: advice, without a command."
