"""Where a mount does not bring back what an unmount takes away, no command unmounts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ext4audit.evidence import Evidence
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import ErrorCounters, Filesystem, Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Check, Disruption, Phase, Remedy, Step, Unmount
from ext4audit.remedies import with_losses
from ext4audit.remedies.unmounting import BY_FSTAB, NOT_SEEN
from support.builders import (
    disk,
    filesystem,
    fstab_entry,
    host,
    known,
    loop,
    mount,
    superblock,
    unknown,
)

MOUNT = "mount -t ext4 -o rw /dev/loop0 /data"
ANEW = Remedy(
    "Mount it anew.",
    Disruption.UNMOUNT,
    (Step(Phase.IMMEDIATE, "umount /data", MOUNT, change=Unmount("/data", MOUNT)),),
)


def with_loss(remedy: Remedy, fs: Filesystem, host: Host) -> Remedy:
    """Return a remedy as a report has it."""
    (shown,) = with_losses((remedy,), fs, host)
    return shown


def looped(autoclear: Evidence[bool]) -> BlockDevice:
    """Build a loop device."""
    device = loop()
    assert device.loop is not None
    return replace(device, loop=device.loop._replace(autoclear=autoclear))


def above(device: BlockDevice, kind: str) -> BlockDevice:
    """Build a device over a device."""
    return disk("top", DeviceNumber(9, 9), kind=kind, below=known((device,)))


def on(device: BlockDevice) -> Filesystem:
    """Build a filesystem on a device."""
    return filesystem(stack=known(device))


CLEARED, KEPT, UNSEEN = looped(known(value=True)), looped(known(value=False)), loop()


@pytest.mark.parametrize(
    ("fs", "reason"),
    [
        (on(CLEARED), "the unmount detaches /dev/loop0 from its image"),
        (on(UNSEEN), "the unmount may detach /dev/loop0 from its image"),
        (on(above(CLEARED, "partition")), "the unmount detaches /dev/loop0 from its image"),
        (on(above(CLEARED, "dm-linear")), None),
        (on(KEPT), None),
        (on(disk()), None),
        (filesystem(stack=unknown("stack")), None),
        (filesystem(mounts=(mount()._replace(mount_options=("rw", "idmapped")),)), "idmapped"),
        (filesystem(mounts=(mount(), mount("/also"))), "it is mounted on /data, /also, and"),
        (filesystem(mounts=(mount("/"), mount("/also"))), "the root cannot be unmounted"),
        (on(CLEARED)._replace(alive=False, mounts=()), None),
    ],
)
def test_a_remedy_that_loses_something_has_no_commands(fs: Filesystem, reason: str | None) -> None:
    """The summary says what; a device over the loop device keeps it."""
    shown = with_loss(ANEW, fs, host(fs))
    assert (shown == ANEW) is (reason is None)
    if reason:
        assert not shown.steps
        assert shown.summary.startswith("Mount it anew. No commands: ")
        assert reason in shown.summary


@pytest.mark.parametrize(
    ("remedy", "settings", "is_said"),
    [
        (ANEW, known(()), False),
        (ANEW, known((("mb_stats", 1),)), False),
        (ANEW, unknown("settings"), True),
        (ANEW._replace(steps=()), unknown("settings"), False),
    ],
)
def test_settings_that_were_not_captured_are_named(
    remedy: Remedy, settings: Evidence[tuple[tuple[str, int], ...]], *, is_said: bool
) -> None:
    """An unmount forgets them, and commands cannot bring back what the audit did not see."""
    fs = filesystem(settings=settings)
    shown = with_loss(remedy, fs, host(fs))
    assert shown.steps == remedy.steps
    assert shown.summary == (f"{remedy.summary} {NOT_SEEN}" if is_said else remedy.summary)


@pytest.mark.parametrize(
    ("remedy", "kept", "note"),
    [
        (ANEW, ("_netdev",), ""),
        (ANEW, (), ""),
        (ANEW, None, f" _netdev, x-a=b: {BY_FSTAB}"),
        (ANEW._replace(steps=()), None, ""),
    ],
)
def test_assumed_user_options_are_reported(
    remedy: Remedy, kept: tuple[str, ...] | None, note: str
) -> None:
    """Without the table of mount(8) it is not known whether the mount has what fstab says."""
    line = fstab_entry("noatime", "_netdev", "x-a=b")
    there = mount()._replace(user_options=kept)
    fs = filesystem(mounts=(there,), fstab=known((line,)))
    assert with_loss(remedy, fs, host(fs)).summary == f"{remedy.summary}{note}"
    bare = fs._replace(fstab=known((fstab_entry("noatime"),)))
    assert with_loss(remedy, bare, host(bare)) == remedy


@pytest.mark.parametrize("fs", [on(CLEARED), filesystem(mounts=(mount("/"),))])
@pytest.mark.parametrize(
    ("undo", "by_unmount"),
    [
        ("mount -o remount,a", "umount PLACE && mount PLACE"),
        ("", "umount PLACE && debugfs && mount PLACE"),
        ("", "cd / && umount -v PLACE && debugfs"),
        ("mount -o remount,a", ""),
        ("", ""),
    ],
)
def test_a_rollback_does_not_unmount_either(undo: str, by_unmount: str, fs: Filesystem) -> None:
    """The remedy itself stays, and of its rollback what needs no unmount."""
    step = Step(Phase.IMMEDIATE, "work", undo)
    by_unmount = by_unmount.replace("PLACE", fs.mount_points[0])
    both = step._replace(undo_by_unmount=by_unmount)
    shown = with_loss(Remedy("Do it.", Disruption.REMOUNT, (both,)), fs, host())
    assert shown.steps == (step,)
    assert ("There is no rollback that unmounts: the" in shown.summary) is bool(by_unmount)


@pytest.mark.parametrize(("places", "is_said"), [(("/a", "/b"), True), (("/a",), False)])
@pytest.mark.parametrize("undo", ["", "mount -o remount,a"])
def test_a_rollback_that_unmounts_one_of_several_mounts_says_so(
    undo: str, places: tuple[str, ...], *, is_said: bool
) -> None:
    """It fails while the other mounts keep the filesystem in use (seen on 6.18)."""
    step = Step(Phase.IMMEDIATE, "work", undo, undo_by_unmount="umount /a && mount /a")
    given = Remedy("Do it.", Disruption.ONLINE, (step,))
    fs = filesystem(mounts=tuple(mount(place) for place in places))
    (shown,) = with_losses((given,), fs, host(fs))
    note = " The rollback unmounts it, and fails while it is mounted on more than one of /a, /b."
    assert shown == given._replace(summary=f"Do it.{note if is_said else ''}")


@pytest.mark.parametrize(
    ("undo", "by_unmount", "rollback"),
    [
        ("mount -o remount,a", "umount / && x", "mount -o remount,a || { umount / && x; }"),
        ("", "umount / && x", "umount / && x"),
        ("mount -o remount,a", "", "mount -o remount,a"),
        ("", "", ""),
    ],
)
def test_a_rollback_unmounts_where_nothing_else_takes_a_step_back(
    undo: str, by_unmount: str, rollback: str
) -> None:
    """It is one command, which the report prints."""
    step = Step(Phase.IMMEDIATE, "work", undo)._replace(undo_by_unmount=by_unmount)
    assert step.rollback == rollback
    lines = Remedy("Do it.", Disruption.REMOUNT, (step,)).lines[1:]
    assert [line.command for line in lines] == [rollback] * bool(rollback)


@pytest.mark.parametrize(
    ("own", "around", "reason"),
    [
        ((), (), None),
        (("shared:7",), ("shared:1",), None),
        (("shared:7",), ("shared:1", "master:2"), None),
        ((), ("master:2",), None),
        ((), ("shared:1",), "is private, and that of a new one would be shared."),
        (("shared:7",), (), "is shared, and that of a new one would be private."),
        (("shared:7", "master:2"), ("shared:1",), "is shared and slave, and that of a new one"),
        (("unbindable",), (), "is unbindable, and"),
        (("master:2", "propagate_from:1"), ("master:1",), "is slave, and"),
    ],
)
def test_a_mount_whose_propagation_is_its_own_is_not_unmounted(
    own: tuple[str, ...], around: tuple[str, ...], reason: str | None
) -> None:
    """A new one takes over what is around it; a mount that is not in the table tells nothing."""
    root = mount("/", number=DeviceNumber(8, 1), mount_id=1)._replace(propagation=around)
    fs = filesystem(mounts=(mount()._replace(propagation=own),))
    both = host(fs, mounts=known((root, *fs.mounts)))
    shown = with_loss(ANEW, fs, both)
    assert (shown == ANEW) is (reason is None)
    assert (reason or "") in shown.summary
    assert with_loss(ANEW, fs, host(fs, mounts=known(fs.mounts))) == ANEW


FAILED = known(ErrorCounters(errors=2))
MARKED = known(superblock(state="clean with errors"))


@pytest.mark.parametrize(
    ("fs", "refused"),
    [
        (filesystem(errors=FAILED), True),
        (filesystem(superblock=MARKED), True),
        (filesystem(errors=unknown("errors")), False),
        (filesystem(), False),
    ],
)
def test_filesystem_with_errors_is_checked_before_the_mount(
    fs: Filesystem, *, refused: bool
) -> None:
    """The kernel may have stopped writes, and a mount would allow them again."""
    unchecked = with_loss(ANEW, fs, host(fs))
    assert (not unchecked.steps) is refused
    assert ("it has errors on record" in unchecked.summary) is refused
    there, back = ANEW.steps[0], Step(Phase.IMMEDIATE, MOUNT)
    check = Step(Phase.IMMEDIATE, "e2fsck -f -p /dev/sda", change=Check("/dev/sda"))
    checked = ANEW._replace(steps=(there, check, back))
    assert with_loss(checked, fs, host(fs)) == checked
