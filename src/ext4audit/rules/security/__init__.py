"""Security rules: mount hardening and reserved users."""
