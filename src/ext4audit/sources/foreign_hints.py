"""How what an archive does not hold can be captured: the option of the program that made it."""

from __future__ import annotations

from ext4audit.sources.ask import Ask, CapturedDumpe2fs, RunCommand, UdevDatabase

COLLECT = "ext4audit collect"
_SOS_PROGRAMS = {
    "dumpe2fs": "sos report -e filesys, as root, with the device mounted",
    "dmsetup": "sos report -e devicemapper",
    "lsblk": "sos report -e block",
    "mdadm": "sos report -e md",
}
_SOS_PATHS = (
    ("/proc/fs/", "sos report -e filesys"),
    ("/proc/self/mountinfo", "sos report -e filesys"),
    ("/etc/fstab", "sos report -e filesys"),
    ("/proc/sys/", "sos report -e kernel"),
    ("/proc/cmdline", "sos report -e boot -e kernel"),
    ("/etc/os-release", "sos report -e release"),
)


def hint(kind: str, ask: Ask, text: str) -> str:
    """Say how an ask can be answered; `text` is the ask as people read it, or its path."""
    option = _sos_option(ask, text) if kind == "sosreport" else ""
    if option:
        return f"capture again with: {option}, or {COLLECT}"
    return f"{kind} archives do not hold it; capture with: {COLLECT}"


def _sos_option(ask: Ask, text: str) -> str:
    if isinstance(ask, CapturedDumpe2fs) or _is_group_listing(ask):
        return "sos report -k filesys.dumpe2fs=on"
    if isinstance(ask, RunCommand):
        return _SOS_PROGRAMS.get(ask.argv[0], "")
    if isinstance(ask, UdevDatabase):
        return "sos report -e block"
    if text.startswith(("/sys/block/", "/sys/dev/block/", "/sys/class/block/", "path /dev/")):
        return "sos report -e block -e md -e devicemapper"
    return next((option for start, option in _SOS_PATHS if text.startswith(start)), "")


def _is_group_listing(ask: Ask) -> bool:
    return isinstance(ask, RunCommand) and ask.argv[:2] == ("dumpe2fs", "-g")
