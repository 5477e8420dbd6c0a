"""Sources answer asks with raw text or bytes, or say why they cannot."""
