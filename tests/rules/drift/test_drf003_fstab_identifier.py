"""DRF003: two devices with the same UUID or label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from ext4audit.assemble.host import OUT_OF_SCOPE
from ext4audit.engine import judge
from ext4audit.evidence import Known, need
from ext4audit.facts.devices import BlockDevice, LsblkDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Confidence, Phase, Remedy, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rule import Rule
from ext4audit.rules.drift.drf003_fstab_identifier import check
from support.builders import (
    UUID,
    disk,
    filesystem,
    fstab_entry,
    host,
    known,
    loop,
    lsblk_row,
    raid,
    superblock,
    unknown,
)
from support.filesystems.scratch import run
from support.remedies.case import LoopMount, RemedyCase
from support.remedies.steps_as_text import NOT_OPEN_CHECK

SDB = DeviceNumber(8, 16)
OTHER_UUID = "0db62384-0efe-5c92-9a94-c3f5482a4032"
NAMED = known((fstab_entry(),))
BY_PATH = known((fstab_entry(spec="/dev/sda"),))


def verdict(on: Host) -> Verdict:
    """Judge a host."""
    return judge(check, None, on)


def with_rows(*rows: LsblkDevice, fs: Filesystem | None = None, **changes: Any) -> Host:
    """Build a host with /dev/sda on /data, and these additional rows of lsblk."""
    mounted = fs or filesystem()
    values: dict[str, Any] = {"devices": known((lsblk_row(), *rows), "lsblk")}
    return host(mounted, **{**values, **changes})


COPY = lsblk_row("sdb", SDB)
LABELLED = (
    lsblk_row("sda", uuid=UUID, label="data"),
    lsblk_row("sdb", SDB, uuid=OTHER_UUID, label="data"),
)


WITHOUT_UUIDS = (
    lsblk_row("sda", fstype=None, uuid=None),
    lsblk_row("sdb", SDB, fstype=None, uuid=None),
)
TWIN = filesystem(number=SDB, alive=False, mounts=(), stack=known(disk("sdb", SDB)))


def with_stack_of(kind: str, *below: BlockDevice) -> Filesystem:
    """Build the filesystem of a device on top of others."""
    top = disk("dm-0", DeviceNumber(253, 0), kind=kind, below=known(below))
    return filesystem(number=top.device_number, name="dm-0", device="/dev/dm-0", stack=known(top))


@pytest.mark.parametrize(
    ("on", "outcome"),
    [
        (with_rows(), Outcome.PASS),
        (with_rows(lsblk_row("sdb", SDB, uuid=OTHER_UUID)), Outcome.PASS),
        (with_rows(COPY), Outcome.FAIL),
        (with_rows(lsblk_row("sdb", SDB, uuid=UUID.upper())), Outcome.FAIL),
        (with_rows(COPY, fstab=BY_PATH), Outcome.FAIL),
        # lsblk lists an array below each of its members, so the same device occurs twice.
        (with_rows(lsblk_row()), Outcome.PASS),
        (with_rows(lsblk_row("sdb", SDB, fstype="mpath_member")), Outcome.PASS),
        (with_rows(lsblk_row("sdb", SDB, fstype="linux_raid_member")), Outcome.PASS),
        (with_rows(lsblk_row("sdb", SDB, fstype="xfs")), Outcome.PASS),
        (with_rows(lsblk_row("sda-real", SDB, kernel_name="dm-3")), Outcome.PASS),
        (with_rows(devices=known(LABELLED)), Outcome.PASS),
        (
            with_rows(devices=known(LABELLED), fstab=known((fstab_entry(spec="LABEL=data"),))),
            Outcome.FAIL,
        ),
        (
            with_rows(devices=known(LABELLED), kernel_arguments=known(("root=LABEL=data",))),
            Outcome.FAIL,
        ),
        (
            with_rows(devices=known(LABELLED), fstab=known((fstab_entry(spec="LABEL='data'"),))),
            Outcome.FAIL,
        ),
        (
            with_rows(
                devices=known(tuple(row._replace(label="my data") for row in LABELLED)),
                fstab=known((fstab_entry(spec=r"/dev/disk/by-label/my\x20data"),)),
            ),
            Outcome.FAIL,
        ),
        (with_rows(devices=known(LABELLED), fstab=unknown("fstab")), Outcome.UNDETERMINED),
        (with_rows(COPY, fstab=unknown("fstab")), Outcome.FAIL),
        (with_rows(devices=unknown("lsblk")), Outcome.UNDETERMINED),
        # Without udev, lsblk shows no identifiers at all; root can read them in superblocks.
        (with_rows(devices=known(WITHOUT_UUIDS)), Outcome.PASS),
        (with_rows(devices=known(WITHOUT_UUIDS), unmounted=known((TWIN,))), Outcome.FAIL),
        (
            with_rows(devices=known(WITHOUT_UUIDS), unmounted=unknown("filesystems")),
            Outcome.UNDETERMINED,
        ),
        # With targets, no other superblock was read; with udev, lsblk shows devices' contents.
        (with_rows(devices=known(WITHOUT_UUIDS), unmounted=OUT_OF_SCOPE), Outcome.NOT_APPLICABLE),
        (with_rows(unmounted=OUT_OF_SCOPE), Outcome.PASS),
        (
            with_rows(devices=known(WITHOUT_UUIDS), unmounted=OUT_OF_SCOPE, lower=(TWIN,)),
            Outcome.FAIL,
        ),
        (
            with_rows(
                devices=known(WITHOUT_UUIDS), unmounted=unknown("filesystems"), lower=(TWIN,)
            ),
            Outcome.FAIL,
        ),
        (
            with_rows(
                devices=known(WITHOUT_UUIDS),
                fs=filesystem(superblock=unknown("superblock"), uuid=None),
            ),
            Outcome.UNDETERMINED,
        ),
        # The ioctl for unprivileged users does not return the label.
        (
            with_rows(
                devices=known(WITHOUT_UUIDS),
                fs=filesystem(superblock=known(superblock(block_bytes=None))),
                fstab=known((fstab_entry(spec="LABEL=data"),)),
            ),
            Outcome.UNDETERMINED,
        ),
        (with_rows(COPY, container="docker"), Outcome.NOT_APPLICABLE),
    ],
)
def test_drf003_outcomes(on: Host, outcome: Outcome) -> None:
    """A copy is another filesystem with the same identifier, not another layer of the same one."""
    assert verdict(on).outcome is outcome


def loop_over(node: str) -> BlockDevice:
    """Build a loop device over a block device, which does not list it as a holder."""
    device = loop()
    assert device.loop is not None
    return replace(device, loop=device.loop._replace(backing_file=node))


@pytest.mark.parametrize(
    ("fs", "rows"),
    [
        (
            with_stack_of("dm-multipath", disk("sdb", SDB), disk("sdc", DeviceNumber(8, 32))),
            [lsblk_row("sdb", SDB), lsblk_row("sdc", DeviceNumber(8, 32))],
        ),
        # The partition of a multipath device, and the partitions of its paths.
        (
            with_stack_of(
                "dm-linear",
                disk("dm-1", DeviceNumber(253, 1), kind="dm-multipath", below=known((disk(),))),
            ),
            [lsblk_row("sda1", DeviceNumber(8, 1))],
        ),
        (
            filesystem(
                number=DeviceNumber(9, 127),
                stack=known(raid([disk("sdb", SDB), disk("sdc", DeviceNumber(8, 32))])),
            ),
            [lsblk_row("sdb", SDB), lsblk_row("sdc", DeviceNumber(8, 32))],
        ),
        (
            filesystem(number=DeviceNumber(7, 0), name="loop0", stack=known(loop_over("/dev/sdb"))),
            [lsblk_row("sdb", SDB)],
        ),
    ],
)
def test_drf003_ignores_paths_and_members_below_a_filesystem(
    fs: Filesystem, rows: list[LsblkDevice]
) -> None:
    """Paths and members show the superblock of the filesystem on top of them."""
    top = lsblk_row(fs.name, fs.device_number)
    on = with_rows(fs=fs, devices=known((top, *rows)))
    assert verdict(on).outcome is Outcome.PASS


def test_drf003_reports_copies_on_unrelated_devices() -> None:
    """Another partition of the disk, and the device of a loop device's file, are not layers."""
    sda1 = disk(
        "sda1",
        DeviceNumber(8, 1),
        kind="partition",
        below=known((disk("sda", DeviceNumber(8, 0)),)),
    )
    fs = filesystem(number=DeviceNumber(8, 1), name="sda1", stack=known(sda1))
    rows = (lsblk_row("sda1", DeviceNumber(8, 1)), lsblk_row("sda2", DeviceNumber(8, 2)))
    assert verdict(with_rows(fs=fs, devices=known(rows))).outcome is Outcome.FAIL
    over_a_file = filesystem(
        number=DeviceNumber(7, 0), name="loop0", stack=known(loop(known((disk(),))))
    )
    rows = (lsblk_row("loop0", DeviceNumber(7, 0)), lsblk_row())
    assert verdict(with_rows(fs=over_a_file, devices=known(rows))).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("on", "severity", "confidence"),
    [
        (with_rows(COPY), Severity.HIGH, Confidence.LIKELY),
        (with_rows(COPY, fstab=BY_PATH), Severity.MEDIUM, Confidence.LIKELY),
        (
            with_rows(COPY, fstab=BY_PATH, kernel_arguments=known((f"root=UUID={UUID}",))),
            Severity.HIGH,
            Confidence.LIKELY,
        ),
        (
            with_rows(COPY, fstab=known((fstab_entry(spec=f"/dev/disk/by-uuid/{UUID}"),))),
            Severity.HIGH,
            Confidence.LIKELY,
        ),
        # Two images of a system, neither of which is mounted or named in fstab.
        (
            with_rows(
                fs=filesystem(alive=False, mounts=()),
                fstab=BY_PATH,
                devices=known((lsblk_row(), COPY)),
            ),
            Severity.LOW,
            Confidence.LIKELY,
        ),
        (
            with_rows(
                COPY,
                unmounted=known(
                    (filesystem(number=SDB, alive=False, mounts=(), stack=known(disk("sdb", SDB))),)
                ),
            ),
            Severity.HIGH,
            Confidence.CONFIRMED,
        ),
    ],
)
def test_drf003_severity(on: Host, severity: Severity, confidence: Confidence) -> None:
    """It is high if the boot uses the identifier, and low if nothing is mounted by it."""
    (finding,) = verdict(on).findings
    assert (finding.severity, finding.confidence) == (severity, confidence)


