"""Options in fstab that the kernel refuses or ignores, as DRF002 reports them."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.assemble.options import resolve_options
from ext4audit.assemble.options.listings import OptionSources
from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.drift import listed
from ext4audit.rules.drift.drf002_fstab_not_active import check
from support.builders import (
    filesystem,
    fstab_entry,
    host,
    kernel,
    known,
    mount,
    options,
    superblock,
    unknown,
)

OLD, MIDDLE, NEW = "4.19.0-27-amd64", "5.17.0", "6.18.0"
REFUSES = "which this kernel's ext4 refuses"


def with_fstab_options(
    *words: str, release: str = NEW, fstype: str = "ext4", **changes: Any
) -> Filesystem:
    """Build a filesystem whose fstab entry has these options."""
    changes.setdefault("options", known(options(release=release)))
    return filesystem(fstab=known((fstab_entry(*words, fstype=fstype),)), **changes)


def verdict(fs: Filesystem, release: str = NEW, **changes: Any) -> Verdict:
    """Judge the filesystem on a kernel."""
    changes.setdefault("kernel", known(kernel(release)))
    return judge(check, fs, host(fs, **changes))


def refusals(found: Verdict) -> list[Finding]:
    """Return the findings about refused options."""
    return [finding for finding in found.findings if REFUSES in finding.message]


@pytest.mark.parametrize(
    ("words", "release", "refused"),
    [
        (("bogus_opt=1",), NEW, True),
        (("noacl",), NEW, True),
        (("noacl",), OLD, False),
        (("nodioread_nolock",), OLD, True),
        (("nodioread_nolock",), NEW, False),
        (("commit=x",), NEW, True),
        (("delalloc=1",), NEW, True),
        (("data=foo",), NEW, True),
        (("nobh",), NEW, False),
        (("journal_ioprio=3", "debug_want_extra_isize=32"), NEW, False),
        (("data=journal", "delalloc"), NEW, True),
        (("data=journal", "dioread_nolock"), OLD, True),
        (("data=journal", "dioread_nolock"), NEW, False),
        (("data=journal", "dioread_nolock"), "5.5.19", True),
        (("data=journal", "dioread_nolock"), "5.6.0", False),
        (("data=ordered", "journal_async_commit"), NEW, True),
        (("data=ordered", "journal_async_commit"), "4.3.6", False),
        (("data=ordered", "journal_async_commit"), "4.4.0", True),
        (("journal_async_commit",), NEW, True),
        (("data=writeback", "journal_async_commit"), NEW, False),
        (("usrjquota=aquota.user",), NEW, True),
        (("usrjquota=aquota.user", "jqfmt=vfsv1"), NEW, False),
        (("usrjquota=",), NEW, False),
        (("usrjquota=quota/aquota.user", "jqfmt=vfsv1"), NEW, True),
        (("prjquota",), NEW, True),
        (("noatime=1",), NEW, True),
        (("nofail=1",), NEW, True),
        (("ro=recursive", "noatime=recursive", "sync=1", "user=somebody"), NEW, False),
        (("defaults", "noatime", "nofail", "_netdev", "x-systemd.automount", "user"), NEW, False),
        (("context=system_u:object_r:tmp_t:s0", "errors=remount-ro"), NEW, False),
        (("seclabel", "noatime"), NEW, False),
        (("usrquota", "grpquota", "stripe=16", "discard", "lazytime", "acl", "user_xattr"), NEW,
         False),
    ],
)  # fmt: skip
def test_refused_options_by_kernel_release(
    words: tuple[str, ...], release: str, refused: bool
) -> None:
    """The kernel version, the value and the other options decide."""
    assert bool(refusals(verdict(with_fstab_options(*words, release=release), release))) is refused


@pytest.mark.parametrize(
    ("words", "fields", "refused"),
    [
        (("delalloc",), {"default_mount_options": ("journal_data",)}, True),
        (("delalloc",), {"mount_option_string": "data=journal"}, True),
        (("delalloc",), {"mount_option_string": "data=journal,noatime"}, False),
        (("delalloc",), {"default_mount_options": ("journal_data_writeback",)}, False),
        (("delalloc", "data=ordered"), {"default_mount_options": ("journal_data",)}, False),
        (
            ("delalloc",),
            {"default_mount_options": ("journal_data",), "features": frozenset()},
            True,
        ),
        (("nodelalloc",), {"default_mount_options": ("journal_data",)}, False),
    ],
)
def test_data_journal_of_the_superblock_conflicts_like_that_of_fstab(
    words: tuple[str, ...], fields: dict[str, Any], refused: bool
) -> None:
    """Linux 6.18 refuses delalloc with either, and even without a journal."""
    on_disk = superblock(**fields)
    live = resolve_options(
        OptionSources(
            unknown("/proc/fs/ext4/sda/options"), known(mount()), known(on_disk), known(kernel(NEW))
        )
    )
    fs = with_fstab_options(*words, options=live, superblock=known(on_disk))
    found = refusals(verdict(fs))
    assert bool(found) is refused
    assert all("conflicts with data=journal of the superblock" in each.message for each in found)


def test_message_begins_with_the_place_of_the_option() -> None:
    """This holds for a refused option and for one without effect."""
    (refused,) = refusals(verdict(with_fstab_options("bogus")))
    (ignored,) = verdict(with_fstab_options("nobh")).findings
    assert refused.message.startswith("/etc/fstab line 7 ")
    assert ignored.message.startswith("/etc/fstab line 7 ")


@pytest.mark.parametrize(
    ("fstype", "release", "refused"),
    [
        ("ext4", NEW, False),
        ("ext3", NEW, True),
        ("ext2", NEW, True),
        ("ext3", "4.2.8", False),
        ("ext3", "4.3.0", True),
    ],
)
def test_refused_options_by_filesystem_type(fstype: str, release: str, refused: bool) -> None:
    """As ext3, the ext4 driver refuses options that ext3 lacks; until 4.2 ext3 had a driver."""
    fs = with_fstab_options("delalloc", fstype=fstype, release=release)
    assert bool(refusals(verdict(fs, release))) is refused


def test_option_in_the_mount_table_is_accepted() -> None:
    """A vendor's kernel may accept options that no other kernel has."""
    shown = mount(super_options=("rw", "resv_strict", "noacl"))
    assert not refusals(verdict(with_fstab_options("resv_strict", "noacl", mounts=(shown,))))


