"""Containers of captured evidence: directories and tar files, read under caps."""
