"""What a user accepts and wants: rules, exit codes, suppressions, baselines."""
