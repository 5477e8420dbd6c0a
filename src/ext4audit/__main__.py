"""`python -m ext4audit` and the `ext4audit` command."""

from __future__ import annotations

import sys

from ext4audit.cli.guard import guarded


def main() -> None:
    """Run the command line and exit with its code."""
    sys.exit(guarded(sys.argv[1:]))


if __name__ == "__main__":
    main()
