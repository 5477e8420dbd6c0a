"""The live source: answers asks from this host, read-only.

It reads files, uname, memory, and the udev properties of block devices by libudev.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from ext4audit import evidence
from ext4audit.evidence import Known, Why
from ext4audit.sources import (
    DEFAULT_DEADLINE_SECONDS,
    SYSTEM_PATH,
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
    Source,
    StatFilesystem,
    TextAsk,
    TuneSuperblock,
    UdevDatabase,
    Uname,
    Unanswered,
    VirtualMemory,
    decode,
    describe,
    from_os_error,
)
from ext4audit.sources.live import commands, files
from ext4audit.sources.live.files import open_checked, virtual_memory
from ext4audit.sources.timeouts import BoundedCalls, WaitBudget, calls_of_run

_TUNE_SUPERBLOCK_BYTES = 232
_UUID_BYTES = 16
_NOT_OFFERED = {errno.ENOTTY, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}

# Machines of include/uapi/asm-generic/ioctl.h. alpha, mips, parisc, powerpc and sparc encode the
# direction in other bits: there these numbers are other requests, so nothing is sent.
_COMMON_ENCODING = r"x86_64|i[3-6]86|aarch64|arm.*|riscv.*|s390x?|loongarch64"


def tune_superblock(mount_point: str) -> bytes:
    """Return `struct ext4_tune_sb_params` (fs/ext4/ioctl.c, Linux 6.18), as the kernel fills it.

    Raises Unanswered where the kernel or the filesystem has no such request, OSError.
    """
    request = read_request(ord("f"), 45, _TUNE_SUPERBLOCK_BYTES)
    return _ask(mount_point, request, _TUNE_SUPERBLOCK_BYTES, "needs ext4 and Linux 6.18 or newer")


def filesystem_uuid(mount_point: str) -> bytes:
    """Return the UUID of `struct fsuuid2` (include/uapi/linux/fs.h, Linux 6.9).

    Raises Unanswered where the kernel or the filesystem has no UUID to give, OSError.
    """
    hint = "needs a filesystem with a UUID and Linux 6.9 or newer"
    answer = _ask(mount_point, read_request(0x15, 0, 1 + _UUID_BYTES), 1 + _UUID_BYTES, hint)
    if answer[0] != _UUID_BYTES:
        raise Unanswered(Why.UNSUPPORTED, f"the UUID is {answer[0]} bytes long", hint)
    return answer[1:]


def read_request(kind: int, number: int, size_bytes: int) -> int:
    """Return `_IOR(kind, number, size)` in the common encoding."""
    return 2 << 30 | size_bytes << 16 | kind << 8 | number


def has_common_encoding(machine: str) -> bool:
    """Whether uname's machine encodes ioctl numbers as asm-generic does."""
    return re.fullmatch(_COMMON_ENCODING, machine) is not None


def _ask(mount_point: str, request: int, size_bytes: int, hint: str) -> bytes:
    machine = os.uname().machine
    if not has_common_encoding(machine):
        raise Unanswered(Why.UNSUPPORTED, f"ioctl numbers of {machine} are not known here")
    answer = bytearray(size_bytes)
    descriptor = open_checked(mount_point, _can_be_mount_point, "a mount point")
    try:
        fcntl.ioctl(descriptor, request, answer)
    except OSError as error:
        if error.errno not in _NOT_OFFERED:
            raise
        raise Unanswered(Why.UNSUPPORTED, error.strerror or str(error), hint) from None
    finally:
        os.close(descriptor)
    return bytes(answer)


def _can_be_mount_point(mode: int) -> bool:
    """Whether a mode is of a directory, or of the file that containers bind (/etc/hosts)."""
    return stat.S_ISDIR(mode) or stat.S_ISREG(mode)


# Superblocks and single descriptor blocks are kept; all descriptors of 64 TiB are 32 MiB.
_LONGEST_KEPT_BYTES = 64 << 10
OF_THE_KERNEL = ("/proc/", "/sys/")
"""Answered from memory; every other path may lie on a server that is gone."""
_OF_THIS_PROCESS = (Uname, EffectiveUser, VirtualMemory)
"""Answered at any time: a report that was cut at its deadline still says of which host it is."""
READING = "reading"
R = TypeVar("R")


