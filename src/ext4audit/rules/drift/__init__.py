"""Configuration drift: what runs against what is configured."""
