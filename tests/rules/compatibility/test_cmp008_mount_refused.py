"""CMP008: planned filesystems that the kernel would refuse to mount."""

from __future__ import annotations

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.compatibility.cmp008_mount_refused import check
from support.builders import filesystem, host, kernel, known, superblock, unknown
from support.hosts.plans import disk_plan, host_of
from support.images.mke2fs import needs_e2fsprogs

EXT3_FEATURES = frozenset({"has_journal", "ext_attr", "dir_index", "filetype", "sparse_super"})


def planned_host(fs: Filesystem, release: str = "6.1.76", page_bytes: int = 4096) -> Host:
    """Build the host of a plan."""
    return host(
        fs, kernel=known(kernel(release)), planned=True, page_bytes=Known(page_bytes, "--page-size")
    )


def verdict_by_block_size(block_bytes: int, release: str, page_bytes: int = 4096) -> Verdict:
    """Judge a filesystem with this block size."""
    fs = filesystem(superblock=known(superblock(block_bytes=block_bytes)))
    return judge(check, fs, planned_host(fs, release, page_bytes))


@pytest.mark.parametrize(
    ("block_bytes", "release", "page_bytes", "severity"),
    [
        (4096, "6.1.76", 4096, None),
        (1024, "6.1.76", 65536, None),
        (65536, "5.14.0-427.13.1.el9_4.aarch64+64k", 65536, None),
        (8192, "6.18.3", 4096, Severity.HIGH),
        (65536, "6.1.76", 4096, Severity.HIGH),
        (16384, "6.19.0", 4096, Severity.LOW),
    ],
)
def test_cmp008_blocks_larger_than_a_page(
    block_bytes: int, release: str, page_bytes: int, severity: Severity | None
) -> None:
    """Kernels before 6.19 refuse to mount them, and some later kernels accept them."""
    found = [
        each.severity for each in verdict_by_block_size(block_bytes, release, page_bytes).findings
    ]
    assert found == ([] if severity is None else [severity])


@pytest.mark.parametrize(
    ("fstype", "features", "outcome"),
    [
        ("ext3", EXT3_FEATURES, Outcome.PASS),
        ("ext2", EXT3_FEATURES, Outcome.PASS),
        ("ext3", EXT3_FEATURES - {"has_journal"}, Outcome.FAIL),
        ("ext3", EXT3_FEATURES | {"extent", "flex_bg"}, Outcome.FAIL),
        ("ext2", EXT3_FEATURES | {"metadata_csum"}, Outcome.FAIL),
        ("ext4", EXT3_FEATURES | {"metadata_csum", "extent"}, Outcome.PASS),
    ],
)
def test_cmp008_features_of_another_type(
    fstype: str, features: frozenset[str], outcome: Outcome
) -> None:
    """A mount as ext2 or ext3 refuses features that the type does not support."""
    fs = filesystem(superblock=known(superblock(features=features)), fstype=known(fstype))
    assert judge(check, fs, planned_host(fs)).outcome is outcome


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("device", "option", "outcome"),
    [
        ("/dev/sdX", "dax", Outcome.FAIL),
        ("/dev/sdX", "dax=always", Outcome.FAIL),
        ("/dev/sdX", "dax=never", Outcome.PASS),
        ("/dev/pmem0", "dax", Outcome.PASS),
    ],
)
def test_cmp008_dax_needs_persistent_memory(device: str, option: str, outcome: Outcome) -> None:
    """A planned disk is not persistent memory unless it is named like one."""
    of = host_of(disk_plan("", option, device=device))
    assert judge(check, of.filesystems[0], of).outcome is outcome


def test_cmp008_without_evidence() -> None:
    """Without a kernel the result is undetermined; only plans are judged."""
    fs = filesystem(superblock=known(superblock(block_bytes=8192)))
    nobody = unknown("kernel release")
    page = Known(4096, "--page-size")
    unsure = host(fs, kernel=nobody, planned=True, page_bytes=page)
    assert judge(check, fs, unsure).outcome is Outcome.UNDETERMINED
    assert judge(check, fs, host(fs)).outcome is Outcome.NOT_APPLICABLE


REMEDIES_NOT_RUN = "Plans only: tests/kernel/plans/test_random_plans.py runs the corrected lines."
