from __future__ import annotations

import pytest

from ext4audit.assemble.host import (
    FSTRIM_DROP_INS,
    FSTRIM_UNITS,
    MDADM_CONF,
    RAID0_DEFAULT_LAYOUT,
    TRIMMERS,
    assemble_host,
    read_boot_loader,
    read_container,
    read_md_arrays,
    read_memory,
    read_os,
    read_raid0_default_layout,
    read_trimmer,
    read_trimming,
    read_virtualization,
)
from ext4audit.evidence import Known, Unknown, Why, need
from ext4audit.facts.host import BootLoader, Loader, Memory, OperatingSystem
from ext4audit.facts.mount import DeviceNumber, Mount
from ext4audit.sources import ReadFile, RealPath, RunCommand, VirtualMemory
from support.builders import known, mount
from support.hosts.evidence_host import (
    FSTRIM_LINK,
    HostEvidence,
    absent,
    debian_host,
    denied,
    failed,
)

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
        # A live image or an overlay root alone does not make a container.
        (OVERLAY, {}, None),
        (LXC, {}, None),
        # An image that was unpacked onto a disk keeps its marker file.
        (DISK, {"/.dockerenv": ""}, None),
        (DISK, {"/run/.containerenv": ""}, None),
        (DISK, {"/run/systemd/container": "lxc\n"}, None),
        (DISK, {}, None),
    ],
)
def test_a_container_has_a_marker_and_no_disk_for_its_root(
    root: Mount, files: dict[str, str], kind: str | None
) -> None:
    """Neither of the two alone is proof."""
    host = HostEvidence()
    for path, text in files.items():
        host.file(path, text)
    assert need(read_container(host.source(), known((root, ELSEWHERE)))) == kind


def test_systemd_below_a_new_run_is_proof_of_a_container_on_a_volume_of_its_own() -> None:
    """A tmpfs holds nothing from another machine, unlike a file on the disk."""
    host = HostEvidence().file("/run/systemd/container", "lxc\n")
    run = mount("/run", number=DeviceNumber(0, 23), fstype="tmpfs")
    assert need(read_container(host.source(), known((DISK, run)))) == "lxc"
    on_disk = mount("/run", number=DeviceNumber(8, 16))
    assert need(read_container(host.source(), known((DISK, on_disk)))) is None


def test_what_systemd_says_below_a_new_run_decides_even_where_it_is_not_readable() -> None:
    """A container on a separate volume shows no other sign."""
    host, run = HostEvidence(), mount("/run", number=DeviceNumber(0, 23), fstype="tmpfs")
    gap = denied("what systemd says")
    host.file("/run/systemd/container", gap)
    assert read_container(host.source(), known((DISK, run))) == gap
    assert need(read_container(host.source(), known((DISK,)))) is None
    host.file("/run/systemd/container", Unknown("it", Why.NOT_CAPTURED))
    assert need(read_container(host.source(), known((DISK, run)))) is None


def test_the_root_on_top_counts() -> None:
    """A second mount on / hides the first."""
    host = HostEvidence().file("/.dockerenv", "")
    assert need(read_container(host.source(), known((OVERLAY, DISK)))) is None
    assert need(read_container(host.source(), known((DISK, OVERLAY)))) == "docker"


def test_without_a_mount_table_a_marker_file_proves_nothing() -> None:
    """An image on a virtual machine's disk has it too; systemd's file is written at each boot."""
    unread = denied("mount table")
    marked = HostEvidence().file("/.dockerenv", "")
    assert read_container(marked.source(), unread) is unread
    named = HostEvidence().file("/run/systemd/container", "lxc\n")
    assert need(read_container(named.source(), unread)) == "lxc"
    assert need(read_container(HostEvidence().source(), unread)) is None


