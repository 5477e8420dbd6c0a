"""Commands that print what the program knows: its rules, its data, and its formats."""
