"""Facts in the kernel's words: frozen values, no I/O."""
