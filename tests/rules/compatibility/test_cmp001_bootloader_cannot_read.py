"""CMP001: a boot loader that cannot read the kernels."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Known
from ext4audit.facts.host import BootLoader, Filesystem, Host, Loader
from ext4audit.finding import Confidence, Phase, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.compatibility.cmp001_bootloader_cannot_read import check
from support.builders import filesystem, host, known, mount, superblock, unknown, usage
from support.remedies.case import RemedyCase

SEED = "metadata_csum_seed"
OLD = BootLoader(Loader.GRUB, "2.04-1ubuntu26")


def boot_fs(*features: str, at: str = "/boot", block: int | None = 4096) -> Filesystem:
    """Build the filesystem that holds the kernels; without a block size, statfs has none either."""
    held = superblock(features=superblock().features | set(features), block_bytes=block)
    used = known(usage()) if block else unknown("space in use")
    return filesystem(mounts=(mount(at),), superblock=known(held), usage=used)


def verdict(fs: Filesystem, loader: Any = known(OLD), **changes: Any) -> Verdict:
    """Judge the filesystem with this boot loader."""
    return judge(check, fs, host(fs, boot_loader=loader, **changes))


@pytest.mark.parametrize(
    ("fs", "loader", "outcome"),
    [
        (boot_fs(), known(OLD), Outcome.PASS),
        (boot_fs(), unknown("boot loader"), Outcome.PASS),
        (boot_fs("orphan_file"), known(OLD), Outcome.PASS),
        (boot_fs(SEED), known(OLD), Outcome.FAIL),
        (boot_fs(SEED, at="/"), known(OLD), Outcome.FAIL),
        (boot_fs(SEED, at="/data"), known(OLD), Outcome.NOT_APPLICABLE),
        (boot_fs(SEED), known(BootLoader(Loader.GRUB, "2.12-1ubuntu7")), Outcome.PASS),
        (boot_fs(SEED), known(BootLoader(Loader.GRUB, "2.06-13+deb12u1")), Outcome.PASS),
        (boot_fs(SEED, "large_dir"), known(BootLoader(Loader.GRUB, "2.06-8")), Outcome.PASS),
        (boot_fs("bigalloc"), known(BootLoader(Loader.GRUB, "2.06-13+deb12u1")), Outcome.PASS),
        (boot_fs("bigalloc", block=2048), known(OLD), Outcome.PASS),
        (boot_fs("bigalloc", block=1024), known(OLD), Outcome.FAIL),
        (boot_fs("bigalloc", block=None), known(OLD), Outcome.UNDETERMINED),
        (boot_fs(SEED), known(BootLoader(Loader.SYSTEMD_BOOT)), Outcome.NOT_APPLICABLE),
        (boot_fs(SEED), unknown("boot loader"), Outcome.UNDETERMINED),
        (filesystem(mounts=(mount("/boot"),), superblock=unknown("superblock")), known(OLD),
         Outcome.UNDETERMINED),
    ],
)  # fmt: skip
def test_cmp001_outcomes(fs: Filesystem, loader: Any, outcome: Outcome) -> None:
    """orphan_file is a compat feature, which GRUB ignores."""
    mounts = known(fs.mounts)
    assert verdict(fs, loader, mounts=mounts).outcome is outcome


def test_cmp001_does_not_apply_to_a_root_with_a_separate_boot() -> None:
    """GRUB reads only the filesystem on /boot."""
    fs = boot_fs(SEED, at="/")
    both = known((*fs.mounts, mount("/boot", mount_id=31)))
    assert verdict(fs, mounts=both).outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("features", "loader", "severity", "confidence"),
    [
        ((SEED,), OLD, Severity.CRITICAL, Confidence.LIKELY),
        ((SEED,), BootLoader(Loader.GRUB, "2.06"), Severity.LOW, Confidence.POSSIBLE),
        ((SEED,), BootLoader(Loader.GRUB, "2.06-3~deb11u6"), Severity.CRITICAL, Confidence.LIKELY),
        ((SEED,), BootLoader(Loader.GRUB, "2.06-2ubuntu7.2"), Severity.HIGH, Confidence.LIKELY),
        ((SEED, "casefold"), BootLoader(Loader.GRUB, "2.06"), Severity.CRITICAL, Confidence.LIKELY),
        ((SEED,), BootLoader(Loader.GRUB, "2.05"), Severity.CRITICAL, Confidence.LIKELY),
        (("casefold",), BootLoader(Loader.GRUB, "2.11"), Severity.CRITICAL, Confidence.LIKELY),
        (("casefold",), BootLoader(Loader.GRUB, "2.12"), Severity.MEDIUM, Confidence.POSSIBLE),
        ((SEED,), BootLoader(Loader.GRUB), Severity.MEDIUM, Confidence.POSSIBLE),
        ((SEED,), BootLoader(Loader.EXTLINUX), Severity.MEDIUM, Confidence.POSSIBLE),
        # A microVM boots its host's kernel, and a unified kernel image is on the EFI partition.
        ((SEED,), BootLoader(Loader.NONE_FOUND), Severity.LOW, Confidence.POSSIBLE),
    ],
)
def test_cmp001_severity(
    features: tuple[str, ...], loader: BootLoader, severity: Severity, confidence: Confidence
) -> None:
    """A 2.06 without a package version may be a vendor's build that supports the checksum seed."""
    (finding,) = verdict(boot_fs(*features), known(loader)).findings
    assert (finding.severity, finding.confidence) == (severity, confidence)


