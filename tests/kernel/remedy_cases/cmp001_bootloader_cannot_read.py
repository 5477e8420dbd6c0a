"""CMP001: the commands are those of CMP002, which are run there."""

from __future__ import annotations

NOT_RUN = (
    "Only what is mounted on /boot or the root is judged; CMP002's cases run the same commands."
)
