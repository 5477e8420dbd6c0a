from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import Mount, Provenance
from ext4audit.finding import Disruption, Phase, Step
from ext4audit.remedies import in_force
from ext4audit.remedies.options import change_option, change_options, disruption
from support.builders import filesystem, fstab_entry, known, mount, options, superblock, unknown
from support.remedies.shell import RemedyShell
from support.remedies.steps_as_text import commands, printed_steps, step_and_undo_lines

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
BITS, STRING, MOUNT = Provenance.SUPERBLOCK_BITS, Provenance.SUPERBLOCK_STRING, Provenance.MOUNT


@dataclass(frozen=True)
class Case:
    """A filesystem as an administrator left it, and the options that it should have."""

    wanted: dict[str, str]
    provenances: dict[str, Provenance]
    fstab: str = "defaults"
    by_hand: str = ""
    tune: tuple[str, ...] = ()
    superblock_seen: bool = True
    mount_point: str = "data"
    lasts: bool = True
    live: bool = True
    expected: tuple[str, ...] = field(default=())


CASES = {
    "fstab": Case({"barrier": "barrier"}, {"barrier": MOUNT}, "noatime,nobarrier"),
    "fstab alias and flags": Case(
        {"barrier": "barrier"}, {"barrier": MOUNT}, "nosuid,barrier=0,noexec,lazytime"
    ),
    "bits": Case({"barrier": "barrier"}, {"barrier": BITS}, tune=("tune2fs -o nobarrier DEV",)),
    "string": Case(
        {"barrier": "barrier"}, {"barrier": STRING}, tune=("tune2fs -E mount_opts=barrier=0 DEV",)
    ),
    "string of two": Case(
        {"barrier": "barrier"},
        {"barrier": STRING},
        tune=("debugfs -w -R 'set_super_value mount_opts nobarrier,commit=30' DEV",),
        expected=("commit=30",),
    ),
    "string of three": Case(
        {"barrier": "barrier"},
        {"barrier": STRING},
        tune=("debugfs -w -R 'set_super_value mount_opts commit=30,nobarrier,stripe=64' DEV",),
        expected=("commit=30", "stripe=64"),
    ),
    "string of three, mounted by hand": Case(
        {"barrier": "barrier"},
        {"barrier": STRING},
        fstab="",
        by_hand="nosuid,noatime",
        tune=("debugfs -w -R 'set_super_value mount_opts commit=30,nobarrier,stripe=64' DEV",),
        expected=("commit=30", "stripe=64"),
    ),
    "bits and fstab": Case(
        {"barrier": "barrier"},
        {"barrier": BITS},
        "nobarrier",
        tune=("tune2fs -o nobarrier DEV",),
    ),
    "bits, not seen": Case(
        {"barrier": "barrier"},
        {"barrier": Provenance.SUPERBLOCK},
        tune=("tune2fs -o nobarrier DEV",),
        superblock_seen=False,
    ),
    "string, not seen": Case(
        {"barrier": "barrier"},
        {"barrier": Provenance.SUPERBLOCK},
        tune=("tune2fs -E mount_opts=nobarrier DEV",),
        superblock_seen=False,
    ),
    "string without a bit, not seen": Case(
        {"auto_da_alloc": "auto_da_alloc"},
        {"auto_da_alloc": Provenance.SUPERBLOCK},
        tune=("tune2fs -E mount_opts=noauto_da_alloc DEV",),
        superblock_seen=False,
    ),
    "by hand, no fstab": Case(
        {"barrier": "barrier"},
        {"barrier": MOUNT},
        fstab="",
        by_hand="nosuid,nobarrier",
        lasts=False,
    ),
    "by hand, read-only and noexec, fstab differs": Case(
        {"barrier": "barrier"},
        {"barrier": MOUNT},
        fstab="defaults,nobarrier",
        by_hand="ro,noexec,strictatime,sync,nobarrier",
    ),
    "read-only in fstab": Case({"barrier": "barrier"}, {"barrier": MOUNT}, "ro,nobarrier"),
    "fstab blocks remounts by nodelalloc": Case(
        {"barrier": "barrier"}, {"barrier": MOUNT}, "nodelalloc,nobarrier", "nosuid,nobarrier"
    ),
    "fstab blocks remounts by data": Case(
        {"barrier": "barrier"}, {"barrier": MOUNT}, "data=writeback,nobarrier", "nobarrier,noatime"
    ),
    "nodelalloc in fstab": Case({"delalloc": "delalloc"}, {"delalloc": MOUNT}, "nodelalloc"),
    "nodelalloc in bits": Case(
        {"delalloc": "delalloc"}, {"delalloc": BITS}, tune=("tune2fs -o nodelalloc DEV",)
    ),
    "nodelalloc by hand": Case(
        {"delalloc": "delalloc"}, {"delalloc": MOUNT}, "", "nodev,noatime,nodelalloc", lasts=False
    ),
    "dioread_lock must be said": Case({"dioread_nolock": "nodioread_nolock"}, {}, "noatime"),
    "dioread_nolock is replaced": Case(
        {"dioread_nolock": "nodioread_nolock"}, {"dioread_nolock": MOUNT}, "noatime,dioread_nolock"
    ),
    "dioread_nolock again": Case(
        {"dioread_nolock": "dioread_nolock"}, {"dioread_nolock": MOUNT}, "nodioread_nolock"
    ),
    "noauto_da_alloc": Case(
        {"auto_da_alloc": "auto_da_alloc"}, {"auto_da_alloc": MOUNT}, "noauto_da_alloc"
    ),
    "noauto_da_alloc wanted": Case({"auto_da_alloc": "noauto_da_alloc"}, {}, "defaults"),
    "discard in bits": Case(
        {"discard": "nodiscard"}, {"discard": BITS}, tune=("tune2fs -o discard DEV",)
    ),
    "a value": Case({"commit": "commit=5"}, {"commit": MOUNT}, "commit=60,noatime"),
    "two bits and a string at once": Case(
        {"barrier": "barrier", "delalloc": "delalloc", "auto_da_alloc": "auto_da_alloc"},
        {"barrier": BITS, "delalloc": BITS, "auto_da_alloc": STRING},
        tune=(
            "tune2fs -o nobarrier,nodelalloc DEV",
            "tune2fs -E mount_opts=noauto_da_alloc DEV",
        ),
    ),
    "data in bits": Case(
        {"data": "data=ordered"},
        {"data": BITS},
        tune=("tune2fs -o journal_data_writeback DEV",),
        live=False,
    ),
    "data in fstab": Case(
        {"data": "data=ordered"}, {"data": MOUNT}, "noatime,data=writeback", live=False
    ),
    "a hostile mount point": Case(
        {"barrier": "barrier"},
        {"barrier": MOUNT},
        "nobarrier",
        mount_point="-my $(touch pwned)\t'\"\n\x1b[31m\udcff #&|\\",
    ),
}


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    """Give each case its own test."""
    assert isinstance(request.param, Case)
    return request.param


