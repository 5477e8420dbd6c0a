"""The catalogue of asks, which a source answers with text, bytes or the reason why it cannot.

Text is UTF-8 in any locale: under LC_ALL=en_US.ISO-8859-1, os.fsencode would encode a name from
mountinfo to different bytes, and the file would be "not found".
"""

from __future__ import annotations

import errno
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import BinaryIO, TypeAlias, cast, overload

from ext4audit.evidence import OUTSIDE, CaptureHint, Evidence, Truncated, Unknown, Why


@dataclass(frozen=True, slots=True)
class _OfHost:
    """An ask without parameters. Asks compare equal if their classes and parameters are equal."""


@dataclass(frozen=True, slots=True)
class _OfPath:
    """An ask about a path."""

    path: str


@dataclass(frozen=True, slots=True)
class _OfMountPoint:
    """An ask about the filesystem at a mount point."""

    mount_point: str


class ReadFile(_OfPath):
    """The text of a file, decoded as UTF-8 with surrogateescape."""


class ListDir(_OfPath):
    """The names in a directory, sorted, separated by NUL because a name may contain newlines."""


@dataclass(frozen=True, slots=True)
class RunCommand:
    """The standard output of an allow-listed program, run without a shell.

    `argv[0]` is the bare program name. A non-zero exit status gives Unknown(FAILED), or
    Unknown(DENIED) if the program reports a refusal; the detail is the line with the cause and the
    status. `systemd-detect-virt` is Known on bare metal, where it prints "none" and exits with 1.
    `dmsetup` only runs with `table`, `info`, `ls` or `deps` in `argv[1]`, or `status --noflush`.
    """

    argv: tuple[str, ...]


class Uname(_OfHost):
    """`release`, `version`, `machine` and `nodename` from uname(2), one per line, in this order.

    There is no trailing newline. A node name may contain newlines: split at the first three.
    """


class VirtualMemory(_OfHost):
    """`total` and `available` memory in bytes, one per line, in this order."""


class EffectiveUser(_OfHost):
    """The effective user id as a decimal number."""


@dataclass(frozen=True, slots=True)
class UdevDatabase:
    r"""The udev properties of the block device "major:minor", one KEY=value per line.

    Lines are sorted by key. A newline in a value is written as `\x0a`; other control characters
    are kept, so split lines at newlines only.
    """

    device_number: str


class ResolvePath(_OfPath):
    """The file at a path, identified with O_PATH and /proc/self/fdinfo without opening it.

    KEY=value lines: `mount_id`, `device_number` (st_dev of the filesystem), `type` (file,
    directory, block or other) and, for a block device node only, `represents` (its number).
    """


class RealPath(_OfPath):
    """The canonical absolute form of a path, with symbolic links resolved (realpath(3))."""


class StatFilesystem(_OfPath):
    """The statvfs(3) figures of the filesystem at a path, read through O_PATH without opening it.

    One line of fields separated by spaces: the filesystem's device number (st_dev), f_frsize,
    f_blocks, f_bfree, f_bavail, f_files, f_ffree.
    """


class TuneSuperblock(_OfMountPoint):
    """The 232 bytes of EXT4_IOC_GET_TUNE_SB_PARAM for the filesystem at a mount point.

    The ioctl (fs/ext4/ioctl.c, Linux 6.18) needs neither root nor an open block device.
    """


class FilesystemUuid(_OfMountPoint):
    """The 16 bytes of FS_IOC_GETFSUUID for the filesystem at a mount point (Linux 6.9)."""


@dataclass(frozen=True, slots=True)
class ReadBytes:
    """Bytes of a block device or an image file, as the page cache holds them.

    A read that returns fewer than `length_bytes` is Unknown(FAILED). A source answers each ask
    once; `reading` numbers repeated reads of a location that may change, such as the superblock of
    a filesystem that is being resized.
    """

    path: str
    offset_bytes: int
    length_bytes: int
    reading: int = 0


class CapturedDumpe2fs(_OfPath):
    """The output of `dumpe2fs` without options for a device, if an archive contains it.

    The live source never answers this ask: without options, dumpe2fs reads every initialised
    bitmap of the device, 64 MiB per TiB in use.
    """


TextAsk: TypeAlias = (
    ReadFile
    | ListDir
    | RunCommand
    | Uname
    | VirtualMemory
    | EffectiveUser
    | UdevDatabase
    | ResolvePath
    | RealPath
    | StatFilesystem
    | CapturedDumpe2fs
)
BytesAsk: TypeAlias = TuneSuperblock | FilesystemUuid | ReadBytes
Ask: TypeAlias = TextAsk | BytesAsk
Answer: TypeAlias = Evidence[str] | Evidence[bytes]


