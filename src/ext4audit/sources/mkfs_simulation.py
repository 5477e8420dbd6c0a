"""A source for a planned filesystem, which the real mke2fs creates in memory.

The device is an anonymous sparse file in memory (memfd_create(2)): it leaves nothing behind, needs
no privileges, and may have any size. mke2fs is looked up in the system directories, runs without a
shell, and writes to that file only.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from types import TracebackType

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources import (
    SYSTEM_PATH,
    Answer,
    Ask,
    EndsEarly,
    ReadBytes,
    RunCommand,
    Source,
    Unanswered,
    VirtualMemory,
    decode,
    describe,
    encode,
    from_os_error,
)
from ext4audit.sources.live.commands import locate
from ext4audit.sources.live.files import virtual_memory

MOST_BYTES = 300 << 20
"""The memory limit of the file: enough for the group descriptor copies of 20 TiB by default."""
_ADDRESS_SPACE_BYTES = 2 << 30
"""The address space limit of mke2fs, which uses 143 MB for 256 TiB."""
_POLL_SECONDS = 0.002
_OUTPUT_BYTES = 1 << 20
_PROGRAM = "mke2fs"
_BEFORE_THE_CAUSE = (
    "mke2fs 1.",
    "fs_types for mke2fs.conf",
    "Warning:",
    "16 times the block size is considered experimental",
    "128-byte inodes cannot handle dates beyond 2038",
    "Extents are not enabled.",
    "64-bit filesystem support is not enabled.",
    "Filesystem too small for a journal",
)
"""What mke2fs 1.47.0 prints and goes on; the second line of a warning does not say so."""
_LONGEST_CAUSE = 400


class MkfsSource(Source, AbstractContextManager["MkfsSource"]):
    """Answers `RunCommand(("mke2fs", …))` and then `ReadBytes` of the created filesystem.

    `path` is the name of the planned device; in commands and asks, it refers to the file. Answers
    are not cached, because mke2fs changes the file. All other asks are ABSENT, except the memory of
    this machine. `configuration` is the path of an mke2fs.conf(5) to use in place of this
    machine's. Use this class in a `with` statement, which frees the memory at its end.
    """

    def __init__(
        self,
        path: str,
        size_bytes: int,
        *,
        timeout_seconds: float,
        configuration: str | None = None,
        search_path: Sequence[str] = SYSTEM_PATH,
    ) -> None:
        self._path = path
        self._timeout_seconds = timeout_seconds
        self._configuration = configuration
        self._search_path = search_path
        self._file = os.memfd_create("planned", os.MFD_CLOEXEC)
        self._size_bytes = size_bytes

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Free the memory."""
        os.close(self._file)

    def answer(self, ask: Ask) -> Answer:
        """Answer an ask; if mke2fs refuses, the answer is FAILED with its message."""
        what = describe(ask)
        try:
            match ask:
                case ReadBytes(path, offset_bytes, length_bytes) if path == self._path:
                    return Known(self._read(offset_bytes, length_bytes), f"{what}, simulated")
                case RunCommand(argv) if argv[:1] == (_PROGRAM,):
                    return Known(self._run(argv[1:]), what)
                case VirtualMemory():
                    return Known(virtual_memory(), what)
        except Unanswered as unanswered:
            return unanswered.unknown(what)
        except OSError as error:
            return from_os_error(error).unknown(what)
        return Unknown(what, Why.ABSENT, "the filesystem is only planned")

    def _read(self, offset_bytes: int, length_bytes: int) -> bytes:
        found = os.pread(self._file, length_bytes, offset_bytes)
        if len(found) < length_bytes:
            raise EndsEarly(len(found), length_bytes)
        return found

    def _run(self, arguments: Sequence[str]) -> str:
        """Run mke2fs on an empty file and return its output; raises Unanswered if it fails."""
        os.ftruncate(self._file, 0)
        os.ftruncate(self._file, self._size_bytes)
        device = f"/proc/self/fd/{self._file}"
        argv = [
            locate(_PROGRAM, self._search_path, "e2fsprogs"),
            *(device if argument == self._path else argument for argument in arguments),
        ]
        status, printed = self._finish([encode(argument) for argument in argv])
        if status < 0:
            # Not a refusal by mke2fs: the kernel kills the largest process if memory runs out.
            raise Unanswered(Why.UNSUPPORTED, f"mke2fs was killed by signal {-status}")
        if status != 0:
            cause = _cause(printed).replace(device, self._path)
            raise Unanswered(Why.FAILED, cause or f"mke2fs ended with status {status}")
        return printed

    def _environment(self) -> dict[str, str]:
        chosen = {"MKE2FS_CONFIG": self._configuration} if self._configuration else {}
        return {"PATH": ":".join(SYSTEM_PATH), "LC_ALL": "C", "LANG": "C", **chosen}

    def _finish(self, argv: Sequence[bytes]) -> tuple[int, str]:
        """Return a program's exit status and output, which goes to memory: no pipe can fill."""
        output = os.memfd_create("output", os.MFD_CLOEXEC)
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env=self._environment(),
                start_new_session=True,
                pass_fds=(self._file,),
            )
            try:
                status = self._wait(process)
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            return status, decode(os.pread(output, _OUTPUT_BYTES, 0))
        finally:
            os.close(output)

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        """Return the exit status; raises if mke2fs exceeds the time or memory limit.

        Limiting the device size is not enough: with `-O ^sparse_super`, which copies the
        descriptors into every group, 2 TiB would take 64 GiB.
        """
        with suppress(ProcessLookupError):
            limits = (_ADDRESS_SPACE_BYTES, _ADDRESS_SPACE_BYTES)
            resource.prlimit(process.pid, resource.RLIMIT_AS, limits)
        deadline = time.monotonic() + self._timeout_seconds
        while process.poll() is None:
            if os.fstat(self._file).st_blocks * 512 > MOST_BYTES:
                raise Unanswered(
                    Why.UNSUPPORTED, f"the simulation takes more than {MOST_BYTES >> 20} MiB"
                )
            if time.monotonic() > deadline:
                raise TimeoutError(f"mke2fs did not end within {self._timeout_seconds:g} s")
            time.sleep(_POLL_SECONDS)
        return process.returncode


def _cause(printed: str) -> str:
    """Return the first paragraph of mke2fs's output that is neither a banner nor a warning."""
    for paragraph in printed.split("\n\n"):
        lines = [line.strip() for line in paragraph.split("\n")]
        cause = [line for line in lines if line and not line.startswith(_BEFORE_THE_CAUSE)]
        if cause:
            return " ".join(cause)[:_LONGEST_CAUSE]
    return ""
