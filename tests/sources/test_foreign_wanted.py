from __future__ import annotations

import pytest

from ext4audit.sources.foreign_wanted import is_wanted

TOP = "sosreport-db-1-2026-11-21-abc/"


@pytest.mark.parametrize(
    "name",
    [
        "proc/1/mountinfo",
        "proc/mounts",
        "proc/self/mounts",
        "proc/fs/ext4/vda1/options",
        "proc/fs/jbd2/vda1-8/info",
        "proc/sys/vm/dirty_ratio",
        "sys/block/md0/md/level",
        "sys/devices/virtual/block/md0/queue/write_cache",
        "sys/devices/pci0000:00/nvme/nvme0/nvme0n1/queue/write_cache",
        "etc/fstab",
        "usr/lib/os-release",
        "sos_commands/filesys/dumpe2fs_-h_.dev.vda1",
        "sos_commands/block/a\nb",
        "sos_reports/manifest.json",
        "insights_commands/lsblk_-P",
        "data/insights_commands/uname_-a",
        "fs-diskio.txt",
    ],
)
def test_what_tells_of_filesystems_is_kept(name: str) -> None:
    """With a directory above it and without."""
    assert is_wanted(name)
    assert is_wanted(TOP + name)


@pytest.mark.parametrize(
    "name",
    [
        "var/log/messages",
        "proc/1/smaps",
        "proc/kallsyms",
        "sos_commands/logs/journalctl_--no-pager",
        "sos_commands/kernel/dmesg",
        "sos_commands/networking/ip_addr",
        "sos_reports/sos.html",
        "sys/module/ext4/refcnt",
        "rpm.txt",
        "messages.txt",
        "not-fs-diskio.txt",
        "etc/shadow",
    ],
)
def test_logs_and_what_tells_nothing_is_not(name: str) -> None:
    """They are the gigabytes of such an archive, and its secrets."""
    assert not is_wanted(name)
    assert not is_wanted(TOP + name)