def test_a_marker_that_cannot_be_read_is_no_proof_of_a_host() -> None:
    """An unreadable marker may still exist."""
    host = HostEvidence().file("/run/.containerenv", denied("the marker"))
    assert read_container(host.source(), known((OVERLAY,))) == denied("the marker")
    host.file("/run/systemd/container", denied("what systemd says"))
    assert read_container(host.source(), known((OVERLAY,))) == denied("what systemd says")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("kvm\n", "kvm"),
        ("vmware\n", "vmware"),
        ("none\n", None),
        (absent(), None),
    ],
)
def test_virtualization_is_what_systemd_says(answer: str | Unknown, found: str | None) -> None:
    """The output is "none" on bare metal; without systemd there is no answer."""
    assert need(read_virtualization(HostEvidence().answer(VIRT, answer).source())) == found


@pytest.mark.parametrize("text", ["}odd{\n", "", "\n"])
def test_what_is_no_name_is_no_hypervisor(text: str) -> None:
    """Odd text must not turn a physical machine, which systemd calls "none", into a virtual one."""
    found = read_virtualization(HostEvidence().answer(VIRT, text).source())
    assert isinstance(found, Unknown)
    assert found.why is Why.UNPARSABLE


@pytest.mark.parametrize("answer", [denied(), failed()])
def test_no_answer_of_systemd_is_no_physical_machine(answer: Unknown) -> None:
    """A program that hung or was refused does not show that the machine is physical."""
    assert read_virtualization(HostEvidence().answer(VIRT, answer).source()) is answer


def test_memory_and_its_dirty_limits_are_read_together() -> None:
    """Both ratios and both sizes are read; the fact decides which of them apply."""
    host = debian_host().file("/proc/sys/vm/dirty_background_bytes", "67108864\n")
    assert read_memory(host.source()) == Known(
        Memory(17179869184, 16106127360, 0, 20, 67108864, 10), "memory, /proc/sys/vm/dirty_*"
    )


@pytest.mark.parametrize(
    "name", ["dirty_bytes", "dirty_ratio", "dirty_background_bytes", "dirty_background_ratio"]
)
@pytest.mark.parametrize("text", ["", "abc\n", "1_0\n"])
def test_an_odd_limit_is_unknown(name: str, text: str) -> None:
    """A limit that is not a number is not treated as 0."""
    found = read_memory(debian_host().file(f"/proc/sys/vm/{name}", text).source())
    assert isinstance(found, Unknown)
    assert (found.what, found.why) == (f"/proc/sys/vm/{name}", Why.UNPARSABLE)


@pytest.mark.parametrize("text", ["", "1", "x\ny"])
def test_an_odd_memory_size_is_unknown(text: str) -> None:
    """Both numbers must be present."""
    found = read_memory(debian_host().answer(VirtualMemory(), text).source())
    assert isinstance(found, Unknown)
    assert (found.what, found.why) == ("memory and vm.dirty_*", Why.UNPARSABLE)


def test_os_release_has_two_places() -> None:
    """The file in /etc takes precedence."""
    host = debian_host().file("/usr/lib/os-release", "ID=fedora\n")
    assert need(read_os(host.source())) == OperatingSystem("debian", "12", "Debian 12")
    assert need(read_os(host.without("/etc/os-release").source())).id == "fedora"
    gap = read_os(host.without("/usr/lib/os-release").source())
    assert gap == absent("/etc/os-release")


UNIT = "/usr/lib/systemd/system/fstrim.timer"


@pytest.mark.parametrize("path", TRIMMERS)
def test_each_place_is_enough_to_trim(path: str) -> None:
    """Either a link to the timer or a cron job is enough."""
    host = debian_host().answer(RealPath(FSTRIM_LINK), absent()).answer(RealPath(path), UNIT)
    assert need(read_trimmer(host.source()))


def test_nothing_there_trims_nothing() -> None:
    """Debian leaves the timer disabled."""
    found = read_trimmer(debian_host().answer(RealPath(FSTRIM_LINK), absent()).source())
    assert found == Known("", FSTRIM_LINK)


def test_a_masked_timer_trims_nothing() -> None:
    """The link of a masked timer leads to /dev/null."""
    assert not need(read_trimmer(debian_host().answer(RealPath(FSTRIM_LINK), "/dev/null").source()))


