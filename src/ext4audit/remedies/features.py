"""Set and clear features of an existing filesystem, and convert ext3 to ext4 in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import FstabLine
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Disruption, Phase, Remedy, Step
from ext4audit.remedies.fstab import edit_type
from ext4audit.remedies.offline import by_hand, checked, unmounted_steps
from ext4audit.remedies.shell import quote

REMOVABLE = frozenset({"metadata_csum_seed", "orphan_file", "fast_commit"})
"""Features that tune2fs (1.47) takes out of an unmounted filesystem and puts back."""


def without_features(fs: Filesystem, features: Sequence[str], *, planned: bool) -> Remedy:
    """Return how the filesystem loses features: an option of mke2fs in a plan, else tune2fs."""
    cleared = ",".join(f"^{feature}" for feature in features)
    if planned:
        return Remedy(f"Make it with -O {cleared}.", Disruption.ONLINE)
    if not REMOVABLE.issuperset(features):
        return Remedy(
            f"Make it anew with -O {cleared}: tune2fs cannot take all of them out.",
            Disruption.RECREATE,
            destructive=True,
        )
    listed = _feature_line(fs)
    steps = unmounted_steps(
        fs,
        (checked(fs), _set(fs, cleared)),
        tuple(f"{listed} && ! {listed} | grep -qw {feature}" for feature in features),
        (checked(fs), _set(fs, ",".join(features))),
    )
    summary = f"Take {', '.join(features)} out{by_hand(fs, steps)}."
    return Remedy(summary, Disruption.UNMOUNT, steps)


def clear_fast_commit(fs: Filesystem) -> tuple[Step, ...]:
    """Return the steps that take fast_commit out; nothing else of the filesystem changes."""
    listed = f"tune2fs -l {quote(fs.device)} | grep '^Filesystem features:'"
    return unmounted_steps(
        fs,
        (_set(fs, "^fast_commit"),),
        (f"{listed} | grep -qvw fast_commit",),
        (_set(fs, "fast_commit"),),
    )


def enable_metadata_csum(fs: Filesystem, superblock: Superblock) -> tuple[Step, ...]:
    """Return the steps that turn metadata checksums on, and off again."""
    # tune2fs puts uninit_bg in its place when it turns metadata_csum off (1.47.0).
    also = "" if "uninit_bg" in superblock.features else ",^uninit_bg"
    return unmounted_steps(
        fs,
        (checked(fs), _set(fs, "metadata_csum")),
        (f"{_feature_line(fs)} | grep -qw metadata_csum",),
        (checked(fs), _set(fs, f"^metadata_csum{also}")),
    )


def enable_large_dir(fs: Filesystem) -> tuple[Step, ...]:
    """Return the steps that give directory indexes a third level; tune2fs cannot undo it."""
    work = _set(fs, "large_dir"), checked(fs)
    return unmounted_steps(fs, work, (_dumped(fs, "large_dir"),))


def convert_to_64bit(fs: Filesystem) -> tuple[Step, ...]:
    """Return the steps that make block numbers 64 bits wide, and 32 again."""
    device = quote(fs.device)
    return unmounted_steps(
        fs,
        (checked(fs), f"resize2fs -b {device}"),
        (_dumped(fs, "64bit"),),
        (checked(fs), f"resize2fs -s {device}"),
    )


def convert_to_ext4(
    fs: Filesystem, lines: Sequence[FstabLine], features: Sequence[str]
) -> tuple[Step, ...]:
    """Return the steps that make ext4 of an ext3 filesystem, for which there is no rollback.

    `lines` of fstab change their type first, because the mount at the end reads them. Empty
    where one of them cannot be edited.
    """
    edits = [edit_type(line, "ext4") for line in lines]
    work = f"{_set(fs, ','.join(features))} && {checked(fs)}"
    mounts = tuple(replace(mount, fstype="ext4") for mount in fs.mounts)
    steps = unmounted_steps(replace(fs, mounts=mounts), (work,), tuple(_is_ext4(fs)))
    if not steps or any(edit is None for edit in edits):
        return ()
    commands = [command for edit in edits if edit for command in edit.apply]
    return (*(Step(Phase.PERSISTENT, command) for command in commands), *steps)


def _is_ext4(fs: Filesystem) -> Iterator[str]:
    """Yield the commands that fail where extents are not set or a mount is not of ext4."""
    yield f"tune2fs -l {quote(fs.device)} | grep '^Filesystem features:' | grep -qw extent"
    for mount in fs.mounts:
        yield f"findmnt -no FSTYPE -M {quote(mount.mount_point)} | grep -qx ext4"


def _set(fs: Filesystem, features: str) -> str:
    """Return the command that sets the comma-separated features; ^ before a name clears it."""
    return f"tune2fs -O {features} {quote(fs.device)}"


def _feature_line(fs: Filesystem) -> str:
    return f"tune2fs -l {quote(fs.device)} | grep -E '^Filesystem features:'"


def _dumped(fs: Filesystem, feature: str) -> str:
    """Return the command that fails where dumpe2fs does not list the feature."""
    listing = f"dumpe2fs -h {quote(fs.device)} 2>/dev/null"
    return f"{listing} | grep -q '^Filesystem features:.* {feature}'"
