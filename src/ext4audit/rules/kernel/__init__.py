"""Kernel bugs."""
