"""The source that answers asks from the archive of another program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import overload

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.sources import (
    INSIGHTS_COMMANDS,
    SOS_COMMANDS,
    Answer,
    ArchiveError,
    Ask,
    BytesAsk,
    CapturedDumpe2fs,
    EffectiveUser,
    ListDir,
    ReadFile,
    RealPath,
    ResolvePath,
    RunCommand,
    StatFilesystem,
    TextAsk,
    UdevDatabase,
    Uname,
    VirtualMemory,
    describe,
)
from ext4audit.sources.archive import HostArchive, first_few
from ext4audit.sources.archive.capture import NO_COMPLAINT, Capture, judge, output_of
from ext4audit.sources.archive.devices import DeviceTable, blkid_values, lsblk_pairs, read_devices
from ext4audit.sources.archive.layouts import SosCapture, SupportconfigCapture
from ext4audit.sources.archive.machine import container, hypervisor
from ext4audit.sources.archive.sysfs import ArchiveSysfs
from ext4audit.sources.archive.system import (
    MOUNTINFO,
    UTAB,
    MountPoint,
    host_name,
    memory,
    mount_of,
    mount_points_of,
    mounted_places,
    mounted_sources,
    node_name,
    printed_name,
    read_mountinfo,
    read_utab,
    resolve_path,
    setting,
    sysroot_of,
    taken_at,
    uname,
    without_sysroot,
)
from ext4audit.sources.archive.tool_output import (
    DiskFree,
    Names,
    find_block_bytes,
    find_groups,
    find_header,
)
from ext4audit.sources.containers import Archive

COLLECT = "ext4audit collect"
_DMSETUP_OF_ALL = {("table", "-j", "-m"), ("status", "--noflush", "-j", "-m")}
_DMSETUP_LENGTHS = {6, 7}
_SOS_PROGRAMS = {
    "dumpe2fs": "sos report -e filesys, as root, with the device mounted",
    "dmsetup": "sos report -e devicemapper",
    "lsblk": "sos report -e block",
    "mdadm": "sos report -e md",
}
_SOS_PATHS = (
    ("/proc/fs/", "sos report -e filesys"),
    ("statfs ", "sos report -e filesys"),
    ("/proc/self/mountinfo", "sos report -e filesys"),
    ("/etc/fstab", "sos report -e filesys"),
    ("/proc/sys/", "sos report -e kernel"),
    ("/proc/cmdline", "sos report -e boot -e kernel"),
    ("/etc/os-release", "sos report -e release"),
)


def hint(kind: str, ask: Ask, text: str) -> str:
    """Return how to capture the answer; `text` is the readable name of the ask, or its path."""
    option = _sos_option(ask, text) if kind == "sosreport" else ""
    if option:
        return f"capture again with {option}, or with {COLLECT}"
    return f"capture again with {COLLECT}"


def _sos_option(ask: Ask, text: str) -> str:
    if isinstance(ask, CapturedDumpe2fs) or _is_group_listing(ask):
        return "sos report -k filesys.dumpe2fs=on"
    if isinstance(ask, RunCommand):
        return _SOS_PROGRAMS.get(ask.argv[0], "")
    if isinstance(ask, UdevDatabase):
        return "sos report -e block"
    if text.startswith(("/sys/block/", "/sys/dev/block/", "/sys/class/block/", "path /dev/")):
        return "sos report -e block -e md -e devicemapper"
    return next((option for start, option in _SOS_PATHS if text.startswith(start)), "")


def _is_group_listing(ask: Ask) -> bool:
    return isinstance(ask, RunCommand) and ask.argv[:2] == ("dumpe2fs", "-g")


Found = Evidence[str] | None
CONTAINER_KIND = "/run/systemd/container"


class ArchiveSource:
    """Answers from a capture; what it does not hold is NOT_CAPTURED, with a hint how to capture it.

    Texts have the form that the asks promise; they are composed where the archive has them in
    another form. The origin names the file in the archive.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._answers: dict[Ask, Answer] = {}

    @overload
    def fetch(self, ask: TextAsk) -> Evidence[str]: ...
    @overload
    def fetch(self, ask: BytesAsk) -> Evidence[bytes]: ...
    def fetch(self, ask: Ask) -> Answer:
        """Answer an ask; each is answered once."""
        if ask not in self._answers:
            self._answers[ask] = self._answer(ask)
        return self._answers[ask]

    def _answer(self, ask: Ask) -> Answer:
        try:
            found = self._text(ask)
        except TimeoutError as error:  # of a directory on a dead server
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
    def _table(self) -> str:
        return self._mountinfo.value if isinstance(self._mountinfo, Known) else ""

    @cached_property
    def _sources(self) -> dict[str, tuple[str, ...]]:
        return mounted_sources(self._table)

    @cached_property
    def _places(self) -> dict[str, tuple[str, ...]]:
        return mounted_places(self._table, self._sysroot)

    @cached_property
    def _mounts(self) -> tuple[MountPoint, ...]:
        return mount_points_of(self._table)

    @cached_property
    def _mount_points(self) -> Mapping[str, MountPoint]:
        """The last mount on each mount point: the one that its path leads to."""
        return {mount[2]: mount for mount in self._mounts}

    @cached_property
    def _is_whole(self) -> bool:
        """Whether each line of the mount table has a mount point."""
        return sum(map(bool, self._table.split("\n"))) == len(self._mounts)

    @cached_property
    def _disk_free(self) -> DiskFree:
        return DiskFree(self._capture)

    @cached_property
    def _blkid(self) -> dict[str, dict[str, str]]:
        return blkid_values(self._capture)

    def _not_captured(self, ask: Ask) -> Unknown:
        what = describe(ask)
        detail = f"not in the {self._capture.kind} archive"
        return Unknown(what, Why.NOT_CAPTURED, detail, hint(self._capture.kind, ask, what))

    def _text(self, ask: Ask) -> Found:  # noqa: C901, PLR0911 - one line an ask
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
        if path == MOUNTINFO:
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
        """Return the number of a device by the listings, else by the mount table."""
        return self._devices.number_of(path) or next(
            (number for number, sources in self._sources.items() if path in sources), None
        )

    def _resolve(self, path: str) -> Found:
        return resolve_path(
            path, self._devices, self._sources, self._mount_points, whole=self._is_whole
        )

    def _statfs(self, path: str) -> Found:
        """Return the usage at a mount point; df tells nothing about other paths."""
        mount = mount_of(path, self._mount_points)
        if mount is None or mount[2] != path:
            return None
        return self._disk_free.statfs(path, mount[1], self._number_of, self._block_bytes(mount[1]))

    def _block_bytes(self, number: str) -> int | None:
        """Return the size of a block of the filesystem on a device, None where it is not known."""
        names = self._names_of(number)
        header = find_header(self._capture, names, self._blkid, f"superblock of {number}")
        return find_block_bytes(header, names.paths, self._blkid)

    def _names(self, path: str) -> Names:
        """Return all paths of the device that a path leads to, the mount table's first."""
        number = self._number_of(path)
        return Names((path,)) if number is None else self._names_of(number, path)

    def _names_of(self, number: str, *paths: str) -> Names:
        """Return the names of a device, `paths` behind those of the mount table."""
        others = self._paths.get(number, ())
        every = dict.fromkeys((*self._sources.get(number, ()), *paths, *others))
        return Names(tuple(every), self._places.get(number, ()))

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
        """Return the output of this command, where its exit status or text shows success."""
        for output in self._capture.run(" ".join(argv)):
            return judge(output, NO_COMPLAINT, describe(RunCommand(argv)))
        return None

    def _dumpe2fs(self, argv: tuple[str, ...]) -> Found:
        if argv[1:-1] != ("-h",):
            return None
        return find_header(
            self._capture, self._names(argv[-1]), self._blkid, describe(RunCommand(argv))
        )

    def _dmsetup(self, argv: tuple[str, ...]) -> Found:
        """Answer `dmsetup table -j MAJOR -m MINOR` from the table of all devices; status too."""
        verb, *flags, j, major, m, minor = argv[1:] if len(argv) in _DMSETUP_LENGTHS else [""] * 5
        if (verb, *flags, j, m) not in _DMSETUP_OF_ALL:
            return None
        device = self._devices.by_number.get(f"{major}:{minor}")
        mapped = device.mapper if device else None
        output = self._sysfs.mapper.lines(verb, mapped) if mapped else None
        return Known(output.text, output.origin) if output else None

    def _lsblk(self, argv: tuple[str, ...]) -> Found:
        """Answer `lsblk -P` from all listings, if one of them has all devices.

        blkid finds all with a content. A kernel's list counts more: a loop device that blkid saw
        was detached meanwhile.
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
        """Return a path that the mount table shows as it is: no link is in it."""
        shown = path in self._mount_points
        return Known(path, MOUNTINFO) if shown else None


def host_archive(archive: Archive, root: str, kind: str) -> HostArchive:
    """Return the evidence below a directory of an archive; raises ArchiveError for two hosts'."""
    capture = _capture(archive, root, kind)
    _refuse_unusable(archive, capture)
    label = host_name(capture) or root or archive.label
    return HostArchive(
        kind, label, taken_at(capture, f"{archive.label} {root}"), ArchiveSource(capture)
    )


def _capture(archive: Archive, root: str, kind: str) -> Capture:
    if kind == "supportconfig":
        return SupportconfigCapture(archive, root)
    commands = SOS_COMMANDS if kind == "sosreport" else INSIGHTS_COMMANDS
    return SosCapture(archive, root, kind=kind, commands=commands)


def _refuse_unusable(archive: Archive, capture: Capture) -> None:
    """Refuse files of two hosts in one tree, which would be audited as one machine.

    Also texts whose line ends were converted: no value in them could be compared with any other.
    """
    if output_of(capture, "hostname", "uname -a").text.endswith("\r\n"):
        why = "its texts have the line ends of Windows (CRLF): unpack it without converting them"
        raise ArchiveError(f"{archive.label}: {why}")
    names = [name for name in (printed_name(capture), node_name(capture)) if name]
    if len({name.partition(".")[0].lower() for name in names}) > 1:
        raise ArchiveError(f"{archive.label}: the files of several hosts: {first_few(names)}")
