"""Build metadata that a filesystem lacks: a journal, directory indexes, zeroed inode tables."""

from __future__ import annotations

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Phase, Step
from ext4audit.remedies.offline import checked, unmounted_steps
from ext4audit.remedies.remount import remount_command, usable_mount
from ext4audit.remedies.shell import quote


def add_journal(fs: Filesystem) -> tuple[Step, ...]:
    """Return the steps that make an internal journal of the usual size."""
    device = quote(fs.device)
    return unmounted_steps(
        fs,
        (checked(fs), f"tune2fs -O has_journal {device}"),
        (f"tune2fs -l {device} | grep -E '^Filesystem features:' | grep -qw has_journal",),
        (f"tune2fs -O ^has_journal {device}",),
    )


def enable_dir_index(fs: Filesystem) -> tuple[Step, ...]:
    """Return the steps that set dir_index while mounted: directories that grow get an index.

    The rollback needs an unmount; empty where it would not be known.
    """
    device = quote(fs.device)
    undo = f"tune2fs -O ^dir_index {device} && {checked(fs)}"
    verify_and_undo = unmounted_steps(fs, (), (_has_dir_index(fs),), (undo,))
    if not verify_and_undo:
        return ()
    return (Step(Phase.PERSISTENT, f"tune2fs -O dir_index {device}"), *verify_and_undo)


def index_directories(fs: Filesystem) -> tuple[Step, ...]:
    """Return the steps that set dir_index and index all directories, unmounted."""
    device = quote(fs.device)
    # It exits with 1 when it has corrected something, which is no failure (e2fsck(8)).
    index = f"{{ e2fsck -f -p -D {device} || test $? -eq 1; }}"
    return unmounted_steps(
        fs, (f"tune2fs -O dir_index {device} && {index}",), (_has_dir_index(fs),)
    )


def _has_dir_index(fs: Filesystem) -> str:
    return f"tune2fs -l {quote(fs.device)} | grep '^Filesystem features:' | grep -qw dir_index"


def zero_inode_tables(fs: Filesystem, most_left: int) -> tuple[Step, ...]:
    """Return the steps that zero inode tables without pauses and wait for the end.

    At the end at most `most_left` groups may have one that is not zeroed. Empty where no usable
    mount is here.
    """
    mount = usable_mount(fs)
    device = quote(fs.device)
    if mount is None or None in (quote(mount.mount_point), device):
        return ()
    left = f"dumpe2fs {device} 2>/dev/null | grep '^Group ' | grep -vc ITABLE_ZEROED"
    done = f'test "$({left})" -le {most_left}'
    return (
        Step(Phase.IMMEDIATE, remount_command(fs, mount, ["init_itable=0"], {"init_itable"})),
        Step(Phase.IMMEDIATE, f"until {done}; do sleep 2; done"),
        Step(Phase.VERIFY, done),
    )
