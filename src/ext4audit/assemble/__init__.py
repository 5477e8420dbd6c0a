"""Assembly joins facts into a host: ask, parse, join. It never judges."""
