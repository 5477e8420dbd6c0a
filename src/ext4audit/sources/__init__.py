"""Sources answer asks with text or bytes, or with the reason why not; the catalogue of asks.

Always UTF-8, whatever the locale: os.fsencode under LC_ALL=en_US.ISO-8859-1 turns the name that
was decoded from mountinfo into other bytes, and the file is then "not found".
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Protocol, TypeAlias, cast, overload

from ext4audit.evidence import OUTSIDE, Evidence, Unknown, Why


@dataclass(frozen=True, slots=True)
class _OfHost:
    """An ask without a parameter. Asks are equal if their classes and their parameters are."""


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
    """The names in a directory, sorted, separated by NUL (a name may hold anything else)."""


@dataclass(frozen=True, slots=True)
class RunCommand:
    """The standard output of a program of the allow-list, run without a shell.

    `argv[0]` is the program's bare name. A non-zero exit status is Unknown(FAILED), or
    Unknown(DENIED) where the program reports a refusal; the detail is the line with the cause, and
    the status. `systemd-detect-virt` on bare metal is Known: it prints "none" and exits with 1.
    `dmsetup` runs with `table`, `info`, `ls` or `deps` in `argv[1]`, or with `status --noflush`.
    """

    argv: tuple[str, ...]


class Uname(_OfHost):
    """`release`, `version`, `machine`, `nodename` of uname(2), one a line, in this order.

    No newline at the end. A node name may hold newlines: split at the first three.
    """


class VirtualMemory(_OfHost):
    """`total` and `available` memory in bytes, one a line, in this order."""


class EffectiveUser(_OfHost):
    """The effective user id as a decimal number."""


@dataclass(frozen=True, slots=True)
class UdevDatabase:
    r"""The udev properties of a block device, KEY=value one a line; "major:minor" names it.

    Sorted by key. A newline in a value is written `\x0a`; other control characters stay, so
    lines are split at newline only.
    """

    device_number: str


class ResolvePath(_OfPath):
    """The file at a path, found by O_PATH and /proc/self/fdinfo without opening it.

    KEY=value lines: `mount_id`, `device_number` (of the filesystem, st_dev), `type` (file,
    directory, block, other), `represents` (the number of a block device node, else absent).
    """


class RealPath(_OfPath):
    """The canonical absolute path of a path, symbolic links resolved (realpath(3))."""


class StatFilesystem(_OfPath):
    """The numbers of statvfs(3) for the filesystem at a path, found by O_PATH without opening it.

    One line, separated by blanks: the filesystem's device number (st_dev) and f_frsize,
    f_blocks, f_bfree, f_bavail, f_files, f_ffree.
    """


class TuneSuperblock(_OfMountPoint):
    """The 232 bytes of EXT4_IOC_GET_TUNE_SB_PARAM for the filesystem at a mount point.

    fs/ext4/ioctl.c, Linux 6.18; answers without root and without opening the block device.
    """


class FilesystemUuid(_OfMountPoint):
    """The 16 bytes of FS_IOC_GETFSUUID for the filesystem at a mount point (Linux 6.9)."""


@dataclass(frozen=True, slots=True)
class ReadBytes:
    """Bytes of a block device or an image file, as the page cache shows them.

    All `length_bytes` or none: a shorter answer is Unknown(FAILED). A source answers an ask once;
    `reading` numbers the repeated reads of one place that changes, such as the superblock of a
    filesystem that is being resized.
    """

    path: str
    offset_bytes: int
    length_bytes: int
    reading: int = 0


class CapturedDumpe2fs(_OfPath):
    """The output of `dumpe2fs` without options for a device, for archives that hold it.

    The live source never answers it: without options dumpe2fs reads every initialised bitmap of
    the device, 64 MiB for each TiB in use.
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


class Source(Protocol):
    """Answers asks; never raises for anything that a host lacks."""

    @overload
    def fetch(self, ask: TextAsk) -> Evidence[str]: ...
    @overload
    def fetch(self, ask: BytesAsk) -> Evidence[bytes]: ...


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
    """Return the readable name of an ask: the origin of its answer."""
    return " ".join(ask.argv) if isinstance(ask, RunCommand) else _READABLE[type(ask)].format(ask)


def decode(raw: bytes) -> str:
    """Decode bytes from a host; a byte that is not UTF-8 becomes a lone surrogate."""
    return raw.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """Return the bytes that `decode` made `text` of, to hand them to the kernel.

    Raises OSError(EINVAL) for what no name can hold: NUL, and a surrogate that no byte decodes
    to. Python raises ValueError there, which looks the same as a programming error.
    """
    if "\0" in text:
        raise OSError(errno.EINVAL, "a name cannot hold NUL")
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise OSError(errno.EINVAL, f"not a name: {error.reason}") from error


_VERSION_BANNER = re.compile(r"\S+ [0-9.]+\S* \([0-9]{1,2}-\w{3,9}-[0-9]{4}\)")
"""The first line on stderr of e2fsprogs: "dumpe2fs 1.47.0 (5-Feb-2023)", "… (10-July-2018)"."""

_WHY = {
    errno.ENOENT: Why.ABSENT,
    errno.ENOTDIR: Why.ABSENT,
    errno.ENODEV: Why.ABSENT,
    errno.ENXIO: Why.ABSENT,
    errno.EACCES: Why.DENIED,
    errno.EPERM: Why.DENIED,
}


