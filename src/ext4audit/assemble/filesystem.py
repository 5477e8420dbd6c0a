"""Join what is known of one superblock into a Filesystem."""

from __future__ import annotations

from ext4audit.assemble.journal import read_journal_errno
from ext4audit.assemble.namespaces import find_elsewhere
from ext4audit.assemble.option_places import OptionSources
from ext4audit.assemble.options import resolve_options
from ext4audit.assemble.reading import read
from ext4audit.assemble.recorded_errors import read_live_errors, stored_errors
from ext4audit.assemble.stack import StackReader
from ext4audit.assemble.stripe_layout import read_layout
from ext4audit.assemble.superblock import device_path, read_superblock, read_uuid
from ext4audit.assemble.unzeroed_groups import read_unzeroed_groups
from ext4audit.assemble.usage import read_usage
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive
from ext4audit.facts.host import Filesystem
from ext4audit.facts.kernel import Kernel
from ext4audit.facts.lsblk import LsblkDevice
from ext4audit.facts.mount import DeviceNumber, Mount
from ext4audit.parsers.ext4_options import parse_options_file
from ext4audit.records import dataclass
from ext4audit.sources.ask import Source

NO_LAYOUT = Unknown(
    "metadata layout",
    Why.NOT_CAPTURED,
    "the group descriptors of a device that nobody asked about are not read",
    "name the device as a TARGET",
)
_IDLE = "the filesystem is not mounted"
NOT_MOUNTED = Unknown("effective options", Why.ABSENT, _IDLE)
NO_USAGE = Unknown("space in use", Why.ABSENT, _IDLE)
NO_JOURNAL_ERRNO = Unknown("journal errno", Why.ABSENT, _IDLE)
NO_LAZY_INITIALIZATION = Unknown("groups to be initialized", Why.ABSENT, _IDLE)


@dataclass(frozen=True, slots=True)
class FilesystemReader:
    """Reads filesystems one by one; what is the same for all of them is read once."""

    source: Source
    kernel: Evidence[Kernel]
    mounts: tuple[Mount, ...]
    devices: tuple[LsblkDevice, ...]
    stacks: StackReader

    def read(
        self, number: DeviceNumber, name: str, *, alive: bool = True, with_layout: bool = True
    ) -> Filesystem:
        """Return the filesystem on a device, without its fstab entries: they need all UUIDs."""
        mounts = tuple(mount for mount in self.mounts if mount.device_number == number)
        stack = self.stacks.read(number)
        path = device_path(stack, name)
        superblock = read_superblock(self.source, path, number, mounts)
        listed = next((each for each in self.devices if each.device_number == number), None)
        shown = self._shown(number, mounts) if alive else NOT_MOUNTED
        file = self._options_file(name) if alive else NOT_MOUNTED
        known = superblock.value if isinstance(superblock, Known) else None
        return Filesystem(
            device_number=number,
            name=name,
            device=path,
            fstype=derive("filesystem type", lambda mount: mount.fstype, shown),
            alive=alive,
            mounts=mounts,
            read_only=_read_only(file, shown) if alive else NOT_MOUNTED,
            superblock=superblock,
            uuid=_uuid(
                known.uuid if known else None,
                listed.uuid if listed else None,
                read_uuid(self.source, number, mounts),
            ),
            label=(known.label if known else None) or (listed.label if listed else None),
            options=resolve_options(OptionSources(file, shown, superblock, self.kernel))
            if alive
            else NOT_MOUNTED,
            fstab=Known((), "/etc/fstab"),
            stack=stack,
            layout=read_layout(self.source, path, superblock, stack) if with_layout else NO_LAYOUT,
            usage=read_usage(self.source, number, mounts) if alive else NO_USAGE,
            errors=read_live_errors(self.source, name, superblock)
            if alive
            else stored_errors(superblock),
            journal_errno=read_journal_errno(self.source, path, superblock)
            if alive
            else NO_JOURNAL_ERRNO,
            unzeroed_groups=read_unzeroed_groups(self.source, path, superblock)
            if alive
            else NO_LAZY_INITIALIZATION,
        )

    def _options_file(self, name: str) -> Evidence[tuple[str, ...]]:
        return read(self.source, f"/proc/fs/ext4/{name}/options", parse_options_file)

    def _shown(self, number: DeviceNumber, mounts: tuple[Mount, ...]) -> Evidence[Mount]:
        if mounts:
            return Known(mounts[0], "/proc/self/mountinfo")
        return find_elsewhere(self.source, number)


def _read_only(file: Evidence[tuple[str, ...]], shown: Evidence[Mount]) -> Evidence[bool]:
    """Say whether the superblock is read-only; both places begin with ro or rw.

    After an error the kernel may refuse all writes and still print rw: `emergency_ro` (6.15) and
    `shutdown` say so.
    """
    if isinstance(file, Known):
        return derive("read-only state", _refuses_writes, file)
    return derive("read-only state", lambda mount: _refuses_writes(mount.super_options), shown)


def _refuses_writes(tokens: tuple[str, ...]) -> bool:
    return "ro" in tokens[:1] or not {"emergency_ro", "shutdown"}.isdisjoint(tokens)


def _uuid(*stated: str | None) -> str | None:
    """Return the first UUID that identifies something: all zeros means that none was made."""
    return next((uuid for uuid in stated if uuid and uuid.strip("0-")), None)
