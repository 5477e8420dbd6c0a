"""Rules on devices that only a guest has: NVMe timeouts, thin pools, external journals."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ext4audit.rules.health import hlt008_network_disk_timeout as hlt008
from lab.scenarios.queue_remedies import replay_udev_rules
from lab.support.curing import Patient, prepared, told
from lab.support.devices import disk, run
from lab.support.scenario import JsonObject, scenario

MODEL = "QEMU NVMe Ctrl"
POOL_SECTORS, VOLUME_SECTORS, BLOCK_SECTORS = 81920, 409600, 128
"""A volume of 200 MiB on a pool of 40 MiB, in blocks of 64 KiB."""
FILES = Path("/mnt/cure")


@scenario()
def hlt008_network_disk_timeout() -> JsonObject:
    """Cure by the longest timeout, now and by a udev rule at each start."""
    with sold_as_network_disk(), prepared("HLT008", "defaults", disk("nvme")) as patient:
        knob = Path(f"/sys/block/{Path(patient.device).name}/queue/io_timeout")
        before = knob.read_text()

        def start_again() -> None:
            knob.write_text(before)
            replay_udev_rules(knob.parents[1])

        try:
            cured = patient.cure("Let the driver wait", again=start_again)
            restored = knob.read_text() == before
        finally:
            knob.write_text(before)
        return {**cured, "knob_restored": restored, "fsck": patient.fsck()}


@contextlib.contextmanager
def sold_as_network_disk() -> Iterator[None]:
    """Take the guest's NVMe disk for a network volume."""
    before = hlt008.NETWORK_DISKS
    hlt008.NETWORK_DISKS = (*before, MODEL)
    try:
        yield
    finally:
        hlt008.NETWORK_DISKS = before


@scenario()
def cap008_thin_pool() -> JsonObject:
    """Fill a thin pool from the filesystem above it, and judge on the way."""
    with thin_volume() as volume:
        with prepared("CAP008", "defaults", volume) as patient:
            empty = told(patient.judge())
            nearly = first_alarm(patient)
            fill(40)
            full = patient.judge()
        return {
            "empty": empty,
            "nearly": nearly,
            "full": told(full),
            "message": full.findings[0].message if full.findings else "",
        }


def first_alarm(patient: Patient) -> str:
    """Write MiB by MiB until the verdict changes, and return it."""
    for _ in range(40):
        fill(1)
        found = told(patient.judge())
        if found != "pass":
            return found
    return "pass"


def fill(mebibytes: int) -> None:
    """Write a new file of so many MiB; the pool may refuse it."""
    name = FILES / f"file{len(list(FILES.iterdir()))}"
    run("dd", "if=/dev/urandom", f"of={name}", "bs=1M", f"count={mebibytes}", check=False)
    run("sync", "-f", FILES, check=False)


@contextlib.contextmanager
def thin_volume() -> Iterator[str]:
    """Make a thin pool that refuses writes when it is full, and one volume on it."""
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
    """Make a device-mapper device, and remove it again."""
    run("dmsetup", "create", name, "--table", table)
    try:
        yield f"/dev/mapper/{name}"
    finally:
        run("dmsetup", "remove", "--retry", name)


@scenario()
def dur001_external_journal() -> JsonObject:
    """Judge missing barriers over a write-through disk, with the journal on a volatile one."""
    device, journal = disk("through"), disk("wide")
    run("mke2fs", "-q", "-F", "-b", "4096", "-O", "journal_dev", journal, "64M")
    where = Path("/mnt/cure")
    where.mkdir(exist_ok=True)
    inside = judged(device, where, "-j")
    return {"inside": inside, "outside": judged(device, where, "-J", f"device={journal}")}


def judged(device: str, where: Path, *journal: str) -> str:
    """Make and mount a filesystem without barriers, and spell the verdict of DUR001."""
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", *journal, device, "150M")
    run("mount", "-o", "nobarrier", device, where)
    try:
        return told(Patient(device, "DUR001", where).judge())
    finally:
        run("umount", where)
