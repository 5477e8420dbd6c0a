"""Experiments whose results are in docs/measurements.md. They run in the guest only."""
