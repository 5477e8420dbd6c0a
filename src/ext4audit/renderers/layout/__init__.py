"""The output formats of `ext4audit layout`."""
