"""Archives that the real `sos` makes of this machine, with an odd ext4 mounted on it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import judge
from ext4audit.evidence import Known, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import Provenance
from ext4audit.report import Outcome
from ext4audit.rules import all_rules
from ext4audit.sources import CapturedDumpe2fs
from ext4audit.sources.captured import open_captured
from support.filesystems.scratch import Scratch, run

pytestmark = pytest.mark.kernel
PLUGINS = "filesys,block,kernel,host,memory,release,date"


@pytest.fixture
def sos() -> str:
    """Return the program; fail if it is required and missing."""
    program = shutil.which("sos")
    if program is None and os.environ.get("EXT4AUDIT_REQUIRE_KERNEL") == "1":
        pytest.fail("sos is not installed (Debian: sosreport)")
    if program is None:
        pytest.skip("sos is not installed")
    return program


def audited(path: Path, mount_point: Path) -> tuple[Host, Filesystem]:
    """Return the host in an archive, and its filesystem at a mount point."""
    found = open_captured(str(path))
    assert found.kind == "sosreport"
    host = assemble_host(found.source, found.taken_at)
    return host, next(fs for fs in host.filesystems if str(mount_point) in fs.mount_points)


def report(sos: str, target: Path, *options: str) -> Path:
    """Run sos, and return its archive."""
    target.mkdir()
    run(sos, "report", "--batch", *options, "--tmp-dir", target, "-z", "xz")
    (packed,) = target.glob("sosreport-*.tar.xz")
    return packed


def unpacked(archive: Path) -> Path:
    """Return the directory that an archive was unpacked to."""
    run("tar", "-xf", archive, "-C", archive.parent)
    (directory,) = (path for path in archive.parent.iterdir() if path.is_dir())
    return directory


def test_a_real_sosreport_is_audited_for_the_options_in_force(
    scratch: Callable[..., Scratch], tmp_path: Path, sos: str
) -> None:
    """Packed, unpacked or without its manifest, it shows what mount and superblock set.

    The mount point contains a blank, which sos keeps in files but not in file names.
    """
    one = scratch("data disk").make("-E", "stride=16,stripe_width=64").tune("-o", "nobarrier")
    one.mount("nodelalloc")
    packed = report(sos, tmp_path / "report", "-o", PLUGINS)
    directory = unpacked(packed)
    bare = tmp_path / "bare"
    shutil.copytree(directory, bare, symlinks=True)
    (bare / "sos_reports" / "manifest.json").unlink()
    for archive in (packed, directory, bare):
        host, fs = audited(archive, one.mount_point)
        options = need(fs.options)
        assert need(options.token("delalloc")) == "nodelalloc"
        assert [(o.token, o.set_by) for o in options.hidden] == [
            ("nobarrier", Provenance.SUPERBLOCK_BITS)
        ]
        assert need(fs.superblock).stripe_width_blocks == 64
        usage, counts = need(fs.usage), os.statvfs(one.mount_point)
        assert usage.size_blocks * usage.block_bytes == counts.f_blocks * counts.f_frsize
        assert usage.free_blocks * usage.block_bytes == counts.f_bfree * counts.f_frsize
        assert usage.available_blocks * usage.block_bytes == counts.f_bavail * counts.f_frsize
        assert (usage.inodes, usage.free_inodes) == (counts.f_files, counts.f_ffree)
        assert need(host.kernel).release == os.uname().release
        assert host.name == os.uname().nodename
        rule = next(rule for rule in all_rules() if rule.code == "DUR001")
        assert judge(rule, fs, host).outcome is Outcome.FAIL


def test_the_option_that_the_hint_names_captures_the_group_table(
    scratch: Callable[..., Scratch], tmp_path: Path, sos: str
) -> None:
    """`-k filesys.dumpe2fs=on` stores the full dump, which also provides the superblock."""
    one = scratch().make().mount("nobarrier")
    packed = report(sos, tmp_path / "report", "-o", "filesys", "-k", "filesys.dumpe2fs=on")
    dump = open_captured(str(packed)).source.fetch(CapturedDumpe2fs(one.device))
    assert isinstance(dump, Known)
    assert dump.value.count("Block bitmap at ") == 8
    _, fs = audited(packed, one.mount_point)
    assert need(fs.superblock).block_bytes == 1024