ORIGIN, SNAPSHOT = DeviceNumber(253, 0), DeviceNumber(253, 3)
VOLUMES = (
    lsblk_row("vg0-data", ORIGIN, kernel_name="dm-0"),
    lsblk_row("vg0-data-real", DeviceNumber(253, 1), kernel_name="dm-1"),
    lsblk_row("vg0-snap-cow", DeviceNumber(253, 2), kernel_name="dm-2", fstype=None, uuid=None),
    lsblk_row("vg0-snap", SNAPSHOT, kernel_name="dm-3"),
)
ON_ORIGIN = filesystem(number=ORIGIN, name="dm-0", stack=known(disk("dm-0", ORIGIN)))
ON_SNAPSHOT = filesystem(number=SNAPSHOT, name="dm-3", stack=known(disk("dm-3", SNAPSHOT)))
WITHOUT_CHANGES = (VOLUMES[0], VOLUMES[3])


def test_drf003_page_does_not_promise_which_device_is_mounted() -> None:
    """The first device was once said to be mounted; in some systemd versions it is the last."""
    assert "the order of udev's events decides" in check.page


@pytest.mark.parametrize(
    ("mounted", "rows", "severity", "words"),
    [
        ((ON_ORIGIN,), VOLUMES, Severity.LOW, "udev prefers the origin"),
        ((ON_ORIGIN, ON_SNAPSHOT), VOLUMES, Severity.LOW, "udev prefers the origin"),
        ((), VOLUMES, Severity.LOW, "udev prefers the origin"),
        ((ON_SNAPSHOT,), VOLUMES, Severity.HIGH, "can mount any of them"),
        # A thin snapshot has neither a device for its changes nor a low link priority.
        ((ON_ORIGIN,), WITHOUT_CHANGES, Severity.HIGH, "can mount any of them"),
        ((ON_ORIGIN,), (*VOLUMES, COPY), Severity.HIGH, "can mount any of them"),
    ],
    ids="origin both none snapshot thin a-copy-beside".split(),
)
def test_drf003_severity_of_an_lvm_snapshot(
    mounted: tuple[Filesystem, ...], rows: tuple[LsblkDevice, ...], severity: Severity, words: str
) -> None:
    """lvm2 gives the links of a snapshot a low priority; between other devices chance decides."""
    (finding,) = verdict(host(*mounted, devices=known(rows), fstab=NAMED)).findings
    assert finding.severity is severity
    assert words in finding.message


