"""CMP004: data volumes of virtual machines without nofail."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Implied, Known, need
from ext4audit.facts.devices import LsblkDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber, FstabEntry, Mount
from ext4audit.finding import Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.compatibility.cmp004_nofail_policy import NO_SYSTEMD, NOT_VIRTUAL, check
from support.builders import (
    UUID,
    disk,
    filesystem,
    fstab_entry,
    host,
    known,
    lsblk_row,
    mount,
    unknown,
)
from support.remedies.case import RemedyCase
from support.remedies.steps_as_text import step_lines

NUMBER = DeviceNumber(8, 17)
ROOT = filesystem(mounts=(mount("/"),))


def partition_filesystem(where: str, below: DeviceNumber = DeviceNumber(8, 16)) -> Filesystem:
    """Build the filesystem of a partition on a disk."""
    part = disk(
        "sdb1", NUMBER, kind="partition", below=known((disk("sdb", below),)), start_sectors=2048
    )
    return filesystem(number=NUMBER, mounts=(mount(where, number=NUMBER),), stack=known(part))


def entry(*options: str, where: str = "/data", **more: Any) -> FstabEntry:
    """Build the fstab entry of the volume."""
    return fstab_entry(*options, mount_point=where, number=known(NUMBER), **more)


def virtual_machine(line: FstabEntry, fs: Filesystem | None = None, **changes: Any) -> Host:
    """Build a virtual machine with a root, and a volume where its entry mounts it."""
    there = fs or partition_filesystem(line.line.mount_point)
    values: dict[str, Any] = {"virtualization": "kvm", "fstab": known((line,))}
    return host(ROOT, there, **(values | changes))


def verdict(on: Host) -> Verdict:
    """Judge a host."""
    return judge(check, None, on)


@pytest.mark.parametrize(
    ("on", "outcome"),
    [
        (virtual_machine(entry()), Outcome.FAIL),
        (virtual_machine(entry(where="/srv/db")), Outcome.FAIL),
        (virtual_machine(entry(where="/var/lib/postgresql")), Outcome.FAIL),
        (virtual_machine(entry("defaults", "nofail")), Outcome.PASS),
        (virtual_machine(entry("noauto")), Outcome.PASS),
        (virtual_machine(entry("_netdev")), Outcome.PASS),
        (
            virtual_machine(
                entry(), filesystem(mounts=(mount("/data", number=DeviceNumber(8, 99)),))
            ),
            Outcome.NOT_APPLICABLE,
        ),
        (virtual_machine(entry("x-systemd.automount")), Outcome.PASS),
        *(
            (virtual_machine(entry(where=where)), Outcome.NOT_APPLICABLE)
            for where in ("/", "/boot", "/boot/", "/boot/grub", "/usr", "/usr/local", "/var")
        ),
        (
            virtual_machine(entry(), partition_filesystem("/data", DeviceNumber(8, 0))),
            Outcome.NOT_APPLICABLE,
        ),
        # The disks below it or below the root are unknown: they cannot be assumed to be the same.
        (
            virtual_machine(
                entry(), partition_filesystem("/data")._replace(stack=unknown("stack"))
            ),
            Outcome.FAIL,
        ),
        (
            host(partition_filesystem("/data"), virtualization="kvm", fstab=known((entry(),))),
            Outcome.FAIL,
        ),
        (virtual_machine(entry(), partition_filesystem("/elsewhere")), Outcome.NOT_APPLICABLE),
        (virtual_machine(entry(fstype="auto")), Outcome.NOT_APPLICABLE),
        (virtual_machine(entry(), virtualization=None), Outcome.NOT_APPLICABLE),
        (virtual_machine(entry(), container="docker"), Outcome.NOT_APPLICABLE),
        (virtual_machine(entry(), fstab=unknown("fstab")), Outcome.UNDETERMINED),
        (virtual_machine(entry(), mounts=unknown("mounts")), Outcome.UNDETERMINED),
    ],
)
def test_cmp004_outcomes(on: Host, outcome: Outcome) -> None:
    """System mount points, volumes on root's disk and cases of DRF006 are not judged."""
    reported = verdict(on)
    assert reported.outcome is outcome, reported.note
    assert all(finding.severity is Severity.LOW for finding in reported.findings)


DISK, OTHER_DISK, ROOT_PART = DeviceNumber(8, 0), DeviceNumber(8, 16), DeviceNumber(8, 3)
BTRFS = mount("/", number=DeviceNumber(0, 31), fstype="btrfs")._replace(source="/dev/sda3")
XFS = mount("/", number=ROOT_PART, fstype="xfs")
AUDITED = filesystem(number=DeviceNumber(8, 33), mounts=(mount("/x", number=DeviceNumber(8, 33)),))