def test_option_in_the_options_file_is_accepted() -> None:
    """The options file shows what the mount table hides."""
    live = known(options("resv_strict", release=NEW))
    assert not refusals(verdict(with_fstab_options("resv_strict", options=live)))
    assert refusals(verdict(with_fstab_options("resv_lax", options=live)))


def test_journal_options_without_a_journal() -> None:
    """The options in force have no data mode, and the superblock has no journal."""
    bare = superblock(features=superblock().features - {"has_journal"})
    live = known(options(release=NEW))
    without = known(
        type(live.value)(
            live.value.source,
            live.value.complete,
            tuple(option for option in live.value.options if option.name != "data"),
            live.value.mount_table,
        )
    )
    fs = with_fstab_options("commit=30", options=without, superblock=known(bare))
    assert refusals(verdict(fs))
    fs = with_fstab_options("commit=5", options=without, superblock=known(bare))
    assert not refusals(verdict(fs))
    fs = with_fstab_options("commit=30", options=without, superblock=unknown("superblock"))
    found = verdict(fs)
    assert found.unknowns
    assert not refusals(found)


@pytest.mark.parametrize(
    ("word", "release", "refused"),
    [
        ("sb=0", NEW, True),
        ("sb=1", NEW, False),
        ("sb=2", NEW, True),
        ("sb=131072", NEW, False),
        ("sb=0x20000", NEW, False),
        ("sb=131076", NEW, True),
        ("sb=262144", NEW, True),
        ("sb=65536", NEW, True),
        ("sb=65536", OLD, False),
        ("sb=65536", "6.0.19", False),
        ("sb=65536", "6.1.176", True),
        ("debug_want_extra_isize=0", NEW, True),
        ("debug_want_extra_isize=2", NEW, True),
        ("debug_want_extra_isize=4", NEW, False),
        ("debug_want_extra_isize=30", NEW, False),
        ("debug_want_extra_isize=31", NEW, True),
        ("debug_want_extra_isize=128", NEW, False),
        ("debug_want_extra_isize=130", NEW, True),
    ],
)
def test_refused_options_by_filesystem_size(word: str, release: str, *, refused: bool) -> None:
    """As Linux 6.18 mounts 350 MiB: of three groups the second has a copy of the superblock."""
    sized = known(superblock(size_blocks=89600, block_bytes=4096, inode_bytes=256))
    found = verdict(with_fstab_options(word, release=release, superblock=sized), release)
    assert bool(refusals(found)) is refused
    unread = verdict(
        with_fstab_options(word, release=release, superblock=unknown("superblock")), release
    )
    assert bool(unread.unknowns) is (release not in {OLD, "6.0.19"})


