"""Renderers turn a report into a string, and nothing else."""