def rows(of_volume: DeviceNumber) -> tuple[LsblkDevice, ...]:
    """Build lsblk's tree: the root is on the first disk, and the volume on either."""
    return (
        lsblk_row("sda", DISK),
        lsblk_row("sda3", ROOT_PART, parents=frozenset({DISK})),
        lsblk_row("sdb", OTHER_DISK),
        lsblk_row("vg-data", NUMBER, kernel_name="dm-0", parents=frozenset({of_volume})),
    )


@pytest.mark.parametrize("root", [XFS, BTRFS, mount("/", number=ROOT_PART)])
@pytest.mark.parametrize(
    "volume",
    [
        partition_filesystem("/data")._replace(stack=unknown("stack")),
        AUDITED._replace(mounts=(mount(number=NUMBER),)),
    ],
)
@pytest.mark.parametrize(
    ("disk_of_volume", "outcome"),
    [(DISK, Outcome.NOT_APPLICABLE), (OTHER_DISK, Outcome.FAIL)],
)
def test_cmp004_finds_disks_without_a_stack_in_the_tree_of_lsblk(
    root: Mount, volume: Filesystem, disk_of_volume: DeviceNumber, outcome: Outcome
) -> None:
    """The root is on XFS or Btrfs, or the targets of the scan leave it or the volume out."""
    on = host(
        volume,
        virtualization="kvm",
        fstab=known((entry(),)),
        mounts=known((root, *volume.mounts)),
        devices=known(rows(disk_of_volume)),
    )
    assert verdict(on).outcome is outcome


def test_cmp004_finds_a_root_near_the_targets() -> None:
    """A scan of one target reads the other filesystems of its disk for the rules alone."""
    volume = partition_filesystem("/data", DeviceNumber(8, 0))
    on = virtual_machine(entry(), volume)
    near = on._replace(filesystems=(volume,), lower=(ROOT,))
    assert verdict(near).outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("printed", "note"),
    [
        (Known(None, "systemd-detect-virt --vm"), NOT_VIRTUAL),
        (Implied(None, "there is no systemd-detect-virt"), NO_SYSTEMD),
    ],
)
def test_cmp004_does_not_assume_a_physical_machine(printed: Known[None], note: str) -> None:
    """Alpine has no systemd-detect-virt, not even on virtual machines."""
    on = virtual_machine(entry(), virtualization=None)._replace(virtualization=printed)
    assert verdict(on).note == note


@pytest.mark.parametrize(
    ("options", "after"),
    [
        (("defaults",), "defaults,nofail,x-systemd.device-timeout=30s"),
        (("noatime", "x-systemd.device-timeout=5"), "noatime,x-systemd.device-timeout=5,nofail"),
    ],
)
def test_cmp004_remedy_adds_options_to_the_entry(options: tuple[str, ...], after: str) -> None:
    """A timeout in the line is kept, and neither sentence names another one."""
    (finding,) = verdict(virtual_machine(entry(*options))).findings
    assert finding.fact == "/data"
    (remedy,) = finding.remedies
    is_default = "defaults" in options
    assert ("90 seconds" in finding.message) is is_default
    assert ("after 30 seconds" in remedy.summary) is is_default
    edit, check = step_lines(remedy.steps)
    assert edit == f"persistent: fstab 7: {','.join(options)} -> {after}"
    line = f"UUID={UUID} /data ext4 {after} 0 2"
    assert check == f"verify: sed -n 7p /etc/fstab | LC_ALL=C grep -qxF -e '{line}'"
    assert remedy.trade_off is not None
    assert "RequiresMountsFor=/data" in remedy.trade_off


def test_cmp004_escapes_the_mount_point_for_a_unit_file() -> None:
    """In a unit file a blank ends a path, and % starts a specifier."""
    (finding,) = verdict(virtual_machine(entry(where="/my 50% data"))).findings
    assert 'RequiresMountsFor="/my 50%% data" to its unit' in (finding.remedies[0].trade_off or "")


def test_cmp004_prints_no_command_for_an_unquotable_name() -> None:
    """The finding remains."""
    (finding,) = verdict(virtual_machine(entry(where="/a\0"))).findings
    assert finding.remedies[0].steps == ()


# An entry without nofail, on a machine that counts as virtual.
def on_another_disk(on: Host) -> Host:
    """Hide the root: the image of a case is a file on it, so its volume is on the same disk."""
    elsewhere = (each for each in need(on.mounts) if each.mount_point != "/")
    return on._replace(mounts=known(tuple(elsewhere)))


REMEDY_CASES = (
    RemedyCase(
        name="defaults",
        remedy="Let the boot continue",
        fstab="defaults",
        alter=on_another_disk,
    ),
    RemedyCase(
        name="a timeout of its own",
        remedy="Let the boot continue",
        fstab="noatime,x-systemd.device-timeout=5",
        mount="noatime",
        alter=on_another_disk,
    ),
)
