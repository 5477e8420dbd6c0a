"""CAP001: no command makes inodes."""

from __future__ import annotations

NOT_RUN = (
    "Which files go is for people to say, and inodes cannot be added in place: the remedies are "
    "advice without commands."
)
