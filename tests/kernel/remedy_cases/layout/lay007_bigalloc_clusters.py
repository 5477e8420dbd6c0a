"""LAY007: nothing mends it in place."""

from __future__ import annotations

NOT_RUN = "To recreate a filesystem is advice without commands."
