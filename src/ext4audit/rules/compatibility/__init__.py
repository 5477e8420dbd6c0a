"""Compatibility: boot loaders, older readers, vendor demands."""
