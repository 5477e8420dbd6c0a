"""LAY005: the journal is PRF009's, and the rest needs mkfs."""

NOT_RUN = "To recreate a filesystem is advice, and PRF009 has the commands for the journal."
