"""Auditing what `collect` captures of real filesystems equals auditing the host itself.

The filesystems are scratch ones with fixed content, and reports cover only them: filesystems of
other programs come and go, and `/proc/fs/ext4` lists those of every mount namespace.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ext4audit.evidence import Known
from ext4audit.sources import Answer, Ask, ReadBytes, UdevDatabase
from ext4audit.sources.captured_files import read_snapshot_tar
from support.archives.tar import read_tar
from support.filesystems.scratch import Scratch
from support.filesystems.scratch import run as run_tool
from support.program import run

pytestmark = pytest.mark.kernel
Make = Callable[..., Scratch]

OF_AVAILABLE_MEMORY = {"PRF002", "PRF010"}
"""Rules that quote the available memory, which differs between any two moments."""
SOME_FINDINGS = {"CAP006", "DUR001", "DUR002", "DUR006"}
"""Some rules that the mounts below violate on every machine, so that no report is empty."""
DESCRIPTOR_BYTES = 64
GROUPS_OF_64_GIB, GROUPS_OF_64_MIB = 512, 8
DEVICE = re.compile(r"\b(?:loop|dm-|md)\d+\b|\b(?:7|9|25\d):\d+\b")
"""Devices that concurrent tests add: they come and go between two snapshots."""
PROCESS = re.compile(r"/proc/\d+\b")
"""Processes with their own mount namespace, which also come and go."""
LEAST_SAVED_BYTES = 4 << 10
"""Each descriptor of the large filesystem has locations and checksums that compress little."""


@pytest.fixture
def mount_points(scratch: Make) -> list[str]:
    """Mount filesystems that cause many findings."""
    unsafe = scratch("unsafe").make("-L", "a b").tune("-o", "nodelalloc")
    unsafe.mount("nobarrier,noauto_da_alloc,commit=99")
    full = scratch("full").make("-O", "meta_bg,^resize_inode", "-b", "1024").mount("data=journal")
    read_only = scratch("read only").make("-O", "^has_journal", fstype="ext2").mount("ro")
    free_kib = int(run_tool("stat", "-f", "-c", "%a", full.mount_point))
    run_tool("fallocate", "-l", f"{free_kib - 64}KiB", full.mount_point / "filling")
    run_tool("sync", "-f", full.mount_point)
    return [str(one.mount_point) for one in (unsafe, full, read_only)]


def report(*arguments: str) -> dict[str, Any]:
    """Return the JSON report of a scan, without its source and time, which must differ.

    For the rules that quote the available memory only the outcome remains.
    """
    done = run("scan", "-f", "json", "--pedantic", *arguments)
    document: dict[str, Any] = json.loads(done.stdout)
    del document["source"]
    for verdict in document["verdicts"]:
        if verdict["rule"] in OF_AVAILABLE_MEMORY:
            del verdict["findings"], verdict["evidence"]
    return document


def codes(document: dict[str, Any]) -> set[str]:
    """Return the rules that have findings."""
    return {verdict["rule"] for verdict in document["verdicts"] if verdict.get("findings")}


@pytest.mark.usefixtures("steady_limits")
@pytest.mark.parametrize("form", ["tar", "text"])
@pytest.mark.parametrize("captured", ["the host", "the targets"])
def test_audit_of_a_snapshot_equals_the_live_audit(
    mount_points: list[str], tmp_path: Path, captured: str, form: str
) -> None:
    """`scan --from` on the output of `collect` gives the whole live report, in either form."""
    snapshot = tmp_path / "snapshot"
    options = ["--text"] if form == "text" else []
    targets = mount_points if captured == "the targets" else []
    live = report(*mount_points)
    done = run("collect", *options, "-o", str(snapshot), *targets)
    assert (done.returncode, done.stdout) == (0, "")
    assert report("--from", str(snapshot), *mount_points) == live
    assert codes(live) >= SOME_FINDINGS
    assert len(live["filesystems"]) == len(mount_points)


@pytest.fixture
def udev_data(private_mounts: None) -> Iterator[Path]:  # noqa: ARG001 - a fixture that acts
    """Replace this machine's udev database by an empty one."""
    run_tool("mkdir", "-p", "/run/udev")
    run_tool("mount", "-t", "tmpfs", "tmpfs", "/run/udev")
    data = Path("/run/udev/data")
    data.mkdir()
    yield data
    run_tool("umount", "/run/udev")


def answers_in(path: Path) -> dict[Ask, Answer]:
    """Return the answers in a snapshot."""
    with path.open("rb") as file:
        return read_snapshot_tar(read_tar(file))[0]


def number_of(one: Scratch) -> str:
    """Return the device number of a mounted filesystem."""
    number = one.mount_point.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def test_lean_omits_large_answers(scratch: Make, udev_data: Path, tmp_path: Path) -> None:
    """A lean snapshot lacks only the udev database and the group descriptors.

    Descriptors of a filesystem with few groups are smaller than its superblock, and stay.
    """
    lazy = ("-E", "lazy_itable_init=1,lazy_journal_init=1", "-b", "4096")
    large = scratch("large").make(*lazy, size="64G").mount("noinit_itable")
    small = scratch("small").make("-b", "1024").mount("noinit_itable")
    targets = [str(one.mount_point) for one in (large, small)]
    for one in (large, small):
        (udev_data / f"b{number_of(one)}").write_text("I:12345\nE:ID_FS_TYPE=ext4\n")
    paths = [tmp_path / "full", tmp_path / "lean"]
    run("collect", "-o", str(paths[0]), *targets)
    run("collect", "--lean", "-o", str(paths[1]), *targets)
    full, lean = map(answers_in, paths)
    left_out = {ask for ask in full.keys() - lean.keys() if is_about(ask, large, small)}
    of_large = ReadBytes(large.device, 4096, GROUPS_OF_64_GIB * DESCRIPTOR_BYTES, 0)
    assert left_out == {
        UdevDatabase(number_of(large)),
        UdevDatabase(number_of(small)),
        of_large,
    }
    assert all(isinstance(full[ask], Known) for ask in left_out)
    added = lean.keys() - full.keys()
    assert [ask for ask in added if not is_of_others(ask, tmp_path, large, small)] == []
    assert ReadBytes(small.device, 2048, GROUPS_OF_64_MIB * DESCRIPTOR_BYTES, 0) in lean
    # Not the sizes of the files: they include what other tests do at the same time.
    descriptors = full[of_large]
    assert isinstance(descriptors, Known)
    assert isinstance(descriptors.value, bytes)
    assert len(gzip.compress(descriptors.value)) > LEAST_SAVED_BYTES


def is_about(ask: Ask, *made: Scratch) -> bool:
    """Return whether an ask is about one of these, and not about what holds their images."""
    names = {name for one in made for name in (one.device, number_of(one))}
    return any(repr(name) in repr(ask) for name in names)


def is_of_others(ask: Ask, tmp_path: Path, *made: Scratch) -> bool:
    """Return whether an ask is only about devices, files or processes of other tests."""
    own = {name for one in made for name in (Path(one.device).name, number_of(one))}
    devices = set(DEVICE.findall(repr(ask)))
    if str(tmp_path) in repr(ask) or not devices.isdisjoint(own):
        return False
    of_tests = str(tmp_path.parents[1])
    return bool(devices) or of_tests in repr(ask) or PROCESS.search(repr(ask)) is not None
