"""The policy of a user: the selection of rules, suppressions, baselines, and exit codes."""
