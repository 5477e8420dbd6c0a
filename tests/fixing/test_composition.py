"""Remedies in one script: each starts from the previous result, or is omitted."""

from __future__ import annotations

import pytest

from ext4audit.finding import (
    MOUNT_STRING,
    Assignment,
    Disruption,
    LineEdit,
    NewFile,
    NewMount,
    Phase,
    Remedy,
    Remount,
    Step,
    Unmount,
)
from ext4audit.fixing import ChosenRemedy
from ext4audit.fixing.composition import (
    Composition,
    Conflict,
    _difference,
    compose,
    merged,
    name_of,
)
from ext4audit.remedies import (
    Command,
    containing,
    mount_command,
    plain,
    quote,
    step,
    toggled,
    tuned,
)
from ext4audit.remedies.features import (
    add_journal_while_mounted,
    convert_to_64bit,
    enable_dir_index,
    enlarge_journal,
    move_journal_inside,
    set_feature,
    without_features,
)
from ext4audit.remedies.options import (
    clear_defaults,
    offline_string,
    store_default,
    superblock_change,
)
from ext4audit.remedies.superblock_fields import (
    reserve_nothing,
    set_inode_size,
    set_reserved_blocks,
)
from ext4audit.rules import all_rules
from support.builders import filesystem, known, superblock

RULE = next(rule for rule in all_rules() if rule.code == "DUR001")
BASE = "/dev/a\t/data  ext4 noatime,nobarrier,commit=300 0 2"


@pytest.mark.parametrize(
    ("after", "present", "expected"),
    [
        ("noatime,commit=300", "noatime,nobarrier", "noatime"),
        ("noatime,nobarrier", "noatime,commit=300", "noatime"),
        ("noatime,nobarrier,commit=300,nofail", "noatime", "noatime,nofail"),
        ("noatime,nobarrier,commit=5", "nobarrier,commit=300", "nobarrier,commit=5"),
        ("noatime,nobarrier", "nobarrier,commit=300", "nobarrier"),
        ("noatime", "nobarrier,commit=300", "defaults"),
        ("noatime", "noatime", "noatime"),
    ],
)
@pytest.mark.parametrize("end", [" 0 2", "\r"])
def test_options_are_merged_one_by_one(after: str, present: str, expected: str, end: str) -> None:
    """Blanks, other fields and the end of the present line are kept."""

    def line(options: str) -> str:
        head = BASE.partition("noatime,nobarrier,commit=300")[0]
        return f"{head}{options}{end}"

    base = line("noatime,nobarrier,commit=300")
    assert merged(base, line(after), line(present)) == line(expected)


def test_other_fields_are_merged_as_a_whole() -> None:
    """Device and options can be changed by two remedies; two devices conflict."""
    device = BASE.replace("/dev/a", "UUID=1")
    options = BASE.replace(",nobarrier", "")
    assert merged(BASE, device, options) == options.replace("/dev/a", "UUID=1")
    with pytest.raises(Conflict):
        merged(BASE, BASE.replace("/dev/a", "LABEL=x"), device)
    with pytest.raises(Conflict):
        merged(BASE, BASE.replace("=300", "=5"), BASE.replace("=300", "=30"))


def edit(before: str, after: str) -> Remedy:
    """Build a remedy that edits line 7."""
    step = Step(Phase.PERSISTENT, "sed", change=LineEdit("/etc/fstab", 7, before, after))
    return Remedy("Edit.", Disruption.ONLINE, (step,))


def test_edits_of_one_line_are_a_chain() -> None:
    """The second starts from the first's result; an edit without effect has no step."""
    made = Composition()
    first, second = BASE.replace(",nobarrier", ""), BASE.replace(",commit=300", "")
    made.add(edit(BASE, first))
    added = made.add(edit(BASE, second))
    last = first.replace(",commit=300", "")
    assert [step.change for step in added.steps] == [LineEdit("/etc/fstab", 7, first, last)]
    assert made.add(edit(BASE, first)).steps == ()
    assert made.chains == {("/etc/fstab", 7): [BASE, first, last]}


def test_an_edit_that_brings_a_line_back_contradicts_the_one_that_changed_it() -> None:
    """One remedy would undo the other; the chain is unchanged."""
    made = Composition()
    first = BASE.replace(",nobarrier", "")
    made.add(edit(BASE, first))
    with pytest.raises(Conflict, match="line 7 of /etc/fstab"):
        made.add(edit(first, BASE))
    assert made.chains == {("/etc/fstab", 7): [BASE, first]}


def remount(after: str) -> Remedy:
    """Build a remedy that remounts."""
    step = Step(Phase.IMMEDIATE, "mount", change=Remount("/data", (), (after,)))
    return Remedy("Remount.", Disruption.REMOUNT, (step,))


def again(*options: str, fstype: str = "ext4", then: str = "") -> Command:
    """Build the command that mounts with these options, and what follows it."""
    made = mount_command(fstype, ("rw", "noatime", *options), "/dev/a", "/data")
    return Command(made.text + then, ("mount",), mounts=(made,))


