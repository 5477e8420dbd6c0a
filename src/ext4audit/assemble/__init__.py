"""Assembly: modules that ask a source, parse the answers and join the facts into a host."""
