"""Every storage stack, built of real disks and audited in the guest."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from ext4audit.evidence import Known
from ext4audit.facts.host import Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.layout.stack import map_stack
from ext4audit.rules import all_rules
from ext4audit.sources import Answer, Ask
from ext4audit.sources.captured import read_snapshot
from lab.conftest import Guest
from lab.support.capturing import COLLECTED
from lab.support.replaying import assembled, audited
from lab.support.scenario import JsonObject
from lab.support.stack_audit import TAKEN_AT
from support.hosts.snapshots import write_snapshot

HOSTS = Path(__file__).parents[2] / "fixtures" / "hosts"
BACK, THROUGH = "write back", "write through"
Device = tuple[str, str, tuple[str, ...], int | None, str]
"""Name (of a disk: its serial), kind, members, chunk size in bytes, write cache."""


def leaf(serial: str, cache: str = BACK) -> Device:
    """Return a leaf device of a stack."""
    return (serial, "disk", (), None, cache)


def leaves(*serials: str) -> tuple[Device, ...]:
    """Return leaf devices, in the order of their kernel names."""
    return tuple(leaf(serial) for serial in serials)


FOUR = ("raid02", "raid00", "raid03", "raid01")
STACKS: dict[str, tuple[Device, ...]] = {
    "virtio_write_back": leaves("wide"),
    "virtio_write_through": (leaf("through", THROUGH),),
    "nvme": leaves("nvme"),
    "nvme_overridden": (leaf("nvme", THROUGH),),
    "scsi_write_back": leaves("sda"),
    "scsi_write_through": (leaf("sda", THROUGH),),
    "dm_linear": (("dm-0", "dm-linear", ("wide",), None, BACK), *leaves("wide")),
    "lvm_linear": (("dm-0", "dm-linear", ("wide",), None, BACK), *leaves("wide")),
    "lvm_striped": (
        ("dm-0", "dm-striped", ("raid00", "raid01", "raid02", "raid03"), 65536, BACK),
        *leaves("raid00", "raid01", "raid02", "raid03"),
    ),
    "md_raid0": (
        ("md127", "raid0", FOUR, 524288, BACK),
        *leaves("raid00", "raid01", "raid02", "raid03"),
    ),
    "md_raid0_unequal": (
        ("md127", "raid0", ("raid00", "raid01", "wide"), 524288, BACK),
        *leaves("raid00", "raid01", "wide"),
    ),
    "md_raid1_through": (
        ("md127", "raid1", ("through1", "through2"), None, BACK),
        ("through1", "partition", ("through",), None, THROUGH),
        ("through2", "partition", ("through",), None, THROUGH),
        leaf("through", THROUGH),
    ),
    "md_raid5": (
        ("md127", "raid5", ("raid00", "raid01", "raid02"), 524288, BACK),
        *leaves("raid00", "raid01", "raid02"),
    ),
    "md_raid10": (
        ("md127", "raid10", ("raid01", "raid00", "raid03", "raid02"), 524288, BACK),
        *leaves("raid00", "raid01", "raid02", "raid03"),
    ),
    "partition_on_md": (
        ("md127p1", "partition", ("md127",), None, BACK),
        ("md127", "raid0", ("raid00", "raid01"), 524288, BACK),
        *leaves("raid00", "raid01"),
    ),
    "luks_on_md": (
        ("dm-0", "dm-crypt", ("md127",), None, BACK),
        ("md127", "raid0", ("raid00", "raid01", "raid02"), 524288, BACK),
        *leaves("raid00", "raid01", "raid02"),
    ),
}
every_stack = pytest.mark.parametrize("name", STACKS)

# Bitmaps of both kinds by member, in slot order: two for each block group.
BITMAPS = {
    "md_raid0": {"raid02": 544, "raid00": 0, "raid03": 0, "raid01": 0},
    "md_raid0_unequal": {"raid00": 8, "raid01": 0, "wide": 0},
    "md_raid5": {"raid00": 8, "raid01": 0, "raid02": 0},
    "lvm_striped": {"raid02": 266, "raid00": 272, "raid03": 6, "raid01": 0},
    "partition_on_md": {"raid00": 0, "raid01": 288},
    "luks_on_md": {"raid00": 128, "raid01": 128, "raid02": 160},
}
HOTSPOTS = {
    "md_raid0": ("fail", ["medium"]),  # virtio reports itself as rotational: unproven
    "lvm_striped": ("fail", ["medium"]),
    "partition_on_md": ("fail", ["medium"]),
    "luks_on_md": ("pass", []),
}


def captures(guest: Guest, name: str, prefix: str = "") -> Path:
    """Return the directory in which the guest left the scan and the captures of a stack."""
    return guest.machine.results / "captures" / f"{prefix}{guest[name]['fixture']}"


def replay(guest: Guest, name: str) -> tuple[Host, Mapping[Ask, Answer]]:
    """Return the host that the capture of a stack gives, and the answers to all that was asked."""
    return assembled(captures(guest, name) / COLLECTED, number(guest, name))


def number(guest: Guest, name: str) -> DeviceNumber:
    """Return the number of the device that held the filesystem of a stack."""
    return DeviceNumber(*guest[name]["number"])


def report(guest: Guest, name: str) -> JsonObject:
    """Return the report of the capture of a stack; test_replaying.py compares it with the scan's.

    The guest is emulated, and audits only once.
    """
    return dict(audited(captures(guest, name) / COLLECTED, number(guest, name)))


def shown(guest: Guest, name: str) -> JsonObject:
    """Return the filesystem in the report of a stack."""
    (filesystem,) = report(guest, name)["filesystems"]
    return dict(filesystem)


def verdicts(guest: Guest, name: str) -> dict[str, JsonObject]:
    """Return the verdicts on a stack, by rule."""
    return {verdict["rule"]: verdict for verdict in report(guest, name)["verdicts"]}


def called(result: JsonObject, name: str) -> str:
    """Replace a disk's name, which depends on the guest's number of disks, by its serial."""
    for disk, serial in result["serials"].items():
        if serial and name.startswith(disk):
            return f"{serial}{name.removeprefix(disk)}"
    return name


def severities(guest: Guest, name: str, rule: str) -> list[str]:
    """Return the severities of one rule's findings."""
    return [finding["severity"] for finding in verdicts(guest, name)[rule]["findings"]]


