"""What mke2fs makes by default on five distributions: /etc/mke2fs.conf, and its version.

The version is a word of the evidence only: the mke2fs that runs is the one of this machine.
"""

from __future__ import annotations

from dataclasses import dataclass

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
"""The parts of the file that an ext4 of any size comes by; they are the same everywhere."""
_COMMON = "has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize"
_BEFORE_1_46: dict[str, str | None] = {
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
        """The text of its mke2fs.conf."""
        return CONFIGURATION.format(features=self.features)

    def words(self, header: str) -> str:
        """Say what dumpe2fs 1.47 says in the words of this version."""
        if self.version >= "1.46":
            return header
        return "".join(_in_old_words(line) for line in header.splitlines(keepends=True))


def _in_old_words(line: str) -> str:
    for ours, theirs in _BEFORE_1_46.items():
        if line.startswith(ours):
            return "" if theirs is None else line.replace(ours, theirs)
    return line


DEBIAN_12 = Mke2fs("1.47.0")
UBUNTU_22_04 = Mke2fs("1.46.5")
UBUNTU_24_04 = Mke2fs("1.47.0")
UPSTREAM_1_47 = Mke2fs("1.47.0", f"{_COMMON},metadata_csum_seed,orphan_file")
"""As e2fsprogs itself has it; Debian and Ubuntu took the two new features out again."""
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
