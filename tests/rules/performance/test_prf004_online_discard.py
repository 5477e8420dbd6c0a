"""PRF004: discards while the filesystem is in use, judged by the devices below."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Known, Unknown, need
from ext4audit.facts.devices import BlockDevice, DmDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Confidence, Disruption, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.performance.prf004_online_discard import check
from support.builders import (
    disk,
    filesystem,
    fstab_entry,
    host,
    known,
    loop,
    lsblk_row,
    mount,
    options,
    queue,
    raid,
    unknown,
)
from support.remedies.case import RemedyCase

SUPPORTS_DISCARD = queue(discard_max_bytes=1 << 31, rotational=False)
CONFIRMED, LIKELY = Confidence.CONFIRMED, Confidence.LIKELY
NVME = disk("nvme0n1", DeviceNumber(259, 0), SUPPORTS_DISCARD)
SATA = disk("sda", DeviceNumber(8, 0), SUPPORTS_DISCARD)


def with_discard_on(
    stack: BlockDevice | Unknown = NVME, *tokens: str, **changes: Any
) -> Filesystem:
    """Build a filesystem with discard on a device."""
    seen = stack if isinstance(stack, Unknown) else known(stack)
    values = {"options": known(options(*(tokens or ("discard",)))), "stack": seen}
    return filesystem(**{**values, **changes})


def dm_device_on(below: BlockDevice, kind: str, **changes: Any) -> BlockDevice:
    """Build a device-mapper device on top of another device."""
    return disk(
        "dm-0", DeviceNumber(254, 0), SUPPORTS_DISCARD, kind=kind, below=known((below,)), **changes
    )


def verdict_of(fs: Filesystem, **changes: Any) -> Verdict:
    """Judge a filesystem on a physical machine without a regular fstrim."""
    return judge(check, fs, host(fs, **{"fstrim": known(value=False), **changes}))


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        pytest.param(filesystem(), Outcome.PASS, id="defaults"),
        pytest.param(with_discard_on(), Outcome.FAIL, id="discard"),
        pytest.param(
            with_discard_on(options=known(options(hidden=("discard",)))),
            Outcome.FAIL,
            id="by the superblock",
        ),
        pytest.param(
            with_discard_on(disk()), Outcome.NOT_APPLICABLE, id="a device without discards"
        ),
        pytest.param(
            with_discard_on(read_only=known(value=True)), Outcome.NOT_APPLICABLE, id="read-only"
        ),
        pytest.param(with_discard_on(alive=False), Outcome.NOT_APPLICABLE, id="not mounted"),
        pytest.param(
            with_discard_on(options=unknown("options")), Outcome.UNDETERMINED, id="options unread"
        ),
        pytest.param(with_discard_on(unknown("stack")), Outcome.UNDETERMINED, id="stack unread"),
        pytest.param(
            with_discard_on(disk(limits=queue(discard_max_bytes=unknown("discard_max_bytes")))),
            Outcome.UNDETERMINED,
            id="limits unread",
        ),
    ],
)
def test_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """The option alone is no finding: the device must support discards."""
    assert verdict_of(fs).outcome is outcome


@pytest.mark.parametrize(
    ("stack", "changes", "grade", "words"),
    [
        pytest.param(NVME, {}, (Severity.LOW, LIKELY), "if the disk is slow", id="NVMe"),
        pytest.param(SATA, {}, (Severity.MEDIUM, LIKELY), "queued TRIM", id="SATA by lsblk"),
        pytest.param(
            disk("sda", limits=SUPPORTS_DISCARD, udev=(("ID_BUS", "ata"),)),
            {"devices": unknown("lsblk")},
            (Severity.MEDIUM, LIKELY),
            "queued TRIM",
            id="SATA by udev",
        ),
        pytest.param(
            SATA, {"devices": unknown("lsblk")}, (Severity.LOW, LIKELY), "slow", id="bus not seen"
        ),
        pytest.param(
            raid(
                [SATA, disk("sdb", DeviceNumber(8, 16), SUPPORTS_DISCARD)],
                level="raid1",
                limits=SUPPORTS_DISCARD,
            ),
            {"devices": known((lsblk_row("sda"), lsblk_row("sdb", DeviceNumber(8, 16))))},
            (Severity.MEDIUM, LIKELY),
            "queued TRIM",
            id="an array of SATA disks",
        ),
        pytest.param(
            NVME,
            {"fstrim": known(value=True)},
            (Severity.MEDIUM, CONFIRMED),
            "fstrim also runs regularly",
            id="twice",
        ),
        pytest.param(
            NVME, {"fstrim": unknown("fstrim")}, (Severity.LOW, LIKELY), "slow", id="fstrim unseen"
        ),
        pytest.param(
            dm_device_on(NVME, "dm-crypt"),
            {},
            (Severity.MEDIUM, CONFIRMED),
            "dm-crypt",
            id="dm-crypt",
        ),
        pytest.param(
            dm_device_on(NVME, "dm", dm=DmDevice("luks", "CRYPT-LUKS2-x", unknown("table"))),
            {},
            (Severity.MEDIUM, CONFIRMED),
            "dm-crypt",
            id="dm-crypt whose table was not read",
        ),
        pytest.param(
            disk("nvme1n1", limits=SUPPORTS_DISCARD, model="Amazon EC2 NVMe Instance Storage"),
            {"virtualization": "amazon"},
            (Severity.MEDIUM, LIKELY),
            "instance storage",
            id="EC2 instance storage",
        ),
    ],
)
def test_severity_by_device(
    stack: BlockDevice, changes: dict[str, Any], grade: tuple[Severity, Confidence], words: str
) -> None:
    """Slow or duplicate work is medium, an unknown disk low."""
    devices = known((lsblk_row("sda"), lsblk_row("nvme0n1", NVME.device_number, transport="nvme")))
    (finding,) = verdict_of(with_discard_on(stack), **{"devices": devices, **changes}).findings
    assert (finding.severity, finding.confidence) == grade
    assert words in finding.message


LOOP_DEVICE = disk(
    "loop0", DeviceNumber(7, 0), SUPPORTS_DISCARD, kind="loop", loop=loop(known((SATA,))).loop
)

POOL = disk(
    "dm-2",
    DeviceNumber(254, 2),
    SUPPORTS_DISCARD,
    kind="dm",
    dm=DmDevice("vg-pool-tpool", "LVM-b-tpool", unknown("table")),
    below=known((SATA,)),
)


@pytest.mark.parametrize(
    ("stack", "changes"),
    [
        pytest.param(disk("vda", limits=SUPPORTS_DISCARD), {}, id="virtio"),
        pytest.param(disk("rbd0", limits=SUPPORTS_DISCARD), {}, id="a volume of Ceph"),
        pytest.param(disk("zd16", limits=SUPPORTS_DISCARD), {}, id="a volume of ZFS"),
        pytest.param(SATA, {"virtualization": "microsoft"}, id="a cloud image on Azure"),
        pytest.param(NVME, {"virtualization": "google"}, id="a persistent disk of Google"),
        pytest.param(dm_device_on(SATA, "dm-thin"), {}, id="a thin volume"),
        pytest.param(dm_device_on(SATA, "dm-vdo"), {}, id="VDO"),
        pytest.param(
            dm_device_on(SATA, "dm", dm=DmDevice("vg-p-vpool", "LVM-a-vpool", unknown("table"))),
            {},
            id="VDO, without root",
        ),
        pytest.param(
            dm_device_on(POOL, "dm", dm=DmDevice("vg-lv", "LVM-a", unknown("table"))),
            {},
            id="a thin volume, without root",
        ),
        pytest.param(LOOP_DEVICE, {}, id="a loop device"),
        pytest.param(disk("zram1", limits=SUPPORTS_DISCARD), {}, id="compressed memory"),
        pytest.param(disk("ram0", limits=SUPPORTS_DISCARD), {}, id="a RAM disk"),
    ],
)
def test_discards_on_thin_provisioned_devices_pass(
    stack: BlockDevice, changes: dict[str, Any]
) -> None:
    """Cloud images mount with discard, and enable fstrim.timer too."""
    trimmed = {"fstrim": known(value=True), **changes}
    verdict = verdict_of(with_discard_on(stack, "discard", "errors=remount-ro"), **trimmed)
    assert verdict.outcome is Outcome.PASS
    assert ("option in force: discard", "discard") in [(c.label, c.value) for c in verdict.evidence]


@pytest.mark.parametrize(
    ("own", "on_host", "severity", "words"),
    [
        ((), (fstab_entry(),), Severity.LOW, "first create a job for it"),
        ((), (), Severity.MEDIUM, "Disable online discard."),
        ((fstab_entry(),), (fstab_entry(),), Severity.MEDIUM, "Disable online discard."),
        (None, (fstab_entry(),), Severity.MEDIUM, "Disable online discard."),
        ((), None, Severity.MEDIUM, "Disable online discard."),
    ],
)
def test_severity_if_fstrim_does_not_cover_the_mount(
    own: Any, on_host: Any, severity: Severity, words: str
) -> None:
    """Volumes of an orchestrator are not in fstab; if fstab is empty, fstrim trims all mounts."""
    gap = unknown("fstab")
    fs = with_discard_on(fstab=gap if own is None else known(own))
    fstab = gap if on_host is None else known(on_host)
    trims_all = known(not on_host)
    found = verdict_of(fs, fstab=fstab, fstrim=known(value=True), trims_all=trims_all)
    (finding,) = found.findings
    assert finding.severity is severity
    assert words in finding.remedies[0].summary


@pytest.mark.parametrize(
    ("fstrim", "reported"),
    [
        (known(value=True), "Disable online discard."),
        (known(value=False), "Nothing else trims it: first `systemctl enable --now fstrim.timer`"),
        (unknown("fstrim.timer"), "First make sure that it is trimmed regularly"),
    ],
)
def test_remedy_names_the_alternative_trim(fstrim: Any, reported: str) -> None:
    """Without discard and fstrim, the device would never learn which blocks are free."""
    (finding,) = verdict_of(with_discard_on(), fstrim=fstrim).findings
    (remedy,) = finding.remedies
    assert reported in remedy.summary
    assert remedy.steps[0].command == "mount -o remount,rw,relatime,nodiscard /dev/sda /data"
    assert remedy.lines[-1].command == "mount -o remount,rw,relatime,discard /dev/sda /data"


@pytest.mark.parametrize(
    ("stack", "leaks"),
    [
        pytest.param(dm_device_on(NVME, "dm-crypt"), True, id="dm-crypt"),
        pytest.param(
            raid([dm_device_on(NVME, "dm-crypt")], limits=SUPPORTS_DISCARD),
            True,
            id="an array on dm-crypt",
        ),
        pytest.param(dm_device_on(NVME, "dm-linear"), False, id="a volume"),
        pytest.param(NVME, False, id="a disk"),
    ],
)
def test_fstrim_is_not_suggested_on_dm_crypt(stack: BlockDevice, *, leaks: bool) -> None:
    """Enabling the timer there does not cure the leak, so it is not suggested."""
    (finding,) = verdict_of(with_discard_on(stack)).findings
    (remedy,) = finding.remedies
    assert ("reveals free blocks" in (remedy.trade_off or "")) is leaks
    assert ("fstrim.timer" in remedy.summary) is not leaks


def test_unquotable_mount_point_has_no_commands() -> None:
    """The mount point cannot be passed to a shell."""
    nowhere = with_discard_on()._replace(mounts=(mount("/da\0ta"),))
    (finding,) = verdict_of(nowhere).findings
    (remedy,) = finding.remedies
    assert (remedy.steps, remedy.disruption) == ((), Disruption.REMOUNT)


# Online discard is turned off by a remount, wherever it was set.
SUMMARY = "Disable online discard"


def as_disk(real: Host) -> Host:
    """Return the host as a physical machine, with a disk in place of the loop device."""
    (fs, *others) = real.filesystems
    stack = Known(replace(need(fs.stack), loop=None, below=Known((), "test")), "test")
    return real._replace(
        virtualization=Known(None, "test"), filesystems=(fs._replace(stack=stack), *others)
    )


REMEDY_CASES = (
    RemedyCase(
        "set by fstab", SUMMARY, mount="noatime,discard", fstab="noatime,discard", alter=as_disk
    ),
    RemedyCase(
        "set by the superblock", SUMMARY, tune=("-o", "discard"), fstab="defaults", alter=as_disk
    ),
    RemedyCase("set by hand", SUMMARY, mount="discard,nodev", alter=as_disk),
)


def test_no_command_in_another_namespace() -> None:
    """A remount needs the mount point."""
    (finding,) = verdict_of(with_discard_on(mounts=())).findings
    assert finding.remedies[0].steps == ()
    assert ", in the mount namespace that has it mounted." in finding.remedies[0].summary