def test_drf003_warns_of_the_merge_of_a_snapshot() -> None:
    """A merge writes all blocks of the snapshot into the origin, including its superblock."""
    on = host(ON_ORIGIN, devices=known(VOLUMES), fstab=NAMED)
    (finding,) = verdict(on).findings
    assert "lvconvert --merge" in (finding.remedies[0].trade_off or "")


def test_drf003_remedy_changes_the_uuid_of_the_copy() -> None:
    """The UUID is changed only on an unmounted device, and only if nothing else has it mounted."""
    (finding,) = verdict(with_rows(COPY)).findings
    assert finding.message == (
        f"sda, sdb have the same UUID {UUID}: fstab line 7 can mount any of them."
    )
    (remedy,) = finding.remedies
    checked = (
        f"test ! -e /sys/fs/ext4/sdb && {NOT_OPEN_CHECK.format(device='/dev/sdb')}"
        "{ e2fsck -f -p /dev/sdb || test $? -eq 1; }"
    )
    found = '"$(blkid -p -o value -s UUID /dev/sdb)"'
    is_old = f"test {found} = {UUID}"
    assert [(step.phase, step.command) for step in remedy.lines] == [
        (Phase.IMMEDIATE, checked),
        (Phase.IMMEDIATE, f"test ! -e /sys/fs/ext4/sdb && {is_old} && tune2fs -U random /dev/sdb"),
        (Phase.VERIFY, f"blkid -p /dev/sdb && test {found} != {UUID}"),
        (Phase.ROLLBACK, f"{checked} && test ! -e /sys/fs/ext4/sdb && tune2fs -U {UUID} /dev/sdb"),
    ]


