"""LAY007: nothing mends it in place."""

NOT_RUN = "To recreate a filesystem is advice without commands."
