"""One Filesystem for each live superblock, no matter what shows it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import judge
from ext4audit.evidence import need
from ext4audit.facts.mount import DeviceNumber
from ext4audit.report import Outcome
from ext4audit.rules.health.hlt003_unclean_needs_fsck import check as unclean
from ext4audit.sources import Answer, Ask, RunCommand, Source, utc_now
from ext4audit.sources.live import LiveSource
from support.filesystems.mounts import other_mount_namespace
from support.filesystems.scratch import Scratch, assembled_host, run, scanned_host

pytestmark = pytest.mark.kernel
Make = Callable[..., Scratch]


def test_several_mounts_of_one_superblock_are_one_filesystem(scratch: Make, tmp_path: Path) -> None:
    """A second mount and a bind of a subdirectory add mount points, not filesystems."""
    one = scratch().make().mount()
    (one.mount_point / "sub").mkdir()
    second, bind = tmp_path / "second", tmp_path / "bind"
    for place in (second, bind):
        place.mkdir()
    run("mount", one.device, second)
    run("mount", "--bind", one.mount_point / "sub", bind)
    try:
        found = scanned_host(one.mount_point, second, bind / ".").filesystems
        assert [fs.mount_points for fs in found] == [
            (str(one.mount_point), str(second), str(bind)),
        ]
    finally:
        run("umount", second)
        run("umount", bind)


def test_a_filesystem_alive_only_in_another_namespace_is_listed(scratch: Make) -> None:
    """It is unmounted here and held elsewhere: it is alive, and its type is read over there."""
    one = scratch().make().tune("-o", "nobarrier").mount()
    device = one.device
    with other_mount_namespace():
        one.unmount()
        host = assembled_host()
        found = next(fs for fs in host.filesystems if fs.device == device)
        assert (found.alive, found.mounts) == (True, ())
        assert need(found.fstype) == "ext4"
        assert [option.token for option in need(found.options).hidden] == ["nobarrier"]


def test_copies_with_one_uuid_are_disambiguated(scratch: Make) -> None:
    """Two images with the same UUID, mounted side by side, have different ids."""
    one, two = scratch("one").make(), scratch("two")
    run("cp", "--sparse=always", one.image, two.image)
    one.mount()
    two.mount()
    found = scanned_host(one.mount_point, two.mount_point).filesystems
    assert len({fs.uuid for fs in found}) == 1
    assert len({fs.id for fs in found}) == 2


def test_the_stack_of_a_loop_device_goes_on_below_its_backing_file(scratch: Make) -> None:
    """A loop device names its file, and the stack continues on the device that holds it."""
    stack = need(scratch().make().mount().filesystem().stack)
    assert stack.kind == "loop"
    assert stack.loop is not None
    assert stack.loop.backing_file.endswith("/image0")
    holder = Path(stack.loop.backing_file).stat().st_dev
    assert [str(device.device_number) for device in stack.known_below] == [
        f"{holder >> 8 & 0xFFF}:{holder & 0xFF | (holder >> 12 & 0xFFF00)}"
    ]


class MountsMeanwhile(Source):
    """This machine, with a mount that appears as soon as its devices have been listed."""

    def __init__(self, mount: Callable[[], object]) -> None:
        self._live = LiveSource()
        self._mount = mount

    def answer(self, ask: Ask) -> Answer:
        """Return the machine's answer."""
        answer: Answer = self._live.fetch(ask)
        if isinstance(ask, RunCommand) and ask.argv[0] == "lsblk":
            self._mount()
        return answer


def test_what_is_mounted_while_the_audit_runs_is_not_called_unclean(
    scratch: Make, tmp_path: Path
) -> None:
    """The mount table is read before the mount, the superblock with a journal in use after."""
    image, place = scratch().make().image, tmp_path / "place"
    place.mkdir()
    device = run("losetup", "--find", "--show", image).strip()
    number = Path(device).stat().st_rdev
    try:
        source = MountsMeanwhile(lambda: run("mount", device, place))
        host = assemble_host(
            source, utc_now(), only=[DeviceNumber(os.major(number), os.minor(number))]
        )
        (found,) = host.filesystems
        assert not found.alive
        assert "needs_recovery" in need(found.superblock).features
        assert judge(unclean, None, host).outcome is Outcome.PASS
    finally:
        run("umount", place)
        run("losetup", "--detach", device)