def test_drf003_prints_no_command_if_both_are_mounted() -> None:
    """In this case only a person can identify the copy."""
    both = host(
        filesystem(),
        filesystem(number=SDB, name="sdb", device="/dev/sdb"),
        devices=known((lsblk_row(), COPY)),
    )
    (finding,) = verdict(both).findings
    (remedy,) = finding.remedies
    assert remedy.steps == ()
    assert remedy.summary.startswith("Find out which device is the copy, unmount it")
    idle = tuple(fs._replace(alive=False, mounts=()) for fs in both.filesystems)
    none = both._replace(filesystems=(), mounts=known(()), unmounted=known(idle))
    (remedy,) = verdict(with_superblock(none, EXTERNAL_JOURNAL)).findings[0].remedies
    assert "is the copy, recreate it (it shares the external journal" in remedy.summary


EXTERNAL_JOURNAL = superblock(journal_inode=0, journal_bytes=None, journal_device=0x701)


def with_two_paths(serial: str, *, is_mounted: bool = False) -> Host:
    """Build a host with a filesystem on /dev/sda, and one on a second disk of the SAN."""
    first, second = (
        disk(name, number, udev=(("ID_SERIAL", identity),))
        for name, number, identity in (("sda", DeviceNumber(8, 0), "1"), ("sdb", SDB, serial))
    )
    rows = (lsblk_row(transport="fc"), lsblk_row("sdb", SDB, transport="fc"))
    other = filesystem(number=SDB, name="sdb", stack=known(second))
    if not is_mounted:
        other = other._replace(alive=False, mounts=())
    mounted = (filesystem(stack=known(first)), *((other,) if is_mounted else ()))
    unmounted = () if is_mounted else (other,)
    return host(*mounted, devices=known(rows), unmounted=known(unmounted), fstab=NAMED)


def with_fixed_uuid(on: Host) -> Host:
    """Return a host whose unmounted filesystem has a feature that prevents a new UUID."""
    return with_superblock(on, superblock(features=frozenset({"encrypt", "stable_inodes"})))