def test_a_directory_that_may_not_be_seen_is_unknown() -> None:
    """Another place that shows trimming is still enough."""
    host = debian_host().answer(RealPath(FSTRIM_LINK), denied())
    assert isinstance(read_trimmer(host.source()), Unknown)
    assert need(read_trimmer(host.answer(RealPath(TRIMMERS[1]), UNIT).source()))


LISTED = "--listed-in /etc/fstab:/proc/self/mountinfo --verbose --quiet-unsupported"
OF_UNIT = "/usr/lib/systemd/system/fstrim.service"


@pytest.mark.parametrize(
    ("command", "trims_all"),
    [
        ("/sbin/fstrim -a", True),
        ("/usr/sbin/fstrim -av", True),
        ("/sbin/fstrim --all", True),
        ("/sbin/fstrim -Av", False),
        ("/sbin/fstrim --fstab --verbose --quiet", False),
        (f"/sbin/fstrim {LISTED}", False),
        ("/sbin/fstrim --listed-in=/proc/self/mountinfo", True),
        ("/sbin/fstrim --listed-in /etc/my.list", False),
        ("-/nix/store/x/bin/fstrim -I /etc/fstab:/proc/self/mountinfo", False),
    ],
)
def test_the_unit_tells_what_is_trimmed(command: str, *, trims_all: bool) -> None:
    """The commands are those of Ubuntu 18.04, EL 8, Debian 10 and 12, Ubuntu 20.04 and NixOS."""
    host = debian_host().file(OF_UNIT, f"[Service]\nType=oneshot\nExecStart={command}\n")
    assert read_trimming(host.source())[1] == Known(trims_all, OF_UNIT)


@pytest.mark.parametrize("text", ["", "# a comment\n", None])
def test_without_a_line_of_fstab_the_mount_table_is_listed(text: str | None) -> None:
    """The first file that is not empty is used (fstrim(8), --listed-in)."""
    host = debian_host().file(OF_UNIT, f"ExecStart=/sbin/fstrim {LISTED}\n")
    host = host.without("/etc/fstab") if text is None else host.file("/etc/fstab", text)
    assert need(read_trimming(host.source())[1])


@pytest.mark.parametrize(
    "text", ["", "ExecStart=/sbin/fstrim /data\n", "ExecStart=/bin/sh -c 'fstrim -a'\n"]
)
def test_another_command_tells_nothing(text: str) -> None:
    """Neither does a drop-in, which can replace it, nor a unit that was not read."""
    host = debian_host().file(OF_UNIT, text)
    found = read_trimming(host.source())[1]
    assert isinstance(found, Unknown)
    assert "systemctl cat" in found.hint
    host = host.file(OF_UNIT, "ExecStart=/sbin/fstrim -a\n").answer(RealPath(FSTRIM_DROP_INS), "/x")
    assert isinstance(read_trimming(host.source())[1], Unknown)
    host = host.answer(RealPath(FSTRIM_DROP_INS), absent()).answer(
        ReadFile(FSTRIM_UNITS[0]), denied()
    )
    assert isinstance(read_trimming(host.source())[1], Unknown)


def test_a_job_of_cron_trims_all_that_is_mounted() -> None:
    """Without a timer or job, nothing is trimmed."""
    host = debian_host().answer(RealPath(FSTRIM_LINK), absent())
    assert not need(read_trimming(host.source())[1])
    assert need(read_trimming(host.answer(RealPath(TRIMMERS[2]), TRIMMERS[2]).source())[1])


@pytest.mark.parametrize("path", MDADM_CONF)
def test_the_arrays_of_mdadm_conf_are_named(path: str) -> None:
    """The file is either at Debian's place or at that of other distributions."""
    host = debian_host().file(path, "ARRAY /dev/md0 UUID=1:2:3:4\n")
    assert need(read_md_arrays(host.source())) == ("/dev/md0",)


def test_of_two_files_debians_counts() -> None:
    """The first readable file is used."""
    host = debian_host().file(MDADM_CONF[0], "ARRAY /dev/md0 UUID=1:2:3:4\n")
    host.file(MDADM_CONF[1], "ARRAY /dev/md1 UUID=1:2:3:4\n")
    assert need(read_md_arrays(host.source())) == ("/dev/md0",)
    assert need(read_md_arrays(host.file(MDADM_CONF[0], denied()).source())) == ("/dev/md1",)


