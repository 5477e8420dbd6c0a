"""Layout rules: alignment to stripes and partitions."""
