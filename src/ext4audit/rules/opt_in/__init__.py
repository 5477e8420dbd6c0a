"""Rules that are off unless `--select`, `--pedantic`, a profile or a plan asks for them."""
