"""Options in force in the real kernel, compared with its mount table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ext4audit.evidence import Known, need
from ext4audit.facts.mount import EffectiveOptions, Provenance
from support.filesystems.scratch import Scratch, run, scanned_host

pytestmark = pytest.mark.kernel
Make = Callable[..., Scratch]


def effective(scratch: Scratch) -> EffectiveOptions:
    """Return the effective options of a mounted scratch filesystem."""
    return need(scratch.filesystem().options)


def token(scratch: Scratch, name: str) -> str:
    """Return one option's token in force."""
    return need(effective(scratch).token(name))


def test_an_option_given_to_mount_is_in_force_and_not_hidden(scratch: Make) -> None:
    """`mount -o nobarrier` is in force, set by the mount, and the mount table shows it."""
    option = effective(scratch().make().mount("nobarrier")).find("barrier")
    assert option is not None
    assert (option.token, option.set_by, option.hidden, option.baseline) == (
        "nobarrier",
        Provenance.MOUNT,
        False,
        "barrier",
    )


def test_superblock_defaults_are_in_force_while_the_mount_table_says_rw_relatime(
    scratch: Make,
) -> None:
    """`tune2fs -o` hides nobarrier, nodelalloc and data=writeback from /proc/mounts."""
    one = scratch().make().tune("-o", "nobarrier,nodelalloc,journal_data_writeback").mount()
    assert one.mount_table_options == "rw,relatime"
    hidden = {option.token: option.set_by for option in effective(one).hidden}
    assert hidden == {
        "nobarrier": Provenance.SUPERBLOCK_BITS,
        "nodelalloc": Provenance.SUPERBLOCK_BITS,
        "data=writeback": Provenance.SUPERBLOCK_BITS,
    }


def test_superblock_string_hides_an_option(scratch: Make) -> None:
    """`tune2fs -E mount_opts=` hides an option, and is distinguished from the bit field."""
    one = scratch().make().tune("-E", "mount_opts=noauto_da_alloc").mount()
    assert one.mount_table_options == "rw,relatime"
    hidden = {option.token: option.set_by for option in effective(one).hidden}
    assert hidden == {"noauto_da_alloc": Provenance.SUPERBLOCK_STRING}


@pytest.mark.parametrize(
    ("string", "token", "set_by"),
    [
        ("nobarrier,nouid32", "nobarrier", Provenance.SUPERBLOCK_STRING),
        ("nobarrier,noatime", "barrier", Provenance.KERNEL_DEFAULT),
        ("nobarrier,nodealloc", "barrier", Provenance.KERNEL_DEFAULT),
        ("prjquota,nobarrier", "barrier", Provenance.KERNEL_DEFAULT),
    ],
)
def test_a_refused_word_voids_the_whole_superblock_string(
    scratch: Make, string: str, token: str, set_by: Provenance
) -> None:
    """The mount succeeds with none of the words, so none of them is anyone's setting."""
    one = scratch().make()
    run("debugfs", "-w", "-R", f"set_super_value mount_opts {string}", one.image)
    option = effective(one.mount()).find("barrier")
    assert option is not None
    assert (option.token, option.set_by, option.baseline) == (token, set_by, token)


def test_a_number_of_the_superblock_string_is_read_as_the_kernel_reads_it(scratch: Make) -> None:
    """`commit=0x1e` is 30 seconds."""
    option = effective(scratch().make().tune("-E", "mount_opts=commit=0x1e").mount()).find("commit")
    assert option is not None
    assert (option.token, option.set_by) == ("commit=30", Provenance.SUPERBLOCK_STRING)
    assert option.baseline == "commit=30"


