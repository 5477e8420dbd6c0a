"""The command line: one command a file; wiring and exit codes only."""
