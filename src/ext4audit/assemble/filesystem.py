"""One filesystem: `FilesystemReader` joins everything that is known about a superblock.

The module also reads per-filesystem facts: usage, recorded errors, the journal's error number.
"""

from collections.abc import Callable
from typing import NamedTuple

from ext4audit import lazily
from ext4audit.assemble import (
    all_known,
    ask,
    list_directory,
    none_if_absent,
    read,
    read_count,
    read_integer,
    read_line,
)
from ext4audit.assemble.devices import StackReader
from ext4audit.assemble.inventory import SYS_EXT4, OtherMountTables
from ext4audit.assemble.options import resolve_options
from ext4audit.assemble.options.listings import OptionSources
from ext4audit.assemble.superblock import (
    device_path,
    most_actionable,
    own_mount_point,
    read_primary,
    read_superblock,
    read_unzeroed_groups,
    read_uuid,
)
from ext4audit.evidence import (
    MOUNT_TABLE,
    Evidence,
    Known,
    Unknown,
    Why,
    absent_means,
    derive,
    for_wording,
)
from ext4audit.facts.devices import BlockDevice, LsblkDevice, listed_device
from ext4audit.facts.host import ErrorCounters, Filesystem, Kernel, Usage
from ext4audit.facts.layout import MetadataLayout
from ext4audit.facts.mount import EXT_FSTYPES, UTAB, DeviceNumber, Mount, mounts_by_device
from ext4audit.facts.superblock import JOURNAL_SUPERBLOCK_BYTES, SETTINGS, RecordedError, Superblock
from ext4audit.layout import may_stripe
from ext4audit.parsers import parse_stat_filesystem
from ext4audit.parsers.devices_and_mounts import parse_options_file, parse_utab
from ext4audit.parsers.dumpe2fs import parse_journal_errno
from ext4audit.sources import ReadBytes, RunCommand, Source, StatFilesystem

_parse_journal_superblock: Callable[[bytes], int] = lazily(
    "parsers.superblock", "parse_journal_superblock"
)
USAGE = "space in use"
RECORDED_ERRORS = "recorded errors"
JOURNAL_ERRNO = "journal errno"
NO_LAYOUT = Unknown(
    "metadata layout",
    Why.NOT_CAPTURED,
    "group descriptors are read only of mounted filesystems and of targets",
    "name the device as a TARGET",
)
_IDLE = "the filesystem is not mounted"
NOT_MOUNTED = Unknown("effective options", Why.ABSENT, _IDLE)
NO_USAGE = Unknown(USAGE, Why.ABSENT, _IDLE)
NO_JOURNAL_ERRNO = Unknown(JOURNAL_ERRNO, Why.ABSENT, _IDLE)
NO_SETTINGS = Unknown("settings in /sys/fs/ext4", Why.NOT_CAPTURED, "no command unmounts it")
NO_LAZY_INITIALIZATION = Unknown("groups to be initialized", Why.ABSENT, _IDLE)


