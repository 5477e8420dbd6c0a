"""Plain words for numbers, severities, reasons and device stacks, and bars of text."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Disruption, Phase, Remedy

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024

DISRUPTION_WORDS = MappingProxyType(
    {
        Disruption.ONLINE: "online",
        Disruption.REMOUNT: "needs a remount",
        Disruption.UNMOUNT: "needs an unmount",
        Disruption.REBOOT: "needs a reboot",
        Disruption.RECREATE: "destroys and recreates the filesystem",
    }
)
PHASE_WORDS = MappingProxyType(
    {
        Phase.IMMEDIATE: "now",
        Phase.PERSISTENT: "for good",
        Phase.VERIFY: "check",
        Phase.ROLLBACK: "undo",
    }
)
WHY_WORDS = MappingProxyType(
    {
        Why.ABSENT: "not there",
        Why.DENIED: "no permission",
        Why.FAILED: "reading it failed",
        Why.TIMED_OUT: "timed out",
        Why.UNPARSABLE: "not understood",
        Why.NOT_CAPTURED: "not captured",
        Why.UNSUPPORTED: "not supported here",
    }
)
_SAID_BY_DETAIL = frozenset({Why.ABSENT, Why.DENIED, Why.FAILED})
"""Reasons for which the kernel or a tool has words of its own ("Permission denied")."""


def counted(number: int, noun: str) -> str:
    """Return "1 disk", "12 disks"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def binary_size(size_bytes: int) -> str:
    """Return bytes in the largest unit that leaves a whole number: 524288 is "512 KiB"."""
    for unit in _UNITS[:-1]:
        if size_bytes % _STEP or not size_bytes:
            return f"{size_bytes} {unit}"
        size_bytes //= _STEP
    return f"{size_bytes} {_UNITS[-1]}"


def listed(names: Sequence[str], limit: int | None = None) -> str:
    """Return the names with commas; beyond `limit`, how many more there are."""
    if limit is None or len(names) <= limit:
        return ", ".join(names)
    return f"{', '.join(names[:limit])} and {len(names) - limit} more"


def disruption_words(remedy: Remedy) -> str:
    """Say what a remedy stops, and that it destroys data where it does."""
    words = DISRUPTION_WORDS[remedy.disruption]
    if remedy.destructive and remedy.disruption is not Disruption.RECREATE:
        return f"{words}, destroys data"
    return words


def why_words(unknown: Unknown) -> str:
    """Say why something is not known, in the host's own words where they say it."""
    if unknown.detail and unknown.why in _SAID_BY_DETAIL:
        return unknown.detail
    words = WHY_WORDS[unknown.why]
    return f"{words}: {unknown.detail}" if unknown.detail else words


def chunk_bytes(fs: Filesystem, device: BlockDevice) -> int | None:
    """Return the chunk of a device of the stack of `fs`, None where it has or shows none.

    An md array states it itself; that of an LVM stripe was read off the device-mapper table
    for the layout. md says 0 for levels without chunks (Documentation/admin-guide/md.rst).
    """
    if isinstance(device.md, Known):
        return device.md.value.chunk_bytes or None
    geometry = fs.layout.value.geometry if isinstance(fs.layout, Known) else None
    return geometry.chunk_bytes if geometry and geometry.device == device.name else None


_NAMES_SHOWN = 3
_DM_OWNERS = (("LVM-", "lvm"), ("CRYPT-", "crypt"), ("mpath-", "multipath"))
"""How each owner of device-mapper devices begins their uuid (libdevmapper, cryptsetup)."""


def stack_words(fs: Filesystem) -> str:
    """Describe what lies below a filesystem, from the top device down to where names suffice."""
    if isinstance(fs.stack, Unknown):
        return "device stack not known"
    device = fs.stack.value
    if device.kind == "disk":
        return f"disk ({device.model})" if device.model else "disk"
    if device.kind == "partition":
        return _partition(fs, device.known_below)
    return _made_of(fs, device)


def _partition(fs: Filesystem, below: Sequence[BlockDevice]) -> str:
    """Describe a partition: of a disk by its name, of anything else by what that is made of."""
    if any(each.kind != "disk" for each in below):
        return f"partition on {_made_of(fs, below[0])}"
    return f"partition of {listed([each.name for each in below]) or 'a disk'}"


def _made_of(fs: Filesystem, device: BlockDevice) -> str:
    """Describe a device that is made of others: a stripe, a loop device, a dm device."""
    if device.loop is not None:
        return f"loop over {device.loop.backing_file}"
    chunk = chunk_bytes(fs, device)
    if chunk is not None or device.md is not None:
        size = "" if chunk is None else f", {binary_size(chunk)} chunk"
        return f"{_kind(device)} of {_members(device)}{size}"
    below = _below(fs, device)
    return f"{_kind(device)} on {below}" if below else _kind(device)


def _kind(device: BlockDevice) -> str:
    uuid = device.dm.uuid if device.dm else ""
    owner = next((word for prefix, word in _DM_OWNERS if uuid.startswith(prefix)), None)
    return f"{owner} ({device.kind})" if owner else device.kind


def _members(device: BlockDevice) -> str:
    """Count the members: the array's own number, also where a member cannot be seen."""
    seen = device.known_below
    number = device.md.value.raid_disks if isinstance(device.md, Known) else len(seen)
    kinds = {each.kind for each in seen}
    noun = next(iter(kinds)) if kinds in ({"disk"}, {"partition"}) else "device"
    return counted(number, noun)


def _below(fs: Filesystem, device: BlockDevice) -> str:
    below = device.known_below
    if len(below) == 1 and below[0].kind not in {"disk", "partition"}:
        return _made_of(fs, below[0])
    return listed([each.name for each in below], _NAMES_SHOWN)


_EIGHTHS = " ▏▎▍▌▋▊▉█"
"""Left blocks of the Unicode range Block Elements (U+2588 to U+258F), by eighths filled."""
_PARTS = 8


def bar(value: float, largest: float, columns: int, *, ascii_only: bool) -> str:
    """Return a bar of at most `columns` columns, filled in the ratio of `value` to `largest`.

    What is not zero shows at least its least mark: a member with one bitmap is not idle.
    With `ascii_only` whole columns of `#` stand for the blocks.
    """
    if value <= 0 or largest <= 0:
        return ""
    share = min(value / largest, 1.0)
    if ascii_only:
        return "#" * max(round(share * columns), 1)
    eighths = max(round(share * columns * _PARTS), 1)
    whole, rest = divmod(eighths, _PARTS)
    return _EIGHTHS[_PARTS] * whole + (_EIGHTHS[rest] if rest else "")
