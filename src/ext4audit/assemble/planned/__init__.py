"""Filesystems that do not exist yet."""