@pytest.mark.parametrize("word", ["journal_dev=2049", "journal_path=/dev/sdb1"])
def test_journal_device_with_an_internal_journal(word: str) -> None:
    """Linux 6.18 refuses both: "filesystem has both journal inode and journal device"."""
    inside = known(superblock(journal_inode=8))
    (finding,) = refusals(verdict(with_fstab_options(word, superblock=inside)))
    assert "the journal is inside the filesystem" in finding.message
    assert verdict(with_fstab_options(word, superblock=unknown("superblock"))).unknowns
    outside = known(superblock(journal_inode=None, journal_device=2049))
    assert not refusals(verdict(with_fstab_options(word, superblock=outside)))
    assert not refusals(verdict(with_fstab_options(word, "ro", "noload", superblock=inside)))
    assert not refusals(verdict(with_fstab_options("journal_dev=0", superblock=inside)))


@pytest.mark.parametrize(
    ("word", "outcome"),
    [
        ("noacl", Outcome.UNDETERMINED),
        ("bogus", Outcome.FAIL),
        ("nobh", Outcome.FAIL),
        ("noatime", Outcome.PASS),
    ],
)
def test_without_a_kernel_only_options_that_all_kernels_refuse(word: str, outcome: Outcome) -> None:
    """Noacl was once accepted; nobh has been ignored since 3.10, the oldest kernel examined."""
    fs = with_fstab_options(word, mounts=(mount(flags=("rw", "noatime")),))
    fs = (
        fs
        if word != "noacl"
        else with_fstab_options(word, options=known(options("noacl", release=NEW)))
    )
    assert verdict(fs, kernel=unknown("kernel release")).outcome is outcome


def test_kernel_between_two_examined_releases_is_undetermined() -> None:
    """5.15 accepts nouser_xattr, 6.1 refuses it."""
    live = known(options("nouser_xattr", release=MIDDLE))
    found = verdict(with_fstab_options("nouser_xattr", options=live), MIDDLE)
    assert found.outcome is Outcome.UNDETERMINED
    assert "5.17" in found.unknowns[0].what


@pytest.mark.parametrize(
    ("words", "severity"),
    [
        (("bogus",), Severity.HIGH),
        (("bogus", "nofail"), Severity.MEDIUM),
        (("bogus", "noauto"), Severity.MEDIUM),
        (("nobh",), Severity.INFO),
        (("stripe=0",), Severity.INFO),
    ],
)
def test_severity_of_refused_and_ignored_options(
    words: tuple[str, ...], severity: Severity
) -> None:
    """A boot waits for an entry without nofail; an ignored option does no harm."""
    (finding,) = verdict(with_fstab_options(*words)).findings
    assert finding.severity is severity


def test_no_remount_with_a_refused_option() -> None:
    """The remount would apply the whole entry, including the refused option."""
    found = verdict(with_fstab_options("bogus", "noatime"))
    commands = [s.command for f in found.findings for r in f.remedies for s in r.lines]
    assert commands
    assert not any("remount" in command for command in commands)


def test_refused_value_is_one_finding() -> None:
    """One option leads to one finding."""
    (finding,) = verdict(with_fstab_options("data=foo")).findings
    assert "it takes journal, ordered, writeback" in finding.message


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["noatime"], "noatime"),
        (["x" * 15, "y" * 15], f"{'x' * 15}, {'y' * 15}"),
        (["x" * 15, "y" * 16], "2 options"),
        (["x" * 33], "an option"),
        (["a\nb", "c"], "2 options"),
    ],
)
def test_summary_names_options_up_to_its_limit(tokens: list[str], words: str) -> None:
    """The limit is 32 characters, so that a summary can be a heading shared by several hosts."""
    assert listed(tokens) == words
