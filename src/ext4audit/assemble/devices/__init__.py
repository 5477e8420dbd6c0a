"""Block devices: their stacks, the fstab entries that name them, the targets on command lines."""
