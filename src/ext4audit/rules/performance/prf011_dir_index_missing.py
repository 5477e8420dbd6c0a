"""PRF011: Directories have no index, so each lookup scans the whole directory."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import need
from ext4audit.facts import GIB
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import cite_features
from ext4audit.rules.shared.quantities import device_bytes, size


@rule(
    "PRF011",
    "dir-index-missing",
    severity=Severity.LOW,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
        "https://man7.org/linux/man-pages/man8/e2fsck.8.html",
        "https://github.com/tytso/e2fsprogs/issues/257",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    Whether the feature `dir_index` is missing on an ext3 or ext4 filesystem of more than 1 GiB.
    Single directories without an index on a filesystem that has the feature (mke2fs -d creates
    them) are not detected.

    ## Why it matters

    Without an index the kernel scans the directory from its beginning for each lookup of a name.
    In a directory of 100,000 files each open() reads megabytes, and creating the files takes
    quadratic time. No directory can have more than about 65,000 subdirectories.

    ## Remedy

    Set the feature, which works while the filesystem is mounted: directories that grow from then
    on get an index. `e2fsck -D` indexes existing directories on the unmounted filesystem.

    ## When to ignore

    Ignore it if all directories are small: a filesystem with few large files gains nothing. mke2fs
    has set the feature by default for many years, so it may have been left out on purpose, for a
    boot loader or an old system that reads the disk.
    """
    superblock = need(fs.superblock)
    (seen,) = cite_features(fs)
    if "dir_index" in superblock.features:
        yield seen
        return
    if superblock.features.isdisjoint({"has_journal", "extent"}):
        raise NotApplicable("it is ext2")
    total = superblock.size_bytes or need(device_bytes(fs))
    if total <= GIB:
        raise NotApplicable(f"it is small: {size(total)}")
    yield Finding(
        message=f"dir_index is missing on a filesystem of {size(total)}: each lookup of a name "
        "scans the directory from its beginning.",
        severity=Severity.LOW,
        confidence=Confidence.CONFIRMED,
        citations=(seen, Citation("size", size(total), seen.origin)),
        remedies=(_for_new_directories(fs), _for_all(fs)),
        summary="dir_index is missing: each lookup of a name scans the directory",
    )


def _for_new_directories(fs: Filesystem) -> Remedy:
    return Remedy(
        "Set the feature: directories that grow from now on get an index.",
        Disruption.ONLINE,
        remedies.features.enable_dir_index(fs),
        trade_off="Existing large directories stay slow. Clearing the feature again needs an "
        "unmount.",
    )


def _for_all(fs: Filesystem) -> Remedy:
    steps = remedies.features.index_directories(fs)
    return Remedy(
        "Set the feature and index all existing directories with e2fsck -D"
        f"{remedies.remount.by_hand(fs, steps)}.",
        Disruption.UNMOUNT,
        steps,
        trade_off="The filesystem is unavailable during the check: minutes to hours.",
    )