def with_superblock(on: Host, held_by_unmounted: Superblock) -> Host:
    """Return a host whose unmounted filesystems have this superblock."""
    held = known(held_by_unmounted)
    return on._replace(
        unmounted=known(tuple(fs._replace(superblock=held) for fs in need(on.unmounted)))
    )


@pytest.mark.parametrize(
    ("on", "words"),
    [
        (with_two_paths("2"), "Give the copy sdb its own UUID."),
        (with_two_paths("1"), "Write through sda only"),
        (with_two_paths("1", is_mounted=True), "Write through sda only"),
        (
            with_fixed_uuid(with_two_paths("2")),
            "recreate the copy sdb: tune2fs cannot change its UUID",
        ),
        (
            with_superblock(with_two_paths("2"), EXTERNAL_JOURNAL),
            "the copy sdb: it shares the external journal",
        ),
        (with_two_paths(""), "First rule out that it is another path to the disk of sda"),
        (
            with_rows(
                lsblk_row("sdb", SDB, transport=None),
                devices=known((lsblk_row(transport=None), lsblk_row("sdb", SDB, transport=None))),
            ),
            "First rule out",
        ),
    ],
)
def test_drf003_prints_commands_only_for_a_certain_copy(on: Host, words: str) -> None:
    """On a second path, e2fsck and tune2fs would write to the mounted filesystem."""
    (finding,) = verdict(on).findings
    (remedy,) = finding.remedies
    assert words in remedy.summary
    assert bool(remedy.steps) is words.startswith("Give the copy")


@pytest.mark.parametrize("label", ["-L", "a\nb", "x'y", "\\x41"])
def test_drf003_prints_no_command_for_an_unusual_label(label: str) -> None:
    """What lsblk shows for such a label may differ from the label on the device."""
    rows = (lsblk_row("sda", label=label), lsblk_row("sdb", SDB, uuid=OTHER_UUID, label=label))
    named = known((fstab_entry(spec=f"LABEL={label}"),))
    (finding,) = verdict(with_rows(devices=known(rows), fstab=named)).findings
    assert [remedy.steps for remedy in finding.remedies] == [()]


@pytest.mark.parametrize(
    ("on", "cited", "summary"),
    [
        (
            with_rows(COPY),
            ["fstab line 7", f"ext4 UUID={UUID} LABEL=", f"ext4 UUID={UUID} LABEL="],
            "several devices have a UUID that fstab or root= uses",
        ),
        (
            with_rows(devices=known(LABELLED), fstab=known((fstab_entry(spec="LABEL=data"),))),
            [
                "fstab line 7",
                f"ext4 UUID={UUID} LABEL=data",
                f"ext4 UUID={OTHER_UUID} LABEL=data",
            ],
            "several devices have a LABEL that fstab or root= uses",
        ),
        (
            with_rows(COPY, fstab=BY_PATH),
            [f"ext4 UUID={UUID} LABEL=", f"ext4 UUID={UUID} LABEL="],
            "several devices have the same UUID",
        ),
        (
            host(ON_ORIGIN, devices=known(VOLUMES), fstab=BY_PATH),
            [f"ext4 UUID={UUID} LABEL="] * 2,
            "LVM snapshots have the UUID of their origin",
        ),
    ],
    ids="used-uuid used-label unused snapshot".split(),
)
def test_drf003_cites_users_and_devices_of_the_identifier(
    on: Host, cited: list[str], summary: str
) -> None:
    """The evidence is the entry that uses the identifier, and lsblk's row of each device."""
    (finding,) = verdict(on).findings
    uses = [c.label for c in finding.citations if c.label.startswith("fstab")]
    assert [*uses, *(c.value for c in finding.citations if c.label not in uses)] == cited
    assert finding.summary == summary


@pytest.mark.parametrize("transport", ["sata", "fc"])
def test_drf003_remedy_removes_the_label_of_the_copy(transport: str) -> None:
    """A filesystem needs no label, and different UUIDs show that there are two filesystems."""
    named = known((fstab_entry(spec='LABEL="data"'),))
    rows = known(tuple(row._replace(transport=transport) for row in LABELLED))
    (finding,) = verdict(with_rows(devices=rows, fstab=named)).findings
    commands = [step.command for remedy in finding.remedies for step in remedy.lines]
    label = '"$(blkid -p -o value -s LABEL /dev/sdb)"'
    assert commands[1:] == [
        f"test ! -e /sys/fs/ext4/sdb && test {label} = data && tune2fs -L '' /dev/sdb",
        f"blkid -p /dev/sdb && test {label} = ''",
        f"{commands[0]} && test ! -e /sys/fs/ext4/sdb && tune2fs -L data /dev/sdb",
    ]


