"""Layout and alignment on stripes and partitions."""
