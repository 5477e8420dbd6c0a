"""Reading of files that control an audit, with checks of their size and their owner."""

import errno
import os
import stat
from collections.abc import Sequence
from functools import partial

import click

from ext4audit.cli import did_you_mean
from ext4audit.cli.files import MOST_LINKS
from ext4audit.cli.output import refused
from ext4audit.facts import decoded, put_in_force
from ext4audit.facts.knowledge import NewerFile, by_file, read_newer
from ext4audit.sources.timeouts import answered_for

_ACCESS_LIST = "system.posix_acl_access"


def read_text(path: str, largest_bytes: int, *, trusted: bool, advice: str) -> str:
    """Return a file's text; raises OSError, ValueError, or UsageError if others may write it.

    `trusted` skips the check of the owner. `advice` is the end of its error message.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib slows down each start
        if not trusted:
            check_trusted(path, os.fstat(file.fileno()), advice)
        raw = file.read(largest_bytes + 1)
    if len(raw) > largest_bytes:
        raise ValueError(f"it is longer than {largest_bytes >> 20} MiB")
    return decoded(raw)


def check_trusted(path: str, status: os.stat_result, advice: str) -> None:
    """Raise UsageError for a file that users other than root and the caller can write.

    `status` is from the open file, so that the file that was checked is the one that is read.
    Symbolic links in the path and their directories are also checked, because whoever can write
    there can replace the link.
    """
    links, target = _links(path)
    places = [path, *links, target]
    folders = {os.path.dirname(each) or "." for each in places}  # noqa: PTH120 - pathlib is slow
    every = [status, *map(os.lstat, links), *map(os.stat, folders)]
    trusted, uids = _trusted_ids("UID", os.geteuid()), {each.st_uid for each in every}
    refusal = None
    if uids - trusted:
        refusal = f"it or its directory belongs to another user ({min(uids - trusted)})"
    elif any(map(_is_written_by_others, every)) or any(map(_has_access_list, (target, *folders))):
        refusal = "others may write to it or to its directory"
    if refusal:
        raise click.UsageError(f"{refusal}: {advice}")


def _links(path: str) -> tuple[list[str], str]:
    """Return the symbolic links in a path, including its directories, and the real path."""
    links, here = list[str](), "/"
    ahead = os.path.abspath(path).split("/")  # noqa: PTH100 - pathlib is slow
    while ahead:
        place = os.path.normpath(f"{here}/{ahead.pop(0)}")
        if os.path.islink(place):  # noqa: PTH114 - the same
            if len(links) == MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            links.append(place)
            to = os.readlink(place)  # noqa: PTH115 - the same
            here = "/" if to.startswith("/") else here
            ahead[:0] = to.split("/")
        else:
            here = place
    return links, here


def _is_written_by_others(status: os.stat_result) -> bool:
    """Return whether others or a foreign group may write; the mode of a link is ignored."""
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        return False
    own_group = status.st_gid in _trusted_ids("GID", os.getegid())
    return bool(mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not own_group))


def _has_access_list(path: str) -> bool:
    """Return whether an access control list may let other users write (acl(5)).

    With a list, the group bits are the mask for all its entries.
    """
    if not os.stat(path).st_mode & stat.S_IWGRP:  # noqa: PTH116 - the same
        return False
    try:
        return bool(os.getxattr(path, _ACCESS_LIST))
    except OSError:  # no list, or not supported by the filesystem
        return False


def _trusted_ids(kind: str, own: int) -> set[int]:
    """Return the UIDs or GIDs of root, of the caller, and of the user who called sudo(8)."""
    before = os.environ.get(f"SUDO_{kind}", "") if os.geteuid() == 0 else ""
    return {0, own, *([int(before)] if before.isdecimal() else [])}


LARGEST_BYTES = 4 << 20
OWN_IT = "a data file must belong to root or to you, in such a directory"


def use_newer(paths: Sequence[str]) -> tuple[NewerFile, ...]:
    """Replace built-in data with data files, all or none; later files win. Raises UsageError."""
    files = tuple(map(_newer, paths))
    put_in_force(by_file(files))
    return files


def _newer(path: str) -> NewerFile:
    """Read and check a data file; raises UsageError, which names the file."""
    read = partial(read_text, path, LARGEST_BYTES, trusted=False, advice=OWN_IT)
    with refused(path):
        return read_newer(answered_for(path, read), path, did_you_mean)
