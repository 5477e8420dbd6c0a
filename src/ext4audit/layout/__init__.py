"""Layout as arithmetic: where ext4 puts metadata, and which member device that is."""
