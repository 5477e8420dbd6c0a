from __future__ import annotations

import pytest

from builders import mount
from evidence_host import HostEvidence, absent, debian_host, failed
from ext4audit.assemble.environment import (
    read_container,
    read_memory,
    read_os,
    read_virtualization,
)
from ext4audit.evidence import Known, Unknown, Why, need
from ext4audit.facts.host import Memory, OperatingSystem
from ext4audit.facts.mount import DeviceNumber, Mount
from ext4audit.sources.ask import RunCommand, VirtualMemory

VIRT = RunCommand(("systemd-detect-virt", "--vm"))
OVERLAY = mount("/", number=DeviceNumber(0, 62), fstype="overlay")
DISK = mount("/", number=DeviceNumber(8, 1))
LXC = mount("/", number=DeviceNumber(8, 1), root="/var/lib/lxc/web/rootfs")
ZFS_LXC = mount("/", number=DeviceNumber(0, 50), fstype="zfs")
ELSEWHERE = mount("/data", number=DeviceNumber(8, 16))


@pytest.mark.parametrize(
    ("root", "files", "kind"),
    [
        (OVERLAY, {"/.dockerenv": ""}, "docker"),
        (OVERLAY, {"/run/.containerenv": "engine=podman\n"}, "podman"),
        (OVERLAY, {"/run/systemd/container": "systemd-nspawn\n"}, "systemd-nspawn"),
        (OVERLAY, {"/run/systemd/container": "podman\n", "/.dockerenv": ""}, "podman"),
        (OVERLAY, {"/run/systemd/container": "\n", "/.dockerenv": ""}, "docker"),
        (LXC, {"/run/systemd/container": "lxc\n"}, "lxc"),
        (ZFS_LXC, {"/run/systemd/container": "lxc\n"}, "lxc"),
        # A live image or an overlay root is no container by itself.
        (OVERLAY, {}, None),
        (LXC, {}, None),
        # An image that was unpacked onto a disk keeps its marker.
        (DISK, {"/.dockerenv": ""}, None),
        (DISK, {"/run/.containerenv": ""}, None),
        (DISK, {"/run/systemd/container": "lxc\n"}, None),
        (DISK, {}, None),
    ],
)
def test_a_container_has_a_marker_and_no_disk_for_its_root(
    root: Mount, files: dict[str, str], kind: str | None
) -> None:
    """Either alone proves nothing."""
    host = HostEvidence()
    for path, text in files.items():
        host.file(path, text)
    assert read_container(host.source(), (root, ELSEWHERE)) == kind


def test_the_root_on_top_counts() -> None:
    """A second mount on / hides the first."""
    host = HostEvidence().file("/.dockerenv", "")
    assert read_container(host.source(), (OVERLAY, DISK)) is None
    assert read_container(host.source(), (DISK, OVERLAY)) == "docker"


def test_without_a_mount_table_the_marker_decides() -> None:
    """A container's fstab must not be judged as the host's."""
    assert read_container(HostEvidence().file("/.dockerenv", "").source(), ()) == "docker"
    assert read_container(HostEvidence().source(), ()) is None


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("kvm\n", "kvm"),
        ("vmware\n", "vmware"),
        ("none\n", None),
        ("", None),
        (absent(), None),
        (failed(), None),
    ],
)
def test_virtualization_is_what_systemd_says(answer: str | Unknown, found: str | None) -> None:
    """Bare metal says "none"; a host without systemd says nothing."""
    assert read_virtualization(HostEvidence().tell(VIRT, answer).source()) == found


def test_memory_and_its_dirty_limits_are_read_together() -> None:
    """Both ratios and both sizes are there: which counts is the fact's to say."""
    host = debian_host().file("/proc/sys/vm/dirty_background_bytes", "67108864\n")
    assert read_memory(host.source()) == Known(
        Memory(17179869184, 16106127360, 0, 20, 67108864, 10), "memory, /proc/sys/vm/dirty_*"
    )


@pytest.mark.parametrize(
    "name", ["dirty_bytes", "dirty_ratio", "dirty_background_bytes", "dirty_background_ratio"]
)
@pytest.mark.parametrize("text", ["", "abc\n", "1_0\n"])
def test_an_odd_limit_is_a_hole(name: str, text: str) -> None:
    """A limit that is no number is not taken for 0."""
    found = read_memory(debian_host().file(f"/proc/sys/vm/{name}", text).source())
    assert isinstance(found, Unknown)
    assert (found.what, found.why) == (f"/proc/sys/vm/{name}", Why.UNPARSABLE)


@pytest.mark.parametrize("text", ["", "1", "x\ny"])
def test_an_odd_memory_size_is_a_hole(text: str) -> None:
    """Two numbers are needed."""
    found = read_memory(debian_host().tell(VirtualMemory(), text).source())
    assert isinstance(found, Unknown)
    assert (found.what, found.why) == ("memory and vm.dirty_*", Why.UNPARSABLE)


def test_os_release_has_two_places() -> None:
    """The one in /etc counts first."""
    host = debian_host().file("/usr/lib/os-release", "ID=fedora\n")
    assert need(read_os(host.source())) == OperatingSystem("debian", "12", "Debian 12")
    assert need(read_os(host.without("/etc/os-release").source())).id == "fedora"
    hole = read_os(host.without("/usr/lib/os-release").source())
    assert hole == absent("/etc/os-release")
