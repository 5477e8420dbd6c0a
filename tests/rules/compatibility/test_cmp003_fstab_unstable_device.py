"""CMP003: device names in fstab that may refer to another device after a boot."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.assemble.host import OUT_OF_SCOPE
from ext4audit.engine import judge
from ext4audit.evidence import Unknown
from ext4audit.facts.devices import LsblkDevice
from ext4audit.facts.host import Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Confidence, Severity
from ext4audit.remedies.superblock_fields import only_carrier
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.compatibility.cmp003_fstab_unstable_device import check
from support.builders import UUID, filesystem, fstab_entry, host, known, lsblk_row, unknown
from support.remedies.case import RemedyCase
from support.remedies.steps_as_text import step_lines

SDA, SDB = (
    lsblk_row(),
    lsblk_row("sdb", DeviceNumber(8, 16), uuid="11111111-2222-3333-4444-555555555555"),
)
NVME = tuple(
    lsblk_row(name, DeviceNumber(259, i), uuid=None)
    for i, name in enumerate(["nvme0n1", "nvme0n1p1", "nvme1n1"])
)

ZVOLS = tuple(
    lsblk_row(name, DeviceNumber(230, i), uuid=None)
    for i, name in enumerate(["zd0", "zd0p1", "zd16"])
)


def host_with_fstab_spec(spec: str, *options: str, **changes: Any) -> Host:
    """Build a host whose fstab names the filesystem by `spec`."""
    values: dict[str, Any] = {"fstab": known((fstab_entry(*options, spec=spec),))}
    return host(filesystem(), **(values | changes))


def verdict(on: Host) -> Verdict:
    """Judge a host."""
    return judge(check, None, on)


@pytest.mark.parametrize(
    ("on", "severity"),
    [
        (host_with_fstab_spec("/dev/sda1"), Severity.MEDIUM),
        (host_with_fstab_spec("/dev/sda1", virtualization="kvm"), Severity.LOW),
        (host_with_fstab_spec("/dev/sda1", devices=known((SDA, SDB))), Severity.HIGH),
        (
            host_with_fstab_spec("/dev/sda", devices=known((SDA, SDB)), virtualization="kvm"),
            Severity.HIGH,
        ),
        (host_with_fstab_spec("/dev/sda", "noauto", devices=known((SDA, SDB))), Severity.LOW),
        (host_with_fstab_spec("/dev/nvme1n1", devices=known(NVME)), Severity.HIGH),
        (host_with_fstab_spec("/dev/nvme1n1p2", devices=known(NVME[:2])), Severity.MEDIUM),
        (
            host_with_fstab_spec("/dev/xvdf", virtualization="xen", devices=known((SDA, SDB))),
            Severity.LOW,
        ),
        (host_with_fstab_spec("/dev/vdb", virtualization="kvm"), Severity.LOW),
        (host_with_fstab_spec("/dev/zd16p1", devices=known(ZVOLS)), Severity.HIGH),
        (host_with_fstab_spec("/dev/zd0", devices=known(ZVOLS[:2])), Severity.MEDIUM),
        (host_with_fstab_spec("/dev/bcache0", virtualization="kvm"), Severity.LOW),
        (host_with_fstab_spec("/dev/rbd1", "noauto"), Severity.LOW),
        (host_with_fstab_spec("/dev/dm-3"), Severity.MEDIUM),
        (host_with_fstab_spec("/dev/loop7"), Severity.MEDIUM),
        (host_with_fstab_spec("/dev/md127"), Severity.MEDIUM),
        (host_with_fstab_spec("/dev/md0p1"), Severity.MEDIUM),
    ],
)
def test_cmp003_severity_by_likelihood_of_a_renamed_device(on: Host, severity: Severity) -> None:
    """Two disks of the same kind can swap names; a virtual machine's only disk hardly can."""
    (finding,) = verdict(on).findings
    assert (finding.severity, finding.fact) == (severity, "/data")
    is_sure = severity is Severity.HIGH
    assert finding.confidence is (Confidence.CONFIRMED if is_sure else Confidence.LIKELY)


def test_cmp003_message_for_xen_disks() -> None:
    """The disks are not probed in any order: the machine's configuration sets their numbers."""
    (finding,) = verdict(host_with_fstab_spec("/dev/xvda1", virtualization="xen")).findings
    assert "the hypervisor gives the name" in finding.message
    assert "after a reboot" not in finding.message


