"""CMP004: A missing data volume stops the boot of a virtual machine."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit import remedies
from ext4audit.evidence import (
    MOUNT_TABLE,
    Evidence,
    Implied,
    Known,
    Unknown,
    Why,
    derive,
    for_wording,
    need,
)
from ext4audit.facts.devices import listed_device
from ext4audit.facts.host import Host
from ext4audit.facts.mount import DeviceNumber, FstabEntry, Mount
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, host_rule
from ext4audit.rules.shared import FSTAB_OF_CONTAINER, cite_fstab, refuse_container

TIMEOUT = "x-systemd.device-timeout="
DECIDED = frozenset({"nofail", "noauto", "_netdev", "x-systemd.automount", "x-initrd.mount"})
"""Options of entries that do not stop a boot, or that the boot itself needs.

_netdev moves an entry to remote-fs.target, whose failure is not fatal (systemd.special(7))."""
NOT_VIRTUAL = "it is not a virtual machine"
NO_SYSTEMD = "systemd-detect-virt is missing, and only systemd stops the boot for a missing volume"
NEEDED = frozenset("/ /etc /nix /nix/store /tmp /var /var/lib /var/log /var/tmp".split())
NEEDED_BELOW = ("/boot", "/usr")
"""Mount points that a system needs to run: the boot should stop without them."""


@host_rule(
    "CMP004",
    "nofail-policy",
    severity=Severity.LOW,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man5/systemd.mount.5.html",
        "https://man7.org/linux/man-pages/man8/mount.8.html",
    ),
    in_plans=False,
)
def check(host: Host) -> RuleOutput:
    """## What it checks

    On virtual machines: mounted ext2, ext3 and ext4 entries of fstab for data volumes that lack
    `nofail`. A data volume is not needed to run the system (unlike `/`, `/usr`, `/var`, `/boot`
    and similar mount points) and is not on the disk of the root filesystem. DRF006 checks entries
    that are not mounted.

    ## Why it matters

    Cloud volumes are attached over the network: a volume can be late, detached, or missing when a
    snapshot or image of the machine is started elsewhere. Without `nofail`, systemd waits 90
    seconds for the volume (by default) and then stops in emergency mode, without network and ssh.
    Many clouds offer no console.

    ## Remedy

    Add `nofail` and a shorter timeout, and let the service that uses the volume require it:
    `RequiresMountsFor=` in its unit. Make both changes together.

    ## When to ignore

    Ignore it if a console is available and the machine must not start without its data.
    """
    refuse_container(host, FSTAB_OF_CONTAINER)
    virtualization = need(host.virtualization)
    if virtualization is None:
        is_unasked = isinstance(host.virtualization, Implied)
        raise NotApplicable(NO_SYSTEMD if is_unasked else NOT_VIRTUAL)
    entries, mounts = need(host.fstab, host.mounts)
    of_root = _bottom(_root(mounts, host), host)
    volumes = [e for e in entries if _is_mounted(e, mounts) and _is_volume(e, host, of_root)]
    if not volumes:
        raise NotApplicable("fstab has no mounted ext4 data volume")
    for entry in volumes:
        line = entry.line
        if DECIDED.isdisjoint(line.options):
            yield _finding(entry, virtualization)
        else:
            yield cite_fstab(line, line.raw_options)


def _is_mounted(entry: FstabEntry, mounts: tuple[Mount, ...]) -> bool:
    """Return whether the mount point has a mount, of the entry's device if that is known."""
    there = [mount.device_number for mount in entry.mounted_there(mounts)]
    named = derive("named there", lambda number: number in there, entry.device_number)
    return for_wording(named, bool(there))


def _is_volume(entry: FstabEntry, host: Host, of_root: set[DeviceNumber]) -> bool:
    """Return whether an entry is for a volume that the system does not need, on a separate disk."""
    where = entry.line.mount_point.rstrip("/") or "/"
    needed = where in NEEDED or any(f"{where}/".startswith(f"{p}/") for p in NEEDED_BELOW)
    if needed or entry.line.fstype == "auto":
        return False
    return not _bottom(entry.device_number, host) & of_root


def _root(mounts: tuple[Mount, ...], host: Host) -> Evidence[DeviceNumber]:
    """Return the device of the root; Btrfs and ZFS show a number of their own in its place."""
    root = next((mount for mount in reversed(mounts) if mount.mount_point == "/"), None)
    if root is None:
        return Unknown("device of the root", Why.ABSENT)
    nodes = {
        node: row.device_number
        for row in for_wording(host.devices, ())
        for node in (f"/dev/{row.kernel_name}", f"/dev/mapper/{row.name}")
    }
    number = root.device_number
    return Known(number if number.major else nodes.get(root.source, number), MOUNT_TABLE)


def _bottom(number: Evidence[DeviceNumber], host: Host) -> set[DeviceNumber]:
    """Return the disks below a device, as far as they are visible.

    Only ext4 filesystems have a stack, and not those that the targets of a scan leave out: the
    disks of others are in the tree of lsblk.
    """
    fs = host.filesystem(number)
    if fs is not None and isinstance(fs.stack, Known):
        return {device.device_number for device in fs.stack.value.leaves()}
    if isinstance(number, Unknown):
        return set()
    rows, pending = for_wording(host.devices, ()), [number.value]
    found: set[DeviceNumber] = set()
    for each in pending:
        row = listed_device(rows, each)
        found |= {each} if row is None or not row.parents else set()
        pending += row.parents.difference(pending) if row else ()
    return found


def _finding(entry: FstabEntry, virtualization: str) -> Finding:
    line, has_timeout = entry.line, _has_timeout(entry.line.options)
    waits = "for it" if has_timeout else "90 seconds"
    return Finding(
        message=f"{line.mount_point} lacks nofail: if {line.spec} is missing, the boot waits "
        f"{waits} and stops in emergency mode, without network.",
        severity=Severity.LOW,
        confidence=Confidence.LIKELY,
        citations=(
            cite_fstab(line, line.raw_options),
            Citation("virtual machine", virtualization, "systemd-detect-virt"),
        ),
        remedies=(
            Remedy(
                f"Let the boot continue without it{'' if has_timeout else ' after 30 seconds'}.",
                Disruption.ONLINE,
                remedies.configuration.option_steps(line, (), _missing(line.options)),
                trade_off="A service that starts without the volume writes to the empty directory: "
                f"first add RequiresMountsFor={_in_a_unit(line.mount_point)} to its unit.",
            ),
        ),
        fact=line.mount_point,
        summary="a missing data volume stops the boot: fstab lacks nofail",
    )


def _in_a_unit(path: str) -> str:
    """Escape a path for a unit file (systemd.syntax(7))."""
    word = path.replace("%", "%%")
    return f'"{word}"' if " " in word else word


def _missing(options: Sequence[str]) -> Sequence[str]:
    """Return the options to add; an existing timeout is kept."""
    return ("nofail",) if _has_timeout(options) else ("nofail", f"{TIMEOUT}30s")


def _has_timeout(options: Sequence[str]) -> bool:
    return any(option.startswith(TIMEOUT) for option in options)
