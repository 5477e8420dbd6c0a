"""CAP006: no command makes space."""

from __future__ import annotations

NOT_RUN = "What is deleted, moved or bought is for people to say: the remedies have no commands."
