"""Take features out of a filesystem that something older is to read."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Disruption, Remedy, Step
from ext4audit.rules._shell import quote
from ext4audit.rules._unmounted import checked, unmounted_steps, why_by_hand

REMOVABLE = frozenset({"metadata_csum_seed", "orphan_file", "fast_commit"})
"""Features that tune2fs (1.47) takes out of an unmounted filesystem and puts back."""


def without_features(fs: Filesystem, features: Sequence[str], *, planned: bool) -> Remedy:
    """Return how the filesystem loses features: a word of mke2fs in a plan, else tune2fs."""
    cleared = ",".join(f"^{feature}" for feature in features)
    if planned:
        return Remedy(f"Make it with -O {cleared}.", Disruption.ONLINE)
    if not REMOVABLE.issuperset(features):
        return Remedy(
            f"Make it anew with -O {cleared}: tune2fs cannot take all of them out.",
            Disruption.RECREATE,
            destructive=True,
        )
    steps = _steps(fs, features, cleared)
    where = "" if steps else f", {why_by_hand(fs)}"
    return Remedy(f"Take {', '.join(features)} out{where}.", Disruption.UNMOUNT, steps)


def _steps(fs: Filesystem, features: Sequence[str], cleared: str) -> tuple[Step, ...]:
    device = quote(fs.device)
    there = f"tune2fs -l {device} | grep -E '^Filesystem features:'"
    return unmounted_steps(
        fs,
        (checked(fs), f"tune2fs -O {cleared} {device}"),
        tuple(f"{there} && ! {there} | grep -qw {feature}" for feature in features),
        (checked(fs), f"tune2fs -O {','.join(features)} {device}"),
    )
