"""The stack of block devices below a filesystem, walked through sysfs.

`/sys/dev/block/MAJ:MIN` leads to a device whatever it is called; a partition's disk is its
parent directory, an assembled device names its members in `slaves/`, and a loop device names
a file, whose filesystem lies on the next device.
"""

from __future__ import annotations

from ext4audit.assemble.md import read_md
from ext4audit.assemble.queue import read_queue
from ext4audit.assemble.reading import ask, integer, names, read, word
from ext4audit.evidence import Evidence, Known, Unknown, derive, value_or
from ext4audit.facts.block import BlockDevice, DmDevice, LoopDevice, MdArray
from ext4audit.facts.mount import DeviceNumber, Mount
from ext4audit.parsers.dm_table import parse_dm_table
from ext4audit.parsers.resolved_path import parse_resolved_path
from ext4audit.parsers.sysfs import parse_device_number, parse_flag, parse_key_values
from ext4audit.records import dataclass
from ext4audit.sources.ask import ReadFile, ResolvePath, RunCommand, Source, UdevDatabase

HINT = "mount /sys, or run on the host instead of in a container"


@dataclass(frozen=True, slots=True)
class StackReader:
    """Reads device stacks from one source; `mounts` tell what a loop's backing file is on."""

    source: Source
    mounts: tuple[Mount, ...]

    def read(
        self, number: DeviceNumber, above: frozenset[DeviceNumber] = frozenset()
    ) -> Evidence[BlockDevice]:
        """Return the device with this number and all below it.

        `above` are the devices already passed: a loop device may hold its own backing file.
        """
        directory = f"/sys/dev/block/{number}"
        uevent = read(self.source, f"{directory}/uevent", parse_key_values)
        if isinstance(uevent, Unknown):
            hint = uevent.hint or HINT
            return Unknown(f"block device {number}", uevent.why, uevent.detail, hint)
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
        partition = fields.get("DEVTYPE") == "partition"
        name = fields["DEVNAME"].replace("/", "!")
        md = read_md(self.source, directory)
        dm = self._dm(number, directory)
        loop = self._loop(directory)
        return BlockDevice(
            name=name,
            path=f"/dev/mapper/{dm.name}" if dm else f"/dev/{fields['DEVNAME']}",
            device_number=number,
            kind="partition" if partition else _kind(md, dm, loop),
            size_sectors=integer(self.source, f"{directory}/size"),
            read_only=read(self.source, f"{directory}/ro", parse_flag),
            queue=read_queue(self.source, f"{directory}/.." if partition else directory),
            below=self._below(directory, above, loop=loop, partition=partition),
            start_sectors=value_or(integer(self.source, f"{directory}/start"), None)
            if partition
            else None,
            md=md,
            dm=dm,
            loop=loop,
            model=word(self.source, f"{directory}/device/model"),
            udev=self._udev(number),
            alignment_offset_bytes=value_or(
                integer(self.source, f"{directory}/alignment_offset"), None
            ),
        )

    def _below(
        self,
        directory: str,
        above: frozenset[DeviceNumber],
        *,
        loop: LoopDevice | None,
        partition: bool,
    ) -> Evidence[tuple[BlockDevice, ...]]:
        if partition:
            origin = f"{directory}/.."
            numbers = [read(self.source, f"{origin}/dev", parse_device_number)]
        elif loop is not None:
            origin = f"{directory}/loop/backing_file"
            numbers = [loop.backing_device_number]
        else:
            origin = f"{directory}/slaves"
            slaves = names(self.source, origin)
            if isinstance(slaves, Unknown):
                return slaves
            numbers = [
                read(self.source, f"{origin}/{slave}/dev", parse_device_number)
                for slave in slaves.value
            ]
        devices = []
        for number in numbers:
            device = self._one_below(number, above)
            if isinstance(device, Unknown):
                return device
            if isinstance(device, Known):
                devices.append(device.value)
        return Known(tuple(devices), origin)

    def _one_below(
        self, number: Evidence[DeviceNumber], above: frozenset[DeviceNumber]
    ) -> Evidence[BlockDevice] | None:
        """Return the device, None where there is none: a loop file on tmpfs lies on no device."""
        if isinstance(number, Unknown):
            return number
        if number.value.major == 0 or number.value in above:
            return None
        return self.read(number.value, above)

    def _dm(self, number: DeviceNumber, directory: str) -> DmDevice | None:
        name = self.source.fetch(ReadFile(f"{directory}/dm/name"))
        if isinstance(name, Unknown):
            return None
        # By number, not by name: a name may begin with a dash.
        command = RunCommand(("dmsetup", "table", "-j", str(number.major), "-m", str(number.minor)))
        return DmDevice(
            name=name.value.removesuffix("\n"),
            uuid=word(self.source, f"{directory}/dm/uuid") or "",
            table=ask(self.source, command, parse_dm_table, f"device-mapper table of {number}"),
        )

    def _loop(self, directory: str) -> LoopDevice | None:
        file = self.source.fetch(ReadFile(f"{directory}/loop/backing_file"))
        if isinstance(file, Unknown):
            return None
        path = file.value.removesuffix("\n")
        where = ask(
            self.source, ResolvePath(path), parse_resolved_path, f"backing file {path} of a loop"
        )
        return LoopDevice(
            backing_file=path,
            offset_bytes=value_or(integer(self.source, f"{directory}/loop/offset"), 0),
            backing_device_number=derive(
                f"device of {path}", lambda found: found.device_number, where
            ),
            backing_fstype=derive(
                f"filesystem type of {path}", lambda found: self._fstype(found.mount_id), where
            ),
        )

    def _fstype(self, mount_id: int) -> str:
        for mount in self.mounts:
            if mount.mount_id == mount_id:
                return mount.fstype
        raise ValueError(f"no mount has the id {mount_id}")

    def _udev(self, number: DeviceNumber) -> tuple[tuple[str, str], ...]:
        """Read udev's properties: enrichment, so that their absence is no hole."""
        question = UdevDatabase(str(number))
        properties = ask(self.source, question, parse_key_values, "udev properties")
        return tuple(sorted(value_or(properties, {}).items()))


def _kind(md: Evidence[MdArray] | None, dm: DmDevice | None, loop: LoopDevice | None) -> str:
    if md is not None:
        return md.value.level if isinstance(md, Known) else "md"
    if dm is not None:
        targets = {segment.target for segment in value_or(dm.table, ())}
        if len(targets) == 1:
            return f"dm-{targets.pop()}"
        return "dm-crypt" if dm.uuid.startswith("CRYPT-") else "dm"
    return "disk" if loop is None else "loop"
