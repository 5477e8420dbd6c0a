"""DRF006: An ext4 entry of fstab is not mounted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ext4audit import remedies
from ext4audit.evidence import MOUNT_TABLE, Known, Unknown, Why, for_wording, need, raise_for
from ext4audit.facts import cached_by_identity
from ext4audit.facts.devices import listed_device
from ext4audit.facts.host import Host, filesystems_by_number
from ext4audit.facts.mount import (
    EXT_FSTYPES,
    DeviceNumber,
    FstabEntry,
    FstabLine,
    Mount,
    intended_flags,
    mounts_by_device,
)
from ext4audit.facts.superblock import split_link, split_spec
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, host_rule
from ext4audit.rules.shared import FSTAB_OF_CONTAINER, cite_fstab, in_brief, refuse_container

TIMEOUT = "x-systemd.device-timeout="
NOT_A_MOUNT = frozenset({"none", "swap", "", "-"})
OTHER_MOUNTED = "Compare fstab with the mount table (findmnt): correct the line, or the mount."
NOT_AT_BOOT = (
    "If the host is to boot without it, add nofail to its line of fstab, or remove the line."
)
NOT_READ = "was not read, and may be a second path to a mounted filesystem"
IN_CAPITALS = "Write its UUID in lower case, because mount(8) compares UUIDs as text."
NOT_NEEDED = "If it will not come back, remove its line from fstab."


@host_rule(
    "DRF006",
    "fstab-entry-not-mounted",
    severity=Severity.HIGH,
    since="0.1",
    references=("fstab(5)", "systemd.mount(5)"),
)
def check(host: Host) -> RuleOutput:
    """## What it checks

    Entries of fstab for ext2, ext3 or ext4, without `noauto`, whose mount point is not mounted or
    has a different filesystem mounted. Severity is high, but low for an entry with `nofail` if
    nothing is mounted in its place, because `nofail` declares that the filesystem may be missing.
    It is also low for the entry of the root filesystem if its device was not found, unless the root
    stays read-only because of that. A root filesystem below an overlay that keeps it unchanged
    counts as mounted. The rule also reports a mounted entry that names its device by a UUID in
    capitals, which the next boot does not find.

    ## Why it matters

    Services that start without the filesystem write into the directory below the mount point.
    That data is hidden once the filesystem is mounted. With `nofail`, the boot reports no error;
    without it, the boot waits for a missing device and then fails.

    ## Remedy

    Check the directory for files that were written in the meantime, then mount the filesystem. If
    its device is gone, attach the device, or correct the line before the next boot: add `nofail`,
    or remove the line. mount(8) compares UUIDs as text: it finds no device for a UUID in capitals.

    ## When to ignore

    Ignore it if the filesystem was unmounted on purpose; then add `noauto` or remove the entry. The
    mount program of busybox accepts capitals in a UUID.
    """
    refuse_container(host, FSTAB_OF_CONTAINER)
    entries, mounts = need(host.fstab, host.mounts)
    expected = [entry for entry in entries if _is_expected(entry)]
    if not expected:
        raise NotApplicable("fstab has no ext4 entry to mount at boot")
    gaps = []
    for entry in expected:
        there = entry.mounted_there(mounts)
        number = entry.device_number
        is_there = any(isinstance(number, Known) and m.device_number == number.value for m in there)
        is_there = is_there or _is_below_overlay(host, entry, there)
        # A remount of the root does not look for a path.
        if is_there and _is_in_capitals(entry) and not (entry.place == "/" and _is_path(entry)):
            yield _not_found_at_boot(host, entry)
        elif is_there:
            line = entry.line
            yield cite_fstab(line, line.mount_point)
        elif isinstance(number, Unknown) and _may_be_mounted(entry, there):
            gaps.append(number)
        else:
            yield _finding(entry, there, _remedies(host, entry, there))
            gaps += [number] if isinstance(number, Unknown) and not _is_missing(entry) else []
    raise_for(gaps)


def _is_in_capitals(entry: FstabEntry) -> bool:
    """Return whether an entry names a UUID in capitals, which libblkid and udev never print."""
    spec = entry.line.spec
    key, value = split_spec(spec) or split_link(spec) or ("", "")
    return key.endswith("UUID") and value != value.lower()


def _not_found_at_boot(host: Host, entry: FstabEntry) -> Finding:
    """Return the finding on a mounted entry whose UUID mount(8) will not find."""
    line, is_root = entry.line, entry.place == "/"
    then = f"the boot waits for it and then fails ({_in_systemd(entry)})"
    if is_root:
        then = "the boot's remount of the root fails, and no option of the entry takes effect"
    elif _is_optional(entry):
        then = "the boot continues without it (nofail)"
    words = [each for each in for_wording(host.kernel_arguments, ()) if each in {"ro", "rw"}]
    is_mild = words[-1:] == ["rw"] if is_root else _is_optional(entry)
    return Finding(
        message=f"fstab names {line.spec} for {line.mount_point}, but mount(8) compares UUIDs as "
        f"text and finds no device in capitals: {then}.",
        severity=Severity.LOW if is_mild else Severity.HIGH,
        confidence=Confidence.LIKELY,
        citations=(cite_fstab(line, f"{line.spec} {line.mount_point}"),),
        remedies=(Remedy(IN_CAPITALS, Disruption.ONLINE),),
        fact=line.mount_point,
        summary="mount(8) finds no device for a UUID in capitals",
    )


def _may_be_mounted(entry: FstabEntry, there: Sequence[Mount]) -> bool:
    """Return whether a mounted filesystem may be that of an entry whose device was not found."""
    return any(
        m.fstype in EXT_FSTYPES and m.device_number not in entry.other_devices for m in there
    )


def _is_expected(entry: FstabEntry) -> bool:
    """Return whether an entry is mounted at boot and certainly ext4: type "auto" may not be."""
    line = entry.line
    automatic = not {"noauto", "x-systemd.automount"} & set(line.options)
    return automatic and line.fstype != "auto" and line.mount_point not in NOT_A_MOUNT


def _is_below_overlay(host: Host, entry: FstabEntry, there: Sequence[Mount]) -> bool:
    """Return whether the filesystem of / is in use below an overlay that keeps it unchanged."""
    fs = host.filesystem(entry.device_number)
    is_overlay = any(mount.fstype == "overlay" for mount in there)
    return entry.place == "/" and is_overlay and fs is not None and fs.alive


def _is_second_path(host: Host, number: DeviceNumber) -> bool | None:
    """Return whether a device is or may be a second path to a mounted filesystem.

    Mounting it would damage the filesystem. None if neither a superblock nor lsblk shows what is
    on the device: only targets are audited, or there is no udev.
    """
    if number in mounts_by_device(for_wording(host.mounts, ())):
        return False
    fs = filesystems_by_number(for_wording(host.unmounted, ())).get(number)
    if fs is not None:
        twin = host.mounted_twin(fs)
        return twin is not None and host.is_same_storage(fs, twin) is not False
    rows = for_wording(host.devices, ())
    row = listed_device(rows, number)
    if row is None or not row.uuid:
        return None
    return any(each.uuid == row.uuid and each.device_number != number for each in rows)


def _finding(entry: FstabEntry, there: Sequence[Mount], cures: Iterable[Remedy]) -> Finding:
    line = entry.line
    number = entry.device_number
    where = (
        "is attached"
        if isinstance(number, Known)
        else "was not found"
        if _is_missing(entry)
        else "may be attached"
    )
    origin = number.detail or number.what if isinstance(number, Unknown) else number.origin
    mounted = [f"{m.source} ({m.fstype}, {m.device_number}) on {m.mount_point}" for m in there]
    mounted = mounted or [f"nothing on {line.mount_point}"]
    return Finding(
        message=" ".join(filter(None, (_message(entry, there), _at_boot(entry)))),
        severity=_severity(entry, there),
        confidence=Confidence.LIKELY
        if there and isinstance(number, Unknown)
        else Confidence.CONFIRMED,
        citations=in_brief(
            (
                cite_fstab(
                    line, f"{line.spec} {line.mount_point} {line.fstype} {line.raw_options}"
                ),
                Citation("device", f"{line.spec} {where}", origin),
                *(Citation("mount table", each, MOUNT_TABLE) for each in mounted),
            )
        ),
        remedies=tuple(cures),
        fact=line.mount_point,
        summary=_summary(entry, there),
    )


def _severity(entry: FstabEntry, there: Sequence[Mount]) -> Severity:
    """Return LOW if the line sets nofail, or if a writable root does not need its line.

    The root is mounted before fstab is read: only the remount of / fails without its device, and
    not if the line has a path (measured with util-linux 2.38).
    """
    if entry.place == "/" and isinstance(entry.device_number, Unknown):
        stays = not _is_path(entry) and any("ro" in m.super_options for m in there)
        return Severity.HIGH if stays else Severity.LOW
    return Severity.HIGH if there or not _is_optional(entry) else Severity.LOW


def _summary(entry: FstabEntry, there: Sequence[Mount]) -> str:
    if there:
        return "a different filesystem is mounted than fstab names"
    if not _is_missing(entry):
        return "an fstab entry is not mounted"
    ignored = ", which nofail allows" if _is_optional(entry) else ""
    return f"an fstab entry is not mounted: its device was not found{ignored}"


def _is_missing(entry: FstabEntry) -> bool:
    """Return whether the device was searched for everywhere and does not exist."""
    number = entry.device_number
    return isinstance(number, Unknown) and number.why is Why.ABSENT


def _is_path(entry: FstabEntry) -> bool:
    return entry.line.spec.startswith("/")


def _is_optional(entry: FstabEntry) -> bool:
    """Return whether the entry lets the boot continue without it (nofail)."""
    return "nofail" in entry.line.options


def _message(entry: FstabEntry, there: Sequence[Mount]) -> str:
    where = entry.line.mount_point
    if not there:
        return (
            f"{where} is in fstab but not mounted: files written there go to the directory below "
            "the mount point."
        )
    return f"fstab names {entry.line.spec} for {where}, but a different filesystem is mounted."


def _at_boot(entry: FstabEntry) -> str:
    """Return the sentence on the next boot if the device was not found, else an empty string."""
    if isinstance(entry.device_number, Known):
        return ""
    if not _is_missing(entry):
        return "Whether its device is attached is unknown."
    if entry.place == "/":
        how = "remounts" if _is_path(entry) else "fails to remount"
        return (
            "Its device was not found; the boot goes on with the root that the kernel command line "
            f"names, and {how} it with the options of this line."
        )
    if _is_optional(entry):
        return "Its device was not found; the boot continues without it (nofail)."
    return (
        "Its device was not found; without nofail, the boot waits for it and then fails "
        f"({_in_systemd(entry)})."
    )


def _in_systemd(entry: FstabEntry) -> str:
    """Return what systemd does if the device is missing: it waits 90 seconds unless told else."""
    is_told = any(option.startswith(TIMEOUT) for option in entry.line.options)
    return f"systemd: {'' if is_told else '90 seconds, then '}emergency mode"


def _remedies(host: Host, entry: FstabEntry, there: Sequence[Mount]) -> Iterator[Remedy]:
    """Yield the mount of an attached device, else advice; nothing if it is a second path."""
    if there:
        yield Remedy(OTHER_MOUNTED, Disruption.ONLINE)
    elif isinstance(entry.device_number, Known):
        yield from _mount(host, entry, entry.device_number.value)
    elif _is_missing(entry):
        how = NOT_NEEDED if _is_optional(entry) else NOT_AT_BOOT
        first = IN_CAPITALS if _is_in_capitals(entry) else f"Attach the device. {how}"
        yield Remedy(first, Disruption.ONLINE)


@cached_by_identity
def _first_lines(entries: tuple[FstabEntry, ...]) -> dict[str, FstabLine]:
    """Return the line that mount(8) uses for each mount point."""
    return {entry.place: entry.line for entry in reversed(entries)}


def _mount(host: Host, entry: FstabEntry, number: DeviceNumber) -> Iterator[Remedy]:
    """Yield the mount of an entry, or advice if mount(8) would use another line first."""
    is_second_path = _is_second_path(host, number)
    if is_second_path:
        return
    line = entry.line
    first = _first_lines(need(host.fstab))[entry.place]
    if first != line:
        yield Remedy(
            f"Remove one of the two lines for {line.mount_point} from /etc/fstab, then mount it: "
            f"mount takes the first of them, {first.where}.",
            Disruption.ONLINE,
        )
        return
    writable = _writable_mount(host, entry, number)
    if writable is not None:
        yield Remedy(
            f"Correct the entry: the filesystem is mounted writable on {writable.mount_point}, "
            "and the kernel refuses a second mount of its device with ro. A bind mount can differ.",
            Disruption.ONLINE,
        )
        return
    steps = remedies.mounting.mount_by_fstab(entry, number)
    if steps:
        unread = f" No commands: {line.spec} {NOT_READ}." if is_second_path is None else ""
        yield Remedy(
            summary=f"Check the directory for files, then mount the filesystem.{unread}",
            disruption=Disruption.ONLINE,
            steps=() if unread else steps,
            trade_off="Files in the directory are hidden while the filesystem is mounted.",
        )


def _writable_mount(host: Host, entry: FstabEntry, number: DeviceNumber) -> Mount | None:
    """Return a writable mount of the device of a read-only entry, which the kernel then refuses.

    The reverse succeeds: mount(8) mounts the entry read-only, too (util-linux 2.38 on 6.18).
    """
    if "ro" not in intended_flags(entry.line.options):
        return None
    mounts = mounts_by_device(for_wording(host.mounts, ())).get(number, ())
    return next((each for each in mounts if "ro" not in each.super_options), None)