class Source(ABC):
    """Answers asks; returns an unknown, and does not raise, for what the host lacks."""

    @overload
    def fetch(self, ask: TextAsk) -> Evidence[str]: ...
    @overload
    def fetch(self, ask: BytesAsk) -> Evidence[bytes]: ...
    def fetch(self, ask: Ask) -> Answer:
        """Return what `answer` returns, as text or bytes by the kind of the ask."""
        return self.answer(ask)

    @abstractmethod
    def answer(self, ask: Ask) -> Answer:
        """Return the answer to an ask."""


_READABLE: Mapping[type[Ask], str] = {
    ReadFile: "{0.path}",
    ListDir: "{0.path}",
    ResolvePath: "path {0.path}",
    RealPath: "path {0.path}",
    StatFilesystem: "statfs {0.path}",
    UdevDatabase: "udev database of {0.device_number}",
    TuneSuperblock: "EXT4_IOC_GET_TUNE_SB_PARAM on {0.mount_point}",
    FilesystemUuid: "FS_IOC_GETFSUUID on {0.mount_point}",
    ReadBytes: "{0.length_bytes} bytes at {0.offset_bytes} of {0.path}",
    CapturedDumpe2fs: "dumpe2fs {0.path}",
    Uname: "uname",
    VirtualMemory: "memory",
    EffectiveUser: "effective user",
}


def describe(ask: Ask) -> str:
    """Return the readable name of an ask, which is the origin of its answer."""
    return " ".join(ask.argv) if isinstance(ask, RunCommand) else _READABLE[type(ask)].format(ask)


def decode(raw: bytes) -> str:
    """Decode bytes from a host; a byte that is not UTF-8 becomes a lone surrogate."""
    return raw.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """Return the bytes that `decode` turned into `text`, to pass them to the kernel.

    Raises OSError(EINVAL) for text that no file name can hold: NUL, or a surrogate that no byte
    decodes to. Python's own ValueError would be indistinguishable from a programming error.
    """
    if "\0" in text:
        raise OSError(errno.EINVAL, "a name cannot hold NUL")
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise OSError(errno.EINVAL, f"not a name: {error.reason}") from error


_VERSION_BANNER = r"\S+ [0-9.]+\S* \([0-9]{1,2}-\w{3,9}-[0-9]{4}\)"
"""The line e2fsprogs prints first on stderr: "dumpe2fs 1.47.0 (5-Feb-2023)", "… (10-July-2018)"."""

_WHY = {
    errno.ENOENT: Why.ABSENT,
    errno.ENOTDIR: Why.ABSENT,
    errno.ENODEV: Why.ABSENT,
    errno.ENXIO: Why.ABSENT,
    errno.EACCES: Why.DENIED,
    errno.EPERM: Why.DENIED,
}


def refuse_damaged(ask: Ask, answer: Answer) -> Answer:
    """Return a captured answer, or an unknown if it is truncated or partly zeroed.

    Every file in /proc and /sys that is read ends with a newline and contains no NUL, and bytes
    have the requested length. A full disk or a limit of the capturing program can truncate them
    anywhere: 20 GB would read as 2, and missing group descriptors would look as if no group needed
    work. A block that a crash left unwritten, or that a copy could not read, holds zeros: the
    filesystems it listed would seem not to be mounted.
    """
    damage = ""
    if isinstance(answer, Unknown):
        return answer
    if isinstance(ask, ReadBytes) and len(answer.value) < ask.length_bytes:
        missing = ask.length_bytes - len(answer.value)
        damage = f"it is cut off: {missing} of {ask.length_bytes} bytes are missing"
    elif isinstance(ask, ReadFile) and ask.path.startswith(("/proc/", "/sys/")) and answer.value:
        if answer.value[-1:] != "\n":
            damage = "it is cut off: its last line has no end"
        elif "\0" in cast("str", answer.value):
            damage = "it holds NUL"
    hint = CaptureHint("capture it again")
    return Unknown(describe(ask), Why.UNPARSABLE, damage, hint) if damage else answer


class Unanswered(Exception):  # noqa: N818 - a kind of answer, not a failure
    """An ask that the host cannot answer: the reason, the host's message, and how to obtain it."""

    def __init__(self, why: Why, detail: str, hint: str = "") -> None:
        super().__init__(detail)
        self.why = why
        self.detail = detail
        self.hint = hint

    def __reduce__(self) -> tuple[type[Unanswered], tuple[Why, str, str]]:
        """Return the arguments for unpickling: it is raised in helper processes, too."""
        return Unanswered, (self.why, self.detail, self.hint)

    def unknown(self, what: str) -> Unknown:
        """Return this as the `Unknown` of the evidence named `what`."""
        return Unknown(what, self.why, self.detail, self.hint)


class EndsEarly(Unanswered):
    """A read of bytes that found only the first of them: the device or the file ends before."""

    def __init__(self, found_bytes: int, length_bytes: int) -> None:
        super().__init__(Why.FAILED, f"{found_bytes} of {length_bytes} bytes are there")
        self._lengths = found_bytes, length_bytes

    def __reduce__(self) -> tuple[type[EndsEarly], tuple[int, int]]:  # type: ignore[override]
        """Return the arguments for unpickling."""
        return EndsEarly, self._lengths

    def unknown(self, what: str) -> Unknown:
        """Return this as the `Truncated` of the evidence named `what`."""
        return Truncated(what, self.why, self.detail, self.hint)


