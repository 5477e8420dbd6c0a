"""Sources: they answer asks with raw text or bytes, or with the reason why they cannot."""
