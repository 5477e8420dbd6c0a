"""Block devices, fstab entries and targets; this module reads the device stack from sysfs.

`StackReader` starts at `/sys/dev/block/MAJ:MIN`. The disk of a partition is the parent directory,
`slaves/` of an assembled device lists its members, and the device below a loop device is the one
that holds the backing file. Queue limits, md arrays, device-mapper tables and udev properties are
read with each device (Documentation/admin-guide/md.rst for `md/`).
"""

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
from ext4audit.evidence import Evidence, Known, Unknown, Why, absent_means, derive, for_wording
from ext4audit.facts.devices import (
    BlockDevice,
    DmDevice,
    DmSegment,
    LoopDevice,
    MdArray,
    MdMember,
    MdState,
    QueueLimits,
    ThinPool,
)
from ext4audit.facts.mount import DeviceNumber, ResolvedPath
from ext4audit.parsers import (
    parse_count,
    parse_device_number,
    parse_device_size,
    parse_dm_table,
    parse_flag,
    parse_integer,
    parse_key_values,
    parse_resolved_path,
    parse_scheduler,
    parse_thin_pool,
    parse_word,
    parse_write_cache,
)
from ext4audit.sources import ReadFile, ResolvePath, RunCommand, Source, UdevDatabase

MEMBER_PREFIX = "dev-"
MD_PREFIX = "md"
"""The kernel's name prefix of all arrays: other names need no file read to rule out an array."""
_LEVELS = "(linear|raid(0|1|4|5|6|10)|multipath|faulty|container)?"
INACTIVE = "inactive"
"""The level reported for an array that is not running."""
WHOLE_OR_STOPPED = frozenset({"raid0", "linear"})
"""The levels that cannot run with a missing member."""
SLOTLESS = frozenset({"none", "journal"})
"""The content of `slot` for a spare and for the write journal of a RAID5."""
SECTORS_PER_KIB = 2


def read_md(
    source: Source, directory: str, kernel_name: str
) -> tuple[Evidence[MdArray] | None, Evidence[MdState] | None]:
    """Return the geometry of an md array, and its state: missing members and sync action.

    Both are None if the device is not an md array. The kernel names every array md*, so no other
    device becomes an unknown array if `md/level` could not be read. The state is separate from
    the geometry because /proc/mdstat shows missing members, but no member offsets.
    """
    level = read(source, f"{directory}/md/level", _level)
    if isinstance(level, Unknown):
        gap = level if kernel_name.startswith(MD_PREFIX) else None
        return gap, gap
    disks = read(source, f"{directory}/md/raid_disks", _new_value)
    if level.value == INACTIVE and not (isinstance(disks, Known) and disks.value == 0):
        empty = Unknown(f"{directory}/md/level", Why.UNPARSABLE, "empty, in an array with members")
        return empty, empty
    state = MdState(
        level=level.value,
        raid_disks=disks,
        degraded=read_count(source, f"{directory}/md/degraded"),
        sync_action=read(source, f"{directory}/md/sync_action", _action),
    )
    return _geometry(source, directory, level.value, disks), Known(state, f"{directory}/md")


def _geometry(
    source: Source, directory: str, level: str, raid_disks: Evidence[int]
) -> Evidence[MdArray]:
    """Read the geometry: how an array maps bytes to its members."""
    reshape = absent_means(read(source, f"{directory}/md/reshape_position", _position), None)
    layout = for_wording(read(source, f"{directory}/md/layout", _layout), None)
    component = _component(source, directory, level)

    def build(
        chunk: int, disks: int, members: tuple[MdMember, ...], position: str | None
    ) -> MdArray:
        if position is None and level in WHOLE_OR_STOPPED and len(members) != disks:
            raise ValueError(f"{len(members)} of its {disks} members are known")
        return MdArray(
            level=level,
            chunk_bytes=chunk,
            raid_disks=disks,
            layout=layout,
            reshape_position=position,
            members=members,
            component_sectors=component,
        )

    return derive(
        f"md array {directory}/md",
        build,
        read(source, f"{directory}/md/chunk_size", _new_value),
        raid_disks,
        _members(source, f"{directory}/md"),
        reshape,
        origin=f"{directory}/md",
    )


