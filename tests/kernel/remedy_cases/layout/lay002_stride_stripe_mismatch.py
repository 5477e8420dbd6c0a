"""LAY002 on real devices: not run."""

from __future__ import annotations

NOT_RUN = (
    "No md array and no striped mapping can be made on a loop device here; the same commands with "
    "other numbers are run for LAY003, and with a stripe in tests/kernel/test_stripe_steps.py."
)