def refuse_damaged(ask: Ask, answer: Answer) -> Answer:
    """Return a captured answer, or an unknown for one that is cut off or zeroed in part.

    Each file of /proc and /sys that is asked for ends with a newline and has no NUL, and bytes are
    as many as were asked for. A full disk or a limit of the program that captured them can end them
    anywhere: a size of 20 GB would be one of 2, and of the descriptors of groups none would need
    work. A block that a crash left unwritten, or that a copy could not read, is zeros: what a mount
    table has there would not be mounted.
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
    hint = "capture it again"
    return Unknown(describe(ask), Why.UNPARSABLE, damage, hint) if damage else answer


class Unanswered(Exception):  # noqa: N818 - an answer of a kind, not a failure
    """An ask that the host cannot answer: why, the host's message, and how to make it known."""

    def __init__(self, why: Why, detail: str, hint: str = "") -> None:
        super().__init__(detail)
        self.why = why
        self.detail = detail
        self.hint = hint

    def __reduce__(self) -> tuple[type[Unanswered], tuple[Why, str, str]]:
        """Return how to make it again: it is raised in a helper process, too."""
        return Unanswered, (self.why, self.detail, self.hint)

    def unknown(self, what: str) -> Unknown:
        """Return the answer to the ask."""
        return Unknown(what, self.why, self.detail, self.hint)


def denied_hint(*, is_root: bool | None = None) -> str:
    """Return what to do about a refusal; root can only leave the container that refuses.

    `is_root` is whether root was refused; without it, whether this process is root.
    """
    if os.geteuid() == 0 if is_root is None else is_root:
        return OUTSIDE
    return "run as root"


def why_no_json(error: ValueError | RecursionError) -> str:
    """Return what is wrong with a text that json.loads() refuses, in words for users."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    has_digits = "set_int_max_str_digits" in str(error)
    return "a number has thousands of digits" if has_digits else str(error)


class ArchiveError(ValueError):
    """An archive that is damaged, not what it seems, or beyond the limits; named in the message."""


def from_os_error(error: OSError) -> Unanswered:
    """Return the reason that an errno stands for; FAILED for all others."""
    if isinstance(error, TimeoutError):
        detail = error.strerror or str(error)
        return Unanswered(Why.TIMED_OUT, detail, "use a longer --timeout")
    why = _WHY.get(error.errno or 0, Why.FAILED)
    hint = denied_hint() if why is Why.DENIED else ""
    return Unanswered(why, error.strerror or str(error), hint)


def utc_now() -> str:
    """Return the time in RFC 3339, UTC, to the second."""
    return datetime.now(tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


SOS_COMMANDS = "sos_commands"
INSIGHTS_COMMANDS = "insights_commands"
SUPPORTCONFIG_MARK = "basic-environment.txt"
ARCHIVE_MARKS = frozenset({SOS_COMMANDS, INSIGHTS_COMMANDS, SUPPORTCONFIG_MARK})
"""What stands at the top of a sosreport, an Insights archive and a supportconfig."""
DEFAULT_DEADLINE_SECONDS = 120.0
"""What a live source has not read by then is unknown."""

# Fixed: the user's PATH, and the working directory in it, can hold another program's dumpe2fs.
SYSTEM_PATH = ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/run/current-system/sw/bin")
"""The last is that of NixOS, which has no other."""
PACKAGES = {
    "lsblk": "util-linux",
    "findmnt": "util-linux",
    "dumpe2fs": "e2fsprogs",
    "dmsetup": "dmsetup (Debian) or device-mapper (RHEL)",
    "systemd-detect-virt": "systemd",
    "grub-install": "grub2-common",
    "grub2-install": "grub2-tools",
}
"""The programs that may run, the allow-list, and the package of each."""
DENIED = (
    r"permission denied|operation not permitted|must be (?:super-?user|root)|root privileges"
    r"|only root"
)
"""How programs report a refusal, in either case of letters."""


def absent(name: str, search_path: Sequence[str] = SYSTEM_PATH, package: str = "") -> Unanswered:
    """Return the answer for a program that is not installed: ABSENT, and its package."""
    package = package or PACKAGES.get(name, "")
    hint = f"install {package}" if package else ""
    return Unanswered(Why.ABSENT, f"no {name} in {':'.join(search_path)}", hint)


def checked_output(name: str, status: int, stdout: str, stderr: str, hint_when_denied: str) -> str:
    """Return the output of a program that succeeded; raises Unanswered for one that failed.

    `status` is negative for the signal that ended it. Recorded runs use this too.
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
    """Return the line with the cause of a failure: the first one that is no version banner.

    Not the last: dmsetup ends with "Command failed.", and dumpe2fs puts its cause on stderr
    below its banner, with "Couldn't find valid filesystem superblock." on stdout.
    """
    lines = (line.strip() for line in printed.split("\n"))
    return next((line for line in lines if line and not _VERSION_BANNER.fullmatch(line)), "")


class Readable(Protocol):
    """What is read from: a file, or one whose reads are bounded."""

    def read(self, count: int, /) -> bytes:
        """Return at most `count` bytes, none at the end."""
        ...
