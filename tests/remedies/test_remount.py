"""Remounts that change the named options only, as exact commands."""

from __future__ import annotations

import subprocess
from importlib import resources
from typing import Any

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import SUPERBLOCK_FLAGS, EffectiveOption, Mount
from ext4audit.remedies.flags import remount_by_fstab
from ext4audit.remedies.remount import (
    bind_command,
    mount_again,
    remount_command,
    revert_steps,
    usable_mount,
    without_mount,
)
from support.builders import filesystem, fstab_entry, known, mount, options, unknown
from support.remedies.steps_as_text import step_and_undo_lines


def mounted(*tokens: str, fstab: str = "defaults", **changes: Any) -> Filesystem:
    """Build a filesystem mounted with these options, and with others in fstab."""
    values: dict[str, Any] = {
        "options": known(options(*tokens)),
        "mounts": (mount(super_options=("rw", *tokens)),),
        "fstab": known((fstab_entry(*fstab.split(",")),)),
    }
    return filesystem(**{**values, **changes})


READ_ONLY = (mount(flags=("ro", "noexec", "relatime"), super_options=("ro",)),)
NOATIME = (mount(flags=("rw", "noatime")),)
STRICT = (mount(flags=("rw",)),)
ALL = mount(
    flags=("rw", "nosuid", "nodev", "noexec", "nodiratime", "noatime"),
    super_options=("rw", "sync", "lazytime", "data=writeback"),
)
SEVERAL = "rw,nosuid,nodev,noexec,nodiratime,noatime,sync,lazytime"


@pytest.mark.parametrize(
    ("fs", "flags", "others"),
    [
        pytest.param(mounted(), "rw,relatime", "", id="fstab agrees"),
        pytest.param(mounted(fstab="barrier"), "rw,relatime", "", id="the option itself"),
        pytest.param(mounted(fstab="noauto,ro,noexec"), "rw,relatime", "", id="flags in fstab"),
        pytest.param(mounted(fstab="commit=77"), "rw,relatime", "", id="an option in fstab"),
        pytest.param(mounted(fstab="strictatime"), "rw,relatime", "", id="another atime in fstab"),
        pytest.param(filesystem(fstab=known(())), "rw,relatime", "", id="no entry"),
        pytest.param(filesystem(fstab=unknown("fstab")), "rw,relatime", "", id="fstab not read"),
        pytest.param(mounted(options=unknown("options")), "rw,relatime", "", id="options not read"),
        pytest.param(mounted(mounts=READ_ONLY), "ro,noexec,relatime", "", id="read-only"),
        pytest.param(mounted(mounts=NOATIME), "rw,noatime", "", id="noatime"),
        pytest.param(mounted(mounts=STRICT), "rw,strictatime", "", id="strictatime"),
        pytest.param(mounted(mounts=(ALL,)), SEVERAL, "data=writeback,", id="all flags"),
        pytest.param(mounted("commit=30"), "rw,relatime", "commit=30,", id="an option by hand"),
        pytest.param(
            mounted("nodioread_nolock"), "rw,relatime", "nodioread_nolock,", id="the kernel's word"
        ),
    ],
)
def test_only_the_named_option_changes(fs: Filesystem, flags: str, others: str) -> None:
    """Device and directory are named, so that fstab is not read, and every flag is repeated.

    A remount keeps each option of ext4 that is not named; a new mount does not.
    """
    (on,) = fs.mounts
    remount = f"mount -o remount,{flags},nobarrier /dev/sda /data"
    assert remount_command(on, ["nobarrier"]).text == remount
    anew = f"mount -t ext4 -o {flags},{others}nobarrier /dev/sda /data"
    assert mount_again(fs, on, ["nobarrier"], ["barrier"]).text == anew


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["relatime"], "rw,nosuid,nodev,noexec,nodiratime,sync,lazytime,relatime"),
        (["async"], "rw,nosuid,nodev,noexec,nodiratime,noatime,lazytime,async"),
        (["suid", "ro"], "nodev,noexec,nodiratime,noatime,sync,lazytime,suid,ro"),
        (["nosuid"], "rw,nodev,noexec,nodiratime,noatime,sync,lazytime,nosuid"),
        (["diratime", "nolazytime"], "rw,nosuid,nodev,noexec,noatime,sync,diratime,nolazytime"),
    ],
)
def test_a_flag_that_an_option_replaces_is_not_repeated(options: list[str], words: str) -> None:
    """Of noatime and relatime the last does not win (util-linux 2.38 on 6.18)."""
    assert remount_command(ALL, options).text == f"mount -o remount,{words} /dev/sda /data"


