"""Improvements of a plan, verified by judging it again, and the commands for it."""
