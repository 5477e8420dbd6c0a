"""HLT003: unmounted filesystems that are not clean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ext4audit.assemble.host import OUT_OF_SCOPE
from ext4audit.engine import judge
from ext4audit.evidence import Evidence
from ext4audit.facts.devices import BlockDevice, LsblkDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Confidence, Phase, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.health.hlt003_unclean_needs_fsck import check
from support.builders import UUID, disk, filesystem, host, known, lsblk_row, superblock, unknown
from support.filesystems.scratch import run
from support.remedies.case import LoopMount, RemedyCase
from support.remedies.steps_as_text import NOT_OPEN_CHECK

OTHER_UUID = "0db62384-0efe-5c92-9a94-c3f5482a4032"
CLEAN_CHECK = "tune2fs -l /dev/sdb | grep -qE '^Filesystem state: +clean$'"
NEEDS_REPLAY = frozenset({"has_journal", "extent", "needs_recovery"})
WITH_ORPHANS = frozenset({"has_journal", "extent", "orphan_file", "orphan_present"})
AUDIT_START = 1767323045
"""The time at which the audit of the host began, 2026-01-02T03:04:05Z."""


def verdict(on: Host) -> Verdict:
    """Judge a host."""
    return judge(check, None, on)


def unmounted(*, name: str = "sdb", uuid: str = OTHER_UUID, **changes: Any) -> Filesystem:
    """Build an unmounted filesystem."""
    return filesystem(
        number=DeviceNumber(8, 16),
        name=name,
        device=f"/dev/{name}",
        alive=False,
        mounts=(),
        uuid=uuid,
        superblock=known(superblock(**changes), f"dumpe2fs -h /dev/{name}"),
    )


def host_with_unmounted(*unmounted_filesystems: Filesystem) -> Host:
    """Build a host with one mounted filesystem and these unmounted ones."""
    return host(filesystem(), unmounted=known(unmounted_filesystems))


@pytest.mark.parametrize(
    ("on", "outcome"),
    [
        (host_with_unmounted(unmounted()), Outcome.PASS),
        # A clean snapshot of a filesystem with orphan_file: the feature alone is no evidence.
        (host_with_unmounted(unmounted(features=WITH_ORPHANS - {"orphan_present"})), Outcome.PASS),
        (host_with_unmounted(unmounted(features=NEEDS_REPLAY)), Outcome.FAIL),
        (host_with_unmounted(unmounted(features=WITH_ORPHANS)), Outcome.FAIL),
        (host_with_unmounted(unmounted(state="not clean")), Outcome.FAIL),
        (host_with_unmounted(unmounted(state="clean with errors")), Outcome.FAIL),
        (host_with_unmounted(unmounted(error_count=3)), Outcome.FAIL),
        (
            host_with_unmounted(unmounted(features=NEEDS_REPLAY, last_mounted_at=AUDIT_START)),
            Outcome.PASS,
        ),
        (
            host_with_unmounted(
                unmounted(features=NEEDS_REPLAY, last_mounted_at=AUDIT_START + 3600)
            ),
            Outcome.PASS,
        ),
        (
            host_with_unmounted(unmounted(features=NEEDS_REPLAY, last_mounted_at=AUDIT_START - 1)),
            Outcome.FAIL,
        ),
        (
            host_with_unmounted(
                unmounted(features=NEEDS_REPLAY, last_mounted_at=AUDIT_START + 3601)
            ),
            Outcome.FAIL,
        ),
        (
            host_with_unmounted(unmounted(state="not clean", last_mounted_at=AUDIT_START)),
            Outcome.PASS,
        ),
        (host_with_unmounted(unmounted(error_count=3, last_mounted_at=AUDIT_START)), Outcome.FAIL),
        # The same text is another time in another zone.
        (
            host_with_unmounted(
                unmounted(features=NEEDS_REPLAY, last_mounted_at=AUDIT_START)
            )._replace(has_local_times=True),
            Outcome.FAIL,
        ),
        (
            host(filesystem(superblock=known(superblock(features=NEEDS_REPLAY)))),
            Outcome.NOT_APPLICABLE,
        ),
        (host(unmounted(features=NEEDS_REPLAY)), Outcome.FAIL),
        (host(unmounted()), Outcome.PASS),
        # If only targets are audited, no other filesystem is judged.
        (host(unmounted(), unmounted=OUT_OF_SCOPE), Outcome.PASS),
        (host(filesystem(), unmounted=OUT_OF_SCOPE), Outcome.NOT_APPLICABLE),
        (
            host(filesystem(), unmounted=unknown("filesystems")),
            Outcome.UNDETERMINED,
        ),
        (
            host(unmounted(features=NEEDS_REPLAY), unmounted=unknown("filesystems")),
            Outcome.FAIL,
        ),
        (
            host_with_unmounted(
                filesystem(alive=False, mounts=(), superblock=unknown("superblock"))
            ),
            Outcome.UNDETERMINED,
        ),
    ],
)
def test_hlt003_outcomes(on: Host, outcome: Outcome) -> None:
    """Mounted filesystems are never clean on disk, and are not judged."""
    assert verdict(on).outcome is outcome


def test_hlt003_snapshot_of_a_mounted_filesystem() -> None:
    """A snapshot is in the state after a crash: the finding says so and has no remedy."""
    mounted = filesystem()
    (finding,) = verdict(
        host_with_unmounted(unmounted(features=NEEDS_REPLAY, uuid=str(mounted.uuid)))
    ).findings
    assert finding.severity is Severity.INFO
    assert finding.remedies == ()


@pytest.mark.parametrize(
    ("serial", "outcome", "has_doubt"),
    [("1", Outcome.PASS, False), ("2", Outcome.FAIL, False), ("", Outcome.FAIL, True)],
)
def test_hlt003_second_path_to_a_mounted_filesystem(
    serial: str, outcome: Outcome, *, has_doubt: bool
) -> None:
    """A mounted filesystem's journal must not be replayed, whether it is mounted here or below."""
    first, second = (
        known(disk(name, number, udev=(("ID_SERIAL", identity),)))
        for name, number, identity in (
            ("sda", DeviceNumber(8, 0), "1"),
            ("sdb", DeviceNumber(8, 16), serial),
        )
    )
    path = unmounted(uuid=UUID, features=NEEDS_REPLAY)._replace(stack=second)
    live = filesystem(stack=first)
    rows = known((lsblk_row(transport="iscsi"),))
    for on in (
        host(live, unmounted=known((path,)), devices=rows),
        host(path, lower=(live,), devices=rows),
    ):
        found = verdict(on)
        assert found.outcome is outcome
        doubts = ["a second path to the same disk" in each.message for each in found.findings]
        assert any(doubts) is has_doubt


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_hlt003_second_path_beside_a_mounted_copy(order: tuple[int, int]) -> None:
    """Of two mounted filesystems with its UUID, the one on the same disk counts."""
    here, copy, path = (
        known(disk(name, number, udev=(("ID_SERIAL", serial),)))
        for name, number, serial in (
            ("sda", DeviceNumber(8, 0), "1"),
            ("sdc", DeviceNumber(8, 32), "2"),
            ("sdb", DeviceNumber(8, 16), "1"),
        )
    )
    live = (
        filesystem(stack=here),
        filesystem(number=DeviceNumber(8, 32), name="sdc", device="/dev/sdc", stack=copy),
    )
    second = unmounted(uuid=UUID, features=NEEDS_REPLAY)._replace(stack=path)
    rows = known((lsblk_row(transport="iscsi"),))
    on = host(*(live[n] for n in order), unmounted=known((second,)), devices=rows)
    twin = on.mounted_twin(second)
    assert twin is not None
    assert twin.device == "/dev/sda"
    assert verdict(on).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("changes", "confidence"),
    [
        ({"features": NEEDS_REPLAY}, Confidence.LIKELY),
        ({"features": WITH_ORPHANS}, Confidence.LIKELY),
        ({"state": "not clean"}, Confidence.CONFIRMED),
        ({"state": "clean with errors"}, Confidence.CONFIRMED),
    ],
)
def test_hlt003_confidence_by_state(changes: dict[str, Any], confidence: Confidence) -> None:
    """A journal that needs a replay may be in use by another host."""
    (finding,) = verdict(host_with_unmounted(unmounted(**changes))).findings
    assert finding.confidence is confidence


