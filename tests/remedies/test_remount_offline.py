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
from ext4audit.remedies import MMP_NOTE, with_bigalloc, with_mmp, with_refusal
from ext4audit.remedies.checking import preen
from ext4audit.remedies.remount import by_hand, unmounted_steps, unopened, why_by_hand
from ext4audit.rules.durability.dur005_missing_journal import check
from support.builders import disk, filesystem, host, known, mount, options, superblock, unknown
from support.remedies.plain import UNOPENED, commands, printed

HELD = "test ! -e /sys/fs/ext4/sda && "
ROOT = filesystem(mounts=(mount("/"),))
ELSEWHERE = filesystem(mounts=())
TWICE = filesystem(mounts=(mount(), mount("/srv", mount_id=31)))
IDLE = filesystem(alive=False, mounts=())


def test_a_mounted_filesystem_is_unmounted_and_mounted_again() -> None:
    """Work and undo each stand between an unmount and a mount, checked against other holders."""
    steps = unmounted_steps(filesystem(), ("work",), ("verify",), ("undo",))
    around = ["umount /data", "mount -t ext4 -o rw,relatime /dev/sda /data"]
    assert commands(steps, Phase.IMMEDIATE) == [around[0], f"{HELD}work", around[1]]
    assert commands(steps, Phase.VERIFY) == ["verify"]
    assert commands(steps, Phase.ROLLBACK) == [around[0], f"{HELD}undo", around[1]]


def test_what_verifies_the_work_tells_that_it_need_not_be_done_again() -> None:
    """But for what cannot tell that while it is unmounted."""
    for verify_is_complete, done in ((True, "one && two"), (False, "")):
        (work, *_) = unmounted_steps(
            IDLE, ("work",), ("one", "two"), verify_is_complete=verify_is_complete
        )
        assert (work.command, work.done) == (
            f"{HELD}{UNOPENED.format(device='/dev/sda')}work",
            done,
        )
    (work, *_) = unmounted_steps(IDLE, ("work",), ("one", "two"))
    assert work.done == "one && two"


def test_without_undo_there_is_no_rollback() -> None:
    """An unmount and a mount with nothing between them is no rollback."""
    assert not commands(unmounted_steps(filesystem(), ("work",), ()), Phase.ROLLBACK)


def test_what_is_not_mounted_is_only_checked() -> None:
    """There is nothing to unmount."""
    steps = unmounted_steps(IDLE, ("work",), (), ("undo",))
    assert printed(steps) == (
        Step(Phase.IMMEDIATE, f"{HELD}work"),
        Step(Phase.ROLLBACK, f"{HELD}undo"),
    )


def test_whether_a_process_has_it_open_is_asked_once_before_the_replay() -> None:
    """A look at every file of every process takes seconds on a large host."""
    features = frozenset({"has_journal", "needs_recovery"})
    dirty = IDLE._replace(superblock=known(superblock(features=features)))
    replay, work = unmounted_steps(dirty, ("work",), ())
    opened = UNOPENED.format(device="/dev/sda")
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
        opened = UNOPENED.format(device=" ".join((stack.path, *wholes)))
        assert opened in preen(fs)[0].command
        dirty = fs._replace(superblock=known(superblock(features=frozenset({"needs_recovery"}))))
        (replay, *_) = unmounted_steps(dirty, ("work",), ())
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
    steps = unmounted_steps(fs, ("work",), ("verify",), ("undo",))
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
    opened = UNOPENED.format(device="/dev/sda")
    first, second = unmounted_steps(IDLE, ("one", "two"), ())
    assert (first.command, second.command) == (f"{HELD}{opened}one", f"{HELD}two")
    assert not any("find" in step.command for step in unmounted_steps(filesystem(), ("one",), ()))
    image = filesystem(
        alive=False,
        mounts=(),
        device="/a.img",
        stack=known(replace(disk(), kind="image", path="/a.img")),
    )
    (first,) = unmounted_steps(image, ("one",), ())
    assert 'stat -Lc %d:%i /a.img)" && one' in first.command


def test_a_partition_of_an_image_is_open_where_the_image_is(tmp_path: Path) -> None:
    """Its own name, with the offset behind "?", is that of no file."""
    path = tmp_path / "disk.img"
    path.touch()
    file = replace(disk(), kind="image", path=str(path), device_number=DeviceNumber(0, 2))
    part = replace(disk(), kind="partition", path=f"{path}?offset=1048576", below=known((file,)))
    check = unopened(filesystem(device=part.path, alive=False, mounts=(), stack=known(part)))
    assert run(["sh", "-c", check], check=False).returncode == 0
    with path.open():
        assert run(["sh", "-c", check], check=False).returncode == 1


REFUSED = Unknown("dumpe2fs -h /dev/sda", Why.DENIED, "Operation not permitted", OUTSIDE)
READ = Known(PrimarySuperblock(), "dumpe2fs -h /dev/sda")
NOTE = f" /dev/sda cannot be opened here, even by root: {OUTSIDE}."