def _component(source: Source, directory: str, level: str) -> int | None:
    """Return the used sectors of each member, for RAID10 only: its far copies depend on them."""
    if level != "raid10":
        return None
    kib = for_wording(read_count(source, f"{directory}/md/component_size"), None)
    return None if kib is None else kib * SECTORS_PER_KIB


def _level(text: str) -> str:
    """Parse a level such as "raid10", or "" as inactive; ValueError if unknown: it may stripe."""
    return parse_word(text, _LEVELS, "no level of Linux") or INACTIVE


def _action(text: str) -> str:
    """Parse "idle", "resync" or "recover"; raise ValueError for an empty text."""
    return parse_word(text, "[a-z]+", "no action of an array")


def _position(text: str) -> str | None:
    """Parse a reshape position ("12288", in mdadm "23% complete"); return None for "none"."""
    position = parse_word(text, "none|[0-9].*", "not a position in an array")
    return None if position == "none" else position


def _new_value(text: str) -> int:
    """Parse "6 (5)" as 6: during a reshape md prints the old value in parentheses."""
    return parse_count(text.partition("(")[0])


def _layout(text: str) -> int:
    """Parse a new layout, which is -1 for a RAID0 whose superblock has none."""
    return parse_integer(text.partition("(")[0])


def _members(source: Source, directory: str) -> Evidence[tuple[MdMember, ...]]:
    entries = list_directory(source, directory)
    if isinstance(entries, Unknown):
        return entries
    names = [entry for entry in entries.value if entry.startswith(MEMBER_PREFIX)]
    if not names:
        return Unknown(directory, Why.UNPARSABLE, "an array without a member")
    members = all_known((_member(source, directory, name) for name in names), entries.origin)
    return derive(directory, _with_slots, members)


def _with_slots(members: tuple[MdMember, ...]) -> tuple[MdMember, ...]:
    """Return the members that have a slot, sorted by slot."""
    return tuple(sorted((m for m in members if m.slot >= 0), key=lambda member: member.slot))


def _member(source: Source, directory: str, entry: str) -> Evidence[MdMember]:
    def build(slot: str, offset: int, size_kib: int) -> MdMember:
        number = -1 if slot.strip() in SLOTLESS else parse_count(slot)
        name = entry.removeprefix(MEMBER_PREFIX)
        return MdMember(number, name, offset, size_kib * SECTORS_PER_KIB)

    return derive(
        f"md member {directory}/{entry}",
        build,
        source.fetch(ReadFile(f"{directory}/{entry}/slot")),
        read_count(source, f"{directory}/{entry}/offset"),
        read_count(source, f"{directory}/{entry}/size"),
    )


THIN_POOL = "thin-pool"
DM_PREFIX, LOOP_PREFIX = "dm-", "loop"
"""The kernel's name prefixes of these devices: other names need no file read to rule them out."""
HINT = "mount /sys"


