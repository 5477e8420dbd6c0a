"""A filesystem that an error forced read-only, and what the kernel shows of it."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import uuid
from pathlib import Path

from ext4audit.assemble.host import assemble_host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.sources import ReadFile
from ext4audit.sources.live import LiveSource
from ext4audit.sources.snapshot.writing import RecordingSource
from lab.support.devices import disk, mounted, run
from lab.support.scenario import JsonObject, scenario
from lab.support.stack_audit import SNAPSHOTS, TAKEN_AT, host_called_lab
from support.hosts.snapshots import write_snapshot

STORY = "forced-readonly"
PLACE = "/data"
UUID = str(uuid.uuid5(uuid.NAMESPACE_URL, STORY))
RECORDS = [
    f"{which}_error_{what}"
    for which in ("first", "last")
    for what in ("time", "errcode", "func", "line", "ino", "block")
]
ERRORS = ("errors_count", "warning_count", *RECORDS)
"""Error attributes in sysfs (fs/ext4/sysfs.c, 5.10 on)."""


@scenario(every_era=True)
def forced_readonly() -> JsonObject:
    """Trigger an error with errors=remount-ro; return what each place shows before and after."""
    device = disk("wide")
    name = Path(device).name
    mkfs = ["-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", "-U", UUID]
    entry = f"UUID={UUID} {PLACE} ext4 errors=remount-ro 0 2\n"
    with host_called_lab(entry), mounted(device, "errors=remount-ro", at=PLACE, mkfs=mkfs) as place:
        before = _shown(device, place)
        Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("lab")
        forced = _shown(device, place)
        _keep(f"{STORY}-{'.'.join(os.uname().release.split('.')[:2])}", name)
        remount = subprocess.run(["mount", "-o", "remount,rw", place], check=False)
        return {
            "release": os.uname().release,
            "before": before,
            "forced": forced,
            "remount": {"exit_code": remount.returncode, **_shown(device, place)},
        }


def _shown(device: str, place: Path) -> JsonObject:
    """Return what each place shows of the filesystem's state."""
    name = Path(device).name
    header = run("dumpe2fs", "-h", device)
    return {
        "mount_table": _mount_options(place),
        "options_file": Path(f"/proc/fs/ext4/{name}/options").read_text().split(),
        "statvfs_read_only": bool(os.statvfs(place).f_flag & os.ST_RDONLY),
        "errors_count": int(Path(f"/sys/fs/ext4/{name}/errors_count").read_text()),
        "journal_errno": _field(header, "Journal errno"),
        "state": _field(header, "Filesystem state"),
        "write": _try_to_write(place),
    }


def _mount_options(place: Path) -> list[str]:
    lines = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    (options,) = [words[3] for words in lines if words[1] == str(place)]
    return options.split(",")


def _field(header: str, name: str) -> str | None:
    found = re.search(rf"^{name}: +(.*)$", header, re.MULTILINE)
    return found[1] if found else None


def _try_to_write(place: Path) -> str:
    """Return the name of the error that creating a file raises, or "done"."""
    try:
        (place / "probe").write_bytes(b"")
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "done"


def _keep(fixture: str, name: str) -> None:
    """Write the snapshot of a host in this state, with all error attributes of sysfs."""
    recorder = RecordingSource(LiveSource())
    number = Path(PLACE).stat().st_dev
    assemble_host(recorder, TAKEN_AT, only=[DeviceNumber(os.major(number), os.minor(number))])
    for file in ERRORS:
        recorder.fetch(ReadFile(f"/sys/fs/ext4/{name}/{file}"))
    SNAPSHOTS.mkdir(exist_ok=True)
    write_snapshot(SNAPSHOTS / fixture, recorder.answers, taken_at=TAKEN_AT)
