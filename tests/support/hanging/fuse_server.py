"""A FUSE server that shows a directory until it stops answering.

`python fuse_server.py MOUNT_POINT DIRECTORY REQUEST COUNT MARK` mounts, prints a line, and answers
COUNT requests of the kind REQUEST (a name in REQUESTS). Later requests are read and never answered,
as by a server that has lost its network; the first one creates the file MARK. The server implements
the kernel's protocol (include/uapi/linux/fuse.h, 7.31), so that no library is needed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from pathlib import Path

REQUESTS = {
    "lookup": 1,
    "forget": 2,
    "getattr": 3,
    "open": 14,
    "read": 15,
    "write": 16,
    "release": 18,
    "fsync": 20,
    "flush": 25,
    "init": 26,
    "opendir": 27,
    "readdir": 28,
    "releasedir": 29,
    "setattr": 4,
    "unlink": 10,
    "create": 35,
    "interrupt": 36,
    "batch_forget": 42,
}
NAMES = {number: name for name, number in REQUESTS.items()}
UNANSWERED = {"forget", "batch_forget", "interrupt"}
HEADER = struct.Struct("<IIQQIIII")
SECONDS = 0
"""How long the kernel may cache names and attributes: 0, so that it sends each request."""


class Server:
    """Answers requests about the files below a directory."""

    def __init__(self, device: int, top: str) -> None:
        """Register the top directory, which is node 1."""
        self.device = device
        self.paths = {1: top}

    def node(self, path: str) -> int:
        """Return the node number of a path."""
        for number, known in self.paths.items():
            if known == path:
                return number
        self.paths[len(self.paths) + 1] = path
        return len(self.paths)

    def attributes(self, path: str) -> bytes:
        """Return struct fuse_attr of a path."""
        found = os.lstat(path)
        times = (0, 0, 0, 0, 0, 0)
        numbers = (found.st_mode, 1, found.st_uid, found.st_gid, 0, 4096, 0)
        size = found.st_size
        return struct.pack("<QQQQQQIIIIIIIIII", found.st_ino, size, size, *times, *numbers)

    def entry(self, path: str) -> bytes:
        """Return struct fuse_entry_out of a path."""
        start = struct.pack("<QQQQII", self.node(path), 0, SECONDS, SECONDS, 0, 0)
        return start + self.attributes(path)

    def answer(self, kind: str, node: int, body: bytes) -> bytes:  # noqa: C901, PLR0911 - a case each
        """Return the answer to a request; raises OSError if it fails."""
        path = self.paths.get(node, "")
        match kind:
            case "init":
                return struct.pack("<IIIIHHIIHHI28x", 7, 31, 65536, 0, 12, 9, 65536, 1, 16, 0, 0)
            case "lookup":
                return self.entry(f"{path}/{body.rstrip(bytes(1)).decode()}")
            case "getattr":
                return struct.pack("<QII", SECONDS, 0, 0) + self.attributes(path)
            case "open" | "opendir":
                return struct.pack("<QII", 0, 1, 0)  # FOPEN_DIRECT_IO
            case "create":
                path = f"{path}/{body[16:].rstrip(bytes(1)).decode()}"
                Path(path).touch()
                return self.entry(path) + struct.pack("<QII", 0, 1, 0)
            case "read":
                _, offset, size = struct.unpack_from("<QQI", body)
                return Path(path).read_bytes()[offset : offset + size]
            case "write":
                return struct.pack("<II", struct.unpack_from("<QQI", body)[2], 0)
            case "setattr":
                return struct.pack("<QII", SECONDS, 0, 0) + self.attributes(path)
            case "unlink":
                Path(path, body.rstrip(bytes(1)).decode()).unlink()
                return b""
            case "readdir":
                return self.names(path, struct.unpack_from("<QQ", body)[1])
            case "release" | "releasedir" | "flush" | "fsync":
                return b""
        raise OSError(errno.ENOSYS, kind)

    def names(self, path: str, offset: int) -> bytes:
        """Return struct fuse_dirent for every name in a directory, starting at an offset."""
        found = bytearray()
        for number, name in enumerate(sorted(os.listdir(path))):  # noqa: PTH208 - names
            if number >= offset:
                raw = name.encode()
                found += struct.pack("<QQII", 1, number + 1, len(raw), 0) + raw
                found += bytes(-len(found) % 8)
        return bytes(found)

    def serve(self, last: str, left: int, mark: Path) -> None:
        """Answer `left` requests of the kind `last`; then create `mark` and answer none."""
        while True:
            request = os.read(self.device, 1 << 20)
            _, number, unique, node, *_ = HEADER.unpack_from(request)
            kind = NAMES.get(number, "")
            left -= kind == last
            if left < 0:
                mark.touch()
            elif kind not in UNANSWERED:
                self.reply(unique, kind, node, request[HEADER.size :])

    def reply(self, unique: int, kind: str, node: int, body: bytes) -> None:
        """Send the answer, or the error, to a request."""
        try:
            error, found = 0, self.answer(kind, node, body)
        except OSError as failed:
            error, found = failed.errno or errno.EIO, b""
        os.write(self.device, struct.pack("<IiQ", 16 + len(found), -error, unique) + found)


def main() -> None:
    """Mount and serve until killed."""
    place, top, last, left, mark = sys.argv[1:]
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"hung", os.fsencode(place), b"fuse.hung", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "mount")
    print("mounted", flush=True)
    Server(device, top).serve(last, int(left), Path(mark))


if __name__ == "__main__":
    main()
