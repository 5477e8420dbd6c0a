"""Scenarios of the lab, by subject. They run in the guest only."""