def unmounting(back: Command) -> Step:
    """Build an unmount that this command takes back."""
    return step(Phase.IMMEDIATE, plain("umount /data"), back, change=Unmount("/data", back.text))


def test_a_later_mount_keeps_what_an_earlier_remedy_changed() -> None:
    """This includes the mount that undoes the unmount."""
    there = unmounting(again("nobarrier", "data=writeback"))
    anew = step(Phase.IMMEDIATE, again("nobarrier"), change=NewMount("/data"))
    made = Composition()
    made.add(remount("barrier"))
    made.add(remount("relatime"))
    unmount, mount = made.add(Remedy("Anew.", Disruption.UNMOUNT, (there, anew))).steps
    kept = "mount -t ext4 -o rw,{}barrier,relatime /dev/a /data"
    assert unmount.undo == kept.format("data=writeback,")
    assert isinstance(unmount.change, Unmount)
    assert unmount.change.again == unmount.undo
    assert mount.command == kept.format("")
    with pytest.raises(Conflict, match="data=writeback of /data"):
        made.add(remount("data=writeback"))


@pytest.mark.parametrize("field", ["undo", "by_unmount"])
def test_a_rollback_that_mounts_again_keeps_it_too(field: str) -> None:
    """Also that of a step which unmounts nothing itself, such as tune2fs -O dir_index."""
    back = containing(f"umount /data && {again('nobarrier').text}", again("nobarrier"))
    undo, by_unmount = (back, plain("")) if field == "undo" else (plain(""), back)
    there = step(Phase.PERSISTENT, plain("tune2fs"), undo, by_unmount=by_unmount)
    made = Composition()
    made.add(remount("barrier"))
    (adapted,) = made.add(Remedy("Tune.", Disruption.ONLINE, (there,))).steps
    assert adapted.rollback == "umount /data && mount -t ext4 -o rw,noatime,barrier /dev/a /data"
    assert made.add(Remedy("Tune.", Disruption.ONLINE, (adapted,))).steps == (adapted,)


@pytest.mark.parametrize(("fstype", "left"), [("ext4", ""), ("ext3", ",delalloc")])
def test_a_later_mount_leaves_delalloc_to_be_the_default(fstype: str, left: str) -> None:
    """The kernel refuses it with data=journal, which norecovery had kept out of force."""
    there = unmounting(again("nodelalloc", "norecovery", fstype=fstype))
    made = Composition()
    made.add(remount("delalloc"))
    (unmount,) = made.add(Remedy("Anew.", Disruption.UNMOUNT, (there,))).steps
    assert unmount.undo == f"mount -t {fstype} -o rw,noatime,norecovery{left} /dev/a /data"


def test_steps_behind_a_remount_stay() -> None:
    """Steps after an edit are also kept, in order."""
    check = Step(Phase.VERIFY, "grep -qx barrier /proc/fs/ext4/a/options")
    steps = (*remount("barrier").steps, *edit(BASE, BASE.replace(",nobarrier", "")).steps, check)
    added = Composition().add(Remedy("All.", Disruption.REMOUNT, steps))
    assert added.steps == steps


def test_what_a_new_mount_changes() -> None:
    """The difference is by option; "" is an omitted one."""
    (old,), (new,) = again("nobarrier", "data=writeback").mounts, again("barrier").mounts
    assert _difference(old, new) == {"data": "", "barrier": "barrier"}
    assert _difference(old, old) == {}


def setting(device: str, name: str, value: str) -> Remedy:
    """Build a remedy that gives a field or a setting a value, which its command does not show."""
    sets = (Assignment(device, name, value),)
    return Remedy("Set.", Disruption.ONLINE, (Step(Phase.PERSISTENT, "set", sets=sets),))


MIB = 1 << 20
STRING = "nobarrier,nodelalloc"
FS = filesystem(superblock=known(superblock(mount_option_string=STRING, reserved_blocks=100)))
BIT_SET = filesystem(superblock=known(superblock(default_mount_options=("nobarrier",))))
SET_BIT = tuned(FS, "{tune2fs} -o nobarrier {device}", toggled(FS, "-o", ["nobarrier"]))


