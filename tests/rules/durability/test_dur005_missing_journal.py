"""DUR005: no journal, or a journal that the mount does not use."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import EffectiveOptions, Mount
from ext4audit.finding import Confidence, Disruption, Finding, Phase, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rule import Rule
from ext4audit.rules.durability.dur005_missing_journal import FLEETING, check
from support.builders import disk, filesystem, host, known, mount, options, superblock, unknown
from support.filesystems.scratch import apply_remedy, run
from support.remedies.case import LoopMount, RemedyCase

FEATURES_WITHOUT_JOURNAL = frozenset({"extent", "64bit", "flex_bg", "metadata_csum"})
WITHOUT_JOURNAL = known(superblock(features=FEATURES_WITHOUT_JOURNAL, journal_bytes=None))
UNKNOWN_FACT = unknown("it")


def verdict(fs: Filesystem) -> Verdict:
    """Judge a filesystem."""
    return judge(check, fs, host(fs))


def options_without_data_mode(*tokens: str) -> EffectiveOptions:
    """Build the options of a mount without a journal, which have no data= line."""
    full = options(*tokens)
    return full._replace(options=tuple(each for each in full.options if each.name != "data"))


def without_journal(**changes: Any) -> Filesystem:
    """Build a filesystem without a journal."""
    values: dict[str, Any] = {
        "options": known(options_without_data_mode()),
        "superblock": WITHOUT_JOURNAL,
    }
    values.update(changes)
    return filesystem(**values)


def unmounted_without_journal(**changes: Any) -> Filesystem:
    """Build an unmounted filesystem without a journal."""
    gap = unknown("it is not mounted")
    values = {"alive": False, "mounts": (), "options": gap, "fstype": gap, "read_only": gap}
    return without_journal(**{**values, **changes})


SMALL = known(disk(size_sectors=known((512 << 20) // 512)))
OUTCOMES = {
    "the default": (filesystem(), Outcome.PASS),
    "writeback": (filesystem(options=known(options("data=writeback"))), Outcome.PASS),
    "seen without root": (filesystem(superblock=UNKNOWN_FACT), Outcome.PASS),
    "by the superblock": (
        filesystem(options=known(options(complete=False))),
        Outcome.PASS,
    ),
    "none": (without_journal(), Outcome.FAIL),
    "none, seen without root": (without_journal(superblock=UNKNOWN_FACT), Outcome.FAIL),
    "none, by the superblock": (
        without_journal(options=known(options(complete=False))),
        Outcome.FAIL,
    ),
    "left out": (filesystem(options=known(options_without_data_mode("norecovery"))), Outcome.FAIL),
    "ext2": (without_journal(fstype=known("ext2")), Outcome.NOT_APPLICABLE),
    "read-only": (without_journal(read_only=known(value=True)), Outcome.NOT_APPLICABLE),
    "a small boot medium": (without_journal(stack=SMALL), Outcome.NOT_APPLICABLE),
    "a small filesystem on a device of unknown size": (
        without_journal(
            stack=UNKNOWN_FACT,
            superblock=known(WITHOUT_JOURNAL.value._replace(size_blocks=1 << 15)),
        ),
        Outcome.NOT_APPLICABLE,
    ),
    "a size that cannot be": (
        without_journal(
            stack=UNKNOWN_FACT, superblock=known(WITHOUT_JOURNAL.value._replace(size_blocks=0))
        ),
        Outcome.FAIL,
    ),
    "an image": (unmounted_without_journal(), Outcome.FAIL),
    "an image with a journal": (
        unmounted_without_journal(superblock=known(superblock())),
        Outcome.PASS,
    ),
    "an image of ext2": (
        unmounted_without_journal(superblock=known(superblock(features=frozenset()))),
        Outcome.NOT_APPLICABLE,
    ),
    "an image that cannot be read": (
        unmounted_without_journal(superblock=UNKNOWN_FACT),
        Outcome.UNDETERMINED,
    ),
    "nothing seen": (
        filesystem(options=known(options(complete=False)), superblock=UNKNOWN_FACT),
        Outcome.UNDETERMINED,
    ),
    "options not seen": (filesystem(options=UNKNOWN_FACT), Outcome.UNDETERMINED),
    "no table seen": (
        filesystem(options=known(options(complete=False)._replace(mount_table=None))),
        Outcome.UNDETERMINED,
    ),
    "no table seen, and none": (
        without_journal(options=known(options(complete=False)._replace(mount_table=None))),
        Outcome.FAIL,
    ),
    "type not seen": (without_journal(fstype=UNKNOWN_FACT), Outcome.UNDETERMINED),
}


@pytest.mark.parametrize(("fs", "outcome"), OUTCOMES.values(), ids=OUTCOMES.keys())
def test_dur005_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """The options file proves a journal in use, without root; otherwise the feature decides."""
    assert verdict(fs).outcome is outcome


def found(fs: Filesystem) -> Finding:
    """Return the finding of a filesystem."""
    (finding,) = verdict(fs).findings
    return finding


INSTANCE_STORE = known(disk(model="Amazon EC2 NVMe Instance Storage"))


EFFECT = "a crash can lose files and needs a full e2fsck"


@pytest.mark.parametrize(
    ("fs", "severity"),
    [
        (without_journal(mounts=(mount("/"),)), Severity.HIGH),
        (without_journal(mounts=(mount("/var/lib/mysql"),)), Severity.HIGH),
        (without_journal(mounts=(mount("/data"),)), Severity.MEDIUM),
        (without_journal(mounts=(mount("/various"),)), Severity.MEDIUM),
        (without_journal(mounts=(mount(FLEETING[0]),)), Severity.LOW),
        (without_journal(mounts=(mount("/var/cache/apt"),)), Severity.LOW),
        (without_journal(mounts=(mount("/var/lib/kafka"),), stack=INSTANCE_STORE), Severity.LOW),
        (without_journal(mounts=(mount("/var/log"),), stack=known(disk("zram1"))), Severity.LOW),
        (without_journal(mounts=()), Severity.MEDIUM),
        (unmounted_without_journal(), Severity.LOW),
    ],
    ids="root database data like-var tmp cache instance-store zram elsewhere not-mounted".split(),
)
def test_dur005_severity_by_mount_point_and_device(fs: Filesystem, severity: Severity) -> None:
    """The system and data below /var are valuable; data cleared at a restart is not."""
    finding = found(fs)
    assert finding.severity is severity
    assert finding.summary == f"the filesystem has no journal: {EFFECT}"


def test_severity_of_an_unmounted_filesystem() -> None:
    """An image without a journal may be intended for read-only use."""
    assert found(unmounted_without_journal()).confidence is Confidence.POSSIBLE


def test_dur005_commands_create_a_journal() -> None:
    """They unmount, check, tune and mount; the rollback removes the journal."""
    (remedy,) = found(without_journal(fstab=known(()))).remedies
    forward = [s.command for s in remedy.lines if s.phase is Phase.IMMEDIATE]
    assert forward[0] == "umount /data"
    assert forward[2] == "test ! -e /sys/fs/ext4/sda && tune2fs -O has_journal /dev/sda"
    assert forward[-1].endswith("/data")
    back = [s.command for s in remedy.lines if s.phase is Phase.ROLLBACK]
    assert back[1] == "test ! -e /sys/fs/ext4/sda && tune2fs -O ^has_journal /dev/sda"
    assert remedy.trade_off is not None
    assert remedy.trade_off.startswith("It takes 512 MiB. ")


ROOT = mount("/")
BIND = mount("/srv", root="/srv", mount_id=31)
ON_THE_MOUNT = "Create a journal on the mounted filesystem, which uses it from the next mount on."
EVERYWHERE = "Restart, or unmount it everywhere and mount it again"
AGAIN = mount("/again", mount_id=31)


@pytest.mark.parametrize(
    ("mounts", "summary"),
    [
        (
            (ROOT,),
            f"{ON_THE_MOUNT} Restart.",
        ),
        (
            (mount(), AGAIN),
            f"{ON_THE_MOUNT} {EVERYWHERE}.",
        ),
    ],
    ids=["root", "several mounts"],
)
def test_journal_is_created_online_if_unmounting_is_impossible(
    mounts: tuple[Mount, ...], summary: str
) -> None:
    """A restart makes it used; it cannot be removed before that, so there is no rollback."""
    (remedy,) = found(without_journal(mounts=mounts)).remedies
    assert (remedy.summary, remedy.disruption) == (summary, Disruption.REBOOT)
    assert [step.phase for step in remedy.steps] == [Phase.PERSISTENT, Phase.VERIFY]
    assert remedy.steps[0].command.endswith(" && tune2fs -O has_journal /dev/sda")
    assert "CONFIG_BLK_DEV_WRITE_MOUNTED=n" in (remedy.trade_off or "")


@pytest.mark.parametrize(
    ("mounts", "where"),
    [
        ((ROOT, BIND), "from a rescue system, because the root cannot be unmounted"),
        ((BIND,), "as soon as it is not mounted anywhere"),
        ((), "as soon as the mount namespace that uses it has unmounted it"),
        ((mount("/a\nb\n"),), "as soon as it is not mounted anywhere"),
    ],
    ids=["bind beside the root", "bind", "elsewhere", "unquotable"],
)
def test_no_tune2fs_command_on_bind_mounts_and_other_namespaces(
    mounts: tuple[Mount, ...], where: str
) -> None:
    """It creates a file below the first mount that it finds, or assumes that nothing is mounted."""
    (remedy,) = found(without_journal(mounts=mounts)).remedies
    assert (remedy.steps, remedy.summary) == ((), f"Create a journal, {where}.")


@pytest.mark.parametrize(
    ("point", "disruption"), [("/", Disruption.REBOOT), ("/data", Disruption.UNMOUNT)]
)
def test_journal_created_online_is_used_from_the_next_mount(
    point: str, disruption: Disruption
) -> None:
    """It is not created twice."""
    fs = without_journal(superblock=known(superblock()), mounts=(mount(point),))
    finding = found(fs)
    assert finding.message.startswith("The journal is not in use before the next mount: ")
    assert finding.summary == f"the journal is not in use before the next mount: {EFFECT}"
    (remedy,) = finding.remedies
    assert (remedy.steps, remedy.disruption) == ((), disruption)
    assert remedy.summary.startswith("Restart")


def test_journal_unused_due_to_norecovery_is_not_created_again() -> None:
    """With norecovery the journal exists, and a mount without the option uses it."""
    finding = found(filesystem(options=known(options_without_data_mode("norecovery"))))
    assert finding.message.startswith("norecovery disables the journal: ")
    assert finding.summary == f"norecovery disables the journal: {EFFECT}"
    assert "without norecovery" in finding.remedies[0].summary


def test_norecovery_without_a_journal_needs_a_new_journal() -> None:
    """A mount without the option has no journal either: it has to be created first."""
    finding = found(without_journal(options=known(options_without_data_mode("norecovery"))))
    assert finding.message.startswith("The filesystem has no journal: ")
    assert "create a journal (tune2fs -O has_journal), and" in finding.remedies[0].summary


def mount_twice(loop_mount: LoopMount) -> None:
    """Mount it a second time on the same directory, so that no single command can unmount it."""
    run("mount", "--bind", loop_mount.mount_point, loop_mount.mount_point)


class MountedCase(RemedyCase):
    """A journal that is created while mounted: it is unused until the next mount."""

    def run(self, rule: Rule, loop_mount: LoopMount) -> None:
        """See the rule fail, create the journal, see it unused, remount, see the rule pass."""
        self.set_up(loop_mount)
        apply_remedy(self.find(self.judge(rule, loop_mount)))
        (waiting,) = self.judge(rule, loop_mount).findings
        assert "not in use before the next mount" in waiting.message
        assert (loop_mount.mount_point / ".journal").exists()
        loop_mount.unmount()
        run("e2fsck", "-p", loop_mount.device)
        run("e2fsck", "-fn", loop_mount.device)
        loop_mount.mount()
        assert self.judge(rule, loop_mount).outcome is Outcome.PASS
        assert not (loop_mount.mount_point / ".journal").exists()


def test_decisive_mount_point_is_shown() -> None:
    """Without it, nothing in the report shows why the severity is high."""
    points = ("/a", "/b", "/c", "/srv")
    (finding,) = verdict(without_journal(mounts=tuple(mount(point) for point in points))).findings
    assert finding.severity is Severity.HIGH
    assert "/srv, /a, /b and 1 more" in [cited.value for cited in finding.citations]


# A journal is created, and removed again.
REMEDY_CASES = (
    RemedyCase(
        name="mounted",
        remedy="Create a journal",
        mke2fs=("-O", "^has_journal"),
        size="2G",
        fstab="noatime",
        mount="noatime",
    ),
    RemedyCase(
        name="mounted as fstab does not say",
        remedy="Create a journal",
        mke2fs=("-O", "^has_journal"),
        size="2G",
        fstab="defaults",
        mount="nosuid,noatime",
    ),
    RemedyCase(
        name="not mounted",
        remedy="Create a journal",
        mke2fs=("-O", "^has_journal"),
        size="2G",
        mounted=False,
    ),
    RemedyCase(
        name="mounted, with bigalloc",
        remedy="Create a journal",
        mke2fs=("-O", "^has_journal,bigalloc"),
        size="2G",
        fstab="noatime",
        mount="noatime",
        restores=False,
    ),
    RemedyCase(
        name="not mounted, with bigalloc",
        remedy="Create a journal",
        mke2fs=("-O", "^has_journal,bigalloc"),
        size="2G",
        mounted=False,
        restores=False,
    ),
    MountedCase(
        name="mounted twice",
        remedy="on the mounted filesystem",
        mke2fs=("-O", "^has_journal"),
        size="2G",
        prepare=mount_twice,
    ),
)