class FilesystemReader(NamedTuple):
    """Reader of single filesystems that holds the facts they share.

    `visible` has the mounts that could be read, even if a bad line makes `mounts` unknown.
    """

    source: Source
    kernel: Evidence[Kernel]
    mounts: Evidence[tuple[Mount, ...]]
    visible: tuple[Mount, ...]
    devices: tuple[LsblkDevice, ...]
    stacks: StackReader
    other_tables: OtherMountTables
    table: str = MOUNT_TABLE

    def read(
        self, number: DeviceNumber, name: str, *, alive: bool = True, with_layout: bool = True
    ) -> Filesystem:
        """Return the filesystem on a device, without fstab entries: these need all UUIDs."""
        fs = self._from_superblock(number, name, alive=alive)
        if with_layout:
            layout = read_layout(self.source, fs.device, fs.superblock, fs.stack)
            fs = fs._replace(layout=layout)
        return self._with_live_state(fs) if alive else fs

    def read_unmounted(self, number: DeviceNumber, *, with_layout: bool) -> Filesystem:
        """Return the filesystem on an unmounted device; the device's name comes from sysfs."""
        stack = for_wording(self.stacks.read(number), None)
        name = stack.name if stack else str(number)
        return self.read(number, name, alive=False, with_layout=with_layout)

    def _from_superblock(self, number: DeviceNumber, name: str, *, alive: bool) -> Filesystem:
        """Return the filesystem as if it were not mounted."""
        mounts = mounts_by_device(self.visible).get(number, ())
        stack = self.stacks.read(number)
        path = device_path(stack, name)
        superblock = read_superblock(self.source, path, number, mounts)
        stored, listed = for_wording(superblock, None), listed_device(self.devices, number)
        return Filesystem(
            device_number=number,
            name=name,
            device=path,
            fstype=NOT_MOUNTED,
            alive=False,
            mounts=mounts,
            read_only=NOT_MOUNTED,
            superblock=superblock,
            uuid=self._uuid(number, superblock, mounts),
            label=(stored.label if stored else None) or (listed.label if listed else None),
            options=NOT_MOUNTED,
            fstab=Known((), "/etc/fstab"),
            stack=stack,
            layout=NO_LAYOUT,
            unlisted=self.mounts if isinstance(self.mounts, Unknown) else None,
            usage=NO_USAGE,
            errors=stored_errors(superblock),
            journal_errno=NO_JOURNAL_ERRNO,
            unzeroed_groups=NO_LAZY_INITIALIZATION,
            primary=read_primary(self.source, path, number, mounts, alive=alive),
            journal_stack=self._journal_stack(superblock),
        )

    def _journal_stack(self, superblock: Evidence[Superblock]) -> Evidence[BlockDevice] | None:
        """Return the device of an external journal, None if the superblock names none.

        A mount with journal_dev= writes the new number to the superblock (fs/ext4/super.c).
        """
        known = for_wording(superblock, None)
        encoded = known.external_journal if known else None
        return self.stacks.read(DeviceNumber.decoded(encoded)) if encoded else None

    def _with_live_state(self, fs: Filesystem) -> Filesystem:
        """Add the state that the kernel reports for a mounted filesystem."""
        file = _read_options_file(self.source, fs)
        mount = self._mount(fs)
        sources = OptionSources(file, mount, fs.superblock, self.kernel)
        return fs._replace(
            alive=True,
            fstype=derive("filesystem type", lambda mount: mount.fstype, mount),
            read_only=_read_only(file, mount),
            options=resolve_options(sources),
            usage=(None if fs.mounts else fs.unlisted)
            or read_usage(self.source, fs.device_number, fs.mounts),
            errors=fs.errors
            if _is_nameless(fs)
            else read_live_errors(self.source, fs.name, fs.superblock),
            journal_errno=read_journal_errno(self.source, fs.device, fs.superblock),
            unzeroed_groups=read_unzeroed_groups(self.source, fs.device, fs.superblock),
            settings=read_settings(self.source, fs.name) if _may_unmount(fs) else NO_SETTINGS,
        )

    def _mount(self, fs: Filesystem) -> Evidence[Mount]:
        if fs.mounts:
            return Known(fs.mounts[0], self.table)
        return self.other_tables.find(fs.device_number)

    def _uuid(
        self, number: DeviceNumber, superblock: Evidence[Superblock], mounts: tuple[Mount, ...]
    ) -> str | None:
        """Return the first UUID that is not all zeros, since zeros identify nothing."""
        listed, stored = listed_device(self.devices, number), for_wording(superblock, None)
        found = (
            stored.uuid if stored else None,
            listed.uuid if listed else None,
            read_uuid(self.source, number, mounts),
        )
        return next((uuid for uuid in found if uuid and uuid.strip("0-")), None)


def _is_nameless(fs: Filesystem) -> bool:
    """Return whether only the device number is known; files in /proc and /sys need the name."""
    return fs.name == str(fs.device_number)


