"""DRF007: udev's record of the device is not that of the filesystem on it."""

from __future__ import annotations

from collections.abc import Mapping

from ext4audit.evidence import Undetermined, need, origin_of
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import EXT_FSTYPES
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import superblock_field

UUID, TYPE = "ID_FS_UUID", "ID_FS_TYPE"
PROCESSED = "USEC_INITIALIZED"
"""When udevd processed the device; without it, udevadm prints only the kernel's properties."""
LEFT_OUT = ("DM_UDEV_DISABLE_OTHER_RULES_FLAG", "DM_UDEV_DISABLE_DISK_RULES_FLAG")
"""Set to 1 for devices whose contents udev does not read."""
BY_CONTENT = ("UUID=", "LABEL=", "/dev/disk/by-uuid/", "/dev/disk/by-label/")


@rule(
    "DRF007",
    "udev-record-stale",
    severity=Severity.MEDIUM,
    since="0.2",
    in_plans=False,
    references=(
        "https://github.com/util-linux/util-linux/pull/3301",
        "https://github.com/util-linux/util-linux/issues/2214",
        "https://man7.org/linux/man-pages/man8/udevadm.8.html",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    Whether udev's record of the device (ID_FS_UUID, ID_FS_TYPE) agrees with the superblock. The
    rule reports a record that names another filesystem. It reports a record without a filesystem if
    fstab names the device by UUID or label. Severity is medium if fstab does so, and low otherwise.
    Devices whose contents udev does not read are not checked, and the rule does not apply without
    udev. It is off by default, because small captures and many archives do not contain udev's
    records.

    ## Why it matters

    The links in /dev/disk/by-uuid and by-label come from this record, and lsblk, blkid and systemd
    read it. If the kernel writes a superblock while an older version of libblkid reads it, libblkid
    takes the superblock for damaged, and udev removes the links. If a new filesystem was created
    without an event for udev, the old record stays. The next `mount` by UUID, or the next unit that
    waits for the device, then fails or finds the wrong device.

    ## Remedy

    Let udev read the device again: `udevadm trigger`.

    ## When to ignore

    Ignore it if nothing mounts the device by UUID or label.
    """
    stack = need(fs.stack)
    if stack.udev_gap is not None:
        raise Undetermined((stack.udev_gap,))
    record = dict(stack.udev)
    if PROCESSED not in record:
        raise NotApplicable("udev has no record of its device")
    if any(record.get(name) == "1" for name in LEFT_OUT) or record.get("SYSTEMD_READY") == "0":
        raise NotApplicable("udev leaves its device out")
    uuid = need(superblock_field(fs, "UUID", lambda each: each.uuid)).lower()
    by_content = tuple(
        entry.line.spec for entry in need(fs.fstab) if entry.line.spec.startswith(BY_CONTENT)
    )
    cited = (
        Citation(UUID, record.get(UUID, "none"), "udev"),
        Citation(TYPE, record.get(TYPE, "none"), "udev", detail=True),
        Citation("UUID in the superblock", uuid, origin_of(fs.superblock)),
    )
    agrees = record.get(UUID, "").lower() == uuid and record.get(TYPE) in EXT_FSTYPES
    if agrees or (UUID not in record and not by_content):
        yield from cited
    else:
        yield _finding(fs, record, by_content, cited)


def _finding(
    fs: Filesystem,
    record: Mapping[str, str],
    by_content: tuple[str, ...],
    cited: tuple[Citation, ...],
) -> Finding:
    known = record.get(UUID)
    shown = f"another one ({record.get(TYPE, 'unknown type')}, {known})" if known else "none"
    then = (
        f"; the next mount of {by_content[0]} fails or finds another device" if by_content else ""
    )
    return Finding(
        message=f"udev's record of {fs.device} does not match its filesystem, but shows {shown}"
        f"{then}.",
        severity=Severity.MEDIUM if by_content else Severity.LOW,
        confidence=Confidence.LIKELY,
        citations=(*cited, *(Citation("fstab", spec, "/etc/fstab") for spec in by_content)),
        remedies=(_remedy(fs),),
        summary="udev's record of the device names another filesystem"
        if known
        else "udev does not know the filesystem on the device",
    )


def _remedy(fs: Filesystem) -> Remedy:
    """Return advice without steps, which could only be tested on a host that runs udevd."""
    return Remedy(
        f"Let udev read {fs.device} again (udevadm trigger --action=change --name-match=DEVICE), "
        "and look at the link in /dev/disk afterwards.",
        Disruption.ONLINE,
    )
