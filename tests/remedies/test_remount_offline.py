"""Work on an unmounted filesystem: where there are commands, in which order, and when none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from subprocess import run

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import OUTSIDE, Known, Unknown, Why
from ext4audit.facts.devices import DmDevice
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import DeviceNumber
from ext4audit.facts.superblock import PrimarySuperblock
from ext4audit.finding import Check, Disruption, NewMount, Phase, Remedy, Step, Unmount
from ext4audit.remedies import (
    Command,
    Work,
    containing,
    joined,
    plain,
    step,
    tuned,
)
from ext4audit.remedies.checking import preen
from ext4audit.remedies.features import (
    add_journal,
    convert_to_64bit,
    enlarge_journal,
    move_journal_inside,
)
from ext4audit.remedies.obstacles import MMP_NOTE, with_bigalloc, with_mmp, with_refusal
from ext4audit.remedies.remount import by_hand, unmounted_steps, unopened, why_by_hand
from ext4audit.remedies.superblock_fields import (
    grow_to_device,
    grow_unmounted,
    reserve_nothing,
)
from ext4audit.rules.durability.dur005_missing_journal import check
from support.builders import (
    disk,
    filesystem,
    host,
    known,
    loop,
    mount,
    options,
    superblock,
    unknown,
)
from support.remedies.steps_as_text import NOT_OPEN_CHECK, commands, printed_steps

HELD = "test ! -e /sys/fs/ext4/sda && "
ROOT = filesystem(mounts=(mount("/"),))
ELSEWHERE = filesystem(mounts=())
TWICE = filesystem(mounts=(mount(), mount("/srv", mount_id=31)))
IDLE = filesystem(alive=False, mounts=())
WORK, UNDO = Work(plain("work")), Work(plain("undo"))


def test_a_mounted_filesystem_is_unmounted_and_mounted_again() -> None:
    """Work and undo each stand between an unmount and a mount, checked against other holders."""
    steps = unmounted_steps(filesystem(), (WORK,), (plain("verify"),), (UNDO,))
    around = ["umount /data", "mount -t ext4 -o rw,relatime /dev/sda /data"]
    assert commands(steps, Phase.IMMEDIATE) == [around[0], f"{HELD}work", around[1]]
    assert commands(steps, Phase.VERIFY) == ["verify"]
    assert commands(steps, Phase.ROLLBACK) == [around[0], f"{HELD}undo", around[1]]


def test_verification_serves_as_the_done_check() -> None:
    """But for what cannot tell that while it is unmounted."""
    for verify_is_complete, done in ((True, "one && two"), (False, "")):
        (work, *_) = unmounted_steps(
            IDLE,
            (WORK,),
            (plain("one"), plain("two")),
            verify_is_complete=verify_is_complete,
        )
        assert (work.command, work.done) == (
            f"{HELD}{NOT_OPEN_CHECK.format(device='/dev/sda')}work",
            done,
        )
    (work, *_) = unmounted_steps(IDLE, (WORK,), (plain("one"), plain("two")))
    assert work.done == "one && two"


def test_without_undo_there_is_no_rollback() -> None:
    """An unmount and a mount with nothing between them is no rollback."""
    assert not commands(unmounted_steps(filesystem(), (WORK,), ()), Phase.ROLLBACK)


def test_what_is_not_mounted_is_only_checked() -> None:
    """There is nothing to unmount."""
    steps = unmounted_steps(IDLE, (WORK,), (), (UNDO,))
    assert printed_steps(steps) == (
        Step(Phase.IMMEDIATE, f"{HELD}work"),
        Step(Phase.ROLLBACK, f"{HELD}undo"),
    )


def test_whether_a_process_has_it_open_is_asked_once_before_the_replay() -> None:
    """A look at every file of every process takes seconds on a large host."""
    features = frozenset({"has_journal", "needs_recovery"})
    dirty = IDLE._replace(superblock=known(superblock(features=features)))
    replay, work = unmounted_steps(dirty, (WORK,), ())
    opened = NOT_OPEN_CHECK.format(device="/dev/sda")
    assert replay.command == f"{HELD}{opened}{{ e2fsck -p /dev/sda || test $? -eq 1; }}"
    assert work.command == f"{HELD}work"


def test_a_process_may_not_have_open_what_the_device_is_a_part_of() -> None:
    """A virtual machine has its whole disk open, and the host sees partitions and volumes on it."""
    zvol = disk("zd0")
    part = disk("zd0p1", kind="partition", below=known((zvol,)))
    volume = disk("dm-3", kind="dm-linear", below=known((part,)), path="/dev/mapper/guest-root")
    path = disk("dm-4", kind="dm", below=known((zvol,)), dm=DmDevice("a", "mpath-1", unknown("it")))
    raid = disk("md0", kind="raid1", below=known((zvol,)))
    for stack, wholes in (
        (zvol, ()),
        (part, ("/dev/zd0",)),
        (volume, ("/dev/zd0p1", "/dev/zd0")),
        (path, ()),
        (raid, ()),
    ):
        fs = IDLE._replace(stack=known(stack), device=stack.path)
        opened = NOT_OPEN_CHECK.format(device=" ".join((stack.path, *wholes)))
        assert opened in preen(fs)[0].command
        dirty = fs._replace(superblock=known(superblock(features=frozenset({"needs_recovery"}))))
        (replay, *_) = unmounted_steps(dirty, (WORK,), ())
        assert opened in replay.command
        assert replay.change == Check(stack.path, is_forced=False, wholes=wholes)


@pytest.mark.parametrize(
    ("fs", "words"),
    [
        (ROOT, ", from a rescue system, because the root cannot be unmounted"),
        (ELSEWHERE, ", as soon as the mount namespace that uses it has unmounted it"),
        (TWICE, ", as soon as it is not mounted anywhere"),
        (filesystem(device="/dev/\0"), ", as soon as it is not mounted anywhere"),
        (filesystem(mounts=(mount("/data\n"),)), ", as soon as it is not mounted anywhere"),
        (
            filesystem(stack=known(replace(disk(), kind="e2image"))),
            ", as soon as it is not mounted anywhere",
        ),
        (
            filesystem(
                device="a?b.img", stack=known(replace(disk(), kind="image", path="a?b.img"))
            ),
            ", as soon as it is not mounted anywhere",
        ),
    ],
    ids=["root", "elsewhere", "twice", "device", "mount point", "e2image", "name of an image"],
)
def test_where_commands_do_not_suffice_there_are_none(fs: Filesystem, words: str) -> None:
    """The summary then ends with the place where the work can be done."""
    steps = unmounted_steps(fs, (WORK,), (plain("verify"),), (UNDO,))
    assert steps == ()
    assert by_hand(fs, steps) == words


def test_a_summary_with_steps_has_no_such_clause() -> None:
    """The steps are complete."""
    assert by_hand(ROOT, (Step(Phase.IMMEDIATE, "work"),)) == ""


def test_what_holds_a_filesystem_is_named_where_it_is_known() -> None:
    """Without a mount table that has it, an open file is as likely."""
    unseen = ELSEWHERE._replace(fstype=unknown("filesystem type"))
    assert why_by_hand(ELSEWHERE) == "as soon as the mount namespace that uses it has unmounted it"
    assert "no mount namespace and no open file uses it" in why_by_hand(unseen)


def test_only_the_first_command_for_what_is_not_mounted_asks_who_has_it_open() -> None:
    """A virtual machine may have: e2fsck does not notice it. What was just unmounted is not asked.

    Nodes of one device differ between mount namespaces, and files are told by their inodes.
    """
    opened = NOT_OPEN_CHECK.format(device="/dev/sda")
    first, second = unmounted_steps(IDLE, (Work(plain("one")), Work(plain("two"))), ())
    assert (first.command, second.command) == (f"{HELD}{opened}one", f"{HELD}two")
    assert not any(
        "find" in step.command for step in unmounted_steps(filesystem(), (Work(plain("one")),), ())
    )
    image = filesystem(
        alive=False,
        mounts=(),
        device="/a.img",
        stack=known(replace(disk(), kind="image", path="/a.img")),
    )
    (first,) = unmounted_steps(image, (Work(plain("one")),), ())
    assert 'stat -Lc %d:%i /a.img)" && one' in first.command


def test_a_partition_of_an_image_is_open_where_the_image_is(tmp_path: Path) -> None:
    """Its own name, with the offset behind "?", is that of no file."""
    path = tmp_path / "disk.img"
    path.touch()
    file = replace(disk(), kind="image", path=str(path), device_number=DeviceNumber(0, 2))
    part = replace(disk(), kind="partition", path=f"{path}?offset=1048576", below=known((file,)))
    check = unopened(filesystem(device=part.path, alive=False, mounts=(), stack=known(part)))
    assert run(["sh", "-c", check.text], check=False).returncode == 0
    with path.open():
        assert run(["sh", "-c", check.text], check=False).returncode == 1


def test_a_loop_device_is_open_where_its_file_is(tmp_path: Path) -> None:
    """QEMU opens the file that an administrator has attached to look into it."""
    path = tmp_path / "disk.img"
    path.touch()
    device = loop()
    part = replace(disk("loop0p1"), kind="partition", below=known((device,)))
    for stack in (device, part):
        fs = filesystem(device=stack.path, alive=False, mounts=(), stack=known(stack))
        of_device, of_file = unopened(fs).text.split(" && ")
        assert "/dev/loop0" in of_device
        asked = '"$(cat /sys/block/loop0/loop/backing_file)"'
        command = of_file.replace(asked, str(path))
        assert command != of_file
        assert run(["sh", "-c", command], check=False).returncode == 0
        with path.open():
            assert run(["sh", "-c", command], check=False).returncode == 1


REFUSED = Unknown("dumpe2fs -h /dev/sda", Why.DENIED, "Operation not permitted", OUTSIDE)
READ = Known(PrimarySuperblock(), "dumpe2fs -h /dev/sda")
NOTE = f" /dev/sda cannot be opened here, even by root: {OUTSIDE}."


@pytest.mark.parametrize(
    ("programs", "primary", "is_noted"),
    [
        (["tune2fs"], REFUSED, True),
        (["umount", "e2fsck"], REFUSED, True),
        (["dumpe2fs"], REFUSED, True),
        (["mkfs.ext4"], REFUSED, True),
        (["mount"], REFUSED, False),
        (["tune2fs"], replace(REFUSED, hint="run as root"), False),
        (["tune2fs"], READ, False),
    ],
)
def test_what_opens_a_refused_device_says_so(
    programs: list[str], primary: Known[PrimarySuperblock] | Unknown, *, is_noted: bool
) -> None:
    """Only what root was refused counts: a user can repeat the command as root."""
    command = Command("echo tune2fs /dev/sda", tuple(programs))
    remedy = Remedy("Do it.", Disruption.ONLINE, (step(Phase.PERSISTENT, command),))
    shown = with_refusal(remedy, filesystem(primary=primary))
    assert shown.summary == f"Do it.{NOTE if is_noted else ''}"


HERE = "test -e /sys/fs/ext4/sda && "
AWAY = "test ! -e /sys/fs/ext4/sda && "


MARKED = filesystem(superblock=known(superblock(features=frozenset({"mmp"}))))


@pytest.mark.parametrize(
    ("command", "undo", "forced"),
    [
        (
            tuned(MARKED, "{tune2fs} -e panic {device}"),
            tuned(MARKED, "{tune2fs} -e continue {device}"),
            (f"{HERE}tune2fs -f -e panic /dev/sda", f"{HERE}tune2fs -f -e continue /dev/sda"),
        ),
        (
            tuned(MARKED, "touch a && {tune2fs} -O {what} {device}", what="has_journal"),
            plain(f"umount /data && {AWAY}tune2fs -O ^has_journal /dev/sda"),
            (
                f"touch a && {HERE}tune2fs -f -O has_journal /dev/sda",
                f"umount /data && {AWAY}tune2fs -O ^has_journal /dev/sda",
            ),
        ),
        (plain(f"{AWAY}tune2fs -m 1 /dev/sda"), plain(""), None),
        (
            joined(plain(AWAY[:-4]), tuned(MARKED, "{tune2fs} -m 1 {device}")),
            plain(""),
            None,
        ),
        (plain("tune2fs -l /dev/sda | grep -q a"), plain(""), None),
        (plain("echo tune2fs -m 1 /dev/sda"), plain(""), None),
    ],
)
def test_tune2fs_is_forced_on_a_mounted_filesystem_with_mmp(
    command: Command, undo: Command, forced: tuple[str, str] | None
) -> None:
    """Where it is mounted here; unmounted, another host may have it, which -f would not see."""
    change = step(Phase.PERSISTENT, command, undo)
    remedy = Remedy("Do it.", Disruption.ONLINE, (change,))
    shown = with_mmp(remedy, MARKED)
    (made,) = shown.steps
    assert (made.command, made.undo) == (forced or (command.text, undo.text))
    assert shown.summary == f"Do it.{MMP_NOTE if forced else ''}"
    others = filesystem(), MARKED._replace(alive=False, mounts=())
    assert all(with_mmp(remedy, fs) == remedy for fs in others)
    left_out = remedy._replace(steps=(change._replace(undo=""),))
    assert [each.undo for each in with_mmp(left_out, MARKED).steps] == [""]


def test_tune2fs_is_not_forced_between_unmount_and_mount() -> None:
    """The steps of one remedy follow each other."""
    there = Step(Phase.IMMEDIATE, "umount /data", change=Unmount("/data", "mount /data"))
    back = Step(Phase.IMMEDIATE, "mount -t ext4 /dev/sda /data", change=NewMount("/data"))
    write = step(Phase.IMMEDIATE, tuned(MARKED, "{tune2fs} -o ^acl {device}"))
    remedy = Remedy("Do it.", Disruption.UNMOUNT, (there, write, back, write))
    forced = [each.command for each in with_mmp(remedy, MARKED).steps]
    assert ["-f" in each for each in forced] == [False, False, False, True]


def test_the_engine_adds_it_to_findings() -> None:
    """A filesystem without a journal in a container."""
    full = options()
    listed = full._replace(options=tuple(each for each in full.options if each.name != "data"))
    fs = filesystem(primary=REFUSED, superblock=REFUSED, options=known(listed))
    (finding,) = judge(check, fs, host(fs)).findings
    assert finding.remedies[0].summary.endswith(NOTE)


def test_a_whole_image_is_written_as_a_device_is() -> None:
    """e2fsprogs opens a file as it opens a device."""
    whole = filesystem(alive=False, mounts=(), stack=known(replace(disk(), kind="image")))
    assert unmounted_steps(whole, (WORK,), ())


CLUSTERED = filesystem(superblock=known(superblock(features=frozenset({"extent", "bigalloc"}))))
AWKWARD = Command("work", ("tune2fs",), not_on_bigalloc=True)


@pytest.mark.parametrize(
    ("command", "stays"),
    [
        (plain("echo tune2fs -O ^has_journal /dev/sda"), True),
        (AWKWARD, False),
        (joined(plain("first"), AWKWARD), False),
        (containing("{ work || true; }", AWKWARD), False),
    ],
)
def test_what_e2fsprogs_cannot_do_with_clusters_has_no_commands(
    command: Command, *, stays: bool
) -> None:
    """A journal that is removed leaves wrong counts; without bigalloc all is as before."""
    remedy = Remedy("Do it.", Disruption.ONLINE, (step(Phase.PERSISTENT, command),))
    shown = with_bigalloc(remedy, CLUSTERED)
    assert (shown == remedy) is stays
    assert stays or (shown.steps, "feature bigalloc" in shown.summary) == ((), True)
    assert with_bigalloc(remedy, filesystem()) == remedy


@pytest.mark.parametrize(
    ("steps", "stays"),
    [
        (add_journal(CLUSTERED)[1:3], True),
        (convert_to_64bit(CLUSTERED), False),
        (grow_unmounted(CLUSTERED, 0), False),
        (grow_to_device(CLUSTERED, 0), True),
        (reserve_nothing(CLUSTERED, 100), True),
        (move_journal_inside(CLUSTERED, superblock(journal_uuid="u")), False),
        (enlarge_journal(CLUSTERED, 8 << 20, 64 << 20).steps, False),
    ],
)
def test_remedies_that_need_clusters_of_one_block_say_so(
    steps: tuple[Step, ...], *, stays: bool
) -> None:
    """resize2fs works with clusters if the filesystem is mounted."""
    assert steps
    remedy = Remedy("Do it.", Disruption.ONLINE, steps)
    assert bool(with_bigalloc(remedy, CLUSTERED).steps) is stays


def test_a_rollback_that_e2fsprogs_cannot_do_with_clusters_is_left_out() -> None:
    """A journal is made correctly; taking it out again is not."""
    there, make = Step(Phase.IMMEDIATE, "umount /data", "mount /data"), plain("make")
    remedy = Remedy("Do it.", Disruption.UNMOUNT, (there, step(Phase.IMMEDIATE, make, AWKWARD)))
    shown = with_bigalloc(remedy, CLUSTERED)
    assert [(each.command, each.undo) for each in shown.steps] == [
        ("umount /data", ""),
        ("make", ""),
    ]
    assert "There is no rollback" in shown.summary
    assert with_bigalloc(remedy, filesystem()) == remedy
    assert with_bigalloc(shown, CLUSTERED) == shown
    by_unmount = step(Phase.IMMEDIATE, make, by_unmount=AWKWARD)
    assert not with_bigalloc(remedy._replace(steps=(by_unmount,)), CLUSTERED).steps[0].rollback
