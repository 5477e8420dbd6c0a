"""The device stack in rows: which devices share a box of its picture, and which boxes touch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ext4audit.evidence import Unknown, value_or
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.mount import DeviceNumber

_MOST_APART = 4
"""More equal devices side by side than this are drawn as one."""
TOP = "filesystem"
"""The key of the filesystem's box."""


@dataclass(frozen=True, slots=True)
class Pile:
    """Devices that are drawn as one box: equal ones, or a single one.

    `above` are the keys of the boxes that it lies below. `unknown` is set where nobody could see
    what lies here; `devices` is then the one whose lower devices are not known.
    """

    key: str
    devices: tuple[BlockDevice, ...]
    above: tuple[str, ...]
    unknown: Unknown | None = None


def rows_of(top: BlockDevice) -> tuple[tuple[Pile, ...], ...]:
    """Return the rows of the picture, the top device alone in the first.

    A device stands below the lowest of those that are made of it, so that all lines go down.
    """
    depths = _depths(top)
    devices = [device for device in top.walk() if device.device_number in depths]
    keys: dict[DeviceNumber, str] = {}
    rows = []
    for depth in range(max(depths.values()) + 2):
        here = [device for device in devices if depths[device.device_number] == depth]
        above = [device for device in devices if depths[device.device_number] < depth]
        piles = list(_piles(here, above, keys))
        keys |= {each.device_number: pile.key for pile in piles for each in pile.devices}
        over = [device for device in devices if depths[device.device_number] == depth - 1]
        rows.append((*piles, *_unknown_piles(over, keys)))
    return tuple(row for row in rows if row)


def _depths(top: BlockDevice) -> dict[DeviceNumber, int]:
    """Return how far below the top each device is, by the longest path down."""
    depths: dict[DeviceNumber, int] = {}

    def visit(device: BlockDevice, depth: int, path: frozenset[DeviceNumber]) -> None:
        number = device.device_number
        if number in path or depths.get(number, -1) >= depth:
            return
        depths[number] = depth
        for each in device.known_below:
            visit(each, depth + 1, path | {number})

    visit(top, 0, frozenset())
    return depths


def _piles(
    here: Sequence[BlockDevice], above: Sequence[BlockDevice], keys: dict[DeviceNumber, str]
) -> Iterator[Pile]:
    """Join many equal devices into one pile; the order is that of the stack."""
    groups: dict[object, list[tuple[BlockDevice, tuple[str, ...]]]] = {}
    for device in here:
        parents = _parents(device, above, keys)
        groups.setdefault((_looks(device), parents), []).append((device, parents))
    for group in groups.values():
        parents = group[0][1]
        devices = tuple(device for device, _ in group)
        piles = [devices] if len(devices) > _MOST_APART else [(device,) for device in devices]
        yield from (Pile(str(pile[0].device_number), pile, parents) for pile in piles)


def _parents(
    device: BlockDevice, above: Sequence[BlockDevice], keys: dict[DeviceNumber, str]
) -> tuple[str, ...]:
    number = device.device_number
    direct = [
        keys[each.device_number]
        for each in above
        if any(below.device_number == number for below in each.known_below)
    ]
    return tuple(dict.fromkeys(direct)) or (TOP,)


def _looks(device: BlockDevice) -> tuple[object, ...]:
    """Return what a box shows of a device, except its name."""
    cache = value_or(device.queue.write_cache, None)
    rotational = value_or(device.queue.rotational, None)
    return (device.kind, device.model, cache, rotational, isinstance(device.below, Unknown))


def _unknown_piles(over: Sequence[BlockDevice], keys: dict[DeviceNumber, str]) -> Iterator[Pile]:
    """Yield what could not be seen below a device, once for each pile."""
    found: dict[str, Pile] = {}
    for device in over:
        above = keys[device.device_number]
        if isinstance(device.below, Unknown) and above not in found:
            found[above] = Pile(f"below {above}", (device,), (above,), device.below)
    yield from found.values()