@pytest.mark.parametrize(
    ("name", "changes", "severity"),
    [
        ("zd0", {"features": NEEDS_REPLAY}, Severity.LOW),
        ("zd0", {"features": WITH_ORPHANS}, Severity.LOW),
        ("zd0", {"features": NEEDS_REPLAY, "state": "clean with errors"}, Severity.MEDIUM),
        ("sda", {"features": NEEDS_REPLAY}, Severity.MEDIUM),
    ],
)
def test_hlt003_severity_on_the_disk_of_a_guest(
    name: str, changes: dict[str, Any], severity: Severity
) -> None:
    """A hypervisor with ZFS sees the partitions of all its guests, which have them mounted."""
    part = disk(f"{name}p1", kind="partition", below=known((disk(name),)))
    fs = unmounted(name=f"{name}p1", **changes)._replace(stack=known(part))
    (finding,) = verdict(host_with_unmounted(fs)).findings
    assert finding.severity is severity
    assert bool(finding.remedies[0].steps) is (name == "sda")
    assert ("which a virtual machine may have" in finding.message) is (severity is Severity.LOW)


def test_hlt003_on_a_volume_of_proxmox() -> None:
    """Proxmox VE has its guests on logical volumes, which QEMU does not open exclusively."""
    guest = disk("dm-6", DeviceNumber(253, 6), kind="dm", path="/dev/mapper/pve-vm--100--disk--1")
    part = disk("dm-7", DeviceNumber(253, 7), kind="dm-linear", below=known((guest,)))
    for stack in (guest, part):
        fs = unmounted(features=NEEDS_REPLAY)._replace(stack=known(stack))
        (finding,) = verdict(host_with_unmounted(fs)).findings
        assert finding.severity is Severity.LOW
        assert "Proxmox VE, which a virtual machine may have in use" in finding.message
        assert finding.remedies[0].steps == ()


