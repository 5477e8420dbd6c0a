"""Capacity: space, inodes, and limits of growth."""
