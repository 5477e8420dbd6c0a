"""What holds a filesystem is named before it is unmounted: from facts, and when a command runs."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber, Mount
from ext4audit.finding import Disruption, Phase, Remedy, Step
from ext4audit.remedies import with_users
from ext4audit.remedies.unmounting import users_sentence
from support.builders import filesystem, host, known, loop, mount, superblock, unknown

ROOT = mount("/", number=DeviceNumber(8, 1), mount_id=1)
DATA = mount("/data", mount_id=30)


UNMOUNT = (Step(Phase.IMMEDIATE, "umount /data"),)


def overlay(point: str, *options: str) -> Mount:
    """Build an overlay on a directory of the root."""
    number = DeviceNumber(0, 50)
    seen = mount(point, number=number, mount_id=60, fstype="overlay")
    return seen._replace(super_options=("rw", *options), source="overlay")


def with_table(*mounts: Mount, **changes: Any) -> tuple[Filesystem, Host]:
    """Build /data, and a host with these mounts beside it."""
    fs = filesystem(mounts=(DATA,), **changes)
    return fs, host(fs, mounts=known((ROOT, DATA, *mounts)))


IMAGE = filesystem(number=DeviceNumber(7, 0), name="loop0", stack=known(loop()))
BELOW = mount("/data/tmp", number=DeviceNumber(0, 44), mount_id=40, fstype="tmpfs")
HOLDERS = {
    "nothing": ((), ""),
    "the upper directory": (
        (overlay("/merged", "lowerdir=/usr", "upperdir=/data/up", "workdir=/data/work"),),
        "the overlay on /merged",
    ),
    "one of the lower": ((overlay("/m", "lowerdir=/usr:/data/a:/b"),), "the overlay on /m"),
    "a lower by fsconfig": ((overlay("/m", "lowerdir+=/data/a"),), "the overlay on /m"),
    "the mount point": ((overlay("/m", "lowerdir=/data"),), "the overlay on /m"),
    "a namesake": ((overlay("/m", "lowerdir=/database:relative"),), ""),
    "a mount that hides it": (
        (BELOW._replace(parent_id=1), overlay("/m", "lowerdir=/data/tmp/a")),
        "",
    ),
    "a mount on it": ((BELOW._replace(parent_id=30),), "the mount on /data/tmp"),
}


@pytest.mark.parametrize(
    ("options", "features", "reported"),
    [
        (("rw", "usrjquota=aquota.user", "jqfmt=vfsv1"), "", True),
        (("rw", "quota", "usrquota"), "", True),
        (("rw", "quota", "usrquota"), "quota", False),
        (("rw",), "", False),
    ],
)
def test_quotas_of_the_old_format_are_turned_on_by_hand(
    options: tuple[str, ...], features: str, *, reported: bool
) -> None:
    """A mount turns on those of the feature only."""
    held = known(superblock(features=frozenset({"extent", *features.split()})))
    fs = filesystem(mounts=(DATA._replace(super_options=options),), superblock=held)
    remedy = with_users(Remedy("Do it.", Disruption.UNMOUNT, UNMOUNT), fs, host(fs))
    assert remedy.summary.endswith("(quotaon): the unmount turns them off.") == reported


@pytest.mark.parametrize(("mounts", "name"), HOLDERS.values(), ids=HOLDERS.keys())
def test_users_are_named_by_the_mount_table(mounts: tuple[Mount, ...], name: str) -> None:
    """An overlay holds the filesystem of each of its directories, a mount the one below it."""
    expected = f" First stop everything that uses it: {name}." if name else ""
    assert users_sentence(*with_table(*mounts)) == expected


def test_a_loop_device_holds_the_filesystem_of_its_image() -> None:
    """It is found in the stack of whatever filesystem lies on it."""
    fs = filesystem()
    named = " First stop everything that uses it: the loop device loop0 (image /var/lib/image.img)."
    assert users_sentence(fs, host(fs, IMAGE)) == named
    assert users_sentence(fs, host(fs, unmounted=known((IMAGE,)))) == named
    assert users_sentence(IMAGE, host(fs, IMAGE)) == ""


def test_the_other_mounts_of_it_are_users() -> None:
    """An unmount of one place leaves the others."""
    fs = filesystem(mounts=(DATA, mount("/again", mount_id=31)))
    assert (
        users_sentence(fs, host(fs)) == " First stop everything that uses it: the mount on /again."
    )


def test_hundreds_of_users_are_counted() -> None:
    """Nobody reads the names of all containers."""
    many = [
        overlay(f"/c/{each}", f"upperdir=/data/{each}")._replace(mount_id=100 + each)
        for each in range(200)
    ]
    end = "the overlay on /c/0, the overlay on /c/1, the overlay on /c/2 and 197 more."
    assert users_sentence(*with_table(*many)).endswith(end)


def test_an_unread_mount_table_names_nothing() -> None:
    """The sentence adds to a remedy, and decides nothing."""
    fs = filesystem()
    assert users_sentence(fs, host(fs, mounts=unknown("mount table"))) == ""


@pytest.mark.parametrize(
    ("disruption", "alive", "named"),
    [
        (Disruption.UNMOUNT, True, True),
        (Disruption.UNMOUNT, False, False),
        (Disruption.REMOUNT, True, False),
        (Disruption.REBOOT, True, False),
    ],
)
def test_users_are_named_only_if_a_remedy_unmounts(
    disruption: Disruption, *, alive: bool, named: bool
) -> None:
    """A remount disturbs no holder, and a restart stops all of them."""
    fs, on = with_table(overlay("/merged", "lowerdir=/data"), alive=alive)
    remedy = with_users(Remedy("Do it.", disruption, UNMOUNT), fs, on)
    assert (remedy.summary != "Do it.") is named


def test_users_are_not_named_for_advice() -> None:
    """Nothing that is run would be refused."""
    fs, on = with_table(overlay("/merged", "lowerdir=/data"))
    advice = Remedy("Use other drives.", Disruption.UNMOUNT)
    assert with_users(advice, fs, on) == advice


def test_users_are_not_named_for_the_root() -> None:
    """It cannot be unmounted: the remedy says from where to work."""
    fs = filesystem(mounts=(ROOT, mount("/again", mount_id=31)))
    remedy = Remedy("Do it.", Disruption.UNMOUNT, UNMOUNT)
    assert with_users(remedy, fs, host(fs)) == remedy


def test_an_automount_below_it_is_named() -> None:
    """One of another directory, or not below this mount, has nothing to do with it."""
    trap = mount("/data", number=DeviceNumber(0, 40), mount_id=29, fstype="autofs")
    other = mount("/other", number=DeviceNumber(0, 41), mount_id=28, fstype="autofs")
    fs = filesystem(mounts=(DATA._replace(parent_id=29),))
    reported = users_sentence(fs, host(fs, mounts=known((ROOT, other, trap, *fs.mounts))))
    assert reported == " First stop everything that uses it: the automount of /data."
    assert users_sentence(*with_table(trap, other)) == ""
