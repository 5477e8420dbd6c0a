"""Files whose content decides what an audit says or runs: read within limits, by whom they are."""

import os
import stat

import click


def read_text(path: str, largest_bytes: int, *, trusted: bool, advice: str) -> str:
    """Return a file's text; raises OSError, ValueError, and UsageError where others may write it.

    `trusted` says that its owner does not matter. `advice` is what to do about one who does.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs a scan its start
        if not trusted:
            check_trusted(path, os.fstat(file.fileno()), advice)
        raw = file.read(largest_bytes + 1)
    if len(raw) > largest_bytes:
        raise ValueError(f"it is longer than {largest_bytes >> 20} MiB")
    return raw.decode("utf-8")


def check_trusted(path: str, status: os.stat_result, advice: str) -> None:
    """Refuse a file that others than root and the caller could have written; raises UsageError.

    `status` is of the open file, so that no other one is read than the one that was checked. Of a
    link, itself and its directory count as well.
    """
    target = os.path.realpath(path)
    folders = {os.path.dirname(each) or "." for each in (path, target)}  # noqa: PTH120 - pathlib's cost
    every = [status, os.lstat(path), *map(os.stat, folders)]
    trusted, uids = _trusted_ids("UID", os.geteuid()), {each.st_uid for each in every}
    refusal = None
    if uids - trusted:
        refusal = f"it or its directory belongs to another user ({min(uids - trusted)})"
    elif any(_is_written_by_others(each) for each in every):
        refusal = "others may write to it or to its directory"
    if refusal:
        raise click.UsageError(f"{refusal}: {advice}")


def _is_written_by_others(status: os.stat_result) -> bool:
    """Whether anybody may write, or a group that is not the caller's own; a link has no mode."""
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        return False
    own_group = status.st_gid in _trusted_ids("GID", os.getegid())
    return bool(mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not own_group))


def _trusted_ids(kind: str, own: int) -> set[int]:
    """Return root, the caller, and the user who became root by sudo(8)."""
    before = os.environ.get(f"SUDO_{kind}", "") if os.geteuid() == 0 else ""
    return {0, own, *([int(before)] if before.isdecimal() else [])}