@pytest.mark.parametrize(
    ("loader", "subject"),
    [
        (BootLoader(Loader.GRUB, "2.05"), "GRUB 2.05 cannot read"),
        (BootLoader(Loader.GRUB, "2.06"), "GRUB 2.06 may be unable to read"),
        (BootLoader(Loader.GRUB), "GRUB may be unable to read"),
        (BootLoader(Loader.EXTLINUX), "extlinux may be unable to read"),
        (
            BootLoader(Loader.NONE_FOUND),
            "The boot loader, which is unknown, may be unable to read",
        ),
    ],
)
def test_cmp001_message_names_the_boot_loader(loader: BootLoader, subject: str) -> None:
    """A known version is named; releases that certainly lack the support are reported as such."""
    (finding,) = verdict(boot_fs(SEED), known(loader)).findings
    will = "may" if "may" in subject else "will"
    assert finding.message == (
        f"{subject} the filesystem with the kernels, which has {SEED}: the host {will} not boot."
    )
    reads = "cannot read" if will == "will" else "may be unable to read"
    assert finding.summary == f"the boot loader {reads} the filesystem with the kernels"


def test_cmp001_commands() -> None:
    """The feature is removed between an unmount and a mount, and restored by the rollback."""
    (finding,) = verdict(boot_fs(SEED)).findings
    (remedy,) = finding.remedies
    steps = {phase: [s.command for s in remedy.lines if s.phase is phase] for phase in Phase}
    assert f"test ! -e /sys/fs/ext4/sda && tune2fs -O ^{SEED} /dev/sda" in steps[Phase.IMMEDIATE]
    back = "test ! -e /sys/fs/ext4/sda && { e2fsck -f -p /dev/sda || test $? -eq 1; }"
    assert f"{back} && tune2fs -O {SEED} /dev/sda" in steps[Phase.ROLLBACK]


# The features are removed from a real /boot, in the test's private mount namespace.
def with_old_grub(host: Host) -> Host:
    """Return the host with the GRUB of Debian 11."""
    loader = BootLoader(Loader.GRUB, "2.06-3~deb11u6")
    return host._replace(boot_loader=Known(loader, "grub-install --version"), container=known(None))


REMEDY_CASES = (
    RemedyCase(
        name="metadata_csum_seed on /boot",
        remedy="Remove metadata_csum_seed",
        mke2fs=("-O", "metadata_csum_seed"),
        at="/boot",
        alter=with_old_grub,
    ),
)
REMEDIES_NOT_RUN = "Of the root and of a RAID only the advice is printed: it needs a rescue system."