@every_stack
def test_a_stack_is_described_from_the_top_to_its_disks(guest: Guest, name: str) -> None:
    """Each device has its kind, chunk, cache and members; an array's are in slot order."""
    result = guest[name]
    found = tuple(
        (
            called(result, device["name"]),
            device["kind"],
            tuple(called(result, member) for member in device["members"]),
            device["chunk_bytes"],
            device["write_cache"],
        )
        for device in shown(guest, name)["stack"]
    )
    assert found == STACKS[name]


@every_stack
def test_every_rule_has_an_answer_on_every_stack(guest: Guest, name: str) -> None:
    """Each rule gives a verdict, and none is an error or undetermined."""
    found = verdicts(guest, name)
    open_rules = {
        code: verdict["note"]
        for code, verdict in found.items()
        if verdict["outcome"] in {"undetermined", "error"}
    }
    assert (set(found), open_rules) == ({rule.code for rule in all_rules()}, {})


@every_stack
def test_a_snapshot_of_one_filesystem_gives_the_report_of_the_whole_capture(
    guest: Guest, name: str, tmp_path: Path
) -> None:
    """Nothing is asked of the whole capture that the fixture, with the answers to it, lacks."""
    host, answers = replay(guest, name)
    write_snapshot(tmp_path / "snapshot", answers, taken_at=host.taken_at)
    assert audited(tmp_path / "snapshot", number(guest, name)) == report(guest, name)


@every_stack
def test_hotspots_are_found_where_a_stripe_has_them(guest: Guest, name: str) -> None:
    """LAY001 fails on even RAID0 and striped LVM, and needs more than four block groups."""
    outcome = verdicts(guest, name)["LAY001"]["outcome"]
    found = (outcome, severities(guest, name, "LAY001"))
    assert found == HOTSPOTS.get(name, ("not_applicable", []))


@pytest.mark.parametrize("name", BITMAPS)
def test_bitmaps_are_counted_on_the_disks_that_hold_them(guest: Guest, name: str) -> None:
    """Reading each bitmap once reads each member as often as the layout predicts."""
    result = guest[name]
    predicted = {
        called(result, member["name"]): member["block_bitmaps"] + member["inode_bitmaps"]
        for member in shown(guest, name)["layout"]["members"]
    }
    read = {called(result, member): count for member, count in result["bitmap_reads"].items()}
    assert (predicted, list(predicted)) == (BITMAPS[name], list(BITMAPS[name]))
    assert read == BITMAPS[name]


