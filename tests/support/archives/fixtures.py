"""Write the fixture archives that no program on this machine can make, in their formats.

`PYTHONPATH=tests uv run python -m support.archives.fixtures` rewrites
fixtures/archives/<fixture>/archive for Insights and the supportconfig. The sosreport
is a real archive of sos 4.0, without files that have no facts about filesystems, and with changed
names of the machine.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from support.archives.contents import DATA_UUID, ROOT_UUID, dumpe2fs_header

ARCHIVES = Path(__file__).parents[3] / "fixtures" / "archives"
INSIGHTS = "insights-nobarrier-on-lvm/archive/insights-rhel-1-20201110174255"
SUPPORTCONFIG = "supportconfig-dioread-nolock-nodelalloc/archive/scc_sles-1_240216_0921"


def insights() -> dict[str, str]:
    """Return RHEL 8 with nobarrier on a striped LVM volume; Insights captures no options files."""
    commands = {
        "dumpe2fs_-h_.dev.mapper.vg-data": dumpe2fs_header(DATA_UUID),
        "dumpe2fs_-h_.dev.sda1": "/bin/bash: dumpe2fs: command not found\n",
        "blkid_-c_.dev.null": (
            f'/dev/sda1: UUID="{ROOT_UUID}" TYPE="ext4" PARTUUID="5c1e9a7c-01"\n'
            f'/dev/mapper/vg-data: LABEL="data" UUID="{DATA_UUID}" TYPE="ext4"\n'
            '/dev/sdb: UUID="0vQ5Zc-aaaa" TYPE="LVM2_member"\n'
            '/dev/sdc: UUID="1vQ5Zc-bbbb" TYPE="LVM2_member"\n'
        ),
        "lsblk": (
            "NAME      MAJ:MIN RM SIZE RO TYPE MOUNTPOINT\n"
            "sda         8:0    0  40G  0 disk \n└─sda1      8:1    0  40G  0 part /\n"
            "sdb         8:16   0 100G  0 disk \n└─vg-data 253:0    0 200G  0 lvm  /data\n"
            "sdc         8:32   0 100G  0 disk \n└─vg-data 253:0    0 200G  0 lvm  /data\n"
        ),
        "ls_-lanR_.dev": (
            "/dev:\ntotal 0\n"
            "brw-rw----.  1 0   6  253,   0 Nov 10 17:00 dm-0\n"
            "brw-rw----.  1 0   6    8,   0 Nov 10 17:00 sda\n"
            "brw-rw----.  1 0   6    8,   1 Nov 10 17:00 sda1\n"
            "brw-rw----.  1 0   6    8,  16 Nov 10 17:00 sdb\n"
            "brw-rw----.  1 0   6    8,  32 Nov 10 17:00 sdc\n"
            "\n/dev/mapper:\ntotal 0\n"
            "lrwxrwxrwx.  1 0   0        7 Nov 10 17:00 vg-data -> ../dm-0\n"
        ),
        "dmsetup_info_-c": (
            "Name             Maj Min Stat Open Targ Event  UUID\n"
            "vg-data          253   0 L--w    1    1      0 LVM-0vQ5Zc\n"
        ),
        "uname_-a": "Linux rhel-1 4.18.0-240.el8.x86_64 #1 SMP Wed Sep 23 05:13:10 EDT 2020 x86_64 "
        "x86_64 x86_64 GNU/Linux\n",
        "hostname_-f": "rhel-1.example.com\n",
        "date_--utc": "Tue Nov 10 17:42:55 UTC 2020\n",
    }
    files = {f"data/insights_commands/{name}": text for name, text in commands.items()}
    return files | {
        "data/proc/mounts": (
            "/dev/sda1 / ext4 rw,relatime 0 0\nproc /proc proc rw,nosuid,nodev,noexec 0 0\n"
            "/dev/mapper/vg-data /data ext4 rw,noatime,nobarrier,stripe=32 0 0\n"
        ),
        "data/proc/cmdline": "BOOT_IMAGE=/vmlinuz ro\n",
        "data/proc/meminfo": "MemTotal:       16000000 kB\nMemAvailable:   12000000 kB\n",
        "data/etc/fstab": (
            f"UUID={ROOT_UUID} / ext4 defaults 1 1\n"
            "/dev/mapper/vg-data /data ext4 noatime,nobarrier 1 2\n"
        ),
        "data/etc/os-release": 'ID="rhel"\nVERSION_ID="8.3"\n'
        'PRETTY_NAME="Red Hat Enterprise Linux 8.3 (Ootpa)"\n',
        "version_info": '{"core_version": "3.0.200", "client_version": "3.1.0"}\n',
    }


def supportconfig() -> dict[str, str]:
    """Return SLES 12 with two options that together are a defect, and without superblocks."""
    lsblk = "lsblk -o 'NAME,KNAME,MAJ:MIN,FSTYPE,LABEL,RO,RM,MODEL,SIZE,OWNER,GROUP,MODE,"
    lsblk += "ALIGNMENT,MIN-IO,OPT-IO,PHY-SEC,LOG-SEC,ROTA,SCHED,MOUNTPOINT'"
    return {
        "basic-environment.txt": _supportconfig_texts(
            ("Command", "/usr/bin/date", "Fri Feb 16 09:21:33 UTC 2024\n"),
            (
                "Command",
                "/usr/bin/uname -a",
                (
                    "Linux sles-1 4.12.14-122.186-default #1 SMP Wed Nov 8 10:00:00 UTC 2023 "
                    "x86_64 x86_64 x86_64 GNU/Linux\n"
                ),
            ),
            (
                "Configuration File",
                "/etc/os-release",
                (
                    'NAME="SLES"\nVERSION_ID="12.5"\nID="sles"\n'
                    'PRETTY_NAME="SUSE Linux Enterprise Server 12 SP5"\n'
                ),
            ),
        ),
        "fs-diskio.txt": _supportconfig_texts(
            (
                "Configuration File",
                "/proc/partitions",
                (
                    "major minor  #blocks  name\n   8        0   41943040 sda\n"
                    "   8        1   41940992 sda1\n   8       16  104857600 sdb\n"
                ),
            ),
            (
                "Configuration File",
                "/etc/fstab",
                (
                    f"UUID={ROOT_UUID} / ext4 acl,user_xattr 1 1\n"
                    f"UUID={DATA_UUID} /data ext4 nodelalloc,dioread_nolock 1 2\n"
                ),
            ),
            (
                "Command",
                "/bin/" + lsblk,
                (
                    "NAME KNAME MAJ:MIN FSTYPE LABEL RO RM MODEL SIZE OWNER GROUP MODE ALIGNMENT "
                    "MIN-IO OPT-IO PHY-SEC LOG-SEC ROTA SCHED MOUNTPOINT\n"
                    "sda  sda   8:0           0  0 VIRTUAL-DISK 40G root disk brw-rw----  0 512 0 "
                    "512 512 1 cfq\n"
                    "sdb  sdb   8:16   ext4   0  0 VIRTUAL-DISK 100G root disk brw-rw----  0 512 0 "
                    "512 512 1 cfq /data\n"
                ),
            ),
            (
                "Command",
                "/sbin/blkid",
                (
                    f'/dev/sda1: UUID="{ROOT_UUID}" TYPE="ext4"\n'
                    f'/dev/sdb: UUID="{DATA_UUID}" TYPE="ext4"\n'
                ),
            ),
            (
                "Configuration File",
                "/proc/mounts",
                (
                    "/dev/sda1 / ext4 rw,relatime,data=ordered 0 0\n"
                    "proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0\n"
                    "/dev/sdb /data ext4 rw,relatime,nodelalloc,dioread_nolock,data=ordered 0 0\n"
                ),
            ),
        ),
        "lvm.txt": _supportconfig_texts(("Command", "/sbin/dmsetup table", "No devices found\n")),
        "boot.txt": _supportconfig_texts(
            ("Configuration File", "/proc/cmdline", "root=/dev/sda1 quiet\n")
        ),
        "rpm.txt": "not read\n",
    }


def _supportconfig_texts(*sections: tuple[str, str, str]) -> str:
    return "".join(
        f"#==[ {kind} ]==={'=' * 30}#\n# {title}\n{body}\n" for kind, title, body in sections
    )


def write(fixture: str, files: dict[str, str]) -> None:
    """Rewrite the files of a fixture."""
    target = ARCHIVES / fixture
    shutil.rmtree(target.parent, ignore_errors=True)
    for name, text in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(INSIGHTS, insights())
    write(SUPPORTCONFIG, supportconfig())
