"""CMP001: The boot loader cannot read the filesystem that holds the kernels: no boot."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit import remedies
from ext4audit.evidence import need
from ext4audit.facts.features_and_bugs import Version, grub_obstacles, grub_reads, grub_version
from ext4audit.facts.host import BootLoader, Filesystem, Host, Loader
from ext4audit.finding import Confidence, Finding, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import cite_features, refuse_container
from ext4audit.rules.shared.quantities import block_bytes

BOOT, ROOT = "/boot", "/"
PATCHED, COMPLETE = (2, 6), (2, 12)


@rule(
    "CMP001",
    "bootloader-cannot-read",
    severity=Severity.CRITICAL,
    since="0.2",
    in_plans=False,
    references=(
        "https://bugs.debian.org/cgi-bin/bugreport.cgi?bug=1031325",
        "https://git.savannah.gnu.org/cgit/grub.git/tree/grub-core/fs/ext2.c",
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether the filesystem of /boot, or the root if /boot is not a separate filesystem, has a
    feature that the boot loader cannot read: `metadata_csum_seed` and `large_dir` before GRUB 2.12
    (in Debian before 2.06-8), `inline_data`, `casefold`, `ea_inode`, and `bigalloc` with blocks of
    1 KiB (with larger blocks, GRUB reads it). Severity is critical for a GRUB that is too old. For
    `metadata_csum_seed` alone, it is high with Ubuntu's 2.06, and low with a 2.06 without a package
    version, because Red Hat and others have patched theirs. For other boot loaders and unknown
    versions of GRUB, severity is medium and confidence possible. Severity is low if no boot loader
    was found, as in a virtual machine whose kernel is a file of its host.

    ## Why it matters

    GRUB refuses the whole filesystem because of one such feature ("unknown filesystem"), so the
    host does not boot. mke2fs 1.47 sets `metadata_csum_seed` by default. GRUB accepts
    `orphan_file`, which mke2fs 1.47 sets as well.

    ## Remedy

    Remove the feature while the filesystem is unmounted, or create /boot with
    `-O ^metadata_csum_seed`. Or install a GRUB that supports it, also to the disk (grub-install).

    ## When to ignore

    Ignore it if the vendor has backported support for the feature to an older GRUB.
    """
    _concerns_boot(fs, host)
    superblock = need(fs.superblock)
    # The block size matters only with bigalloc.
    block = need(block_bytes(fs)) if "bigalloc" in superblock.features else 0
    obstacles = grub_obstacles(superblock.features, block)
    yield from cite_features(fs)
    if not obstacles:
        return
    loader = need(host.boot_loader)
    if loader.loader is Loader.SYSTEMD_BOOT:
        raise NotApplicable("systemd-boot reads kernels from the EFI system partition")
    hard = _unread(loader, obstacles)
    if hard:
        yield _finding(fs, loader, hard)


def _concerns_boot(fs: Filesystem, host: Host) -> None:
    """Raise NotApplicable for a filesystem that no boot loader reads."""
    refuse_container(host, "a {} container does not boot")
    if BOOT in fs.mount_points:
        return
    need(fs.mounted_here)
    if ROOT not in fs.mount_points:
        raise NotApplicable("it is neither /boot nor the root")
    if any(mount.mount_point == BOOT for mount in need(host.mounts)):
        raise NotApplicable("/boot is a separate filesystem")


def _unread(loader: BootLoader, obstacles: Sequence[str]) -> tuple[str, ...]:
    """Return the features that this boot loader cannot, or may not be able to, read."""
    package = (loader.version or "") if loader.loader is Loader.GRUB else ""
    return tuple(name for name in obstacles if not grub_reads(package, name))


def _version(loader: BootLoader) -> Version | None:
    """Return the version of GRUB; None if it is unknown, and for other boot loaders."""
    is_known = loader.loader is Loader.GRUB and loader.version is not None
    return grub_version(loader.version or "") if is_known else None


def _finding(fs: Filesystem, loader: BootLoader, features: Sequence[str]) -> Finding:
    severity, confidence = _weigh(loader, features)
    is_likely = confidence is Confidence.LIKELY
    reads = "cannot read" if is_likely else "may be unable to read"
    return Finding(
        message=f"{_name(loader)} {reads} the filesystem with the kernels, which has "
        f"{', '.join(features)}: the host {'will' if is_likely else 'may'} not boot.",
        severity=severity,
        confidence=confidence,
        citations=cite_features(fs),
        remedies=(remedies.features.without_features(fs, features, planned=False),),
        summary=f"the boot loader {reads} the filesystem with the kernels",
    )


def _weigh(loader: BootLoader, features: Sequence[str]) -> tuple[Severity, Confidence]:
    """Return severity and confidence; support in GRUB 2.12 and later is not established.

    GRUB 2.06 of Fedora and Red Hat shows no package version and supports metadata_csum_seed, a
    default there. Ubuntu's 2.06 is older than Debian's fix, but an update may have added it.
    """
    if loader.loader is Loader.NONE_FOUND:
        return Severity.LOW, Confidence.POSSIBLE
    version = _version(loader)
    if version is None or version >= COMPLETE:
        return Severity.MEDIUM, Confidence.POSSIBLE
    if version < PATCHED or set(features) != {"metadata_csum_seed"}:
        return Severity.CRITICAL, Confidence.LIKELY
    if "-" not in (loader.version or ""):
        return Severity.LOW, Confidence.POSSIBLE
    is_ubuntu = "ubuntu" in (loader.version or "")
    return Severity.HIGH if is_ubuntu else Severity.CRITICAL, Confidence.LIKELY


def _name(loader: BootLoader) -> str:
    if loader.loader is Loader.NONE_FOUND:
        return "The boot loader, which is unknown,"
    return " ".join(filter(None, (loader.loader.value, loader.version)))