@pytest.mark.parametrize(
    ("name", "starts_sectors", "stripe_offset_bytes"),
    [
        ("partition_on_md", {"md127p1": 3072}, 1572864),
        ("md_raid1_through", {"through1": 2048, "through2": 8388608}, None),
        ("luks_on_md", {}, 17301504),  # cryptsetup aligns 16 MiB of header to three chunks
        ("lvm_striped", {}, 0),
    ],
)
def test_offsets_add_up_on_the_way_down(
    guest: Guest, name: str, starts_sectors: dict[str, int], stripe_offset_bytes: int | None
) -> None:
    """A partition's start and the LUKS header shift the filesystem on the stripe below."""
    (filesystem,) = replay(guest, name)[0].filesystems
    assert isinstance(filesystem.stack, Known)
    starts = {
        called(guest[name], each.name): each.start_sectors
        for each in filesystem.stack.value.walk()
        if each.start_sectors is not None
    }
    found = map_stack(filesystem.stack.value)
    geometry = found.value.geometry if isinstance(found, Known) else None
    offset_bytes = geometry.offset_bytes if geometry else None
    assert (starts, offset_bytes) == (starts_sectors, stripe_offset_bytes)


@pytest.mark.parametrize(
    ("name", "grades"),
    [
        ("virtio_write_back", [["critical", "confirmed"]]),
        ("virtio_write_through", [["info", "confirmed"]]),
        ("nvme", [["critical", "confirmed"]]),
        ("nvme_overridden", [["info", "confirmed"]]),
        ("scsi_write_back", [["critical", "confirmed"]]),
        ("scsi_write_through", [["info", "confirmed"]]),
        ("md_raid10", [["critical", "confirmed"]]),
        ("luks_on_md", [["critical", "confirmed"]]),
    ],
)
def test_missing_barriers_are_graded_by_the_disks_caches(
    guest: Guest, name: str, grades: list[list[str]]
) -> None:
    """After a remount without barriers DUR001 is critical on write back, info on write through."""
    assert guest[name]["without_barriers"] == grades


@pytest.mark.parametrize(
    ("name", "expected"),
    [("lvm_linear", ["critical"]), ("md_raid1_through", ["info"]), ("md_raid5", [])],
)
def test_barriers_are_found_off_from_the_mount_on(
    guest: Guest, name: str, expected: list[str]
) -> None:
    """An md array reports "write back" for itself; its write-through members are decisive."""
    assert severities(guest, name, "DUR001") == expected


def test_an_option_that_fstab_lacks_is_drift(guest: Guest) -> None:
    """The volume mounted without barriers would have them again at the next boot."""
    assert severities(guest, "lvm_linear", "DRF001") == ["medium"]


@every_stack
def test_the_guarded_kernel_is_not_accused(guest: Guest, name: str) -> None:
    """PRF001 passes on 6.1, which has the guard against dioread_nolock without delalloc."""
    assert verdicts(guest, name)["PRF001"]["outcome"] == "pass"


@pytest.mark.parametrize("name", ["lvm_striped", "partition_on_md"])
def test_the_printed_mkfs_spreads_the_bitmaps_over_all_disks(guest: Guest, name: str) -> None:
    """LAY001 fails before and passes after; the disks are read as evenly as predicted."""
    recreated = guest[name]["recreated"]
    reads = recreated["bitmap_reads"]
    mean = sum(reads.values()) / len(reads)
    assert (recreated["before"], recreated["after"]) == ("fail medium", "pass")
    assert reads == recreated["predicted"]
    assert max(reads.values()) < 1.2 * mean
    assert "Pass 5: Checking group summary information" in recreated["fsck"]


def test_barriers_can_be_turned_on_on_a_logical_volume(guest: Guest) -> None:
    """The printed remount enables them, the next mount keeps them, and rollback undoes it."""
    cured = guest["lvm_linear"]["cured"]
    outcomes = [cured[when] for when in ("before", "after", "persisted", "rolled_back")]
    assert outcomes == ["fail critical", "pass", "pass", "fail critical"]
    assert "Pass 5: Checking group summary information" in cured["fsck"]
    assert cured["commands"] == [
        "immediate: mount -o remount,rw,relatime,barrier /dev/mapper/lab-data /data",
        "verify: grep -qx barrier /proc/fs/ext4/dm-0/options",
        "rollback: mount -o remount,rw,relatime,nobarrier /dev/mapper/lab-data /data",
    ]


@every_stack
def test_the_fixture_host_answers_all_that_is_asked(guest: Guest, name: str) -> None:
    """The kept snapshot has the same asks as a new one; UPDATE_FIXTURES=1 replaces it.

    test_fixture_hosts.py judges the kept snapshot without the lab.
    """
    kept = HOSTS / guest[name]["fixture"] / "snapshot"
    new = replay(guest, name)[1]
    if os.environ.get("UPDATE_FIXTURES") == "1":
        shutil.rmtree(kept, ignore_errors=True)
        write_snapshot(kept, new, taken_at=TAKEN_AT)
        kept.chmod(0o755)
    assert read_snapshot(kept)[0]._answers.keys() == new.keys()
