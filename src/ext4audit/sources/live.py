"""The live source: this host, read-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.sources import commands, files, ioctls, paths, raw_reads, system
from ext4audit.sources.ask import (
    Answer,
    Ask,
    BytesAsk,
    CapturedDumpe2fs,
    EffectiveUser,
    FilesystemUuid,
    ListDir,
    ReadBytes,
    ReadFile,
    RealPath,
    ResolvePath,
    RunCommand,
    StatFilesystem,
    TextAsk,
    TuneSuperblock,
    UdevDatabase,
    Uname,
    VirtualMemory,
    describe,
)
from ext4audit.sources.bounded import bounded
from ext4audit.sources.udev import UdevReader
from ext4audit.sources.unanswered import Unanswered, from_os_error

# Superblocks and single descriptor blocks are kept; all descriptors of 64 TiB are 32 MiB.
_LONGEST_KEPT_BYTES = 64 << 10


class LiveSource:
    """Answers asks from the host that this process runs on.

    Each ask is answered once: what one scan reads, it reads at one moment. Bytes by the megabyte
    are the exception: they are read again rather than kept. Nothing is opened for writing. A block
    device is opened for `ReadBytes` only, and read through the page cache. `timeout_seconds`
    bounds each program, and each look at a path that may lie on a dead server. `search_path` is
    where programs are looked up; tests put directories of their own there.
    """

    def __init__(
        self,
        timeout_seconds: float = 20.0,
        *,
        search_path: Sequence[str] = commands.SYSTEM_PATH,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._search_path = tuple(search_path)
        self._udev = UdevReader()
        self._answers: dict[Ask, Answer] = {}

    @overload
    def fetch(self, ask: TextAsk) -> Evidence[str]: ...
    @overload
    def fetch(self, ask: BytesAsk) -> Evidence[bytes]: ...
    def fetch(self, ask: Ask) -> Answer:
        """Answer an ask; never raises for what the host lacks.

        Raises ValueError for a program that is not of the allow-list.
        """
        if isinstance(ask, ReadBytes) and ask.length_bytes > _LONGEST_KEPT_BYTES:
            return self._answer(ask)
        if ask not in self._answers:
            self._answers[ask] = self._answer(ask)
        return self._answers[ask]

    def _answer(self, ask: Ask) -> Answer:
        """Turn what the host lacks into an Unknown."""
        what = describe(ask)
        try:
            if isinstance(ask, TuneSuperblock | FilesystemUuid | ReadBytes):
                return Known(self._bytes(ask), what)
            return Known(self._text(ask), what)
        except Unanswered as lack:
            return _hole(what, lack)
        except OSError as error:
            return _hole(what, from_os_error(error))

    def _text(self, ask: TextAsk) -> str:  # noqa: C901, PLR0911 - one line an ask
        match ask:
            case ReadFile(path):
                return files.read_file(path)
            case ListDir(path):
                return files.list_directory(path)
            case RunCommand(argv):
                return commands.run_command(argv, self._timeout_seconds, self._search_path)
            case Uname():
                return system.uname()
            case VirtualMemory():
                return system.virtual_memory()
            case EffectiveUser():
                return system.effective_user()
            case UdevDatabase(device_number):
                return self._udev.properties(device_number)
            case ResolvePath(path):
                return bounded(lambda: paths.resolve_path(path), self._timeout_seconds)
            case RealPath(path):
                return bounded(lambda: paths.real_path(path), self._timeout_seconds)
            case StatFilesystem(path):
                return bounded(lambda: paths.stat_filesystem(path), self._timeout_seconds)
            case CapturedDumpe2fs():
                raise Unanswered(Why.UNSUPPORTED, "it would read every bitmap of the device")

    def _bytes(self, ask: BytesAsk) -> bytes:
        match ask:
            case TuneSuperblock(path):
                return bounded(lambda: ioctls.tune_superblock(path), self._timeout_seconds)
            case FilesystemUuid(path):
                return bounded(lambda: ioctls.filesystem_uuid(path), self._timeout_seconds)
            case ReadBytes(path, offset_bytes, length_bytes):
                return bounded(
                    lambda: raw_reads.read_bytes(path, offset_bytes, length_bytes),
                    self._timeout_seconds,
                )


def _hole(what: str, lack: Unanswered) -> Unknown:
    return Unknown(what, lack.why, lack.detail, lack.hint)
