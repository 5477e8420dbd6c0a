"""The remedies of PRF002, for the device queue and for dirty memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ext4audit.facts.host import ActiveProfile, all_profiles
from lab.support.devices import run
from lab.support.remedy_trial import RemedyTrial, prepared
from lab.support.scenario import JsonObject, scenario

DIRTY_BYTES = 400 << 20
"""2.4 s of writing at the 175 MB/s that PRF002 assumes for a virtual disk; the queue holds
320 MiB of it."""
MAX_SECTORS_KB = 1280
"""The default before Linux 6.17, which uses 4096: gives every kernel the same queue length."""


@scenario(every_era=True)
def prf002_writeback_throttling() -> JsonObject:
    """Disable writeback throttling, now and with a udev rule at each boot."""
    with for_builds() as trial, dirty_limit(DIRTY_BYTES), request_size(trial, MAX_SECTORS_KB):
        knob = queue_attribute(trial, "wbt_lat_usec")
        latency = knob.read_text()

        def start_again() -> None:
            knob.write_text(latency)
            replay_udev_rules(knob.parents[1])

        try:
            cured = trial.cure("Disable writeback throttling", again=start_again)
            restored = knob.read_text() == latency
        finally:
            knob.write_text(latency)
        return {**cured, "knob_restored": restored, "fsck": trial.fsck()}


@scenario()
def prf002_dirty_limit() -> JsonObject:
    """Limit dirty memory, now and with a sysctl.d file at each boot."""
    with for_builds() as trial, dirty_limit(DIRTY_BYTES), request_size(trial, MAX_SECTORS_KB):

        def start_again() -> None:
            run("sysctl", "-q", "-w", f"vm.dirty_bytes={DIRTY_BYTES}")
            run("sysctl", "-q", "-p", "/etc/sysctl.d/60-ext4audit-dirty.conf")

        cured = trial.cure("Limit dirty memory", again=start_again)
        restored = int(Path("/proc/sys/vm/dirty_bytes").read_text()) == DIRTY_BYTES
        return {**cured, "knob_restored": restored, "fsck": trial.fsck()}


@contextlib.contextmanager
def for_builds() -> Iterator[RemedyTrial]:
    """Prepare a filesystem with the profile for which PRF002 proposes remedies on any disk."""
    builds = ActiveProfile(all_profiles()["builds"])
    with prepared("PRF002", "defaults") as trial:
        yield replace(trial, see=lambda host: host._replace(profiles=(builds,)))


@contextlib.contextmanager
def dirty_limit(size_bytes: int) -> Iterator[None]:
    """Set vm.dirty_bytes; the kernel only restores the ratio when the ratio is written."""
    ratio = Path("/proc/sys/vm/dirty_ratio").read_text().strip()
    background = Path("/proc/sys/vm/dirty_background_ratio").read_text().strip()
    run("sysctl", "-q", "-w", f"vm.dirty_bytes={size_bytes}")
    try:
        yield
    finally:
        run(
            *("sysctl", "-q", "-w"),
            *(f"vm.dirty_ratio={ratio}", f"vm.dirty_background_ratio={background}"),
        )


def queue_attribute(trial: RemedyTrial, name: str) -> Path:
    """Return the sysfs file of an attribute of the device's queue."""
    return Path(f"/sys/block/{Path(trial.device).name}/queue/{name}")


@contextlib.contextmanager
def request_size(trial: RemedyTrial, size_kb: int) -> Iterator[None]:
    """Set the size of the kernel's largest request."""
    knob = queue_attribute(trial, "max_sectors_kb")
    usual = knob.read_text()
    knob.write_text(str(size_kb))
    try:
        yield
    finally:
        knob.write_text(usual)


def replay_udev_rules(device: Path) -> None:
    """Let udevadm process the rules as for a disk that appears; no daemon runs."""
    run("udevadm", "test", "--action=add", device)