@pytest.mark.parametrize(
    ("swap", "changes", "severity"),
    [
        ("swsuspend", {"features": NEEDS_REPLAY}, Severity.LOW),
        ("swsuspend", {"state": "clean with errors"}, Severity.MEDIUM),
        ("swap", {"features": NEEDS_REPLAY}, Severity.MEDIUM),
    ],
)
def test_hlt003_beside_a_hibernated_system(
    swap: str, changes: dict[str, Any], severity: Severity
) -> None:
    """It goes on with the metadata that it has in memory, whatever was written in the meantime."""
    row = lsblk_row("sda3", DeviceNumber(8, 3), fstype=swap)
    on = host_with_unmounted(unmounted(**changes))._replace(devices=known((row,)))
    (finding,) = verdict(on).findings
    assert finding.severity is severity
    is_low = severity is Severity.LOW
    assert ("sda3 holds a hibernated system" in finding.message) is is_low
    assert bool(finding.remedies[0].steps) is (swap == "swap")


MULTIPATH = disk("dm-0", DeviceNumber(253, 0), kind="dm-multipath")


@pytest.mark.parametrize(
    ("stack", "transport", "changes", "severity"),
    [
        (disk("sdb"), "fc", {"features": NEEDS_REPLAY}, Severity.LOW),
        (disk("sdb"), "iscsi", {"features": WITH_ORPHANS}, Severity.LOW),
        (MULTIPATH, "sas", {"features": NEEDS_REPLAY}, Severity.LOW),
        (disk("rbd0"), None, {"features": NEEDS_REPLAY}, Severity.LOW),
        (disk("sdb"), "fc", {"state": "clean with errors"}, Severity.MEDIUM),
        (disk("sdb"), "sata", {"features": NEEDS_REPLAY}, Severity.MEDIUM),
        (disk("sdb"), None, {"features": NEEDS_REPLAY}, Severity.MEDIUM),
    ],
)
def test_hlt003_on_a_disk_that_another_host_can_reach(
    stack: BlockDevice, transport: str | None, changes: dict[str, Any], severity: Severity
) -> None:
    """The standby of a cluster sees the filesystem that the active host has mounted.

    e2fsck would destroy it: no command is printed, not even where errors are recorded.
    """
    fs = unmounted(**changes)._replace(stack=known(stack))
    row = lsblk_row(stack.name, stack.device_number, transport=transport)
    (finding,) = verdict(host_with_unmounted(fs)._replace(devices=known((row,)))).findings
    assert finding.severity is severity
    is_low = severity is Severity.LOW
    assert ("which another host may have in use" in finding.message) is is_low
    (remedy,) = finding.remedies
    assert bool(remedy.steps) is (stack.name == "sdb" and transport in {"sata", None})
    assert "e2fsck -p" in remedy.summary


SDB = disk("sdb", DeviceNumber(8, 16))
HIDDEN = disk("dm-0", DeviceNumber(253, 0), kind="dm", below=unknown("devices below dm-0"))


@pytest.mark.parametrize(
    ("stack", "devices"),
    [
        (unknown("stack of sdb"), known(())),
        (known(HIDDEN), known(())),
        (known(SDB), unknown("lsblk")),
        (known(SDB), known((lsblk_row("sdb", SDB.device_number, unlisted=frozenset({"TRAN"})),))),
    ],
)
def test_hlt003_has_no_command_where_it_is_not_known_who_reaches_the_disk(
    stack: Evidence[BlockDevice], devices: Evidence[tuple[LsblkDevice, ...]]
) -> None:
    """Missing evidence leaves the severity, and takes the command that could do harm."""
    fs = unmounted(features=NEEDS_REPLAY)._replace(stack=stack)
    (finding,) = verdict(host_with_unmounted(fs)._replace(devices=devices)).findings
    assert finding.severity is Severity.MEDIUM
    assert [remedy.steps for remedy in finding.remedies] == [()]


