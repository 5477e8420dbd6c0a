"""The commands that change mount options which no remount can change: unmount, and mount again.

Seen on Linux 4.19 to 7.2: a remount refuses every change of `data=`, and there is no word that
takes journal_async_commit or norecovery back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import Mount
from ext4audit.facts.options import Setter
from ext4audit.finding import Disruption, Phase, Step
from ext4audit.rules._persist import option_of
from ext4audit.rules._remount import mount_again, typed, usable_mount, without_mount
from ext4audit.rules._shell import quote
from ext4audit.rules._steps import change_options

NOT_SET = ""
"""The wanted token of an option that is in force only where it is listed."""


def change_by_new_mount(
    fs: Filesystem, wanted: Mapping[str, str], *, between: Sequence[str] = (), said: bool = False
) -> tuple[Step, ...]:
    """Return the commands that put options, by name, into the wanted states by a new mount.

    What sets them is corrected first, because the new mount reads it. `between` are commands to
    run while it is unmounted. `said` names the states in the mount too: what no default gives
    would not come where no fstab entry holds it. Where it cannot be unmounted by one command,
    only what sets the options is corrected; empty where there is nothing to correct.
    """
    steps = change_options(fs, wanted, remount=False)
    mount = single_mount(fs)
    lasting = tuple(step for step in steps if step.phase is Phase.PERSISTENT)
    if not steps or (mount is None and not lasting):
        return ()
    checks = tuple(step for step in steps if step.phase is Phase.VERIFY)
    undo = tuple(step for step in steps if step.phase is Phase.ROLLBACK)
    if mount is None:
        return steps
    new = [typed(token) for token in wanted.values()] if said else []
    there = (_unmount(mount), *between, mount_again(fs, mount, new, _names(fs, wanted)))
    old = [typed(token) for token in _in_force(fs, wanted)]
    back = (_unmount(mount), mount_again(fs, mount, old, _names(fs, wanted)))
    return (
        *lasting,
        *(Step(Phase.IMMEDIATE, command) for command in there),
        *checks,
        *undo,
        *(Step(Phase.ROLLBACK, command) for command in back),
    )


def single_mount(fs: Filesystem) -> Mount | None:
    """Return the mount whose end ends the superblock, as far as this namespace shows.

    None for the root, which nobody can unmount, and where several mounts share the superblock:
    a new mount beside another one gets the old options.
    """
    mount = usable_mount(fs)
    if mount is None or len(fs.mounts) > 1 or mount.mount_point == "/":
        return None
    return mount


def how(fs: Filesystem) -> str:
    """Return the sentence on what is left to do by hand; empty where the commands do it all."""
    if usable_mount(fs) is None:
        return f" It must be unmounted and mounted again {without_mount(fs)}."
    if "/" in fs.mount_points:
        return " Then restart: the root cannot be unmounted."
    if single_mount(fs) is None:
        return " Then unmount it from all its mount points and mount it again, or restart."
    return ""


def disruption_of_new_mount(fs: Filesystem) -> Disruption:
    """Return what must be stopped: all that uses it, or the host where it is the root."""
    return Disruption.REBOOT if "/" in fs.mount_points else Disruption.UNMOUNT


def _unmount(mount: Mount) -> str:
    return f"umount {quote(mount.mount_point)}"


def _names(fs: Filesystem, wanted: Mapping[str, str]) -> frozenset[str]:
    """Return the options that a mount must not repeat: the wanted, and what they imply.

    data=journal shows nodelalloc in the mount table, which would outlive it if it were repeated.
    """
    options = fs.options.value.options if isinstance(fs.options, Known) else ()
    implied = {option.name for option in options if option.set_by is Setter.IMPLIED}
    return frozenset({*wanted, *implied})


def _in_force(fs: Filesystem, wanted: Mapping[str, str]) -> Iterator[str]:
    """Yield the tokens that the way back must bring."""
    for name, token in wanted.items():
        option = option_of(fs, name)
        if option is not None and option.token != token:
            yield option.token