@pytest.mark.parametrize(
    ("devices", "named"), [(NVME, ", one of 2 disks nvme*: "), (NVME[:2], " from /dev/nvme1n1: ")]
)
def test_cmp003_message_has_the_number_of_disks(
    devices: tuple[LsblkDevice, ...], named: str
) -> None:
    """A single disk is not described as one of several."""
    (finding,) = verdict(host_with_fstab_spec("/dev/nvme1n1", devices=known(devices))).findings
    assert named in finding.message


@pytest.mark.parametrize(
    ("on", "outcome"),
    [
        *(
            (host_with_fstab_spec(spec), Outcome.PASS)
            for spec in (
                f"UUID={UUID}",
                "LABEL=cloudimg-rootfs",
                "PARTUUID=1234-02",
                "/dev/disk/by-id/nvme-x-part1",
                "/dev/mapper/vg-data",
                "/dev/vg/data",
                "/dev/vda_data/lv",
                "/dev/md/data",
                "/dev/mmcblk0p2",
                "/dev/zvol/tank/data",
                "/dev/bcache/by-uuid/x",
            )
        ),
        (host_with_fstab_spec("/dev/md0", md_arrays=known(("/dev/md0",))), Outcome.PASS),
        (host_with_fstab_spec("/dev/md0", md_arrays=known(("/dev/md/0",))), Outcome.PASS),
        (host_with_fstab_spec("/dev/md0p2", md_arrays=known(("/dev/md/0",))), Outcome.PASS),
        (host_with_fstab_spec("/dev/md127", md_arrays=known(("/dev/md/127x",))), Outcome.FAIL),
        (host_with_fstab_spec("/dev/md0", md_arrays=unknown("mdadm.conf")), Outcome.UNDETERMINED),
        (host_with_fstab_spec("x", fstab=unknown("fstab")), Outcome.UNDETERMINED),
        (host_with_fstab_spec("x", fstab=known(())), Outcome.NOT_APPLICABLE),
        (
            host_with_fstab_spec("x", fstab=known((fstab_entry(spec="/dev/sdb1", fstype="auto"),))),
            Outcome.NOT_APPLICABLE,
        ),
        (host_with_fstab_spec("/dev/sda1", container="docker"), Outcome.NOT_APPLICABLE),
    ],
)
def test_cmp003_outcomes(on: Host, outcome: Outcome) -> None:
    """UUIDs and labels, udev's links, logical volumes and arrays in mdadm.conf are stable."""
    assert verdict(on).outcome is outcome


def test_cmp003_names_only_the_first_of_many_arrays() -> None:
    """A thousand arrays in each of a thousand findings would make a report unreadable."""
    arrays = tuple(f"/dev/md{number}" for number in range(1, 20))
    (finding,) = verdict(host_with_fstab_spec("/dev/md0", md_arrays=known(arrays))).findings
    (cited,) = (each for each in finding.citations if each.label == "ARRAY lines")
    assert cited.value == f"{', '.join(arrays[:8])} and 11 more"


def test_cmp003_remedy_edits_the_first_field_of_the_entry() -> None:
    """The edit requires that the UUID refers to the device of the line."""
    (finding,) = verdict(host_with_fstab_spec("/dev/sda1")).findings
    (remedy,) = finding.remedies
    assert step_lines(remedy.lines) == [
        f"persistent: fstab 7: /dev/sda1 -> UUID={UUID}",
        (
            "verify: sed -n 7p /etc/fstab | "
            f"LC_ALL=C grep -qxF -e 'UUID={UUID} /data ext4 defaults 0 2'"
        ),
        f'verify: test "$(findfs UUID={UUID})" -ef /dev/sda1',
        rf"rollback: sed -i '7s/UUID={UUID} \/data /\/dev\/sda1 \/data /' /etc/fstab",
    ]


@pytest.mark.parametrize(
    "on",
    [
        host_with_fstab_spec(
            "/dev/sda1", devices=known((SDA, lsblk_row("sdb", DeviceNumber(8, 16))))
        ),
        host_with_fstab_spec("/dev/sda1", devices=unknown("lsblk")),
        host_with_fstab_spec(
            "/dev/sda1", fstab=known((fstab_entry(spec="/dev/sda1", number=unknown("device")),))
        ),
        host_with_fstab_spec("/dev/sda1", filesystems=(filesystem(uuid="$(reboot)"),)),
        host_with_fstab_spec(
            "/dev/sda1", fstab=known((fstab_entry(spec="/dev/sda1", mount_point="/a\0"),))
        ),
    ],
)
def test_cmp003_prints_no_command_for_an_ambiguous_uuid(on: Host) -> None:
    """A UUID that two devices have, or may have, is not written into fstab."""
    (finding,) = verdict(on).findings
    assert finding.remedies[0].steps == ()


