"""Which members of another program's archive are worth their memory.

A sosreport holds gigabytes of logs beside the few megabytes that tell of filesystems.
"""

from __future__ import annotations

import re

from ext4audit.sources.supportconfig import TEXTS

_PLUGINS = (
    "block boot date devicemapper dpkg filesys general hardware host kernel lvm2 lvm md memory "
    "multipath nvme processor release rpm scsi systemd udev"
).split()
_LARGE = r"(?:journalctl|dmesg|lsof|modinfo|systemctl|systemd-analyze|lspci|ps_|rpm_-V)[^/]*"
_WANTED = re.compile(
    rf"""(?:^|/)(?:
        sos_commands/(?:{"|".join(_PLUGINS)})/(?!{_LARGE}$)[^/]+
      | insights_commands/(?!{_LARGE}$)[^/]+
      | sos_reports/manifest\.json
      | proc/(?:[0-9]+/mountinfo|self/mount(?:s|info))
      | proc/(?:cmdline|filesystems|mdstat|meminfo|mounts|partitions|diskstats|version|swaps)
      | proc/(?:fs/ext4|fs/jbd2|sys/vm|sys/kernel|sys/fs)/.+
      | sys/(?:block|fs/ext4|class/block|dev/block)/.+
      | sys/devices/.*/(?:block|nvme[0-9]+)/.+
      | (?:etc|usr/lib)/os-release
      | etc/(?:fstab|mke2fs\.conf|mdadm\.conf|mdadm/mdadm\.conf|lvm/lvm\.conf|crypttab|cron[^/]*/.+)
      | etc/systemd/system/.+
      | run/systemd/container
      | (?:{"|".join(re.escape(name) for name in TEXTS)})
    )$""",
    re.VERBOSE | re.DOTALL,
)


def is_wanted(name: str) -> bool:
    """Whether a member can answer an ask; `name` is its path in the archive."""
    return _WANTED.search(name) is not None
