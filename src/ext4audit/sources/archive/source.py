"""The source that answers asks from another program's archive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from ext4audit.evidence import MOUNT_TABLE, CaptureHint, Evidence, Known, Unknown, Why
from ext4audit.sources import (
    INSIGHTS_COMMANDS,
    SOS_COMMANDS,
    Answer,
    ArchiveError,
    Ask,
    CapturedDumpe2fs,
    EffectiveUser,
    ListDir,
    ReadFile,
    RealPath,
    ResolvePath,
    RunCommand,
    Source,
    StatFilesystem,
    UdevDatabase,
    Uname,
    VirtualMemory,
    describe,
)
from ext4audit.sources.archive import first_few
from ext4audit.sources.archive.capture import NO_COMPLAINT, Capture, judge, output_of
from ext4audit.sources.archive.devices import DeviceTable, blkid_values, lsblk_pairs, read_devices
from ext4audit.sources.archive.layouts import SosCapture, SupportconfigCapture
from ext4audit.sources.archive.mounts import (
    UTAB,
    MountTable,
    read_mountinfo,
    read_utab,
    sysroot_of,
    without_sysroot,
)
from ext4audit.sources.archive.sysfs import ArchiveSysfs
from ext4audit.sources.archive.system import (
    container,
    host_name,
    hypervisor,
    memory,
    node_name,
    printed_name,
    setting,
    taken_at,
    uname,
)
from ext4audit.sources.archive.tool_output import (
    DiskFree,
    Names,
    find_block_bytes,
    find_groups,
    find_header,
)
from ext4audit.sources.captured import Captured
from ext4audit.sources.containers import Archive

COLLECT = "ext4audit collect"
_DMSETUP_OF_ALL = {("table", "-j", "-m"), ("status", "--noflush", "-j", "-m")}
_DMSETUP_LENGTHS = {6, 7}
_OF_GROUPS = "sos report -k filesys.dumpe2fs=on"
_OF_BLOCK, _OF_FILESYSTEMS = "sos report -e block", "sos report -e filesys"
_OF_DEVICES = f"{_OF_BLOCK} -e md -e devicemapper"
_SOS_OPTIONS = {
    "dumpe2fs": f"{_OF_FILESYSTEMS}, as root, with the device mounted",
    "dmsetup": "sos report -e devicemapper",
    "lsblk": _OF_BLOCK,
}
"""The sos options that capture the output of a program."""
_SOS_OPTIONS_OF_PATHS = (
    (("/sys/block/", "/sys/dev/block/", "/sys/class/block/"), _OF_DEVICES),
    (("/proc/fs/", MOUNT_TABLE, "/etc/fstab"), _OF_FILESYSTEMS),
    (("/proc/sys/",), "sos report -e kernel"),
    (("/proc/cmdline",), "sos report -e boot -e kernel"),
    (("/etc/os-release",), "sos report -e release"),
)
"""Beginnings of the paths of files and directories, with the sos options that capture them."""


def _sos_option(ask: Ask) -> str:
    """Return the sos command that captures the answer to an ask, an empty string if none does."""
    option = ""
    match ask:
        case CapturedDumpe2fs() | RunCommand(("dumpe2fs", "-g", *_)):
            option = _OF_GROUPS
        case RunCommand(argv):
            option = _SOS_OPTIONS.get(argv[0], "")
        case UdevDatabase():
            option = _OF_BLOCK
        case StatFilesystem():
            option = _OF_FILESYSTEMS
        case ResolvePath(path) | RealPath(path):
            option = _OF_DEVICES if path.startswith("/dev/") else ""
        case ReadFile(path) | ListDir(path):
            options = (each for starts, each in _SOS_OPTIONS_OF_PATHS if path.startswith(starts))
            option = next(options, "")
    return option


def _hint(kind: str, ask: Ask) -> CaptureHint:
    """Return a hint on how to capture the answer to an ask."""
    option = _sos_option(ask) if kind == "sosreport" else ""
    return CaptureHint(f"capture again with {f'{option}, or with ' if option else ''}{COLLECT}")


_NODE = "mount_id=0\ndevice_number=0:5\ntype=block\nrepresents="
"""The fields of a device node; 0:5 is the usual number of devtmpfs, which is never ext4."""
Found = Evidence[str] | None
CONTAINER_KIND = "/run/systemd/container"


class ArchiveSource(Source):
    """Answers asks from a capture; missing ones are NOT_CAPTURED, with a hint on how to get them.

    Texts have the format that the asks specify; they are composed if the archive has the facts in
    another format. The origin names the file in the archive.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._answers: dict[Ask, Answer] = {}

    def answer(self, ask: Ask) -> Answer:
        """Return the answer to an ask, from the cache if it was answered before."""
        if ask not in self._answers:
            self._answers[ask] = self._answer(ask)
        return self._answers[ask]

    def _answer(self, ask: Ask) -> Answer:
        try:
            found = self._text(ask)
        except TimeoutError as error:  # a directory on a dead server
            return Unknown(describe(ask), Why.TIMED_OUT, str(error))
        return self._not_captured(ask) if found is None else found

    @cached_property
    def _devices(self) -> DeviceTable:
        return read_devices(self._capture)

    @cached_property
    def _paths(self) -> dict[str, tuple[str, ...]]:
        return self._devices.paths()

    @cached_property
    def _sysfs(self) -> ArchiveSysfs:
        return ArchiveSysfs(self._capture, self._devices)

    @cached_property
    def _sysroot(self) -> str:
        return sysroot_of(self._capture)

    @cached_property
    def _mountinfo(self) -> Found:
        return read_mountinfo(self._capture, self._devices, self._sysroot)

    @cached_property
    def _mounts(self) -> MountTable:
        found = self._mountinfo
        return MountTable(found.value if isinstance(found, Known) else "", self._sysroot)

    @cached_property
    def _disk_free(self) -> DiskFree:
        return DiskFree(self._capture)

    @cached_property
    def _blkid(self) -> dict[str, dict[str, str]]:
        return blkid_values(self._capture)

    def _not_captured(self, ask: Ask) -> Unknown:
        detail = f"not in the {self._capture.kind} archive"
        hint = _hint(self._capture.kind, ask)
        return Unknown(describe(ask), Why.NOT_CAPTURED, detail, hint)

    def _text(self, ask: Ask) -> Found:  # noqa: C901, PLR0911 - a line per ask
        match ask:
            case ReadFile(path):
                return self._read(path)
            case ListDir(path):
                return self._list(path)
            case RunCommand(argv):
                return self._run(argv)
            case CapturedDumpe2fs(path):
                return find_groups(self._capture, self._names(path), self._blkid, describe(ask))
            case UdevDatabase(number):
                return self._sysfs.properties(number)
            case ResolvePath(path):
                return self._resolve(path)
            case RealPath(path):
                return self._real(path)
            case StatFilesystem(path):
                return self._statfs(path)
            case Uname():
                return uname(self._capture)
            case VirtualMemory():
                return memory(self._capture)
            case EffectiveUser():
                return Known("0", f"{self._capture.kind} archives are made by root")
            case _:
                return None

    def _read(self, path: str) -> Found:
        if path == MOUNT_TABLE:
            return self._mountinfo
        found = self._sysfs.read(path) if path.startswith("/sys/") else None
        found = found or self._capture.read(path)
        if isinstance(found, Known) and path.endswith("/mountinfo"):
            return Known(without_sysroot(found.value, self._sysroot), found.origin)
        if found is None and path.startswith("/proc/sys/"):
            return setting(self._capture, path)
        if found is None and path == CONTAINER_KIND:
            return container(self._capture)
        if found is None and path == UTAB:
            return read_utab(self._capture, self._sysroot)
        return found

    def _list(self, path: str) -> Found:
        names = self._capture.children(path)
        if names is not None:
            return Known("\0".join(names), path)
        return self._sysfs.children(path) if path.startswith("/sys/") else None

    def _number_of(self, path: str) -> str | None:
        """Return the number of a device from the listings, or else from the mount table."""
        return self._devices.number_of(path) or self._mounts.number_of(path)

    def _resolve(self, path: str) -> Found:
        """Resolve a path: devices from the listings, all others from the mount table."""
        if not path.startswith("/dev/"):
            return self._mounts.resolve(path)
        number = self._number_of(path)
        return Known(f"{_NODE}{number}", "listings of devices") if number else None

    def _statfs(self, path: str) -> Found:
        """Return the space at a mount point, or None: df prints nothing about other paths."""
        mount = self._mounts.at.get(path)
        if mount is None:
            return None
        number = mount.device_number
        return self._disk_free.statfs(path, number, self._number_of, self._block_bytes(number))

    def _block_bytes(self, number: str) -> int | None:
        """Return the block size in bytes of the filesystem on a device, or None if unknown."""
        names = self._names_of(number)
        header = find_header(self._capture, names, self._blkid, f"superblock of {number}")
        return find_block_bytes(header, names.paths, self._blkid)

    def _names(self, path: str) -> Names:
        """Return all names of the device that a path leads to, those of the mount table first."""
        number = self._number_of(path)
        return Names((path,)) if number is None else self._names_of(number, path)

    def _names_of(self, number: str, *paths: str) -> Names:
        """Return all names of a device: from the mount table, then `paths`, then the listings."""
        mounts = self._mounts
        every = (*mounts.sources.get(number, ()), *paths, *self._paths.get(number, ()))
        return Names(tuple(dict.fromkeys(every)), tuple(mounts.places.get(number, ())))

    def _run(self, argv: tuple[str, ...]) -> Found:
        known: dict[str, Callable[[tuple[str, ...]], Found]] = {
            "dumpe2fs": self._dumpe2fs,
            "dmsetup": self._dmsetup,
            "lsblk": self._lsblk,
        }
        answer = known[argv[0]](argv) if argv[0] in known else None
        if answer is None and argv == ("systemd-detect-virt", "--vm"):
            answer = hypervisor(self._capture)
        return answer or self._plain(argv)

    def _plain(self, argv: tuple[str, ...]) -> Found:
        """Return the first output of this command, or an unknown if it failed."""
        for output in self._capture.run(" ".join(argv)):
            return judge(output, NO_COMPLAINT, argv[0], describe(RunCommand(argv)))
        return None

    def _dumpe2fs(self, argv: tuple[str, ...]) -> Found:
        if argv[1:-1] != ("-h",):
            return None
        return find_header(
            self._capture, self._names(argv[-1]), self._blkid, describe(RunCommand(argv))
        )

    def _dmsetup(self, argv: tuple[str, ...]) -> Found:
        """Answer `dmsetup table|status … -j MAJOR -m MINOR` from the output for all devices."""
        verb, *flags, j, major, m, minor = argv[1:] if len(argv) in _DMSETUP_LENGTHS else [""] * 5
        if (verb, *flags, j, m) not in _DMSETUP_OF_ALL:
            return None
        device = self._devices.by_number.get(f"{major}:{minor}")
        mapped = device.mapper if device else None
        output = self._sysfs.mapper.lines(verb, mapped) if mapped else None
        return Known(output.text, output.origin) if output else None

    def _lsblk(self, argv: tuple[str, ...]) -> Found:
        """Answer `lsblk -P` from all listings, if one of them is known to have all devices.

        blkid lists all devices with content. A kernel list takes precedence, because a loop device
        that blkid saw may have been detached since.
        """
        if not self._devices.is_whole:
            seen = (path for path in self._blkid if path.startswith("/dev/"))
            unlisted = [path for path in seen if self._devices.number_of(path) is None]
            which = f"the number of {first_few(unlisted)}, which blkid found"
            if unlisted or not self._blkid:
                detail = f"no listing has {which if unlisted else 'all devices'}"
                return replace(self._not_captured(RunCommand(argv)), detail=detail)
        if argv[1] != "-P":
            return None
        pairs = lsblk_pairs(self._capture, self._devices, self._blkid)
        return Known(*pairs) if pairs else None

    def _real(self, path: str) -> Found:
        """Return a mount point unchanged, because paths in mountinfo contain no symbolic links."""
        return Known(path, MOUNT_TABLE) if path in self._mounts.at else None


