"""HLT006: what to do is a field of fstab."""

from __future__ import annotations

NOT_RUN = "The sixth field of fstab is changed by hand: advice without commands."
