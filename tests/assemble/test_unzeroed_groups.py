from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import superblock
from evidence_host import DATA_UUID, debian_host, denied, descriptors
from ext4audit.assemble.superblock import read_image_superblock
from ext4audit.assemble.unzeroed_groups import read_unzeroed_groups
from ext4audit.evidence import Known, Unknown, Why, need
from ext4audit.facts.superblock import Superblock
from ext4audit.sources.ask import ReadBytes
from ext4audit.sources.live import LiveSource
from ext4audit.sources.recording import RecordingSource
from ext4audit.sources.snapshot import MapSource
from real_mke2fs import needs_e2fsprogs, sparse_image

DEVICE = "/dev/sdb"
TABLE_AT = 4096


def of_groups(groups: int, **changes: object) -> Known[Superblock]:
    """Return the superblock of so many groups with descriptors of 32 bytes."""
    given = {
        "features": frozenset({"metadata_csum"}),
        "size_blocks": groups * 32768,
        "block_bytes": 4096,
        "first_block": 0,
        "blocks_per_group": 32768,
        "descriptor_bytes": 32,
        **changes,
    }
    return Known(superblock(**given), DATA_UUID)


def recorded(groups: int, unzeroed: int) -> RecordingSource:
    """Return a source that answers for any part of the table and remembers what was asked."""
    table = descriptors(groups, unzeroed=unzeroed)
    whole = ReadBytes(DEVICE, TABLE_AT, len(table))
    return RecordingSource(MapSource({whole: Known(table, "")}))


@given(st.integers(1, 20_000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_the_count_is_right_and_costs_few_reads(numbers: tuple[int, int]) -> None:
    """However far initialization has come; 20,000 groups are 2.4 TiB."""
    groups, unzeroed = numbers
    source = recorded(groups, unzeroed)
    assert need(read_unzeroed_groups(source, DEVICE, of_groups(groups))) == unzeroed
    assert len(source.answers) <= 10


@pytest.mark.parametrize("unzeroed", [0, 1, 200_000, 524_288])
def test_the_largest_filesystem_costs_no_more_than_twenty(unzeroed: int) -> None:
    """64 TiB have 524,288 groups in 4096 blocks of descriptors."""
    source = recorded(524_288, unzeroed)
    assert need(read_unzeroed_groups(source, DEVICE, of_groups(524_288))) == unzeroed
    assert len(source.answers) <= (14 if unzeroed else 1)


def test_without_checksums_there_is_nothing_to_be_owed() -> None:
    """And nothing is read."""
    source = recorded(8, 8)
    assert need(read_unzeroed_groups(source, DEVICE, of_groups(8, features=frozenset()))) == 0
    assert not source.answers


def test_without_root_nothing_is_read() -> None:
    """The kernel's own account of the superblock does not say where descriptors lie."""
    source = recorded(8, 8)
    found = read_unzeroed_groups(source, DEVICE, of_groups(8, blocks_per_group=None))
    assert isinstance(found, Unknown)
    assert (found.why, found.hint, source.answers) == (Why.DENIED, "run as root", {})


def test_a_hole_among_the_descriptors_is_a_hole() -> None:
    """Unknown is not zeroed."""
    host = debian_host().tell(ReadBytes(DEVICE, TABLE_AT, 8 * 32), denied())
    found = read_unzeroed_groups(host.source(), DEVICE, of_groups(8))
    assert isinstance(found, Unknown)
    assert found.why is Why.DENIED


@needs_e2fsprogs
@pytest.mark.parametrize(
    "features", ["meta_bg,^resize_inode", "^64bit", "^metadata_csum,uninit_bg"]
)
@pytest.mark.parametrize("lazy", [0, 1])
def test_dumpe2fs_sees_as_many(features: str, lazy: int) -> None:
    """On a real filesystem that nobody mounted yet."""
    with sparse_image(3 << 30) as image:
        make(image, features, lazy)
        groups = dumped(image)
        expected = groups.count(": (Blocks ") - groups.count("ITABLE_ZEROED")
        found = read_image_superblock(LiveSource(), str(image))
        assert need(read_unzeroed_groups(LiveSource(), str(image), found)) == expected
        assert (expected > 0) == bool(lazy)


def make(image: Path, features: str, lazy: int) -> None:
    """Make a filesystem; where blocks are discarded, mke2fs knows that they are zeros."""
    extended = f"nodiscard,lazy_itable_init={lazy}"
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", features, "-E", extended, str(image)]
    subprocess.run(command, check=True)


def dumped(image: Path) -> str:
    """Return what dumpe2fs says of all groups."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    done = subprocess.run(
        ["dumpe2fs", image], check=True, capture_output=True, text=True, env=environment
    )
    return done.stdout
