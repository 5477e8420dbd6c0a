"""Code that several formats share; this module has the text for single terms and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import Filesystem
from ext4audit.finding import (
    Confidence,
    Disruption,
    Finding,
    Phase,
    Remedy,
    Severity,
    Suppression,
    listed,
)
from ext4audit.renderers import chunk_bytes, visible
from ext4audit.report import Outcome

OUTCOME_TEXT: Mapping[Outcome, str] = {
    Outcome.PASS: "passed",
    Outcome.NOT_APPLICABLE: "not applicable",
    Outcome.UNDETERMINED: "undetermined",
    Outcome.ERROR: "stopped with an error",
}
"""The outcomes in summary order; a summary counts findings instead of FAIL."""
DISRUPTION_TEXT: Mapping[Disruption, str] = {
    Disruption.ONLINE: "online",
    Disruption.REMOUNT: "needs a remount",
    Disruption.UNMOUNT: "needs an unmount",
    Disruption.REBOOT: "needs a reboot",
    Disruption.RECREATE: "destroys and recreates the filesystem",
}
PHASE_TEXT: Mapping[Phase, str] = {
    Phase.IMMEDIATE: "now",
    Phase.PERSISTENT: "for good",
    Phase.VERIFY: "check",
    Phase.ROLLBACK: "undo",
}
WHY_TEXT: Mapping[Why, str] = {
    Why.ABSENT: "not there",
    Why.DENIED: "no permission",
    Why.FAILED: "reading it failed",
    Why.TIMED_OUT: "timed out",
    Why.UNPARSABLE: "not understood",
    Why.NOT_CAPTURED: "not captured",
    Why.UNSUPPORTED: "not supported here",
}
USUAL_THRESHOLD = Severity.MEDIUM
"""The threshold to use if `--fail-on` sets none."""
_DETAIL_SUFFICES = frozenset({Why.ABSENT, Why.DENIED, Why.FAILED})
"""Reasons whose detail is a message of the kernel or of a tool ("Permission denied")."""
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024
_DEVICES_SHOWN = 3
_DM_OWNERS = (("LVM-", "lvm"), ("CRYPT-", "crypt"), ("mpath-", "multipath"))
"""Prefixes of device-mapper UUIDs and the owners they indicate (libdevmapper, cryptsetup)."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 disk", "12 disks"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def severities_from(threshold: Severity) -> str:
    """Return the severities that fail an audit in words: "high and worse"."""
    return threshold.value if threshold is Severity.CRITICAL else f"{threshold.value} and worse"


def binary_size(size_bytes: int) -> str:
    """Return bytes in the largest unit that leaves a whole number: 524288 is "512 KiB"."""
    for unit in _UNITS[:-1]:
        if size_bytes % _STEP or not size_bytes:
            return f"{size_bytes} {unit}"
        size_bytes //= _STEP
    return f"{size_bytes} {_UNITS[-1]}"


def rounded_size(size_bytes: int) -> str:
    """Return bytes in the largest unit with at least 1 of it, to one decimal: "24.5 GiB"."""
    size = float(size_bytes)
    for unit in _UNITS[:-1]:
        if round(size, 1) < _STEP:
            return f"{size:.1f}".removesuffix(".0") + f" {unit}"
        size /= _STEP
    return f"{size:.1f}".removesuffix(".0") + f" {_UNITS[-1]}"


def shortened_start(name: str, longest: int) -> str:
    """Shorten a name to `longest` characters by replacing its start with "..."."""
    return name if len(name) <= longest else f"...{name[3 - longest :]}"


def why_text(unknown: Unknown) -> str:
    """Return why something is unknown, in the words of the kernel or tool if it gave any."""
    if unknown.detail and unknown.why in _DETAIL_SUFFICES:
        return unknown.detail
    text = WHY_TEXT[unknown.why]
    return f"{text}: {unknown.detail}" if unknown.detail else text


def disruption_text(remedy: Remedy) -> str:
    """Return what a remedy interrupts, and whether it destroys data."""
    text = DISRUPTION_TEXT[remedy.disruption]
    if remedy.destructive and remedy.disruption is not Disruption.RECREATE:
        return f"{text}, destroys data"
    return text


def doubt_text(finding: Finding) -> str:
    """Return " (likely)" or " (possible)", or "" for a confirmed finding."""
    confirmed = finding.confidence is Confidence.CONFIRMED
    return "" if confirmed else f" ({finding.confidence.value})"


def remedy_label(index: int) -> str:
    """Return the label of a finding's remedy: all but the first are alternatives."""
    return "Or" if index else "Remedy"


def suppression_text(suppression: Suppression) -> str:
    """Return why a finding is accepted, by whom and until when."""
    owner = f", says {suppression.owner}" if suppression.owner else ""
    expires = f", until {suppression.expires}" if suppression.expires else ""
    return visible(f"{suppression.reason}{owner}{expires}")


def evidence_lines(finding: Finding) -> Iterator[str]:
    """Yield the evidence of a finding, one line for each citation."""
    for cited in finding.citations:
        yield visible(f"{cited.label}: {cited.value} ({cited.origin})")


def stack_text(fs: Filesystem) -> str:
    """Return the device stack of a filesystem in one phrase, from the top device down."""
    if isinstance(fs.stack, Unknown):
        return "device stack not known"
    device = fs.stack.value
    if device.kind == "disk":
        return f"disk ({device.model})" if device.model else "disk"
    if device.kind == "partition":
        return _partition(fs, device.known_below)
    return _composite(fs, device)


def _partition(fs: Filesystem, below: Sequence[BlockDevice]) -> str:
    """Describe a partition by the name of its disk, or by the components of another device."""
    if any(each.kind != "disk" for each in below):
        return f"partition on {_composite(fs, below[0])}"
    return f"partition of {listed([each.name for each in below]) or 'a disk'}"


def _composite(fs: Filesystem, device: BlockDevice) -> str:
    """Describe a device with components: a stripe, a loop device, a dm device."""
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
    owner = next((name for prefix, name in _DM_OWNERS if uuid.startswith(prefix)), None)
    return f"{owner} ({device.kind})" if owner else device.kind


def _members(device: BlockDevice) -> str:
    """Count the members; the count that an array reports includes members that are not visible."""
    seen = device.known_below
    number = device.md.value.raid_disks if isinstance(device.md, Known) else len(seen)
    kinds = {each.kind for each in seen}
    noun = next(iter(kinds)) if kinds in ({"disk"}, {"partition"}) else "device"
    return counted(number, noun)


def _below(fs: Filesystem, device: BlockDevice) -> str:
    below = device.known_below
    if len(below) == 1 and below[0].kind not in {"disk", "partition"}:
        return _composite(fs, below[0])
    return listed([each.name for each in below], _DEVICES_SHOWN)


def type_text(fs: Filesystem) -> str:
    """Return the type it is mounted as or, if it is not mounted, the type of its features."""
    if isinstance(fs.fstype, Known):
        return fs.fstype.value
    if isinstance(fs.superblock, Known) and not fs.alive:
        return fs.superblock.value.fstype
    return "type not known"


def held_text(fs: Filesystem) -> str:
    """Return why a filesystem without visible mounts counts as alive.

    Its type is known if it is in the mount table of some process.
    """
    if isinstance(fs.fstype, Known):
        return "mounted in another mount namespace"
    return "active in the kernel, but in no readable mount table"
