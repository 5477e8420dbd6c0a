"""Capacity rules: space, inodes, and growth limits."""
