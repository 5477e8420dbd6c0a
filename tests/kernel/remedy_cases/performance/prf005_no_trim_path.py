"""Its remedies are advice."""

from __future__ import annotations

NOT_RUN = (
    "No commands are printed: enabling a timer takes a running service manager, and what else "
    "trims a host regularly is for its administrator to choose."
)
