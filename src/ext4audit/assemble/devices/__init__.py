"""Block devices, the fstab entries that name them, and the targets that resolve to them."""
