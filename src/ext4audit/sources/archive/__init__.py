"""Recognise archives of other programs (sosreport, Insights, supportconfig).

Also selects the members worth keeping: of the gigabytes in a sosreport, only a few megabytes are
about filesystems.
"""

import re
from collections.abc import Iterable

from ext4audit import lazily
from ext4audit.sources import INSIGHTS_COMMANDS, SOS_COMMANDS, SUPPORTCONFIG_MARK, ArchiveError
from ext4audit.sources.captured import Captured
from ext4audit.sources.containers import Archive

TEXTS = (
    "basic-environment.txt",
    "basic-health-check.txt",
    "fs-diskio.txt",
    "fs-softraid.txt",
    "lvm.txt",
    "boot.txt",
    "memory.txt",
    "proc.txt",
    "udev.txt",
    "sysfs.txt",
    "hardware.txt",
    "env.txt",
    "mpio.txt",
)
"""The files of a supportconfig with facts about filesystems; it has sixty others."""
_ARCHIVE = re.compile(r"(?:sosreport-|insights-|scc_|nts_)\S*\.(?:tar(?:\.\w+)?|t[gbx]z)")
_SHOWN = 3
_PLUGINS = (
    "block boot date devicemapper dpkg filesys general hardware host kernel lvm2 lvm md memory "
    "multipath nvme processor release rpm scsi systemd udev"
).split()
_LARGE = r"(?:journalctl|lsof|modinfo|systemctl|systemd-analyze|lspci|ps_|rpm_-V)[^/]*"
_WANTED = re.compile(
    rf"""(?:^|/)(?:
        sos_commands/(?:{"|".join(_PLUGINS)})/(?!{_LARGE}$)[^/]+
      | insights_commands/(?!{_LARGE}$)[^/]+
      | sos_reports/manifest\.json
      | proc/(?:[0-9]+/mountinfo|self/mount(?:s|info))
      | proc/(?:cmdline|filesystems|mdstat|meminfo|mounts|partitions|diskstats|swaps)
      | proc/version(?:_signature)?
      | proc/(?:fs/ext4|fs/jbd2|sys/vm|sys/kernel|sys/fs)/.+
      | sys/(?:block|fs/ext4|class/block|dev/block)/.+
      | sys/module/raid0/parameters/default_layout
      | sys/devices/.*/(?:block|nvme[0-9]+)/.+
      | (?:etc|usr/lib)/os-release
      | etc/(?:fstab|mke2fs\.conf|mdadm\.conf|mdadm/mdadm\.conf|lvm/lvm\.conf|crypttab|cron[^/]*/.+)
      | etc/systemd/system/.+
      | (?:usr/)?lib/systemd/system/fstrim\.service
      | run/systemd/container
      | run/mount/utab
      | \.dockerenv
      | run/\.containerenv
      | (?:{"|".join(re.escape(name) for name in TEXTS)})
    )$""",
    re.VERBOSE | re.DOTALL,
)


def recognise(archive: Archive) -> Captured | None:
    """Return the evidence in an archive, or None if its format is unknown.

    Raises ArchiveError if it contains several hosts, or archives inside the archive.
    """
    captures = {
        root: kind for root in _roots(archive) if (kind := _kind(archive, root)) is not None
    }
    if len(captures) > 1:
        raise ArchiveError(f"the files of several hosts: {first_few(captures)}", archive.label)
    if not captures:
        _refuse_collection(archive)
        return None
    ((root, kind),) = captures.items()
    found: Captured = lazily("sources.archive.source", "host_archive")(archive, root, kind)
    return found


def is_wanted(name: str) -> bool:
    """Return whether the member at path `name` may be needed to answer an ask."""
    return _WANTED.search(name) is not None


def _roots(archive: Archive) -> tuple[str, ...]:
    """Return the directories that may be a host's "/": the top level, its folders, and `*/data`.

    Archives of the Insights core collection keep the files in `data`.
    """
    top = [name for name in archive.children("") if is_folder(archive, name)]
    inner = [f"{name}/data" for name in top if is_folder(archive, f"{name}/data")]
    return ("", *top, *inner)


def is_folder(archive: Archive, name: str) -> bool:
    """Return whether a path is a directory; a link to itself or out of the archive is none."""
    try:
        return archive.is_directory(name)
    except ArchiveError:
        return False


def _kind(archive: Archive, root: str) -> str | None:
    prefix = f"{root}/" if root else ""
    if archive.is_directory(prefix + SOS_COMMANDS):
        return "sosreport"
    if archive.is_directory(prefix + INSIGHTS_COMMANDS):
        return "insights"
    return "supportconfig" if SUPPORTCONFIG_MARK in archive.children(root) else None


def _refuse_collection(archive: Archive) -> None:
    """Raise ArchiveError for an output of `sos collect`: a tar with the tars of many hosts."""
    inside = [name for name in archive.names() if _ARCHIVE.fullmatch(name.rpartition("/")[2])]
    if inside:
        names = first_few(inside)
        raise ArchiveError(
            f"a collection of {len(inside)} archives ({names}), such as sos collect makes: unpack "
            "it and audit each of them",
            archive.label,
        )


def first_few(names: Iterable[str]) -> str:
    """Return the first three names as text, followed by an ellipsis if there are more."""
    shown = [f"{name!r:.100}" for name in names]
    return ", ".join(shown[:_SHOWN]) + (", …" if len(shown) > _SHOWN else "")