class StackReader:
    """Reader of device stacks; reads each device once: an array can hold hundreds of volumes."""

    def __init__(self, source: Source) -> None:
        """Store the source; nothing is read yet."""
        self.source = source
        self._whole: dict[DeviceNumber, Evidence[BlockDevice]] = {}
        self._cut: dict[DeviceNumber, Evidence[BlockDevice]] = {}
        self._met_itself = False

    def read(
        self, number: DeviceNumber, above: frozenset[DeviceNumber] = frozenset()
    ) -> Evidence[BlockDevice]:
        """Return the device with this number and all devices below it.

        `above` has the devices already visited: a loop device can hold its own backing file. The
        stack is cut where it reaches one of them again. Such a result depends on `above` and is
        kept for this stack only, so that devices which all name each other are read once.
        """
        if not above:
            self._cut.clear()
        if number in self._whole:
            return self._whole[number]
        if number in self._cut:
            self._met_itself = True
            return self._cut[number]
        before, self._met_itself = self._met_itself, False
        found = self._read(number, above)
        (self._cut if self._met_itself else self._whole)[number] = found
        self._met_itself |= before
        return found

    def _read(self, number: DeviceNumber, above: frozenset[DeviceNumber]) -> Evidence[BlockDevice]:
        directory = f"/sys/dev/block/{number}"
        uevent = read(self.source, f"{directory}/uevent", parse_key_values)
        if isinstance(uevent, Unknown):
            return Unknown(f"block device {number}", uevent.why, uevent.detail, uevent.hint or HINT)
        return derive(
            f"block device {number}",
            lambda fields: self._device(number, directory, fields, above | {number}),
            uevent,
            origin=directory,
        )

    def _device(
        self,
        number: DeviceNumber,
        directory: str,
        fields: dict[str, str],
        above: frozenset[DeviceNumber],
    ) -> BlockDevice:
        if missing := {"DEVNAME", "DEVTYPE"} - fields.keys():
            raise ValueError(f"its uevent lacks {', '.join(sorted(missing))}")
        partition = fields["DEVTYPE"] == "partition"
        name = fields["DEVNAME"].replace("/", "!")
        md, state = (None, None) if partition else read_md(self.source, directory, name)
        dm = None if partition else self._dm(number, directory, name)
        loop = None if partition else self._loop(directory, name)
        udev = ask(self.source, UdevDatabase(str(number)), _pairs, f"udev record of {number}")
        start = read_count(self.source, f"{directory}/start") if partition else None
        return BlockDevice(
            name=name,
            path=f"/dev/mapper/{dm.name}" if dm and dm.name else f"/dev/{fields['DEVNAME']}",
            device_number=number,
            kind="partition" if partition else _kind(md, dm, loop),
            size_sectors=read(self.source, f"{directory}/size", parse_device_size),
            queue=read_queue(self.source, f"{directory}/.." if partition else directory),
            below=self._below(directory, above, loop, partition=partition, made=bool(md or dm)),
            start_sectors=for_wording(start, None) if start else None,
            md=md,
            md_state=state,
            dm=dm,
            loop=loop,
            model=read_line(self.source, f"{directory}/device/model"),
            udev=for_wording(udev, ()),
            alignment_offset_bytes=none_if_absent(
                read_integer(self.source, f"{directory}/alignment_offset")
            ),
            start_gap=start if isinstance(start, Unknown) else None,
            udev_gap=udev if isinstance(udev, Unknown) and udev.why is not Why.ABSENT else None,
        )

    def _below(
        self,
        directory: str,
        above: frozenset[DeviceNumber],
        loop: LoopDevice | None,
        *,
        partition: bool,
        made: bool,
    ) -> Evidence[tuple[BlockDevice, ...]]:
        """Return the devices below one; with `made` (md or dm), an empty list is Unknown."""
        if partition:
            origin = f"{directory}/.."
            numbers = [read(self.source, f"{origin}/dev", parse_device_number)]
        elif loop is not None:
            origin = f"{directory}/loop/backing_file"
            numbers = [loop.backing_device_number]
        else:
            origin = f"{directory}/slaves"
            slaves = list_directory(self.source, origin)
            if isinstance(slaves, Unknown):
                return slaves
            if made and not slaves.value:
                return Unknown(origin, Why.UNPARSABLE, "empty, below a device made of others")
            numbers = [
                read(self.source, f"{origin}/{slave}/dev", parse_device_number)
                for slave in slaves.value
            ]
        devices = (self._one_below(number, above) for number in numbers)
        return all_known((device for device in devices if device), origin)

    def _one_below(
        self, number: Evidence[DeviceNumber], above: frozenset[DeviceNumber]
    ) -> Evidence[BlockDevice] | None:
        """Return the device, None if there is none: a backing file on tmpfs has no block device."""
        if isinstance(number, Unknown):
            return number
        if number.value in above:
            self._met_itself = True
            return None
        return None if number.value.major == 0 else self.read(number.value, above)

    def _dm(self, number: DeviceNumber, directory: str, kernel_name: str) -> DmDevice | None:
        """Return the device-mapper device; its name is "" if only the kernel's name is known."""
        name = self.source.fetch(ReadFile(f"{directory}/dm/name"))
        if isinstance(name, Unknown) and not kernel_name.startswith(DM_PREFIX):
            return None
        # The device is given by number because a name can begin with a dash.
        device = ("-j", str(number.major), "-m", str(number.minor))
        command = RunCommand(("dmsetup", "table", *device))
        table = ask(self.source, command, parse_dm_table, f"device-mapper table of {number}")
        return DmDevice(
            name=for_wording(name, "").removesuffix("\n"),
            uuid=read_line(self.source, f"{directory}/dm/uuid") or "",
            table=table,
            pool=self._pool(table, device),
        )

    def _pool(
        self, table: Evidence[tuple[DmSegment, ...]], device: tuple[str, ...]
    ) -> Evidence[ThinPool] | None:
        """Return the state of a thin pool, None for other devices.

        Without --noflush, `dmsetup status` would commit the pool's metadata (dmsetup(8)).
        """
        if not any(segment.target == THIN_POOL for segment in for_wording(table, ())):
            return None
        command = RunCommand(("dmsetup", "status", "--noflush", *device))
        return ask(self.source, command, parse_thin_pool, "state of the thin pool")

    def _loop(self, directory: str, kernel_name: str) -> LoopDevice | None:
        """Return the loop device, None if it is another device or has no backing file."""
        file = self.source.fetch(ReadFile(f"{directory}/loop/backing_file"))
        if isinstance(file, Unknown) and (
            file.why is Why.ABSENT or not kernel_name.startswith(LOOP_PREFIX)
        ):
            return None
        path = for_wording(file, "").removesuffix("\n")
        where = file if isinstance(file, Unknown) else self._backing(path)
        offset = read_count(self.source, f"{directory}/loop/offset")
        return LoopDevice(
            backing_file=path,
            offset_bytes=for_wording(absent_means(offset, 0), None),
            backing_device_number=derive(
                f"device of {path}", lambda found: found.device_number, where
            ),
            autoclear=read(self.source, f"{directory}/loop/autoclear", parse_flag),
        )

    def _backing(self, path: str) -> Evidence[ResolvedPath]:
        what = f"backing file {path} of a loop"
        return ask(self.source, ResolvePath(path), parse_resolved_path, what)


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Parse udev's properties, sorted by key."""
    return tuple(sorted(parse_key_values(text).items()))