# The copy of a mounted filesystem gets a different UUID or label.
COPIES: dict[str, str] = {}
"""The loop device of the copy of each device."""


@dataclass(frozen=True)
class CopyCase(RemedyCase):
    """A filesystem and its copy on a second loop device, with nothing else on the host.

    Other devices of this machine are ignored.
    """

    def run(self, rule: Rule, loop_mount: LoopMount) -> None:
        """Run the case, check that the copy is intact again, and free its device."""
        try:
            super().run(rule, loop_mount)
            run("e2fsck", "-fn", COPIES[loop_mount.device])
        finally:
            run("losetup", "--detach", COPIES.pop(loop_mount.device))

    def repeat(self, cure: Remedy, loop_mount: LoopMount) -> None:
        """Do not give the copy another UUID in a second run: something may already use this one."""
        identity = ("blkid", "-p", COPIES[loop_mount.device])
        before = run(*identity)
        super().repeat(cure, loop_mount)
        assert run(*identity) == before

    def use(self, loop_mount: LoopMount) -> None:
        """Mount the copy, as soon as it is distinct from the original, and write to it."""
        place = loop_mount.image.with_name("copy")
        place.mkdir()
        run("mount", "-t", "ext4", COPIES[loop_mount.device], place)
        try:
            (place / "used").write_text("since the last check")
        finally:
            run("umount", place)

    def judge(self, rule: Rule, loop_mount: LoopMount) -> Verdict:
        """Judge the host with only these two devices."""
        names = {
            name.removeprefix("/dev/") for name in (loop_mount.device, COPIES[loop_mount.device])
        }
        host = loop_mount.host(whole=True)
        ours = host._replace(
            filesystems=tuple(fs for fs in host.filesystems if fs.name in names),
            unmounted=Known(tuple(fs for fs in need(host.unmounted) if fs.name in names), "test"),
            devices=Known(tuple(d for d in need(host.devices) if d.name in names), "test"),
            container=known(None),
        )
        return judge(rule, None, ours)


def copy_device(loop_mount: LoopMount) -> None:
    """Copy the mounted device; fstab names the original by its UUID."""
    run("cp", "--reflink=never", loop_mount.device, f"{loop_mount.image}.copy")
    device = run("losetup", "--find", "--show", f"{loop_mount.image}.copy").strip()
    COPIES[loop_mount.device] = device
    uuid = run("blkid", "-p", "-o", "value", "-s", "UUID", loop_mount.device).strip()
    loop_mount.write_fstab("defaults", spec=f"UUID={uuid}")


def copy_device_with_new_uuid(loop_mount: LoopMount) -> None:
    """Leave only the label in common; fstab names the original by its label."""
    copy_device(loop_mount)
    run("e2fsck", "-fp", COPIES[loop_mount.device])
    run("tune2fs", "-U", "random", COPIES[loop_mount.device])
    loop_mount.write_fstab("defaults", spec=r"LABEL=two\040words")


REMEDY_CASES = (
    CopyCase(name="a UUID", remedy="its own UUID", prepare=copy_device, whole=True),
    CopyCase(
        name="a UUID, without metadata_csum",
        remedy="its own UUID",
        mke2fs=("-O", "^metadata_csum"),
        prepare=copy_device,
        whole=True,
    ),
    CopyCase(
        name="a UUID, with metadata_csum_seed",
        remedy="its own UUID",
        mke2fs=("-O", "metadata_csum_seed"),
        prepare=copy_device,
        whole=True,
    ),
    CopyCase(
        name="a label",
        remedy="its own LABEL",
        mke2fs=("-L", "two words"),
        prepare=copy_device_with_new_uuid,
        whole=True,
    ),
)
REMEDIES_NOT_RUN = "Which of two mounted filesystems is the copy, a person has to say."