def denied_hint(*, is_root: bool | None = None) -> str:
    """Return the hint for a permission error; for root, it is to run outside the container.

    `is_root` is whether root was refused; by default, whether this process runs as root.
    """
    if os.geteuid() == 0 if is_root is None else is_root:
        return OUTSIDE
    return "run as root"


def why_no_json(error: ValueError | RecursionError) -> str:
    """Return a user-readable message for an error that json.loads() raised."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    # Python has no exception of its own for this; the message names the function that sets it.
    has_digits = "set_int_max_str_digits" in str(error)
    return "a number has thousands of digits" if has_digits else str(error)


class EvidenceError(ValueError):
    """Captured evidence that cannot be read; the message begins with its `path`, if that is set."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason
        self.path = path


class ArchiveError(EvidenceError):
    """A damaged, mislabelled or oversized archive; the message names it."""


def from_os_error(error: OSError) -> Unanswered:
    """Return the reason that corresponds to an errno; FAILED for any that is not listed."""
    if isinstance(error, TimeoutError):
        detail = error.strerror or str(error)
        return Unanswered(Why.TIMED_OUT, detail, "use a longer --timeout")
    why = _WHY.get(error.errno or 0, Why.FAILED)
    hint = denied_hint() if why is Why.DENIED else ""
    return Unanswered(why, error.strerror or str(error), hint)


def read_most(file: BinaryIO, most_bytes: int) -> bytes:
    """Return the content of a file, or the first bytes; read() has memory for all that it may."""
    size_bytes = os.fstat(file.fileno()).st_size
    return file.read(min(size_bytes + 1, most_bytes) if size_bytes else most_bytes)


def utc_now() -> str:
    """Return the current time in UTC as RFC 3339, to the second."""
    return datetime.now(tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


SOS_COMMANDS = "sos_commands"
INSIGHTS_COMMANDS = "insights_commands"
SUPPORTCONFIG_MARK = "basic-environment.txt"
ARCHIVE_MARKS = frozenset({SOS_COMMANDS, INSIGHTS_COMMANDS, SUPPORTCONFIG_MARK})
"""The top-level names that identify a sosreport, an Insights archive and a supportconfig."""
DEFAULT_DEADLINE_SECONDS = 120.0
"""The total time of a live source: whatever it has not read by then is unknown."""

# Fixed: the user's PATH, or the working directory on it, may contain a different dumpe2fs.
SYSTEM_PATH = ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/run/current-system/sw/bin")
"""The directories searched for programs; the last one is the only one that NixOS has."""
PACKAGES = {
    "lsblk": "util-linux",
    "findmnt": "util-linux",
    "dumpe2fs": "e2fsprogs",
    "dmsetup": "dmsetup (Debian) or device-mapper (RHEL)",
    "systemd-detect-virt": "systemd",
    "grub-install": "grub2-common",
    "grub2-install": "grub2-tools",
}
"""The allow-list of programs, each with the package that provides it."""
DENIED = (
    r"permission denied|operation not permitted|must be (?:super-?user|root)|root privileges"
    r"|only root"
)
"""Matches messages with which programs report a refusal; used case-insensitively."""


def absent(name: str, search_path: Sequence[str] = SYSTEM_PATH, package: str = "") -> Unanswered:
    """Return the answer for a program that is not installed: ABSENT, and its package."""
    package = package or PACKAGES.get(name, "")
    hint = f"install {package}" if package else ""
    return Unanswered(Why.ABSENT, f"no {name} in {':'.join(search_path)}", hint)


def checked_output(name: str, status: int, stdout: str, stderr: str, hint_when_denied: str) -> str:
    """Return the output of a program that succeeded; raises Unanswered if it failed.

    A negative `status` is the signal that killed the program. Also used for recorded runs.
    """
    if status == 0 or (name == "systemd-detect-virt" and stdout.strip() == "none"):
        return stdout  # on bare metal its exit status is 1
    cause = first_cause(stderr) or first_cause(stdout)
    ending = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
    detail = f"{cause} ({ending})" if cause else ending
    if re.search(DENIED, cause, re.IGNORECASE):
        raise Unanswered(Why.DENIED, detail, hint_when_denied)
    raise Unanswered(Why.FAILED, detail)


def first_cause(printed: str) -> str:
    """Return the line with the cause of a failure: the first that is not a version banner.

    The last line would be wrong: dmsetup ends with "Command failed.", and dumpe2fs prints the
    cause on stderr below its banner, and "Couldn't find valid filesystem superblock." on stdout.
    """
    lines = (line.strip() for line in printed.split("\n"))
    return next((line for line in lines if line and not re.fullmatch(_VERSION_BANNER, line)), "")