def _kind(md: Evidence[MdArray] | None, dm: DmDevice | None, loop: LoopDevice | None) -> str:
    if md is not None:
        array = for_wording(md, None)
        return array.level if array else "md"
    if dm is not None:
        targets = {segment.target for segment in for_wording(dm.table, ())}
        if len(targets) == 1:
            return f"dm-{targets.pop()}"
        return "dm-crypt" if dm.uuid.startswith("CRYPT-") else "dm"
    return "disk" if loop is None else "loop"


def read_queue(source: Source, directory: str) -> QueueLimits:
    """Read `queue/*` in the sysfs directory of a device; each value can be unknown."""
    return QueueLimits(
        write_cache=read(source, f"{directory}/queue/write_cache", parse_write_cache),
        fua=read(source, f"{directory}/queue/fua", parse_flag),
        rotational=read(source, f"{directory}/queue/rotational", parse_flag),
        discard_max_bytes=read_count(source, f"{directory}/queue/discard_max_bytes"),
        minimum_io_bytes=read_count(source, f"{directory}/queue/minimum_io_size"),
        optimal_io_bytes=read_count(source, f"{directory}/queue/optimal_io_size"),
        logical_block_bytes=read_count(source, f"{directory}/queue/logical_block_size"),
        physical_block_bytes=read_count(source, f"{directory}/queue/physical_block_size"),
        nr_requests=read_count(source, f"{directory}/queue/nr_requests"),
        max_sectors_kb=read_count(source, f"{directory}/queue/max_sectors_kb"),
        wbt_latency_usec=read_count(source, f"{directory}/queue/wbt_lat_usec"),
        scheduler=read(source, f"{directory}/queue/scheduler", parse_scheduler),
        io_timeout_msec=read_count(source, f"{directory}/queue/io_timeout"),
    )