@pytest.fixture
def shell(case: Case, tmp_path: Path) -> Iterator[RemedyShell]:
    """Make the filesystem of a case and mount it as the case says."""
    shell = RemedyShell(tmp_path, case.mount_point)
    try:
        for command in case.tune:
            shell.check(command.replace("DEV", shell.device))
        shell.write_fstab(case.fstab)
        shell.mount(case.by_hand)
        yield shell
    finally:
        shell.close()


def steps_of(case: Case, shell: RemedyShell) -> tuple[Step, ...]:
    """Compute the steps from the facts of the mounted filesystem."""
    unseen = {} if case.superblock_seen else {"superblock": unknown("the superblock")}
    fs = shell.filesystem(case.provenances, superblock_seen=case.superblock_seen, **unseen)
    return change_options(fs, case.wanted)


@needs_root
@pytest.mark.kernel
def test_the_steps_change_the_option_now_and_for_good(case: Case, shell: RemedyShell) -> None:
    """Run as printed, they put the option in force, keep the flags, and survive a new mount."""
    steps = steps_of(case, shell)
    before = shell.mountinfo()
    verify = commands(steps, Phase.VERIFY)
    assert not verify or not all(shell.run(command).returncode == 0 for command in verify)
    for command in commands(steps, Phase.IMMEDIATE, Phase.PERSISTENT):
        shell.check(command)
    assert shell.mountinfo().mount_options == before.mount_options
    if case.live:
        assert set(case.wanted.values()) < set(shell.tokens())
        for command in verify:
            shell.check(command)
    if case.lasts:
        shell.unmount()
        shell.mount("" if case.fstab else "defaults")
        assert {*case.wanted.values(), *case.expected} < set(shell.tokens())
        for command in verify:
            shell.check(command)


@needs_root
@pytest.mark.kernel
def test_the_rollback_brings_the_old_state_back(case: Case, shell: RemedyShell) -> None:
    """Options, flags, fstab and superblock are as they were, now and after a new mount."""
    steps = steps_of(case, shell)
    before = shell.state()
    for command in commands(steps, Phase.IMMEDIATE, Phase.PERSISTENT, Phase.ROLLBACK):
        shell.check(command)
    after = shell.state()
    if case.superblock_seen:
        assert after == before
    else:
        assert after[:-1] == before[:-1]


