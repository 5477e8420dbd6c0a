"""The lines of a plan, run as printed: the result matches the plan's prediction."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Known
from ext4audit.facts.host import Host
from ext4audit.facts.plan import Plan
from ext4audit.parsers.dumpe2fs import parse_group_table
from ext4audit.planning.lines import correct, plan_lines
from ext4audit.report import Outcome
from ext4audit.rules import all_rules
from ext4audit.rules.shared.quantities import stripe_in_force
from support.filesystems.scratch import run, run_shell, scanned_host
from support.hosts.plans import disk_plan, host_of, judge_by, plan, predict

pytestmark = pytest.mark.kernel

GIB = 1 << 30
COMPARED = ("DUR001", "DUR002", "PRF001", "DRF001", "DRF002")
"""Rules that judge a loop device like the disk of the plan."""


@contextmanager
def loop_device(folder: Path, size_bytes: int) -> Iterator[str]:
    """Yield a loop device over a sparse file, and detach it."""
    image = folder / "planned.img"
    image.touch()
    os.truncate(image, size_bytes)
    device = run("losetup", "-f", "--show", image).strip()
    try:
        yield device
    finally:
        run("losetup", "-d", device)


@contextmanager
def made(of: Plan, fstab: Path) -> Iterator[Host]:
    """Run the lines of a plan in order, and yield the host with its filesystem."""
    superblock = predict(of).superblock
    assert isinstance(superblock, Known)
    for line in plan_lines(of, superblock.value):
        where = f" >> {fstab}" if line.key == "fstab" else ""
        run_shell(line.command + where)
    try:
        yield scanned_host(of.mount_point)
    finally:
        run("umount", of.mount_point)


def verdicts(host: Host) -> dict[str, Outcome]:
    """Return the outcome of each compared rule on the only filesystem."""
    rules = [rule for rule in all_rules() if rule.code in COMPARED]
    return {rule.code: judge(rule, host.filesystems[0], host).outcome for rule in rules}


@pytest.mark.parametrize("width", [24, 48])
def test_the_stripe_of_a_plan_with_clusters_is_that_of_the_mount(
    etc: Path, tmp_path: Path, width: int
) -> None:
    """This kernel turns off a stripe of 24 blocks, as a cluster has 16."""
    with loop_device(tmp_path, GIB) as device:
        of = disk_plan(
            f"-O bigalloc -C 64k -E stripe_width={width}",
            device=device,
            mount_point=str(tmp_path / "data"),
            release=os.uname().release,
        )
        (planned,) = host_of(of).filesystems
        with made(of, etc) as host:
            (mounted,) = host.filesystems
            found = stripe_in_force(mounted, host)
            assert found == stripe_in_force(planned, host)
    assert found == (0 if width % 16 else width)


@pytest.mark.parametrize(
    "words", [(), ("noatime",), ("noatime", "nobarrier"), ("nodelalloc", "data=writeback"), ("ro",)]
)
def test_real_filesystem_equals_the_prediction(
    etc: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """The real filesystem has the same verdicts and the same options in force."""
    with loop_device(tmp_path, GIB) as device:
        of = disk_plan(
            "-m 0 -L data",
            *words,
            device=device,
            mount_point=str(tmp_path / "data"),
            release=os.uname().release,
        )
        planned = host_of(of)
        with made(of, etc) as host:
            assert verdicts(host) == verdicts(planned)
            (fs,), (expected,) = host.filesystems, planned.filesystems
            assert isinstance(fs.options, Known)
            assert isinstance(expected.options, Known)
            for option in expected.options.value.options:
                assert fs.options.value.token(option.name) == Known(
                    option.token, f"/proc/fs/ext4/{fs.name}/options"
                )


def test_corrected_plan_passes_when_made(etc: Path, tmp_path: Path) -> None:
    """DUR001 fails on the plan, and passes on the corrected plan and the resulting filesystem."""
    with loop_device(tmp_path, GIB) as device:
        of = disk_plan("", "nobarrier", device=device, mount_point=str(tmp_path / "data"))
        corrected = correct(of, judge_by("DUR001"))
        assert corrected.clean
        with made(corrected.plan, etc) as host:
            assert verdicts(host)["DUR001"] is Outcome.PASS


def test_defaults_of_mke2fs_are_cleared_by_tune2fs(
    etc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mke2fs configuration hides nobarrier in every superblock; the lines remove it."""
    file = tmp_path / "mke2fs.conf"
    text = Path("/etc/mke2fs.conf").read_text()
    file.write_text(text.replace("default_mntopts = acl", "default_mntopts = nobarrier,acl"))
    monkeypatch.setenv("MKE2FS_CONFIG", str(file))
    with loop_device(tmp_path, GIB) as device:
        of = disk_plan(device=device, mount_point=str(tmp_path / "data"), configuration=str(file))
        assert verdicts(host_of(of))["DUR002"] is Outcome.FAIL
        corrected = correct(of, judge_by("DUR001", "DUR002"))
        assert corrected.plan.cleared == ("nobarrier",)
        with made(corrected.plan, etc) as host:
            assert verdicts(host)["DUR002"] is Outcome.PASS
            assert verdicts(host)["DUR001"] is Outcome.PASS


@pytest.mark.parametrize("name", ["data", "my data", "-x $(exit 1)`exit 1`'\"#%s\\040*"])
def test_fstab_mounts_it_the_same_way(etc: Path, tmp_path: Path, name: str) -> None:
    """The printed line mounts by UUID, with any name of the mount point."""
    where = tmp_path / name
    with loop_device(tmp_path, GIB) as device:
        of = disk_plan("", "noatime", "nodelalloc", device=device, mount_point=str(where))
        with made(of, etc) as host:
            before = verdicts(host)
            run("umount", where)
            run("mount", where)
            after = scanned_host(where)
            assert verdicts(after) == before
            assert host.filesystems[0].options == after.filesystems[0].options


def test_metadata_locations_equal_the_plan(etc: Path, tmp_path: Path) -> None:
    """For a corrected stripe of twelve, each real bitmap and table is at its predicted place."""
    del etc
    with loop_device(tmp_path, 100 * GIB) as device:
        of = plan(device=device, size_bytes=100 * GIB, mount_point=str(tmp_path / "data"))
        corrected = correct(of, judge_by("LAY001"))
        assert [each.summary for each in corrected.changes] == ["Create it with -g 32744 -G 16"]
        made_of = predict(corrected.plan)
        assert isinstance(made_of.superblock, Known)
        assert isinstance(made_of.table, Known)
        commands = {
            line.key: line.command for line in plan_lines(corrected.plan, made_of.superblock.value)
        }
        for key in ("mkfs", "verify", "tune2fs_stripe"):
            run_shell(commands[key])
        found, expected = parse_group_table(run("dumpe2fs", "-g", device)), made_of.table.value
        assert list(found.block_bitmaps) == list(expected.block_bitmaps)
        assert list(found.inode_bitmaps) == list(expected.inode_bitmaps)
        assert list(found.inode_tables) == list(expected.inode_tables)