@pytest.mark.parametrize("unread", [OUT_OF_SCOPE, unknown("filesystems that are not mounted")])
def test_cmp003_command_checks_for_copies_that_the_audit_could_not_see(unread: Unknown) -> None:
    """Without udev, lsblk shows nothing about devices whose superblocks were not read."""
    without_type = known((lsblk_row(uuid=None)._replace(fstype=None),))
    (finding,) = verdict(
        host_with_fstab_spec("/dev/sda1", devices=without_type, unmounted=unread)
    ).findings
    check, edit, *_ = finding.remedies[0].steps
    assert check == only_carrier(UUID)
    assert step_lines([edit]) == [f"persistent: fstab 7: /dev/sda1 -> UUID={UUID}"]
    (finding,) = verdict(host_with_fstab_spec("/dev/sda1", unmounted=unread)).findings
    assert check not in finding.remedies[0].steps


def test_edit_of_a_generated_fstab_line_names_its_generator() -> None:
    """The engine adds this to the remedies of all rules."""
    entry = fstab_entry(spec="/dev/sda1")
    entry = entry._replace(line=entry.line._replace(generator="NixOS"))
    (finding,) = verdict(host_with_fstab_spec("/dev/sda1", fstab=known((entry,)))).findings
    assert finding.remedies[0].summary == (
        f"Use the UUID of the filesystem ({UUID}). Change it in the configuration of NixOS too, "
        "which writes this line of fstab again."
    )


def test_cmp003_finding_without_lsblk_reports_the_gap() -> None:
    """Without lsblk the name is just as unstable, but the severity is a guess."""
    reported = verdict(host_with_fstab_spec("/dev/sda1", devices=unknown("lsblk")))
    assert reported.outcome is Outcome.FAIL
    assert [gap.what for gap in reported.unknowns] == ["lsblk"]


def test_cmp003_uuid_of_an_unmounted_device_is_from_lsblk() -> None:
    """No superblock was read there, but lsblk has the UUID."""
    entry = fstab_entry("noauto", spec="/dev/sdb", number=known(DeviceNumber(8, 16)))
    (finding,) = verdict(
        host_with_fstab_spec("", fstab=known((entry,)), devices=known((SDA, SDB)))
    ).findings
    assert step_lines(finding.remedies[0].steps)[0] == (
        "persistent: fstab 7: /dev/sdb -> UUID=11111111-2222-3333-4444-555555555555"
    )


@pytest.mark.parametrize(
    ("copied", "edit"),
    [
        (UUID, None),
        ("11111111-2222-3333-4444-555555555555", "11111111-2222-3333-4444-555555555555"),
    ],
)
def test_cmp003_reads_uuids_of_unmounted_filesystems_without_udev(
    copied: str, edit: str | None
) -> None:
    """No row of lsblk has a UUID then, neither for the entry's device nor for a copy."""
    bare = known((lsblk_row(uuid=None), lsblk_row("sdb", DeviceNumber(8, 16), uuid=None)))
    unmounted = filesystem(
        number=DeviceNumber(8, 16), name="sdb", uuid=copied, alive=False, mounts=()
    )
    entry = fstab_entry("noauto", spec="/dev/sdb", number=known(DeviceNumber(8, 16)))
    on = host_with_fstab_spec(
        "", fstab=known((entry,)), devices=bare, unmounted=known((unmounted,))
    )
    (finding,) = verdict(on).findings
    edits = [
        each for each in step_lines(finding.remedies[0].steps) if each.startswith("persistent")
    ]
    assert edits == ([f"persistent: fstab 7: /dev/sdb -> UUID={edit}"] if edit else [])


# An entry that names a loop device by its number.
REMEDY_CASES = (
    RemedyCase(name="mounted", remedy="Use the UUID", fstab="noatime", mount="noatime"),
    RemedyCase(name="not mounted", remedy="Use the UUID", fstab="noauto", mounted=False),
)
