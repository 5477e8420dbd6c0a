"""The formats of `ext4audit layout`."""
