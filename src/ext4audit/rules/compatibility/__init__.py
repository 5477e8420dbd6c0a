"""Compatibility rules: boot loaders, older readers, vendor requirements."""
