"""Facts: frozen values named as the kernel names them, and the tables about ext4; no I/O."""
