"""Make a change of mount options last: in fstab and in the superblock, whichever set them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import FstabLine, Mount
from ext4audit.facts.option_table import recognize, spec_named
from ext4audit.facts.options import EffectiveOption, Setter
from ext4audit.rules._fstab import FstabEdit, edit_options
from ext4audit.rules._remount import mount_again, typed
from ext4audit.rules._shell import quote
from ext4audit.rules._tune import (
    apply_commands,
    superblock_change,
    undo_commands,
    verify_command,
)

BINDS = frozenset({"bind", "rbind"})


def option_of(fs: Filesystem, name: str) -> EffectiveOption | None:
    """Return an option as it is in force, or None where that is not established."""
    return fs.options.value.find(name) if isinstance(fs.options, Known) else None


def keep(fs: Filesystem, mount: Mount, wanted: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the commands that make the wanted tokens last, and those that undo them."""
    edits = list(_fstab_edits(fs, wanted))
    change = superblock_change(fs, wanted)
    round_trip = quote(mount.mount_point) or "", mount_again(fs, mount, (), wanted)
    do = [command for edit in edits for command in edit.apply]
    undo = [command for edit in reversed(edits) for command in edit.undo]
    return [*do, *apply_commands(fs, change, *round_trip)], [
        *undo_commands(fs, change, *round_trip),
        *undo,
    ]


def kept(fs: Filesystem, wanted: Mapping[str, str]) -> Iterator[str]:
    """Yield the commands that fail while the superblock still holds another state."""
    change = superblock_change(fs, wanted)
    if change.held:
        yield verify_command(fs, change)


def _fstab_edits(fs: Filesystem, wanted: Mapping[str, str]) -> Iterator[FstabEdit]:
    """Yield the edits of the entries that mount the device, bind mounts left out."""
    entries = fs.fstab.value if isinstance(fs.fstab, Known) else ()
    for entry in entries:
        if BINDS.isdisjoint(entry.line.options):
            edit = _edit(fs, entry.line, wanted)
            if edit is not None:
                yield edit


def _edit(fs: Filesystem, line: FstabLine, wanted: Mapping[str, str]) -> FstabEdit | None:
    """Return the edit of one line: other states out, wanted ones in where they must be said."""
    said = [known for known in map(recognize, line.options) if known is not None]
    drop = [token for spec, token in said if wanted.get(spec.name, token) != token]
    add = [typed(token) for name, token in wanted.items() if not _by_itself(fs, name, token)]
    return edit_options(line, drop, add)


def _by_itself(fs: Filesystem, name: str, token: str) -> bool:
    """Whether a mount without options has the token once the superblock is corrected."""
    option = option_of(fs, name)
    if option is not None and option.baseline == token:
        return True
    layers = option.layers if option is not None else ()
    by_kernel = [layer.token for layer in layers if layer.setter is Setter.KERNEL_DEFAULT]
    defaults = {default for _, default in spec_named(name).defaults}
    return token in by_kernel or (not by_kernel and defaults == {token})
