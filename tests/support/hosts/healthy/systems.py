"""Operating systems of healthy hosts, and the features of their mke2fs.

The version of mke2fs appears in the evidence only: the mke2fs of this machine is what runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from ext4audit.sources import RealPath, RunCommand, Uname, VirtualMemory
from support.hosts.evidence_host import FSTRIM_LINK, OPTIONS, HostEvidence, replaced

CONFIGURATION = """\
[defaults]
\tbase_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
\tdefault_mntopts = acl,user_xattr
\tenable_periodic_fsck = 0
\tblocksize = 4096
\tinode_size = 256
\tinode_ratio = 16384

[fs_types]
\text4 = {{
\t\tfeatures = {features}
\t}}
\tsmall = {{
\t\tblocksize = 1024
\t\tinode_ratio = 4096
\t}}
\tbig = {{
\t\tinode_ratio = 32768
\t}}
\thuge = {{
\t\tinode_ratio = 65536
\t}}
"""
"""The parts of mke2fs.conf that matter for ext4; they are the same in all distributions."""
_COMMON = "has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize"
_LINES_BEFORE_1_46: dict[str, str | None] = {
    "Overhead clusters:        ": None,
    "Total journal size:       ": "Journal size:             ",
    "Total journal blocks:     ": "Journal length:           ",
    "Max transaction length:   ": None,
    "Fast commit length:       ": None,
}


@dataclass(frozen=True)
class Mke2fs:
    """A distribution's mke2fs: `version` of e2fsprogs, and the `features` of its ext4."""

    version: str
    features: str = _COMMON

    @property
    def configuration(self) -> str:
        """The text of the distribution's mke2fs.conf."""
        return CONFIGURATION.format(features=self.features)

    def words(self, header: str) -> str:
        """Return the output of dumpe2fs 1.47 in the words of this version."""
        if self.version >= "1.46":
            return header
        return "".join(_in_old_format(line) for line in header.splitlines(keepends=True))


def _in_old_format(line: str) -> str:
    for ours, theirs in _LINES_BEFORE_1_46.items():
        if line.startswith(ours):
            return "" if theirs is None else line.replace(ours, theirs)
    return line


DEBIAN_12 = Mke2fs("1.47.0")
UBUNTU_22_04 = Mke2fs("1.46.5")
UBUNTU_24_04 = Mke2fs("1.47.0")
UPSTREAM_1_47 = Mke2fs("1.47.0", f"{_COMMON},metadata_csum_seed,orphan_file")
"""The features of upstream e2fsprogs; Debian and Ubuntu removed the two new ones again."""
RHEL_8 = Mke2fs("1.45.6")
RHEL_9 = Mke2fs("1.46.5")
EVERY_MKE2FS = {
    "debian-12": DEBIAN_12,
    "ubuntu-22.04": UBUNTU_22_04,
    "ubuntu-24.04": UBUNTU_24_04,
    "ubuntu-24.04-cloud": UPSTREAM_1_47,
    "rhel-8": RHEL_8,
    "rhel-9": RHEL_9,
}


DIRTY_LIMITS = {
    "dirty_bytes": 0,
    "dirty_ratio": 20,
    "dirty_background_bytes": 0,
    "dirty_background_ratio": 10,
}
"""The kernel's defaults."""
BEFORE_5_6 = replaced(OPTIONS, {"dioread_nolock": "dioread_lock"})
"""The options file of el8, whose kernel has CONFIG_FS_DAX and so does not print a false `dax`."""