def test_the_usual_case_reads_as_a_person_would_type_it() -> None:
    """Remount, take the word out of fstab, look, and know the rollback."""
    fs = filesystem(
        options=known(options("nobarrier")),
        fstab=known((fstab_entry("defaults", "nobarrier"),)),
    )
    assert printed_steps(change_option(fs, "barrier", "barrier")) == (
        Step(Phase.IMMEDIATE, "mount -o remount,rw,relatime,barrier /dev/sda /data"),
        Step(
            Phase.PERSISTENT,
            r"sed -i.$(date +%Y%m%d-%H%M%S)-7 "
            r"'7s/ \/data ext4 defaults,nobarrier/ \/data ext4 defaults/' /etc/fstab",
        ),
        Step(Phase.VERIFY, "grep -qx barrier /proc/fs/ext4/sda/options"),
        Step(
            Phase.VERIFY,
            "sed -n 7p /etc/fstab | LC_ALL=C grep -qxF -e "
            "'UUID=4a1e8f2e-7a56-4f0a-9d0c-1c5d0a6e8b11 /data ext4 defaults 0 2'",
        ),
        Step(
            Phase.ROLLBACK,
            r"sed -i '7s/ \/data ext4 defaults / \/data ext4 defaults,nobarrier /' /etc/fstab",
        ),
        Step(Phase.ROLLBACK, "mount -o remount,rw,relatime,nobarrier /dev/sda /data"),
    )


HIDDEN = known(options(hidden=["nobarrier"]))
NOBARRIER = known(options("nobarrier"))


@pytest.mark.parametrize(
    ("fs", "expected"),
    [
        (filesystem(options=NOBARRIER), "rw,relatime,barrier /dev/sda /data"),
        (
            filesystem(options=NOBARRIER, mounts=(mount(super_options=("ro",), flags=("ro",)),)),
            "ro,strictatime,barrier /dev/sda /data",
        ),
        (
            filesystem(options=NOBARRIER, fstab=unknown("/etc/fstab")),
            "rw,relatime,barrier /dev/sda /data",
        ),
        (
            filesystem(
                options=NOBARRIER,
                mounts=(
                    mount("/bind", root="/srv", mount_id=28),
                    mount("/readonly", flags=("ro", "relatime"), mount_id=29),
                    mount("/whole", mount_id=31),
                ),
            ),
            "rw,relatime,barrier /dev/sda /whole",
        ),
        (
            filesystem(options=NOBARRIER, mounts=(mount(flags=("rw", "nosuid", "relatime")),)),
            "rw,nosuid,relatime,barrier /dev/sda /data",
        ),
        (
            filesystem(
                options=NOBARRIER,
                mounts=(mount(flags=("rw", "nosuid", "nodev", "noatime")),),
                fstab=known((fstab_entry("users", "exec", "noatime", "nobarrier"),)),
            ),
            "rw,nosuid,nodev,noatime,barrier /dev/sda /data",
        ),
        (filesystem(options=known(options())), ""),
    ],
    ids=["plain", "read-only", "no fstab seen", "which mount", "by hand", "users", "in force"],
)
def test_the_remount_changes_nothing_else(fs: Filesystem, expected: str) -> None:
    """The flags of the mount stay; fstab's are not looked at."""
    found = commands(change_option(fs, "barrier", "barrier"), Phase.IMMEDIATE)
    assert found == ([f"mount -o remount,{expected}"] if expected else [])


@pytest.mark.parametrize(
    "fs",
    [
        filesystem(options=HIDDEN, mounts=()),
        filesystem(options=HIDDEN, mounts=(mount(root="/srv"),)),
        filesystem(options=HIDDEN, mounts=(mount(flags=("ro",)),)),
        filesystem(options=HIDDEN, mounts=(mount("/ends\n"),)),
        filesystem(options=HIDDEN, device="/dev/\0"),
    ],
    ids=["no mount", "bind mount only", "read-only mount only", "newline", "NUL"],
)
def test_there_are_no_commands_where_none_would_be_right(fs: Filesystem) -> None:
    """Without a mount of the whole tree, or a way to write a name, nothing is printed."""
    assert change_option(fs, "barrier", "barrier") == ()


@pytest.mark.parametrize(
    ("name", "wanted", "expected"),
    [
        ("delalloc", "delalloc", "grep -qx delalloc F"),
        ("delalloc", "nodelalloc", "grep -q . F && ! grep -qx delalloc F"),
        ("dioread_nolock", "dioread_lock", "grep -q . F && ! grep -qx dioread_nolock F"),
        ("auto_da_alloc", "auto_da_alloc", "grep -q . F && ! grep -qx noauto_da_alloc F"),
        ("auto_da_alloc", "noauto_da_alloc", "grep -qx noauto_da_alloc F"),
        ("data", "data=ordered", "grep -qx data=ordered F"),
    ],
)
def test_an_option_is_verified_on_kernels_that_list_only_set_bits(
    name: str, wanted: str, expected: str
) -> None:
    """Before 4.17 the options file never says nodelalloc or auto_da_alloc."""
    found = in_force(filesystem(), {name: wanted})
    assert [each.text for each in found] == [expected.replace("F", "/proc/fs/ext4/sda/options")]


