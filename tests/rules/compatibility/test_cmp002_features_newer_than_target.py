"""CMP002: features that the kernel does not support."""

from __future__ import annotations

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.compatibility.cmp002_features_newer_than_target import check
from support.builders import disk, filesystem, host, kernel, known, superblock, unknown
from support.remedies.case import RemedyCase, on_kernel

OLD, NEW = "5.4.0-150-generic", "6.1.0-18-amd64"


def with_features(*features: str) -> Filesystem:
    """Build a filesystem with features beyond the defaults."""
    return filesystem(superblock=known(superblock(features=superblock().features | set(features))))


def verdict(fs: Filesystem, release: str = OLD, *, planned: bool = True) -> Verdict:
    """Judge the filesystem for a kernel."""
    return judge(check, fs, host(fs, kernel=known(kernel(release)), planned=planned))


@pytest.mark.parametrize(
    ("features", "release", "planned", "outcome"),
    [
        ((), OLD, True, Outcome.PASS),
        (("orphan_file", "metadata_csum_seed"), NEW, True, Outcome.PASS),
        (("metadata_csum_seed",), OLD, True, Outcome.PASS),
        (("orphan_file",), OLD, True, Outcome.FAIL),
        (("orphan_file",), OLD, False, Outcome.FAIL),
        (("metadata_csum_seed",), "3.10.0-1160.el7", True, Outcome.FAIL),
        (("metadata_csum_seed",), "4.1.0", False, Outcome.PASS),
    ],
)
def test_cmp002_outcomes(
    features: tuple[str, ...], release: str, planned: bool, outcome: Outcome
) -> None:
    """A kernel that has mounted a filesystem supports its incompat features."""
    assert verdict(with_features(*features), release, planned=planned).outcome is outcome


def test_cmp002_without_evidence() -> None:
    """Without a kernel the result is undetermined; only an image file is not judged."""
    fs = with_features("orphan_file")
    nobody = unknown("kernel release")
    assert judge(check, fs, host(fs, kernel=nobody)).outcome is Outcome.UNDETERMINED
    file = disk(kind="image")
    part = disk(number=DeviceNumber(0, 2), kind="partition", below=known((file,)))
    for stack in (file, part):
        image = with_features("orphan_file")._replace(stack=known(stack))
        assert judge(check, image, host(image, kernel=nobody)).outcome is Outcome.NOT_APPLICABLE
    planned = host(fs, kernel=nobody, planned=True)
    assert judge(check, fs, planned).outcome is Outcome.UNDETERMINED


@pytest.mark.parametrize(
    ("features", "release", "severity"),
    [
        (("orphan_file",), OLD, Severity.MEDIUM),
        (("orphan_file", "casefold"), "5.1.0", Severity.HIGH),
    ],
)
def test_cmp002_severity(features: tuple[str, ...], release: str, severity: Severity) -> None:
    """A kernel that refuses the mount is worse than one that mounts it."""
    (finding,) = verdict(with_features(*features), release).findings
    assert finding.severity is severity


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (("project",), "refuses to write to it"),
        (("project", "orphan_file"), "refuses to write to it"),
        (("metadata_csum", "metadata_csum_seed"), "refuses to mount it"),
        (("metadata_csum", "orphan_file"), "may refuse to mount it after a crash"),
        (("orphan_file",), "may refuse to mount it after a crash"),
        (("encrypt",), "refuses to mount it"),
        (("metadata_csum",), "mounts it"),
        (("inline_data",), "mounts it"),
    ],
)
def test_cmp002_message_says_what_the_kernel_refuses(features: tuple[str, ...], words: str) -> None:
    """An unknown ro_compat feature leaves the filesystem readable."""
    bare = superblock(features=frozenset({"extent", *features}))
    (finding,) = verdict(filesystem(superblock=known(bare)), "3.10.0").findings
    assert words in finding.message
    assert words in finding.summary


@pytest.mark.parametrize(
    ("release", "planned", "severity"),
    [
        ("3.4.0", True, Severity.HIGH),
        ("3.10.0-1160.el7", True, Severity.MEDIUM),
        ("3.10.0-1160.el7", False, None),
        ("3.18.0", True, None),
    ],
)
def test_cmp002_old_e2fsck_lacks_checksums(
    release: str, planned: bool, severity: Severity | None
) -> None:
    """Linux 3.5 to 3.17 mounts the filesystem, but the e2fsck of such systems stops the boot."""
    bare = superblock(features=frozenset({"extent", "metadata_csum"}))
    found = verdict(filesystem(superblock=known(bare)), release, planned=planned).findings
    assert [finding.severity for finding in found] == ([severity] if severity else [])
    assert all("metadata_csum" in finding.message for finding in found)


def test_cmp002_remedy_in_a_plan_is_the_mkfs_option() -> None:
    """Nothing exists yet that could be unmounted."""
    (finding,) = verdict(with_features("orphan_file")).findings
    assert finding.remedies[0].summary == "Create it with -O ^orphan_file."


# The features are removed, and restored by the rollback.
REMEDY_CASES = (
    RemedyCase(
        name="orphan_file, mounted",
        remedy="Remove orphan_file",
        mke2fs=("-O", "orphan_file"),
        mount="noatime",
        fstab="noatime",
        alter=on_kernel("5.4.0-150-generic"),
    ),
    RemedyCase(
        name="metadata_csum_seed, not mounted",
        remedy="Remove metadata_csum_seed",
        mke2fs=("-O", "metadata_csum_seed"),
        mounted=False,
        alter=on_kernel("4.1.0-1-amd64"),
    ),
    RemedyCase(
        name="fast_commit, mounted",
        remedy="Remove fast_commit",
        mke2fs=("-O", "fast_commit"),
        alter=on_kernel("5.4.0-150-generic"),
    ),
)
