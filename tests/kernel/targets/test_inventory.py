"""One Filesystem for each live superblock, whatever shows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ext4audit.evidence import need
from support.filesystems.mounts import another_namespace
from support.filesystems.scratch import Scratch, assembled, run, scan

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
        found = scan(one.mount_point, second, bind / ".").filesystems
        assert [fs.mount_points for fs in found] == [
            (str(one.mount_point), str(second), str(bind)),
        ]
    finally:
        run("umount", second)
        run("umount", bind)


def test_a_filesystem_alive_only_in_another_namespace_is_listed(scratch: Make) -> None:
    """Unmounted here and held elsewhere, it is alive, and its type is read over there."""
    one = scratch().make().tune("-o", "nobarrier").mount()
    device = one.device
    with another_namespace():
        one.unmount()
        host = assembled()
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
    found = scan(one.mount_point, two.mount_point).filesystems
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
