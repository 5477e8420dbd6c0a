"""The member devices of a stripe in words: what each one holds, and whether it rotates."""

from __future__ import annotations

from itertools import groupby

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.block import BlockDevice
from ext4audit.facts.layout import MetadataLayout
from ext4audit.finding import Citation

HINT = "run on the host, where /sys shows the member devices"
VIRTUAL_NAMES = ("vd", "xvd")
"""virtio and Xen disks (Documentation/admin-guide/devices.txt)."""
VIRTUAL_MODELS = ("QEMU", "VBOX", "VIRTUAL DISK")
"""Models of the SCSI and ATA disks of QEMU, VirtualBox, VMware and Hyper-V."""


def media_of(stack: Evidence[BlockDevice], layout: MetadataLayout) -> tuple[Evidence[bool], ...]:
    """Return for each member whether it rotates; the stack's hole where nothing below is seen."""
    if isinstance(stack, Unknown):
        return (stack,)
    devices = {device.name: device for device in stack.value.walk()}
    return tuple(_rotates(devices.get(member.name), member.name) for member in layout.members)


def _rotates(device: BlockDevice | None, name: str) -> Evidence[bool]:
    what = f"rotational of {name}"
    if device is None:
        return Unknown(what, Why.ABSENT, hint=HINT)
    rotational = device.queue.rotational
    # A virtual disk says that it rotates unless it was told otherwise: virtio on NVMe does.
    if isinstance(rotational, Known) and rotational.value and _is_virtual(device):
        return Unknown(what, Why.UNSUPPORTED, "a virtual disk does not tell what it lies on")
    return rotational


def _is_virtual(device: BlockDevice) -> bool:
    model = (device.model or "").upper()
    return device.name.startswith(VIRTUAL_NAMES) or any(word in model for word in VIRTUAL_MODELS)


def media_citation(media: tuple[Evidence[bool], ...]) -> Citation:
    """Cite how many members rotate."""
    words = ["unknown" if isinstance(r, Unknown) else "yes" if r.value else "no" for r in media]
    value = ", ".join(f"{word}: {words.count(word)}" for word in dict.fromkeys(words))
    origins = [each.origin for each in media if isinstance(each, Known)]
    return Citation("rotational members", value, origins[0] if origins else "/sys")


def histogram(names: tuple[str, ...], loads: tuple[int, ...]) -> str:
    """Spell the loads in slot order, a range of names with the same load together.

    Slots need not follow names: vdc, vda, vdd, vdb is no range from vdc to vdb.
    """
    by_name = sorted(names, key=lambda name: (len(name), name))

    def range_of(place: tuple[int, tuple[str, int]]) -> tuple[int, int]:
        slot, (name, load) = place
        return load, by_name.index(name) - slot

    members = enumerate(zip(names, loads, strict=False))
    runs = [(load, [name for _, (name, _) in run]) for (load, _), run in groupby(members, range_of)]
    return ", ".join(
        f"{names[0]}{f' to {names[-1]}' if len(names) > 1 else ''}: {load}" for load, names in runs
    )