def with_user_options(source: Source, mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """Return the mounts; ext4 mounts get the user-space options that mount(8) keeps in utab."""
    table = absent_means(read(source, UTAB, parse_utab), ())
    if isinstance(table, Unknown):
        return mounts
    kept = {(each.source, each.mount_point): each.options for each in table.value}
    return tuple(
        mount._replace(user_options=kept.get((mount.source, mount.mount_point), ()))
        if mount.fstype in EXT_FSTYPES
        else mount
        for mount in mounts
    )


def _may_unmount(fs: Filesystem) -> bool:
    """Return whether a single umount command can unmount the filesystem."""
    places = [mount.mount_point for mount in fs.mounts if mount.root == "/"]
    return len(fs.mounts) == len(places) == 1 and places != ["/"]


def read_settings(source: Source, name: str) -> Evidence[tuple[tuple[str, int], ...]]:
    """Return the sysfs settings of a mounted filesystem, as far as this kernel has them."""
    directory = f"{SYS_EXT4}/{name}"
    listing = list_directory(source, directory)
    if isinstance(listing, Unknown):
        return listing
    names = [each for each in SETTINGS if each in listing.value]
    values = all_known((read_integer(source, f"{directory}/{name}") for name in names), directory)
    return derive(directory, lambda found: tuple(zip(names, found, strict=True)), values)


def _read_options_file(source: Source, fs: Filesystem) -> Evidence[tuple[str, ...]]:
    if _is_nameless(fs):
        detail = f"the kernel's name of the device {fs.device_number} is not known"
        return Unknown(f"options file of {fs.device_number}", Why.FAILED, detail)
    return read(source, f"/proc/fs/ext4/{fs.name}/options", parse_options_file)


def _read_only(file: Evidence[tuple[str, ...]], shown: Evidence[Mount]) -> Evidence[bool]:
    """Return whether the superblock is read-only; both listings begin with ro or rw.

    After an error the kernel can refuse all writes and still print rw. The tokens `emergency_ro`
    (6.15) and `shutdown` show that state.
    """
    if isinstance(file, Known):
        return derive("read-only state", _refuses_writes, file)
    return derive("read-only state", lambda mount: _refuses_writes(mount.super_options), shown)


def _refuses_writes(tokens: tuple[str, ...]) -> bool:
    return "ro" in tokens[:1] or not {"emergency_ro", "shutdown"}.isdisjoint(tokens)


def read_usage(source: Source, number: DeviceNumber, mounts: tuple[Mount, ...]) -> Evidence[Usage]:
    """Return the usage from a mount point of this superblock, preferably one of the whole tree.

    At the top of a directory with a project quota, which can be bind-mounted, statfs(2) returns
    the quota instead.
    """
    ordered = tuple(sorted(mounts, key=lambda mount: mount.shown_part))
    mount_point = own_mount_point(source, number, ordered)
    if mount_point is None:
        hint = "run in its mount namespace"
        return Unknown(USAGE, Why.ABSENT, "no mount point leads to it", hint)
    found = ask(source, StatFilesystem(mount_point), parse_stat_filesystem, USAGE)
    if isinstance(found, Unknown):
        return found
    device, usage = found.value
    if device != number:
        return Unknown(
            USAGE, Why.FAILED, f"{mount_point} leads to the device {device}", "run again"
        )
    return Known(usage, found.origin)


def read_live_errors(
    source: Source, name: str, superblock: Evidence[Superblock]
) -> Evidence[ErrorCounters]:
    """Return the error counters of a mounted filesystem, with details only if it has errors."""
    directory = f"{SYS_EXT4}/{name}"
    count = read_count(source, f"{directory}/errors_count")
    if isinstance(count, Unknown):
        on_disk = stored_errors(superblock)
        return on_disk if isinstance(on_disk, Known) else count
    warnings = none_if_absent(read_count(source, f"{directory}/warning_count"))
    if count.value == 0:
        return Known(ErrorCounters(0, warnings), count.origin)
    stored = for_wording(stored_errors(superblock), ErrorCounters(0))
    return Known(
        ErrorCounters(
            errors=count.value,
            warnings=warnings,
            first=_recorded(source, f"{directory}/first_error", stored.first),
            last=_recorded(source, f"{directory}/last_error", stored.last),
            last_code=for_wording(read_integer(source, f"{directory}/last_error_errcode"), None),
        ),
        count.origin,
    )


def stored_errors(superblock: Evidence[Superblock]) -> Evidence[ErrorCounters]:
    """Return the error counters that the superblock stores."""
    if isinstance(superblock, Unknown):
        return superblock
    known = superblock.value
    if known.error_count is None:
        return Unknown(
            RECORDED_ERRORS, Why.UNSUPPORTED, "this source of the superblock does not show them"
        )
    counters = ErrorCounters(known.error_count, None, known.first_error, known.last_error)
    return Known(counters, superblock.origin)


def _recorded(source: Source, prefix: str, stored: RecordedError | None) -> RecordedError | None:
    """Return one recorded error; before Linux 5.8 sysfs has only its time."""
    at = for_wording(read_count(source, f"{prefix}_time"), 0) or None
    function = read_line(source, f"{prefix}_func")
    if function is None:
        return stored or (RecordedError(at, "", 0, 0, 0) if at else None)
    line, inode, block = (
        for_wording(read_integer(source, f"{prefix}_{each}"), 0)
        for each in ("line", "ino", "block")
    )
    return RecordedError(at, function, line, inode, block)


def read_journal_errno(
    source: Source, path: str, superblock: Evidence[Superblock]
) -> Evidence[int]:
    """Return the error number in the journal superblock, 0 without an error or a journal.

    `superblock` was read from the device at `path`. `dumpe2fs -h` prints the number; its output
    is already known if the superblock was read with it.
    """
    if isinstance(superblock, Unknown):
        return superblock
    known = superblock.value
    if not known.has_journal:
        return Known(0, superblock.origin)
    if known.journal_device or (known.journal_uuid and not known.journal_inode):
        return Unknown(JOURNAL_ERRNO, Why.UNSUPPORTED, "the journal is on another device")
    printed = ask(source, RunCommand(("dumpe2fs", "-h", path)), parse_journal_errno, JOURNAL_ERRNO)
    if isinstance(printed, Known) or known.journal_at_bytes is None:
        return printed
    place = ReadBytes(path, known.journal_at_bytes, JOURNAL_SUPERBLOCK_BYTES)
    stored = derive(JOURNAL_ERRNO, _parse_journal_superblock, source.fetch(place))
    return stored if isinstance(stored, Known) else most_actionable(printed, stored)


def read_layout(
    source: Source, path: str, superblock: Evidence[Superblock], stack: Evidence[BlockDevice]
) -> Evidence[MetadataLayout] | None:
    """Return the metadata counted by member device, None if no device in the stack stripes."""
    if isinstance(stack, Unknown):
        return stack
    if not may_stripe(stack.value):
        return None
    from ext4audit.assemble.layout import measured_layout  # noqa: PLC0415 - 5 ms

    return measured_layout(source, path, superblock, stack.value)