def test_what_only_the_next_mount_puts_in_force_is_not_verified() -> None:
    """No remount changes data=, and the check would fail until then."""
    fs = filesystem(fstab=known((fstab_entry("data=writeback"),)))
    steps = change_option(fs, "data", "data=ordered")
    assert [step.phase for step in steps] == [Phase.PERSISTENT]


def test_delalloc_is_put_in_force_before_fstab_is_corrected() -> None:
    """No remount reads fstab, where nodelalloc would make it fail from 6.13 on."""
    fs = filesystem(options=known(options("nodelalloc")), fstab=known((fstab_entry("nodelalloc"),)))
    phases = [step.phase for step in change_option(fs, "delalloc", "delalloc")]
    assert phases == [Phase.IMMEDIATE, Phase.PERSISTENT, Phase.VERIFY]


LISTED = "/proc/fs/ext4/sda/options"


@pytest.mark.parametrize(
    ("mounts", "check"),
    [
        ((mount(),), ""),
        ((mount(), mount("/also")), f" && grep -q . {LISTED} && ! grep -qx delalloc {LISTED}"),
    ],
)
def test_a_rollback_to_delalloc_does_not_rest_on_a_remount(
    mounts: tuple[Mount, ...], check: str
) -> None:
    """Where the kernel refuses it, a new mount does it, unless another mount holds the old one."""
    fs = filesystem(options=known(options("nodelalloc")), mounts=mounts)
    assert commands(change_option(fs, "delalloc", "delalloc"), Phase.ROLLBACK)[-1] == (
        "mount -o remount,rw,relatime,nodelalloc /dev/sda /data || "
        f"{{ umount /data && mount -t ext4 -o rw,relatime,nodelalloc /dev/sda /data{check}; }}"
    )


def test_hostile_text_in_options_and_superblock_is_never_run() -> None:
    """What a foreign image or snapshot says is quoted, or there is no command for it."""
    fs = filesystem(
        options=known(options("commit=$(reboot)")),
        superblock=known(superblock(mount_option_string="nobarrier,x='`reboot`;")),
        name="$(reboot)",
    )
    steps = change_options(fs, {"commit": "commit=5", "barrier": "barrier"})
    assert [step.command for step in printed_steps(steps)] == [
        "mount -o remount,rw,relatime,commit=5 /dev/sda /data",
        "grep -qx commit=5 '/proc/fs/ext4/$(reboot)/options'",
        "grep -qx barrier '/proc/fs/ext4/$(reboot)/options'",
        "mount -o 'remount,rw,relatime,commit=$(reboot)' /dev/sda /data",
    ]


def test_every_entry_of_the_device_is_corrected() -> None:
    """Two entries of one device share its superblock; a bind mount has no options of its own."""
    entries = (
        fstab_entry("nobarrier", line_number=3),
        fstab_entry("barrier=0", mount_point="/other", line_number=4),
        fstab_entry("bind", "nobarrier", mount_point="/bound", line_number=5),
    )
    fs = filesystem(options=NOBARRIER, fstab=known(entries))
    lines = step_and_undo_lines(change_option(fs, "barrier", "barrier"))
    assert [line for line in lines if "fstab" in line] == [
        "persistent: fstab 3: nobarrier -> defaults",
        "persistent: fstab 4: barrier=0 -> defaults",
        "rollback: fstab 4: defaults -> barrier=0",
        "rollback: fstab 3: defaults -> nobarrier",
    ]


@pytest.mark.parametrize(
    ("fs", "remount", "expected"),
    [
        (filesystem(options=HIDDEN), True, Disruption.REMOUNT),
        (filesystem(options=HIDDEN), False, Disruption.ONLINE),
        (
            filesystem(
                options=HIDDEN,
                superblock=known(superblock(mount_option_string="nobarrier,commit=9,stripe=8")),
            ),
            True,
            Disruption.UNMOUNT,
        ),
    ],
)
def test_the_disruption_is_the_worst_of_the_steps(
    fs: Filesystem, remount: bool, expected: Disruption
) -> None:
    """A list of options in the superblock can only be written while it is not mounted."""
    assert disruption(change_options(fs, {"barrier": "barrier"}, remount=remount)) is expected


def test_a_remedy_without_steps_is_a_remount_by_hand() -> None:
    """No mount of this namespace leads to the whole filesystem."""
    assert disruption(()) is Disruption.REMOUNT