def test_no_file_names_no_array() -> None:
    """A file that may not be read is unknown instead."""
    assert need(read_md_arrays(debian_host().source())) == ()
    assert isinstance(read_md_arrays(debian_host().file(MDADM_CONF[1], denied()).source()), Unknown)


@pytest.mark.parametrize(("text", "layout"), [("0\n", 0), ("2\n", 2)])
def test_the_default_layout_is_the_modules_parameter(text: str, layout: int) -> None:
    """0 means that the parameter is not set."""
    host = debian_host().file(RAID0_DEFAULT_LAYOUT, text)
    assert need(read_raid0_default_layout(host.source())) == layout


def test_a_module_that_is_not_loaded_has_no_default() -> None:
    """Text that is not a number is unknown."""
    assert need(read_raid0_default_layout(debian_host().source())) == 0
    odd = debian_host().file(RAID0_DEFAULT_LAYOUT, "odd\n")
    assert isinstance(read_raid0_default_layout(odd.source()), Unknown)


GRUB = "/boot/grub/grub.cfg"
GRUB2 = "/boot/grub2/grub.cfg"
ENTRIES = "/boot/loader/entries"


def host_with(*paths: str) -> HostEvidence:
    """Return a host that has only these files of boot loaders."""
    host = debian_host().answer(RealPath(GRUB), absent())
    for path in paths:
        host.answer(RealPath(path), path)
    return host.answer(RunCommand(("grub2-install", "--version")), "grub2-install (GRUB) 2.12\n")


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ((GRUB,), BootLoader(Loader.GRUB, "2.06-13+deb12u1")),
        ((GRUB2,), BootLoader(Loader.GRUB, "2.12")),
        # RHEL: GRUB reads the entries of the Boot Loader Specification.
        ((GRUB2, ENTRIES), BootLoader(Loader.GRUB, "2.12")),
        ((ENTRIES,), BootLoader(Loader.SYSTEMD_BOOT)),
        (("/efi/EFI/systemd",), BootLoader(Loader.SYSTEMD_BOOT)),
        (("/boot/efi/EFI/systemd",), BootLoader(Loader.SYSTEMD_BOOT)),
        (("/boot/extlinux/extlinux.conf",), BootLoader(Loader.EXTLINUX)),
        ((), BootLoader(Loader.NONE_FOUND)),
    ],
)
def test_files_tell_the_boot_loader(paths: tuple[str, ...], expected: BootLoader) -> None:
    """Their content is not read."""
    assert need(read_boot_loader(host_with(*paths).source())) == expected


def test_a_directory_for_root_only_is_still_there() -> None:
    """On RHEL only root can read /boot/grub2, but its existence is enough."""
    host = host_with("/boot/grub2").answer(RealPath(GRUB2), denied())
    assert need(read_boot_loader(host.source())).loader is Loader.GRUB


def test_grub_without_its_installer_has_no_version() -> None:
    """RHEL does not install it on EFI systems."""
    host = host_with(GRUB).answer(RunCommand(("grub-install", "--version")), absent())
    assert need(read_boot_loader(host.source())) == BootLoader(Loader.GRUB, None)


@pytest.mark.parametrize("path", [GRUB, "/efi/EFI/systemd"])
def test_a_place_that_may_not_be_seen_is_unknown(path: str) -> None:
    """Unknown must not turn into NONE_FOUND."""
    found = read_boot_loader(host_with().answer(RealPath(path), denied()).source())
    assert isinstance(found, Unknown)
    assert found.why is Why.DENIED


def test_a_container_has_no_boot_loader() -> None:
    """Nothing boots from the files in its /boot."""
    host = debian_host().unmount(25).mount(25, "0:40", "/", "overlay", fstype="overlay")
    host.file("/run/systemd/container", "lxc\n")
    assert isinstance(assemble_host(host.source(), "2026-01-02T03:04:05Z").boot_loader, Unknown)
