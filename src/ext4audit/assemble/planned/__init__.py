"""Planned filesystems: the superblock that mke2fs will make, and a host with it."""
