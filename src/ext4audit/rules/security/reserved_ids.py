"""Who may use the blocks that are kept for root: give them back to root."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import Mount
from ext4audit.finding import Phase, Step
from ext4audit.remedies.options import change_options
from ext4audit.remedies.remount import remount_command, usable_mount
from ext4audit.remedies.shell import quote
from ext4audit.rules.shared.citations import fstab_lines

MIB = 1 << 20


def reserve_mib(fs: Filesystem) -> int | None:
    """Return how much is reserved, in MiB, None where the superblock does not tell."""
    superblock = fs.superblock.value if isinstance(fs.superblock, Known) else None
    if superblock is None or superblock.reserved_blocks is None or superblock.block_bytes is None:
        return None
    return superblock.reserved_blocks * superblock.block_bytes // MIB


def give_back_to_root(fs: Filesystem, others: Mapping[str, str]) -> tuple[Step, ...]:
    """Return the commands that put resuid and resgid, tokens by name, back to 0.

    fstab is corrected where it names one of them, else the superblock's fields are set. Empty
    where there is no mount to work on, or where a value is no number.
    """
    mount = usable_mount(fs)
    numbers = [token.partition("=")[2] for token in others.values()]
    if mount is None or None in (quote(mount.mount_point), quote(fs.device)):
        return ()
    if not all(number.isascii() and number.isdigit() for number in numbers):
        return ()
    if any(fstab_lines(fs, name) for name in others):
        return change_options(fs, {name: f"{name}=0" for name in others})
    return tuple(_by_superblock(fs, mount, others))


def _by_superblock(fs: Filesystem, mount: Mount, others: Mapping[str, str]) -> Iterator[Step]:
    """Yield the commands that set the fields.

    The old fields are kept in a file: what is in force does not tell them. Linux 6.18.44 takes
    resgid from the field of resuid.
    """
    device, path = quote(fs.device), quote(f"/proc/fs/ext4/{fs.name}/options")
    kept = quote(f"/etc/ext4audit.{fs.name}.reserved")
    root = [f"{name}=0" for name in others]
    yield Step(Phase.IMMEDIATE, remount_command(fs, mount, root, others))
    save = f"tune2fs -l {device} | grep '^Reserved blocks [ug]id:' > {kept}"
    yield Step(Phase.PERSISTENT, f"test -e {kept} || {save}")
    yield Step(Phase.PERSISTENT, f"tune2fs -u 0 -g 0 {device}")
    for token in root:
        yield Step(Phase.VERIFY, f"grep -qx {token} {path}")
    yield Step(Phase.VERIFY, f"! tune2fs -l {device} | grep '^Reserved blocks [ug]id: *[1-9]'")
    before = f"-u {_read('uid', kept)} -g {_read('gid', kept)}"
    yield Step(Phase.ROLLBACK, f"tune2fs {before} {device} && rm {kept}")
    old = tuple(others.values())
    yield Step(Phase.ROLLBACK, remount_command(fs, mount, old, others))


def _read(label: str, kept: str | None) -> str:
    """Return the word that expands to a number kept in the file."""
    return f"\"$(sed -n 's/^Reserved blocks {label}: *\\([0-9]*\\).*/\\1/p' {kept})\""