def of_string(**wanted: str) -> Remedy:
    """Build a remedy that writes the string of an unmounted superblock."""
    steps = offline_string(FS, superblock_change(FS, wanted))
    return Remedy("Write.", Disruption.ONLINE, steps)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (remount("commit=5"), remount("commit=30")),
        (remount("noatime"), remount("relatime")),
        (edit(BASE, BASE.replace("=300", "=5")), edit(BASE, BASE.replace("=300", "=30"))),
        tuple(
            Remedy(
                "Write.",
                Disruption.ONLINE,
                (Step(Phase.PERSISTENT, "x", change=NewFile("/etc/x", content)),),
            )
            for content in ("1\n", "2\n")
        ),
        (setting("/dev/a", "tune2fs -e", "panic"), setting("/dev/a", "tune2fs -e", "continue")),
        (setting("", "vm.x", "1"), setting("", "vm.x", "2")),
        (of_string(barrier="barrier"), of_string(delalloc="delalloc")),
        (
            of_string(barrier="barrier", delalloc="delalloc"),
            of_string(barrier="barrier"),
        ),
        (
            Remedy("Reserve.", Disruption.ONLINE, reserve_nothing(FS, 100)),
            Remedy("Reserve.", Disruption.ONLINE, set_reserved_blocks(FS, 50)),
        ),
    ],
)
def test_a_contradiction_leaves_the_later_remedy_out(first: Remedy, second: Remedy) -> None:
    """Nothing of the later remedy stays in the composition."""
    made = Composition()
    made.add(first)
    chains = {key: list(chain) for key, chain in made.chains.items()}
    with pytest.raises(Conflict):
        made.add(second)
    assert made.chains == chains
    assert made.add(first).summary == first.summary


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (set_feature(FS, "orphan_file"), without_features(FS, ["orphan_file"], planned=False)),
        (enlarge_journal(FS, 32 * MIB, 64 * MIB), enlarge_journal(FS, 32 * MIB, 128 * MIB)),
        (enlarge_journal(FS, 32 * MIB, 64 * MIB), set_feature(FS, "^has_journal")),
        (enlarge_journal(FS, 32 * MIB, 64 * MIB), move_journal_inside(FS, superblock())),
        (add_journal_while_mounted(FS), set_feature(FS, "^has_journal")),
        (enable_dir_index(FS), set_feature(FS, "^dir_index")),
        (convert_to_64bit(FS), set_feature(FS, "^64bit")),
        (set_inode_size(FS, 256), set_inode_size(FS, 512)),
        (store_default(FS, "data", "data=ordered"), store_default(FS, "data", "data=journal")),
        (clear_defaults(BIT_SET, {"barrier": "barrier"}), (step(Phase.PERSISTENT, SET_BIT),)),
    ],
    ids=str,
)
def test_opposite_settings_of_a_superblock_contradict(
    first: Remedy | tuple[Step, ...], second: Remedy | tuple[Step, ...]
) -> None:
    """A feature, an option, an inode size or a journal is set in one way only."""
    one, other = (
        each if isinstance(each, Remedy) else Remedy("Set.", Disruption.UNMOUNT, each)
        for each in (first, second)
    )
    assert one.steps
    assert other.steps
    made = Composition()
    made.add(one)
    with pytest.raises(Conflict):
        made.add(other)
    made.add(one)


def test_two_filesystems_are_no_contradiction() -> None:
    """Nor are two settings, and what both remedies want."""
    made = Composition()
    for device, name, value in (
        ("/dev/a", MOUNT_STRING, ""),
        ("/dev/b", MOUNT_STRING, "acl"),
        ("/dev/a", "tune2fs -e", "panic"),
        ("", "vm.x", "1"),
        ("", "vm.y", "2"),
        ("/dev/a", MOUNT_STRING, ""),
    ):
        assert made.add(setting(device, name, value)).steps


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("noatime", "atime"),
        ("strictatime", "atime"),
        ("dev", "nodev"),
        ("async", "sync"),
        ("barrier=0", "barrier"),
        ("dioread_lock", "dioread_nolock"),
        ("commit=5", "commit"),
        ("x-systemd.device-timeout=30s", "x-systemd.device-timeout"),
    ],
)
def test_a_word_is_about_one_thing(word: str, name: str) -> None:
    """The name does not depend on the state that the option requests."""
    assert name_of(word) == name


@pytest.mark.parametrize("option", ['x-a="1,noatime"', "x-a='", "x-ü", "x-a=b c"])
def test_any_option_of_a_mount_command_is_taken_as_it_is(option: str) -> None:
    """A later remedy keeps commas in quotes, quotes and non-ASCII characters."""
    made = Composition()
    made.add(remount("relatime"))
    old = again(option, then=" && echo 1 > /sys/x")
    (unmount,) = made.add(Remedy("Anew.", Disruption.UNMOUNT, (unmounting(old),))).steps
    assert unmount.undo == old.text.replace(
        quote(f"rw,noatime,{option}"), quote(f"rw,{option},relatime")
    )


@pytest.mark.parametrize("option", ["x-a=\n", "x-a=b\nc\n"])
def test_an_option_that_comes_to_stand_last_may_have_no_word(option: str) -> None:
    """A newline at the end is quoted in the middle of the options only; nothing is composed."""
    there = unmounting(again(option, "delalloc"))
    remedies = remount("delalloc"), Remedy("Anew.", Disruption.UNMOUNT, (there,))
    chosen = [ChosenRemedy(RULE, "it", each, ()) for each in remedies]
    done, left, _ = compose(chosen)
    assert [each.remedy for each in done] == [remedies[0]]
    assert [each.reason for each in left] == [
        "it contains a name that a shell script cannot contain"
    ]