@dataclass(frozen=True)
class System:
    """A distribution: release and version of uname, os-release fields, GRUB's version, mke2fs.

    `options` is the options file of an untuned filesystem, `shown` its options in the mount
    table. `trims` is whether fstrim.timer is enabled by default.
    """

    release: str
    version: str
    os: tuple[str, str, str]
    grub: str
    mke2fs: Mke2fs
    signature: str = ""
    options: str = OPTIONS
    shown: str = "rw"
    trims: bool = True
    is_red_hat: bool = False

    def host(self, name: str, gib: int, virtualization: str = "none") -> HostEvidence:
        """Return a machine with this system, `gib` GiB of memory, and no disk yet."""
        host = HostEvidence()
        host.answer(Uname(), f"{self.release}\n{self.version}\nx86_64\n{name}")
        host.answer(VirtualMemory(), f"{gib << 30}\n{gib * 7 << 27}")
        for key, value in DIRTY_LIMITS.items():
            host.file(f"/proc/sys/vm/{key}", f"{value}\n")
        host.answer(RunCommand(("systemd-detect-virt", "--vm")), f"{virtualization}\n")
        host.file("/proc/filesystems", "nodev\tsysfs\nnodev\ttmpfs\n\text3\n\text2\n\text4\n")
        host.file("/sys/fs/ext4/features/lazy_itable_init", "supported\n")
        host.mount(21, "0:21", "/proc", "proc", fstype="proc")
        host.mount(22, "0:6", "/dev", "udev", fstype="devtmpfs")
        return self._boots(self._named(host))

    def _named(self, host: HostEvidence) -> HostEvidence:
        if self.signature:
            host.file("/proc/version_signature", f"{self.signature}\n")
        word, number, title = self.os
        text = f'PRETTY_NAME="{title}"\nVERSION_ID="{number}"\nID={word}\n'
        return host.file("/etc/os-release", text)

    def _boots(self, host: HostEvidence) -> HostEvidence:
        grub = "grub2" if self.is_red_hat else "grub"
        host.answer(RealPath(f"/boot/{grub}/grub.cfg"), f"/boot/{grub}/grub.cfg")
        program = f"{grub}-install"
        host.answer(RunCommand((program, "--version")), f"{program} (GRUB) {self.grub}\n")
        if self.trims:
            host.answer(RealPath(FSTRIM_LINK), "/usr/lib/systemd/system/fstrim.timer")
        return host


DEBIAN = System(
    "6.1.0-28-amd64",
    "#1 SMP PREEMPT_DYNAMIC Debian 6.1.119-1 (2024-11-22)",
    ("debian", "12", "Debian GNU/Linux 12 (bookworm)"),
    "2.06-13+deb12u1",
    DEBIAN_12,
)
JAMMY = System(
    "5.15.0-130-generic",
    "#140-Ubuntu SMP Wed Dec 18 17:59:53 UTC 2024",
    ("ubuntu", "22.04", "Ubuntu 22.04.5 LTS"),
    "2.06-2ubuntu7.2",
    UBUNTU_22_04,
    signature="Ubuntu 5.15.0-130.140-generic 5.15.173",
)
NOBLE = System(
    "6.8.0-51-generic",
    "#52-Ubuntu SMP PREEMPT_DYNAMIC Thu Dec  5 13:09:44 UTC 2024",
    ("ubuntu", "24.04", "Ubuntu 24.04.1 LTS"),
    "2.12-1ubuntu7",
    UBUNTU_24_04,
    signature="Ubuntu 6.8.0-51.52-generic 6.8.12",
)
# It is not established whether el8 and el9 enable fstrim.timer by default. Here they do not, which
# is the harder case for rules that require it.
EL8 = System(
    "4.18.0-553.el8_10.x86_64",
    "#1 SMP Fri May 24 13:05:10 UTC 2024",
    ("rocky", "8.10", "Rocky Linux 8.10 (Green Obsidian)"),
    "2.02",
    RHEL_8,
    options=BEFORE_5_6,
    shown="rw,seclabel",
    trims=False,
    is_red_hat=True,
)
EL9 = System(
    "5.14.0-503.14.1.el9_5.x86_64",
    "#1 SMP PREEMPT_DYNAMIC Fri Nov 15 12:04:32 UTC 2024",
    ("rocky", "9.5", "Rocky Linux 9.5 (Blue Onyx)"),
    "2.06",
    RHEL_9,
    shown="rw,seclabel",
    trims=False,
    is_red_hat=True,
)
