"""Files that a user names: reads have a size limit, and writes are atomic.

Output never replaces a file that other programs write to.
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

from ext4audit.sources import read_most
from ext4audit.sources.timeouts import BoundedCalls, answered_for, undo

MOST_LINKS = 40
"""The number of symbolic links that the kernel follows in one path (path_resolution(7))."""


def own_stream(path: str) -> int | None:
    """Return the open descriptor that a path names, None for other paths; raises OSError.

    The descriptor may refer to a file that others also write to: `-o /dev/stdout >> log` must
    append to the log, not replace it.
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
"""The mode of new files before the umask is applied, as for open(2)."""


def why_not_writable(path: str) -> str | None:
    """Return why a path cannot be written, None if it can; raises OSError.

    Raises TimeoutError if the path does not respond, for example on a dead file server.
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
    """Return whether a descriptor is open and refers to a regular file, which has a path."""
    try:
        return stat.S_ISREG(os.fstat(stream).st_mode)
    except OSError:
        return False


def read_bytes(path: str, largest_bytes: int) -> bytes:
    """Return the content of a file; raises OSError, or ValueError if it exceeds the limit."""
    found = answered_for(path, partial(_content, path, largest_bytes + 1))
    if len(found) > largest_bytes:
        raise ValueError(f"it is longer than {largest_bytes >> 20} MiB")
    return found


def _content(path: str, most_bytes: int) -> bytes:
    with Path(path).open("rb") as file:
        return read_most(file, most_bytes)


def _refusal(path: str) -> str | None:
    if not path:
        return "is empty"
    if Path(path).is_dir():
        return "is a directory"
    if path.rpartition("/")[2] in {"", ".", ".."}:
        return "no such directory"
    if Path(path).is_block_device():
        # Probably a typing error: the report would overwrite the first sectors.
        return "is a block device; output to block devices is refused"
    if _is_written_in_place(path):
        return None if os.access(path, os.W_OK) else "not writable"
    return _refusal_to_replace(path)


def _refusal_to_replace(path: str) -> str | None:
    """Return why a file cannot be created or replaced, None if it can; raises OSError."""
    if Path(path).is_symlink() and Path(path).lstat().st_uid not in {0, os.geteuid()}:
        return "is a symbolic link of another user"
    folder = _file(path).parent
    if not folder.is_dir():
        return f"{folder}: no such directory"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"{folder}: not writable"
    return "belongs to another user" if os.geteuid() and _belongs_to_another(path) else None


def belongs_to_another(path: str) -> bool:
    """Return whether the file exists and has another owner; raises OSError or TimeoutError."""
    return answered_for(path, partial(_belongs_to_another, path))


def _belongs_to_another(path: str) -> bool:
    file = _file(path)
    return file.is_file() and file.stat().st_uid != os.geteuid()


Put = Callable[[bytes], object]


@contextmanager
def open_destination(path: str, *, is_private: bool = False) -> Iterator[Put]:
    """Yield a function that writes to a stream, device or pipe, or to a new file.

    A new file replaces the old one when the block ends, unless the block raises. With `is_private`
    only its owner can read it; otherwise it gets the owner and mode of the file that it replaces.
    Raises OSError, or TimeoutError if the path does not respond.
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
    """Return whether a path is a device, pipe or open stream, which a rename must not replace."""
    return own_stream(path) is not None or (Path(path).exists() and not Path(path).is_file())


def _file(path: str) -> Path:
    """Return the resolved path: renaming over /dev/stdout would replace the symbolic link."""
    return Path(os.path.realpath(path))


@contextmanager
def _replacing(path: str, *, is_private: bool) -> Iterator[Put]:
    """Write a temporary file and rename it, so that readers never see a partial file.

    A helper process does this; it removes an incomplete file when it ends.
    """
    with closing(BoundedCalls()) as bounded:
        bounded(partial(_begin, path, is_private=is_private))
        try:
            yield lambda content: bounded(partial(_append, content))
            bounded(_complete)
        finally:
            bounded(_undo)


class _New(NamedTuple):
    """A temporary file that is being written, and the target file that it will replace."""

    descriptor: int
    temporary: str
    target: Path
    is_private: bool


_new: list[_New] = []
"""The file that the helper process is writing; used only in that process."""


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
    """Remove an incomplete file; does nothing in a helper process that replaced another."""
    _new.clear()
    undo.close()


def _begun() -> _New:
    if not _new:
        raise OSError(errno.ESTALE, "the process that writes it has ended")
    return _new[-1]


def _copy_owner_and_mode(descriptor: int, target: Path) -> None:
    """Copy the owner and mode of the replaced file to the new file; raises OSError.

    Uses the descriptor: in another user's directory, the name may refer to another file by now.
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
