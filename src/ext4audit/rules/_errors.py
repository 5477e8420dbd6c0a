"""The errors that a kernel recorded in a filesystem, and the check that clears them."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import Mount
from ext4audit.facts.superblock import RecordedError
from ext4audit.finding import Citation, Disruption, Remedy, Step
from ext4audit.records import replace
from ext4audit.rules._clock import utc
from ext4audit.rules._shell import quote
from ext4audit.rules._unmounted import checked, unmounted_steps, why_by_hand

CODES = dict(
    enumerate(
        "UNKNOWN EIO ENOMEM EFSBADCRC EFSCORRUPTED ENOSPC ENOKEY EROFS EFBIG EEXIST ERANGE "
        "EOVERFLOW EBUSY ENOTDIR ENOTEMPTY ESHUTDOWN EFAULT".split(),
        1,
    )
)
"""The kinds of errors by the number in last_error_errcode (fs/ext4/ext4.h: EXT4_ERR_*)."""
STOPPED = frozenset({"emergency_ro", "shutdown", "abort"})
"""Words of the mount table that an error adds, and that no mount takes."""
LOOK_FIRST = (
    "Save dmesg and look at the disk first (smartctl, /proc/mdstat): on hardware that fails, "
    "e2fsck makes it worse. Where -p gives up, e2fsck -f asks before each repair: take an image "
    "of the device before."
)


def cite_errors(fs: Filesystem) -> Iterator[Citation]:
    """Yield the count of the errors, and what is recorded of the first and the last."""
    if not isinstance(fs.errors, Known):
        return
    counters, origin = fs.errors.value, fs.errors.origin
    yield Citation("errors", str(counters.errors), origin)
    if counters.errors and counters.first:
        yield Citation("first error", spell(counters.first), origin)
    if counters.errors and counters.last:
        kind = CODES.get(counters.last_code or 0)
        words = f"{spell(counters.last)}{f' ({kind})' if kind else ''}"
        yield Citation("last error", words, origin)


def spell(error: RecordedError) -> str:
    """Return an error as words: when, where in the kernel's source, and what it was about."""
    about = [("inode", error.inode), ("block", error.block)]
    parts = (
        f"on {utc(error.at)}" if error.at is not None else "",
        f"in {error.function}(), line {error.line}" if error.function else "",
        *(f"about {name} {number}" for name, number in about if number),
    )
    return ", ".join(part for part in parts if part) or "nothing else is recorded"


def check_it(fs: Filesystem, verify: tuple[str, ...]) -> Remedy:
    """Return the remedy that unmounts, checks and mounts again, as commands where they do it."""
    if any(mount.mount_point == "/" for mount in fs.mounts):
        return Remedy(
            summary="Boot once with fsck.mode=force on the kernel's command line, which makes "
            "systemd or the initramfs check the root; or check it from a rescue system.",
            disruption=Disruption.REBOOT,
            trade_off=LOOK_FIRST,
        )
    steps = check_steps(fs, verify)
    by_hand = "" if steps else f", {why_by_hand(fs)}"
    return Remedy(
        summary=f"Stop what writes to it, unmount it, let e2fsck check it, and mount it{by_hand}.",
        disruption=Disruption.UNMOUNT,
        steps=steps,
        trade_off=LOOK_FIRST,
    )


def check_steps(fs: Filesystem, verify: tuple[str, ...]) -> tuple[Step, ...]:
    """Return the commands of the check; what it repairs, nothing takes back."""
    asked = replace(fs, mounts=tuple(as_asked_for(mount) for mount in fs.mounts))
    return unmounted_steps(asked, [checked(fs)], verify)


def as_asked_for(mount: Mount) -> Mount:
    """Return a mount as it was before the kernel stopped its writes: so it is mounted again.

    A superblock that is ro under a mount that is rw was made so by an error.
    """
    words = [word for word in mount.super_options if word not in STOPPED]
    if "ro" not in mount.mount_options:
        words = ["rw" if word == "ro" else word for word in words]
    return replace(mount, super_options=tuple(words))


def no_errors_left(fs: Filesystem) -> str:
    """Return the command that fails while the kernel has errors on record."""
    return f"grep -qx 0 {quote(f'/sys/fs/ext4/{fs.name}/errors_count')}"
