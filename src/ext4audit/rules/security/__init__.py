"""Security: mount hardening and reserved users."""