def test_journal_data_turns_off_delayed_allocation_without_a_journal(scratch: Make) -> None:
    """The kernel forgets the mode, but refuses delalloc, and only a remount sets it."""
    one = scratch().make("-O", "^has_journal").tune("-o", "journal_data").mount()
    option = effective(one).find("delalloc")
    assert option is not None
    assert (option.token, option.set_by, option.baseline) == (
        "nodelalloc",
        Provenance.IMPLIED,
        "nodelalloc",
    )
    run("mount", "-o", "remount,delalloc", one.device, one.mount_point)
    option = effective(one).find("delalloc")
    assert option is not None
    assert (option.token, option.set_by) == ("delalloc", Provenance.MOUNT)
    one.unmount()
    with pytest.raises(AssertionError, match="wrong fs type, bad option"):
        one.mount("delalloc")


def test_an_owner_of_the_reserve_in_the_superblock_is_no_mount_option(scratch: Make) -> None:
    """The mount table lists resuid= wherever it comes from."""
    option = effective(scratch().make().tune("-u", "1000").mount()).find("resuid")
    assert option is not None
    assert (option.token, option.set_by, option.baseline) == (
        "resuid=1000",
        Provenance.UNKNOWN,
        None,
    )


def test_an_explicit_opposite_shows_what_the_superblock_would_have_set(scratch: Make) -> None:
    """`barrier` in a mount table proves that the superblock's default is nobarrier."""
    one = scratch().make().tune("-o", "nobarrier").mount("barrier")
    option = effective(one).find("barrier")
    assert option is not None
    assert (option.token, option.baseline, option.hidden) == ("barrier", "nobarrier", False)


def test_an_errors_policy_of_the_superblock_is_hidden(scratch: Make) -> None:
    """`tune2fs -e remount-ro` does not show in /proc/mounts."""
    one = scratch().make().tune("-e", "remount-ro").mount()
    assert [(o.token, o.set_by) for o in effective(one).hidden] == [
        ("errors=remount-ro", Provenance.SUPERBLOCK_FIELD)
    ]


def test_default_filesystem_has_no_hidden_options(scratch: Make) -> None:
    """Mke2fs's defaults have no hidden option: noise would be a bug."""
    assert effective(scratch().make().mount()).hidden == ()


def test_ext3_by_the_ext4_driver_has_no_delayed_allocation_by_default(scratch: Make) -> None:
    """Mounted as ext3, nodelalloc is the default and not reported as hidden."""
    one = scratch().make(fstype="ext3").mount(fstype="ext3")
    assert one.filesystem().fstype == Known("ext3", "/proc/self/mountinfo")
    option = effective(one).find("delalloc")
    assert option is not None
    assert (option.token, option.set_by, option.hidden) == (
        "nodelalloc",
        Provenance.KERNEL_DEFAULT,
        False,
    )


def test_data_journal_implies_the_loss_of_delayed_allocation(scratch: Make) -> None:
    """What data=journal disables is marked as implied, not as set by anyone."""
    one = scratch().make().mount("data=journal")
    assert token(one, "data") == "data=journal"
    option = effective(one).find("delalloc")
    assert option is not None
    assert (option.token, option.set_by, option.hidden) == ("nodelalloc", Provenance.IMPLIED, False)


def test_a_filesystem_without_a_journal_has_no_data_mode(scratch: Make) -> None:
    """Without a journal the options file has no data= line, and none is invented."""
    one = scratch().make("-O", "^has_journal").mount()
    assert effective(one).find("data") is None
    assert need(one.filesystem().superblock).has_journal is False


def test_a_read_only_bind_mount_does_not_make_the_superblock_read_only(
    scratch: Make, tmp_path: Path
) -> None:
    """`ro` of one mount is not `ro` of the filesystem."""
    one = scratch().make().mount()
    other = tmp_path / "bind"
    other.mkdir()
    run("mount", "--bind", one.mount_point, other)
    run("mount", "-o", "remount,bind,ro", other)
    try:
        found = scanned_host(other).filesystems
        assert len(found) == 1
        assert need(found[0].read_only) is False
        assert found[0].mount_points == (str(one.mount_point), str(other))
    finally:
        run("umount", other)


def test_a_read_only_mount_is_read_only(scratch: Make) -> None:
    """The superblock's own state is read from the options file."""
    assert need(scratch().make().mount("ro").filesystem().read_only) is True