@pytest.mark.parametrize(
    ("command", "primary", "told"),
    [
        ("tune2fs -O has_journal /dev/sda", REFUSED, True),
        ("umount /data && e2fsck -f -p /dev/sda", REFUSED, True),
        ("mount -o remount,rw /dev/sda /data", REFUSED, False),
        ("tune2fs -O has_journal /dev/sda", replace(REFUSED, hint="run as root"), False),
        ("tune2fs -O has_journal /dev/sda", READ, False),
    ],
)
def test_what_opens_a_refused_device_says_so(
    command: str, primary: Known[PrimarySuperblock] | Unknown, *, told: bool
) -> None:
    """Only what root was refused counts: a user can repeat the command as root."""
    remedy = Remedy("Do it.", Disruption.ONLINE, (Step(Phase.PERSISTENT, command),))
    shown = with_refusal(remedy, filesystem(primary=primary))
    assert shown.summary == f"Do it.{NOTE if told else ''}"


HERE = "test -e /sys/fs/ext4/sda && "
AWAY = "test ! -e /sys/fs/ext4/sda && "


@pytest.mark.parametrize(
    ("command", "undo", "forced"),
    [
        (
            "tune2fs -e panic /dev/sda",
            "tune2fs -e continue /dev/sda",
            (f"{HERE}tune2fs -f -e panic /dev/sda", f"{HERE}tune2fs -f -e continue /dev/sda"),
        ),
        (
            "touch a && tune2fs -O has_journal /dev/sda",
            f"umount /data && {AWAY}tune2fs -O ^has_journal /dev/sda",
            (
                f"touch a && {HERE}tune2fs -f -O has_journal /dev/sda",
                f"umount /data && {AWAY}tune2fs -O ^has_journal /dev/sda",
            ),
        ),
        (f"{AWAY}tune2fs -m 1 /dev/sda", "", None),
        ("tune2fs -l /dev/sda | grep -q a", "", None),
        ("mount -o remount,sync /dev/sda /data", "", None),
    ],
)
def test_tune2fs_is_forced_on_a_mounted_filesystem_with_mmp(
    command: str, undo: str, forced: tuple[str, str] | None
) -> None:
    """Where it is mounted here; unmounted, another host may have it, which -f would not see."""
    remedy = Remedy("Do it.", Disruption.ONLINE, (Step(Phase.PERSISTENT, command, undo),))
    marked = known(superblock(features=frozenset({"mmp"})))
    shown = with_mmp(remedy, filesystem(superblock=marked))
    step = shown.steps[0]
    assert (step.command, step.undo) == (forced or (command, undo))
    assert shown.summary == f"Do it.{MMP_NOTE if forced else ''}"
    others = filesystem(), filesystem(superblock=marked, alive=False, mounts=())
    assert all(with_mmp(remedy, fs) == remedy for fs in others)


def test_tune2fs_is_not_forced_between_unmount_and_mount() -> None:
    """The steps of one remedy follow each other."""
    there = Step(Phase.IMMEDIATE, "umount /data", change=Unmount("/data", "mount /data"))
    back = Step(Phase.IMMEDIATE, "mount -t ext4 /dev/sda /data", change=NewMount("/data"))
    write = Step(Phase.IMMEDIATE, "tune2fs -o ^acl /dev/sda")
    fs = filesystem(superblock=known(superblock(features=frozenset({"mmp"}))))
    remedy = Remedy("Do it.", Disruption.UNMOUNT, (there, write, back, write))
    forced = [step.command for step in with_mmp(remedy, fs).steps]
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
    assert unmounted_steps(whole, ("work",), ())


@pytest.mark.parametrize(
    ("command", "stays"),
    [
        ("tune2fs -O has_journal /dev/sda", True),
        ("tune2fs -O ^has_journal /dev/sda && { tune2fs -J size=64 /dev/sda || false; }", False),
        ("test ! -e /sys/fs/ext4/sda && resize2fs /dev/sda", False),
        ("test ! -e /sys/fs/ext4/sda && resize2fs -b /dev/sda", False),
        ("resize2fs /dev/sda", True),
        ("tune2fs -O ^has_journal /dev/sda", False),
        ("tune2fs -r 100 /dev/sda", True),
    ],
)
def test_what_e2fsprogs_cannot_do_with_clusters_has_no_commands(
    command: str, *, stays: bool
) -> None:
    """A journal that is removed leaves wrong counts; without bigalloc all is as before."""
    remedy = Remedy("Do it.", Disruption.ONLINE, (Step(Phase.PERSISTENT, command),))
    clustered = known(superblock(features=frozenset({"extent", "bigalloc"})))
    shown = with_bigalloc(remedy, filesystem(superblock=clustered))
    assert (shown == remedy) is stays
    assert stays or (shown.steps, "feature bigalloc" in shown.summary) == ((), True)
    assert with_bigalloc(remedy, filesystem()) == remedy


def test_a_rollback_that_e2fsprogs_cannot_do_with_clusters_is_left_out() -> None:
    """A journal is made correctly; taking it out again is not."""
    undo = "test ! -e /sys/fs/ext4/sda && tune2fs -O ^has_journal /dev/sda"
    there, make = Step(Phase.IMMEDIATE, "umount /data", "mount /data"), "tune2fs -O has_journal"
    remedy = Remedy("Do it.", Disruption.UNMOUNT, (there, Step(Phase.IMMEDIATE, make, undo)))
    clustered = known(superblock(features=frozenset({"extent", "bigalloc"})))
    shown = with_bigalloc(remedy, filesystem(superblock=clustered))
    assert [(step.command, step.undo) for step in shown.steps] == [("umount /data", ""), (make, "")]
    assert "There is no rollback" in shown.summary
    assert with_bigalloc(remedy, filesystem()) == remedy