@pytest.mark.parametrize("flag", ["i_version", *sorted(SUPERBLOCK_FLAGS)])
def test_the_script_of_fix_repeats_what_a_remount_does(flag: str) -> None:
    """A remount clears each flag of the superblock that it omits, i_version too before 6.1.

    mount(8) spells that one iversion.
    """
    on = mount(flags=("rw", "noexec", "noatime"), super_options=("rw", "commit=30", flag))
    words = set(remount_command(on, []).text.split()[2].split(","))
    spelled = flag.replace("i_v", "iv")
    assert words == {"remount", "rw", "noexec", "noatime", spelled}
    library = resources.files("ext4audit.fixing").joinpath("fix.sh").read_text(encoding="utf-8")
    lists = f"flags={','.join(on.mount_options)} options={','.join(on.super_options)}"
    script = f"{library}\n{lists}; in_force false"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.strip().split(",")) == words - {"remount"}


@pytest.mark.parametrize(
    ("source", "word"), [("/dev/mapper/a b", "'/dev/mapper/a b'"), ("", "none"), ("a\n", "none")]
)
def test_remount_accepts_any_device_name(source: str, word: str) -> None:
    """The kernel does not look at it."""
    on = mount()._replace(source=source)
    assert (
        remount_command(on, ["barrier"]).text
        == f"mount -o remount,rw,relatime,barrier {word} /data"
    )


def test_flags_of_one_mount_are_named_with_bind() -> None:
    """Those of the superblock are not, and a mount that is ro stays so, whatever the superblock."""
    assert bind_command(ALL, ["ro"]).text == (
        "mount -o remount,bind,nosuid,nodev,noexec,nodiratime,noatime,ro /dev/sda /data"
    )
    frozen = mount(flags=("ro", "relatime"))
    assert bind_command(frozen, ["nodev"]).text == (
        "mount -o remount,bind,ro,relatime,nodev /dev/sda /data"
    )


def in_force(fs: Filesystem, *names: str) -> list[EffectiveOption]:
    """Return some options of a filesystem."""
    found = [fs.options.value.find(name) for name in names]  # type: ignore[union-attr]
    return [option for option in found if option is not None]


def test_options_go_back_to_their_baseline() -> None:
    """All at once; the rollback sets them as they are."""
    fs = mounted("commit=30", "nobarrier")
    assert step_and_undo_lines(revert_steps(fs, in_force(fs, "commit", "barrier"))) == [
        "immediate: mount -o remount,rw,relatime,commit=5,barrier /dev/sda /data",
        (
            "verify: grep -q . /proc/fs/ext4/sda/options && "
            "! grep -qx commit=30 /proc/fs/ext4/sda/options"
        ),
        (
            "verify: grep -q . /proc/fs/ext4/sda/options && "
            "! grep -qx nobarrier /proc/fs/ext4/sda/options"
        ),
        "rollback: mount -o remount,rw,relatime,commit=30,nobarrier /dev/sda /data",
    ]
    locked = mounted("nodioread_nolock")
    steps = revert_steps(locked, in_force(locked, "dioread_nolock"))
    assert step_and_undo_lines(steps) == [
        "immediate: mount -o remount,rw,relatime,dioread_nolock /dev/sda /data",
        (
            "verify: grep -q . /proc/fs/ext4/sda/options && "
            "! grep -qx nodioread_nolock /proc/fs/ext4/sda/options"
        ),
        "rollback: mount -o remount,rw,relatime,dioread_lock /dev/sda /data",
    ]


@pytest.mark.parametrize(
    ("token", "name", "at"),
    [
        ("nodelalloc", "delalloc", mount()),
        ("nobarrier", "barrier", mount("/a\n")),
        ("resv", "resv", mount()),
        ("nobarrier", "barrier", mount()._replace(overmounted=True)),
        ("nobarrier", "barrier", mount(flags=("ro",))),
    ],
    ids=["not by remount", "odd name", "no baseline", "hidden", "read-only mount"],
)
def test_no_command_if_a_remount_cannot_restore_the_option(
    token: str, name: str, at: Mount
) -> None:
    """Because of the option, or of the only mount."""
    fs = mounted(token, mounts=(at,))
    assert in_force(fs, name)
    assert revert_steps(fs, in_force(fs, name)) == ()


def test_remount_activates_the_options_of_an_entry() -> None:
    """And nothing else of it; the rollback names the opposites."""
    changed = [("commit=30", "commit=5"), ("dioread_nolock", "nodioread_nolock")]
    steps = remount_by_fstab(filesystem(), mount(), changed, ["noatime", "nosuid"])
    assert step_and_undo_lines(steps) == [
        "immediate: mount -o remount,rw,noatime,nosuid,commit=30,dioread_nolock /dev/sda /data",
        "verify: grep -qx commit=30 /proc/fs/ext4/sda/options",
        "verify: grep -qx dioread_nolock /proc/fs/ext4/sda/options",
        "verify: findmnt -nfd backward -o OPTIONS -M /data | tr , '\\n' | grep -qx noatime",
        "verify: findmnt -nfd backward -o OPTIONS -M /data | tr , '\\n' | grep -qx nosuid",
        "rollback: mount -o remount,rw,suid,relatime,commit=5,dioread_lock /dev/sda /data",
    ]
    strict = step_and_undo_lines(remount_by_fstab(filesystem(), mount(), [], ["strictatime"]))
    assert strict[1] == (
        "verify: findmnt -nfd backward -o OPTIONS -M /data | tr , '\\n' | grep -q . && "
        "! findmnt -nfd backward -o OPTIONS -M /data | tr , '\\n' | grep -qxE 'relatime|noatime'"
    )
    for at in (mount("/a\n"), mount()._replace(overmounted=True), mount(flags=("ro",))):
        assert remount_by_fstab(filesystem(), at, changed, []) == ()