class LiveSource(Source):
    """Answers asks from the host that this process runs on.

    Each ask is answered once: what one scan reads, it reads at one moment. Bytes by the megabyte
    are the exception: they are read again rather than kept. Nothing is opened for writing. A block
    device is opened for `ReadBytes` only, and read through the page cache. `timeout_seconds`
    bounds each program, and each access to a path that may lie on a dead server. What was not
    read `deadline_seconds` after the source was made is unknown. What hung for a device or path is
    not asked about it again, and `WaitBudget` bounds what all hangs take. `search_path` is where
    programs are looked up; tests put directories of their own there. `mounts_of` is the process
    whose mount table is read, by default this one.
    """

    def __init__(
        self,
        timeout_seconds: float = 20.0,
        *,
        deadline_seconds: float = DEFAULT_DEADLINE_SECONDS,
        search_path: Sequence[str] = SYSTEM_PATH,
        mounts_of: int | None = None,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._deadline_seconds = deadline_seconds
        self._ends_at = monotonic() + deadline_seconds
        self._own_calls = BoundedCalls(timeout_seconds)
        self._calls = calls_of_run(self._own_calls)
        self._wait_budget = WaitBudget(timeout_seconds)
        self._search_path = tuple(search_path)
        self._mounts_of = mounts_of
        self._udev = UdevReader()
        self._answers: dict[Ask, Answer] = {}

    def answer(self, ask: Ask) -> Answer:
        """Answer an ask; never raises for anything that the host lacks.

        Raises ValueError for a program that is not of the allow-list.
        """
        if isinstance(ask, ReadBytes) and ask.length_bytes > _LONGEST_KEPT_BYTES:
            return self._answer(ask)
        answer = self._answers.get(ask)
        if answer is None:
            answer = self._answers[ask] = self._answer(ask)
        return answer

    def close(self) -> None:
        """End the process that reads files, which a long-running program would collect."""
        self._own_calls.end()

    def _answer(self, ask: Ask) -> Answer:
        """Answer an ask from the host; anything that the host lacks is an Unknown."""
        what = describe(ask)
        try:
            if not isinstance(ask, _OF_THIS_PROCESS):
                self._seconds()
            if isinstance(ask, TuneSuperblock | FilesystemUuid | ReadBytes):
                return Known(self._bytes(ask), what)
            return Known(self._text(ask), what)
        except Unanswered as unanswered:
            return unanswered.unknown(what)
        except OSError as error:
            return from_os_error(error).unknown(what)

    def _seconds(self) -> float:
        """Return how long one answer may take; raises Unanswered when the deadline has passed."""
        left = self._ends_at - monotonic()
        if left <= 0:
            detail = f"not read within the {self._deadline_seconds:g} s limit of the audit"
            raise Unanswered(Why.TIMED_OUT, detail, "use a longer --deadline")
        return min(left, self._timeout_seconds)

    def _waited(self, means: str, place: str, call: Callable[[float], R]) -> R:
        """Return what `call` returns within its seconds; raises Unanswered, OSError."""
        seconds = min(self._seconds(), self._wait_budget.seconds(means, place))
        began = monotonic()
        try:
            return call(seconds)
        except TimeoutError as error:
            what = f"{means} {place}: {error}" if place else str(error)
            self._wait_budget.lost(means, place, monotonic() - began, what)
            raise

    def _bounded(self, place: str, call: Callable[[], R]) -> R:
        """Make a call about a path or device in a process that can be left behind."""
        return self._waited(READING, place, lambda seconds: self._calls(call, seconds))

    def _run(self, argv: tuple[str, ...]) -> str:
        """Run a program; raises Unanswered, OSError, ValueError."""
        device = argv[-1] if argv[:1] == ("dumpe2fs",) else ""
        return self._waited(
            " ".join(argv[:1]),
            device,
            lambda seconds: commands.run_command(argv, seconds, self._search_path),
        )

    def _text(self, ask: TextAsk) -> str:  # noqa: C901, PLR0911 - one line an ask
        match ask:
            case ReadFile(evidence.MOUNT_TABLE) if self._mounts_of is not None:
                return files.read_mount_table(files.table_of(self._mounts_of))
            case ReadFile(path):
                return self._of_path(path, files.read_file)
            case ListDir(path):
                return self._of_path(path, files.list_directory)
            case RunCommand(argv):
                return self._run(argv)
            case Uname():
                return uname()
            case VirtualMemory():
                return virtual_memory()
            case EffectiveUser():
                return effective_user()
            case UdevDatabase(device_number):
                return self._udev.properties(device_number)
            case ResolvePath(path):
                return self._resolved(path)
            case RealPath(path):
                return self._bounded(path, partial(files.real_path, path))
            case StatFilesystem(path):
                return self._bounded(path, partial(files.stat_filesystem, path))
            case CapturedDumpe2fs():
                raise Unanswered(Why.UNSUPPORTED, "it would read every bitmap of the device")

    def _resolved(self, path: str) -> str:
        """Resolve a path, with the mount id of the table that is read."""
        found = self._bounded(path, partial(files.resolve_path, path))
        if self._mounts_of is None:
            return found
        return files.translated(found, files.read_mount_table, self._mounts_of)

    def _of_path(self, path: str, read: Callable[[str], str]) -> str:
        """Read a path, one of the kernel's own tables in this thread: they are read by the 100."""
        if path.startswith(OF_THE_KERNEL):
            return read(path)
        return self._bounded(path, partial(read, path))

    def _bytes(self, ask: BytesAsk) -> bytes:
        match ask:
            case TuneSuperblock(path):
                return self._bounded(path, partial(tune_superblock, path))
            case FilesystemUuid(path):
                return self._bounded(path, partial(filesystem_uuid, path))
            case ReadBytes(path, offset_bytes, length_bytes):
                call = partial(files.read_bytes, path, offset_bytes, length_bytes)
                return self._bounded(path, call)


def uname() -> str:
    """Return release, version, machine and node name, one a line.

    The node name is last: it is the only one that can hold a newline.
    """
    name = os.uname()
    return f"{name.release}\n{name.version}\n{name.machine}\n{name.nodename}"


def effective_user() -> str:
    """Return the effective user id in decimal."""
    return str(os.geteuid())


DATABASE = "/run/udev/data"
_HINT = "install libudev (Debian: libudev1, RHEL: systemd-libs)"


class UdevReader:
    """Reads properties through one libudev context, made when it is first needed.

    udev's properties are optional; sysfs is authoritative. Where no udevd has stored anything there
    are only the kernel's own properties (DEVNAME, MAJOR, …), which sysfs has too: libudev and
    pyudev are then not loaded (5 MiB and 17 ms of every scan in a container).
    `database` is where udevd stores them; tests name an existing directory.
    """

    def __init__(self, database: str | os.PathLike[str] = DATABASE) -> None:
        self._database = database
        self._context: Any = None

    def properties(self, device_number: str) -> str:
        """Return the properties of the block device "major:minor"; raises Unanswered."""
        pair = re.fullmatch(r"([0-9]{1,10}):([0-9]{1,10})", device_number)
        if pair is None:
            raise Unanswered(Why.FAILED, "not a device number: major:minor")
        if not os.path.isdir(self._database):  # noqa: PTH112 - pathlib costs a scan its start
            raise Unanswered(Why.ABSENT, f"no udevd has run here: no {self._database}")
        device = self._device(int(pair[1]), int(pair[2]))
        return property_lines(device.properties)

    def _device(self, major: int, minor: int) -> Any:  # noqa: ANN401 - pyudev has no types
        if self._context is None:
            self._context = _new_context()
        from pyudev import DeviceNotFoundError, Devices  # noqa: PLC0415 - 17 ms, see _new_context

        try:
            number = os.makedev(major, minor)
            return Devices.from_device_number(self._context, "block", number)
        except DeviceNotFoundError as error:
            raise Unanswered(Why.ABSENT, f"no block device {major}:{minor}") from error
        except OverflowError as error:
            raise Unanswered(Why.ABSENT, f"no such device number: {error}") from error


def _new_context() -> Any:  # noqa: ANN401 - pyudev has no types
    """Load libudev; raises Unanswered where it is absent (ImportError) or damaged (OSError).

    The library is tried by its name first. Where it is absent, pyudev would go on to search
    with `gcc` and `ld` from the user's PATH, and an audit runs as root.
    """
    import ctypes  # noqa: PLC0415 - with pyudev 17 ms, paid by scans of this host only

    try:
        ctypes.CDLL("libudev.so.1")
        import pyudev  # noqa: PLC0415 - the same

        return pyudev.Context()
    except (ImportError, OSError) as error:
        raise Unanswered(Why.UNSUPPORTED, str(error), _HINT) from error


def property_lines(properties: Mapping[str, str]) -> str:
    r"""Return KEY=value lines, sorted.

    A newline in a key or value is written `\x0a`, as udev writes what it encodes: a disk label
    must not make a line of its own.
    """
    lines = sorted(f"{key}={_value(properties, key)}" for key in properties)
    return "\n".join(line.replace("\n", "\\x0a") for line in lines)


def _value(properties: Mapping[str, str], key: str) -> str:
    """Return a property, also one that is not UTF-8.

    pyudev decodes strictly: one label with the byte 0xFF raised UnicodeDecodeError. The
    exception carries the bytes.
    """
    try:
        return properties[key]
    except UnicodeDecodeError as error:
        return decode(bytes(error.object))
