"""Health: recorded errors, forced read-only, degraded arrays."""