@pytest.mark.parametrize(
    ("in_force", "flag", "back"),
    [
        (("rw",), "noatime", "rw,strictatime"),
        (("rw", "noatime"), "relatime", "rw,noatime"),
        (("rw", "relatime"), "ro", "relatime,rw"),
        (("rw", "relatime"), "lazytime", "rw,relatime,nolazytime"),
    ],
)
def test_rollback_of_a_flag(in_force: tuple[str, ...], flag: str, back: str) -> None:
    """The access times that were, also those that the mount table does not show."""
    steps = remount_by_fstab(filesystem(), mount(flags=in_force), [], [flag])
    assert step_and_undo_lines(steps)[-1] == f"rollback: mount -o remount,{back} /dev/sda /data"


HIDDEN = mount("/old", mount_id=29)._replace(overmounted=True)
PART = mount("/part", mount_id=28, root="/sub")
FROZEN = mount("/frozen", mount_id=27, flags=("ro",))
STOPPED = mount("/stopped", mount_id=26)._replace(super_options=("ro",))


@pytest.mark.parametrize(
    ("mounts", "chosen", "words"),
    [
        ((mount("/b", mount_id=31), mount("/a")), "/a", None),
        ((HIDDEN, PART, FROZEN, mount("/a")), "/a", None),
        ((HIDDEN, PART, FROZEN), PART.mount_point, None),
        ((), None, "in the mount namespace that has it mounted"),
        ((HIDDEN,), None, "as soon as no other mount hides it"),
        (
            (HIDDEN, PART),
            None,
            "through a mount of the whole filesystem, which this namespace lacks",
        ),
        (
            (FROZEN,),
            None,
            "through a writable mount of the whole filesystem, which this namespace lacks",
        ),
        ((STOPPED,), None, "as soon as the filesystem is writable again"),
    ],
)
def test_the_mount_to_work_on(
    mounts: tuple[Any, ...], chosen: str | None, words: str | None
) -> None:
    """The oldest of the whole tree that nothing hides, read-only as the superblock is.

    Where the whole tree has no such mount, one of a part is as good.
    """
    fs = filesystem(mounts=mounts)
    found = usable_mount(fs)
    assert (found.mount_point if found else None) == chosen
    assert words is None or without_mount(fs) == words


CONTEXT = 'context="system_u:object_r:container_file_t:s0:c1,c2"'


def kept(*user_options: str, options: tuple[str, ...] = ("rw",), **changes: Any) -> Filesystem:
    """Build a filesystem with options that only mount(8) keeps."""
    own = mount(super_options=options)._replace(user_options=user_options)
    return filesystem(**{"mounts": (own,), **changes})


IN_FSTAB = known((fstab_entry("noatime", "_netdev", "nofail", "x-systemd.requires=a.service"),))
SET = known((("mb_stats", 1), ("mb_stream_req", 16), ("mb_to_come", 7)))


@pytest.mark.parametrize(
    ("fs", "options", "settings"),
    [
        (kept("_netdev", "x-a"), "rw,relatime,_netdev,x-a", ""),
        (kept("x-a", options=("rw", "x-a")), "rw,relatime,x-a", ""),
        (kept("user", "x-a"), "user,x-a,suid,dev,exec,rw,relatime", ""),
        (kept(fstab=IN_FSTAB), "rw,relatime", ""),
        (
            filesystem(fstab=IN_FSTAB),
            "rw,relatime,_netdev,x-systemd.requires=a.service",
            "",
        ),
        (kept(options=("rw", "seclabel", "barrier", "vendors=1")), "rw,relatime,vendors=1", ""),
        (kept(options=("rw", CONTEXT)), f"'rw,relatime,{CONTEXT}'", ""),
        (kept(settings=SET), "rw,relatime", " && echo 1 > {0}/mb_stats && echo 7 > {0}/mb_to_come"),
    ],
)
def test_new_mount_keeps_active_options(fs: Filesystem, options: str, settings: str) -> None:
    """What the kernel shows, known or not, but what is replaced; and what it does not show."""
    again = mount_again(fs, fs.mounts[0], (), ("barrier",))
    settings = settings.format("/sys/fs/ext4/sda")
    assert again.text == f"mount -t ext4 -o {options} /dev/sda /data{settings}"
