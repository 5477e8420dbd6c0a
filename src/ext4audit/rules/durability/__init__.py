"""Durability: what a crash or a power failure can lose."""
