"""Health rules: recorded errors, forced read-only, degraded arrays."""
