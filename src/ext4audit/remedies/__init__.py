"""How changes are made: each module knows one kind of change, its checks and its rollback."""
