"""Rules that need a guest: NVMe timeouts, thin pools, external journals, partitions."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import judge
from ext4audit.rules.health import hlt008_network_disk_timeout as hlt008
from ext4audit.rules.layout import lay009_overlapping_devices as lay009
from ext4audit.sources.live import LiveSource
from lab.scenarios.queue_remedies import replay_udev_rules
from lab.support.devices import disk, run
from lab.support.remedy_trial import RemedyTrial, prepared, verdict_text
from lab.support.scenario import JsonObject, scenario
from support.filesystems.scratch import TAKEN_AT

MODEL = "QEMU NVMe Ctrl"
POOL_SECTORS, VOLUME_SECTORS, BLOCK_SECTORS = 81920, 409600, 128
"""A volume of 200 MiB on a pool of 40 MiB, in blocks of 64 KiB."""
FILES = Path("/mnt/cure")


@scenario()
def hlt008_network_disk_timeout() -> JsonObject:
    """Set the longest timeout, now and with a udev rule at each boot."""
    with sold_as_network_disk(), prepared("HLT008", "defaults", disk("nvme")) as trial:
        knob = Path(f"/sys/block/{Path(trial.device).name}/queue/io_timeout")
        before = knob.read_text()

        def start_again() -> None:
            knob.write_text(before)
            replay_udev_rules(knob.parents[1])

        try:
            cured = trial.cure("Let the driver wait", again=start_again)
            restored = knob.read_text() == before
        finally:
            knob.write_text(before)
        return {**cured, "knob_restored": restored, "fsck": trial.fsck()}


@contextlib.contextmanager
def sold_as_network_disk() -> Iterator[None]:
    """Treat the guest's NVMe disk as a network volume."""
    before = hlt008.NETWORK_DISKS
    hlt008.NETWORK_DISKS = (*before, MODEL)
    try:
        yield
    finally:
        hlt008.NETWORK_DISKS = before


@scenario()
def cap008_thin_pool() -> JsonObject:
    """Fill a thin pool from the filesystem on it, and judge it repeatedly."""
    with thin_volume() as volume:
        with prepared("CAP008", "defaults", volume) as trial:
            empty = verdict_text(trial.judge())
            nearly = first_alarm(trial)
            fill(40)
            full = trial.judge()
        return {
            "empty": empty,
            "nearly": nearly,
            "full": verdict_text(full),
            "message": full.findings[0].message if full.findings else "",
        }


def first_alarm(trial: RemedyTrial) -> str:
    """Write MiB by MiB until the verdict changes, and return that verdict."""
    for _ in range(40):
        fill(1)
        found = verdict_text(trial.judge())
        if found != "pass":
            return found
    return "pass"


def fill(mebibytes: int) -> None:
    """Write a new file of the given size; the pool may refuse it."""
    name = FILES / f"file{len(list(FILES.iterdir()))}"
    run("dd", "if=/dev/urandom", f"of={name}", "bs=1M", f"count={mebibytes}", check=False)
    run("sync", "-f", FILES, check=False)


@contextlib.contextmanager
def thin_volume() -> Iterator[str]:
    """Create a thin pool that refuses writes when it is full, with one volume."""
    metadata, data = disk("raid00"), disk("raid01")
    run("dd", "if=/dev/zero", f"of={metadata}", "bs=64K", "count=1")
    options = f"{BLOCK_SECTORS} 0 1 error_if_no_space"
    with (
        mapped("pool", f"0 {POOL_SECTORS} thin-pool {metadata} {data} {options}") as pool,
    ):
        run("dmsetup", "message", pool, "0", "create_thin 0")
        with mapped("thin", f"0 {VOLUME_SECTORS} thin {pool} 0") as volume:
            yield volume


@contextlib.contextmanager
def mapped(name: str, table: str) -> Iterator[str]:
    """Create a device-mapper device, and remove it again."""
    run("dmsetup", "create", name, "--table", table)
    try:
        yield f"/dev/mapper/{name}"
    finally:
        run("dmsetup", "remove", "--retry", name)


@scenario()
def dur001_external_journal() -> JsonObject:
    """Judge missing barriers on a write-through disk whose journal is on a volatile one."""
    device, journal = disk("through"), disk("wide")
    run("mke2fs", "-q", "-F", "-b", "4096", "-O", "journal_dev", journal, "64M")
    where = Path("/mnt/cure")
    where.mkdir(exist_ok=True)
    inside = judged(device, where, "-j")
    return {"inside": inside, "outside": judged(device, where, "-J", f"device={journal}")}


def judged(device: str, where: Path, *journal: str) -> str:
    """Make and mount a filesystem without barriers, and return the verdict of DUR001 as text."""
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", *journal, device, "150M")
    run("mount", "-o", "nobarrier", device, where)
    try:
        return verdict_text(RemedyTrial(device, "DUR001", where).judge())
    finally:
        run("umount", where)


@scenario()
def lay009_overlapping_partitions() -> JsonObject:
    """Mount two filesystems on overlapping partitions, which the kernel accepts."""
    device = disk("raid02")
    write_partitions(device, ((2048, 409600), (204800, 409600)))
    first, second = f"{device}1", f"{device}2"
    places = Path("/mnt/cure"), Path("/mnt/cure2")
    for each, where in zip((first, second), places, strict=True):
        where.mkdir(exist_ok=True)
        run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", each, "60M")
        run("mount", each, where)
    try:
        host = assemble_host(LiveSource(), TAKEN_AT)
        subjects = {fs.device: fs for fs in host.filesystems}
        found = {each: judge(lay009.check, subjects[each], host) for each in (first, second)}
        return {
            "verdicts": [verdict_text(verdict) for verdict in found.values()],
            "others": [verdict_text(judge(lay009.check, fs, host)) for fs in host.filesystems
                       if fs.device not in found],
        }  # fmt: skip
    finally:
        for where in places:
            run("umount", where)
        run("wipefs", "--all", "--quiet", device)
        run("blockdev", "--rereadpt", device)


def write_partitions(device: str, ranges: tuple[tuple[int, int], ...]) -> None:
    """Write a table of primary partitions, given the first sector and length of each."""
    entries = b"".join(
        struct.pack("<B3sB3sII", 0, b"", 0x83, b"", start, length) for start, length in ranges
    )
    table = bytes(446) + entries.ljust(64, b"\0") + b"\x55\xaa"
    with Path(device).open("r+b") as disk_file:
        disk_file.write(table)
    run("blockdev", "--rereadpt", device)