def test_hlt003_fact_is_the_uuid() -> None:
    """A baseline identifies each by its UUID, even if it is a copy of a mounted filesystem."""
    copied = str(filesystem().uuid)
    both = host_with_unmounted(
        unmounted(state="not clean"), unmounted(name="sdc", uuid=copied, state="not clean")
    )
    found = verdict(both).findings
    assert [each.fact for each in found] == [OTHER_UUID, copied]
    assert [each.device for each in found] == ["/dev/sdb", "/dev/sdc"]


def test_hlt003_judges_a_target_once() -> None:
    """A device that is both a target and unmounted is judged once."""
    target = unmounted(state="not clean")
    assert len(verdict(host(target, unmounted=known((target,)))).findings) == 1


def test_hlt003_message_and_check_command() -> None:
    """The commands refuse to run while the filesystem is mounted in any namespace."""
    (finding,) = verdict(
        host_with_unmounted(unmounted(features=NEEDS_REPLAY, state="not clean"))
    ).findings
    assert finding.severity is Severity.MEDIUM
    assert finding.message == (
        "/dev/sdb is not mounted and not clean: its journal has not been replayed; it was not "
        "unmounted cleanly."
    )
    (remedy,) = finding.remedies
    assert [(step.phase, step.command) for step in remedy.lines] == [
        (
            Phase.IMMEDIATE,
            (
                f"test ! -e /sys/fs/ext4/sdb && {NOT_OPEN_CHECK.format(device='/dev/sdb')}"
                "{ e2fsck -p /dev/sdb || test $? -eq 1; }"
            ),
        ),
        (
            Phase.VERIFY,
            f"{CLEAN_CHECK} && ! tune2fs -l /dev/sdb | grep -qwE 'needs_recovery|orphan_present'",
        ),
    ]


def test_hlt003_prints_no_command_for_an_unquotable_name() -> None:
    """A shell word cannot represent the name of an image that ends in a newline."""
    (finding,) = verdict(host_with_unmounted(unmounted(name="image\n", state="not clean"))).findings
    assert [remedy.steps for remedy in finding.remedies] == [()]


# The state after a crash, which a copy of a mounted filesystem has.
def copy_after_crash(loop_mount: LoopMount) -> None:
    """Write, copy the device at that moment, and restore this copy after the unmount."""
    loop_mount.mount()
    (loop_mount.mount_point / "file").write_text("text" * 10000)
    open_file = (loop_mount.mount_point / "deleted").open("w")
    open_file.write("text")
    (loop_mount.mount_point / "deleted").unlink()
    run("sync", "-f", loop_mount.mount_point)
    run("cp", "--reflink=never", loop_mount.device, f"{loop_mount.image}.crashed")
    open_file.close()
    loop_mount.unmount()
    run("dd", f"if={loop_mount.image}.crashed", f"of={loop_mount.device}", "bs=1M", "conv=fsync")


def record_errors(loop_mount: LoopMount) -> None:
    """Leave an unmounted filesystem for which the kernel had recorded an error."""
    loop_mount.mount()
    name = loop_mount.device.removeprefix("/dev/")
    Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("test")
    loop_mount.unmount()


REMEDY_CASES = (
    RemedyCase(
        name="crashed",
        remedy="Run e2fsck -p",
        mounted=False,
        prepare=copy_after_crash,
        restores=False,
    ),
    RemedyCase(
        name="crashed, with an orphan file",
        remedy="Run e2fsck -p",
        mke2fs=("-O", "orphan_file"),
        mounted=False,
        prepare=copy_after_crash,
        restores=False,
    ),
    RemedyCase(
        name="crashed, with bigalloc",
        remedy="Run e2fsck -p",
        mke2fs=("-O", "bigalloc"),
        mounted=False,
        prepare=copy_after_crash,
        restores=False,
    ),
    RemedyCase(
        name="without a journal, crashed",
        remedy="Run e2fsck -p",
        mke2fs=("-O", "^has_journal"),
        mounted=False,
        prepare=copy_after_crash,
        restores=False,
    ),
    RemedyCase(
        name="errors on record",
        remedy="Run e2fsck -p",
        mounted=False,
        prepare=record_errors,
        restores=False,
    ),
)
