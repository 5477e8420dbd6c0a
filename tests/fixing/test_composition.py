"""Remedies in one script: each starts from the previous result, or is omitted."""

from __future__ import annotations

import pytest

from ext4audit.finding import Disruption, LineEdit, NewFile, Phase, Remedy, Remount, Step, Unmount
from ext4audit.fixing.composition import Composition, Conflict, _difference, merged, name_of
from ext4audit.remedies import quote

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


AGAIN = "mount -t ext4 -o rw,noatime,{} /dev/a /data"


def test_a_later_mount_keeps_what_an_earlier_remedy_changed() -> None:
    """This includes the mount that undoes the unmount."""
    old, new = AGAIN.format("nobarrier,data=writeback"), AGAIN.format("nobarrier")
    steps = (
        Step(Phase.IMMEDIATE, "umount /data", old, change=Unmount("/data", old)),
        Step(Phase.IMMEDIATE, new, "umount /data"),
    )
    made = Composition()
    made.add(remount("barrier"))
    made.add(remount("relatime"))
    unmount, again = made.add(Remedy("Anew.", Disruption.UNMOUNT, steps)).steps
    kept = "mount -t ext4 -o rw,{}barrier,relatime /dev/a /data"
    assert unmount.undo == kept.format("data=writeback,")
    assert isinstance(unmount.change, Unmount)
    assert unmount.change.again == unmount.undo
    assert again.command == kept.format("")


@pytest.mark.parametrize(("fstype", "left"), [("ext4", ""), ("ext3", ",delalloc")])
def test_a_later_mount_leaves_delalloc_to_be_the_default(fstype: str, left: str) -> None:
    """The kernel refuses it with data=journal, which norecovery had kept out of force."""
    old = AGAIN.format("nodelalloc,norecovery").replace("ext4", fstype)
    step = Step(Phase.IMMEDIATE, "umount /data", old, change=Unmount("/data", old))
    made = Composition()
    made.add(remount("delalloc"))
    (unmount,) = made.add(Remedy("Anew.", Disruption.UNMOUNT, (step,))).steps
    assert unmount.undo == f"mount -t {fstype} -o rw,noatime,norecovery{left} /dev/a /data"


def test_steps_behind_a_remount_stay() -> None:
    """Steps after an edit are also kept, in order."""
    check = Step(Phase.VERIFY, "grep -qx barrier /proc/fs/ext4/a/options")
    steps = (*remount("barrier").steps, *edit(BASE, BASE.replace(",nobarrier", "")).steps, check)
    added = Composition().add(Remedy("All.", Disruption.REMOUNT, steps))
    assert added.steps == steps


def test_what_a_new_mount_changes() -> None:
    """The difference is by option; "" is an omitted one. Other commands change nothing."""
    old, new = AGAIN.format("nobarrier,data=writeback"), AGAIN.format("barrier")
    assert _difference(old, new) == {"data": "", "barrier": "barrier"}
    assert _difference(old, old) == {}
    assert _difference(old, "umount /data") == {}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (remount("commit=5"), remount("commit=30")),
        (remount("noatime"), remount("relatime")),
        (edit(BASE, BASE.replace("=300", "=5")), edit(BASE, BASE.replace("=300", "=30"))),
        *(
            tuple(
                Remedy("Write.", Disruption.ONLINE, (Step(Phase.PERSISTENT, each, change=change),))
                for each, change in pair
            )
            for pair in (
                [("x", NewFile("/etc/x", "1\n")), ("x", NewFile("/etc/x", "2\n"))],
                [("tune2fs -e panic /dev/a", None), ("tune2fs -e continue /dev/a", None)],
                [("tune2fs -E mount_opts=a /dev/a", None), ("tune2fs -E mount_opts= /dev/a", None)],
                [("sysctl -w vm.x=1", None), ("sysctl -w vm.x=2", None)],
            )
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
    old = f"mount -t ext4 -o {quote(f'rw,noatime,{option}')} /dev/a /data && echo 1 > /sys/x"
    step = Step(Phase.IMMEDIATE, "umount /data", old, change=Unmount("/data", old))
    (unmount,) = made.add(Remedy("Anew.", Disruption.UNMOUNT, (step,))).steps
    assert unmount.undo == old.replace(
        quote(f"rw,noatime,{option}") or "", quote(f"rw,{option},relatime") or ""
    )
