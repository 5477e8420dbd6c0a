"""LAY005: the journal is PRF009's, and the rest needs mkfs."""

from __future__ import annotations

NOT_RUN = "To recreate a filesystem is advice, and PRF009 has the commands for the journal."
