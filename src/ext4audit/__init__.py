"""ext4audit: what your ext4 filesystems will do to you, and how to fix it."""

__version__ = "0.2.0"
