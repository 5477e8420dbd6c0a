"""Files that a user names: read within limits, written completely or not at all.

No output takes the place of a file that others write to.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ext4audit.sources.timeouts import BoundedCalls, answered_for, undo

MOST_LINKS = 40
"""Symbolic links that the kernel follows in one path (path_resolution(7))."""


def own_stream(path: str) -> int | None:
    """Return the descriptor that a path names, None for what is no such path; raises OSError.

    What is behind it may be a file that others write to as well: `-o /dev/stdout >> log` must go
    on where the log ends, and not replace it.
    """
    own = Path(f"/proc/{os.getpid()}/fd")
    here = Path(path)
    for _ in range(MOST_LINKS):
        if here.name.isdecimal() and here.parent.resolve() == own:
            return int(here.name)
        if not here.is_symlink():
            return None
        here = here.parent / here.readlink()
    return None


PERMISSIONS = 0o666
"""The mode for open(2), from which the umask is subtracted."""


def why_not_writable(path: str) -> str | None:
    """Return why nothing can be written to a path, None where it can; raises OSError.

    A directory on a dead server does not even answer whether it is one: TimeoutError.
    """
    return answered_for(path, partial(_refusal, path))


def destination_identity(path: str) -> str | int:
    """Return the identity of a destination: equal for "a" and "./a"; raises OSError."""
    return answered_for(path, partial(_place, path))


def _place(path: str) -> str | int:
    stream = own_stream(path)
    if stream is None or _is_of_a_file(stream):
        return os.path.realpath(path)
    return stream


def _is_of_a_file(stream: int) -> bool:
    """Whether a descriptor is open and that of a regular file, which has a path."""
    try:
        return stat.S_ISREG(os.fstat(stream).st_mode)
    except OSError:
        return False


def read_bytes(path: str, largest_bytes: int) -> bytes:
    """Return the content of a file; raises OSError, and ValueError where it is longer."""
    found = answered_for(path, partial(_content, path, largest_bytes + 1))
    if len(found) > largest_bytes:
        raise ValueError(f"it is longer than {largest_bytes >> 20} MiB")
    return found


def _content(path: str, most_bytes: int) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(most_bytes)


def _refusal(path: str) -> str | None:
    if not path:
        return "is empty"
    if Path(path).is_dir():
        return "is a directory"
    if path.rpartition("/")[2] in {"", ".", ".."}:
        return "no such directory"
    if Path(path).is_block_device():
        # A slip of the hand: the report would be written over its first sectors.
        return "is a block device; output to block devices is refused"
    if _is_written_in_place(path):
        return None if os.access(path, os.W_OK) else "not writable"
    return _refusal_to_replace(path)


def _refusal_to_replace(path: str) -> str | None:
    """Return why no file can take the place of what is there, if it is there; raises OSError."""
    if Path(path).is_symlink() and Path(path).lstat().st_uid not in {0, os.geteuid()}:
        return "is a symbolic link of another user"
    folder = _file(path).parent
    if not folder.is_dir():
        return f"{folder}: no such directory"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"{folder}: not writable"
    return "belongs to another user" if os.geteuid() and _belongs_to_another(path) else None


def belongs_to_another(path: str) -> bool:
    """Whether a file is there that is not this user's; raises OSError (TimeoutError included)."""
    return answered_for(path, partial(_belongs_to_another, path))


def _belongs_to_another(path: str) -> bool:
    file = _file(path)
    return file.is_file() and file.stat().st_uid != os.geteuid()


Put = Callable[[bytes], object]


@contextmanager
def open_destination(path: str, *, is_private: bool = False) -> Iterator[Put]:
    """Yield what writes to a device or a pipe, or to a file beside the one that it replaces.

    The file appears when the block ends, and not at all when it raises. With `is_private` nobody
    but its owner can read it; else it has the owner and the mode of the one that it replaces.
    Raises OSError, and TimeoutError where the place does not answer.
    """
    stream = answered_for(path, partial(own_stream, path))
    if stream is not None:
        with os.fdopen(os.dup(stream), "wb") as file:
            yield file.write
    elif answered_for(path, partial(_is_written_in_place, path)):
        with Path(path).open("wb") as file:
            yield file.write
    else:
        with _replacing(path, is_private=is_private) as put:
            yield put


def _is_written_in_place(path: str) -> bool:
    """Whether it is a device, a pipe or an open stream, which cannot be renamed over."""
    return own_stream(path) is not None or (Path(path).exists() and not Path(path).is_file())


def _file(path: str) -> Path:
    """Return the file that a path means: renaming over /dev/stdout would replace the link."""
    return Path(os.path.realpath(path))


@contextmanager
def _replacing(path: str, *, is_private: bool) -> Iterator[Put]:
    """Write beside the file and rename, so that a reader never sees half of it.

    In a helper process, which removes what is not complete when it ends.
    """
    with closing(BoundedCalls()) as bounded:
        bounded(partial(_begin, path, is_private=is_private))
        try:
            yield lambda content: bounded(partial(_append, content))
            bounded(_complete)
        finally:
            bounded(_undo)


class _New(NamedTuple):
    """A file that is being written, the one whose place it takes, and whose it will be."""

    descriptor: int
    temporary: str
    target: Path
    is_private: bool


_new: list[_New] = []
"""In the helper process: the file that it writes."""


def _begin(path: str, *, is_private: bool) -> None:
    target = _file(path)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=".ext4audit.")
    undo.callback(Path(temporary).unlink, missing_ok=True)
    _new.append(_New(descriptor, temporary, target, is_private))


def _append(content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(_begun().descriptor, rest) :]


def _complete() -> None:
    new = _begun()
    if not new.is_private:
        _copy_owner_and_mode(new.descriptor, new.target)
    os.fsync(new.descriptor)
    os.close(new.descriptor)
    Path(new.temporary).replace(new.target)


def _undo() -> None:
    """Remove what is not complete; nothing is there in a helper that took over from another."""
    _new.clear()
    undo.close()


def _begun() -> _New:
    if not _new:
        raise OSError(errno.ESTALE, "the process that writes it has ended")
    return _new[-1]


def _copy_owner_and_mode(descriptor: int, target: Path) -> None:
    """Give a new file the owner and the mode of the file that it replaces; raises OSError.

    By its descriptor: in a directory of another user its name may mean another file by now.
    """
    if not target.exists():
        os.fchmod(descriptor, PERMISSIONS & ~_umask())
        return
    old, new = target.stat(), os.fstat(descriptor)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, old.st_mode & 0o777)


def _umask() -> int:
    """Return the umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