def host_archive(archive: Archive, root: str, kind: str) -> Captured:
    """Return the evidence below a directory of an archive; raises ArchiveError if unusable."""
    capture = _capture(archive, root, kind)
    _refuse_unusable(archive, capture)
    label = host_name(capture) or root or archive.label
    return Captured(
        kind, label, taken_at(capture, f"{archive.label} {root}"), ArchiveSource(capture)
    )


def _capture(archive: Archive, root: str, kind: str) -> Capture:
    if kind == "supportconfig":
        return SupportconfigCapture(archive, root)
    commands = SOS_COMMANDS if kind == "sosreport" else INSIGHTS_COMMANDS
    return SosCapture(archive, root, kind=kind, commands=commands)


def _refuse_unusable(archive: Archive, capture: Capture) -> None:
    """Raise ArchiveError for files of two hosts in one tree, which would look like one machine.

    Texts with converted line ends are refused too, because no value in them would match another.
    """
    if output_of(capture, "hostname", "uname -a").text.endswith("\r\n"):
        why = "its texts have the line ends of Windows (CRLF): unpack it without converting them"
        raise ArchiveError(why, archive.label)
    names = [name for name in (printed_name(capture), node_name(capture)) if name]
    if len({name.partition(".")[0].lower() for name in names}) > 1:
        raise ArchiveError(f"the files of several hosts: {first_few(names)}", archive.label)
