"""Kernel bugs: the filesystems that a bug of the running kernel can reach."""
