"""What fstab asks for and is not in force, and which of it fstab is better without."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount_flags import ATIME_WORDS
from ext4audit.records import dataclass
from ext4audit.rules._condemned import condemned
from ext4audit.rules._demands import demanded, overruled
from ext4audit.rules._intent import Intent


@dataclass(frozen=True, slots=True)
class Drift:
    """An option by name, the token that fstab intends, and the token in force.

    `baseline` is what would be in force without the word in fstab, None where that is not known.
    """

    name: str
    intended: str
    in_force: str
    baseline: str | None = None

    @property
    def by_hand(self) -> bool:
        """Whether what is in force is neither fstab's nor what fstab's silence would give."""
        return self.baseline not in {None, self.in_force}


def wrong_words(
    fs: Filesystem, host: Host, inactive: Sequence[Drift], flags: Sequence[str], intent: Intent
) -> list[str]:
    """Return the words that fstab may lose: not what is demanded, nor better than what runs."""
    wanted = demanded(fs, host)
    runs = {*(drift.in_force for drift in inactive), *intent.live_flags}
    worse = condemned(runs, fs, host)
    atime = ATIME_WORDS.keys() if "strictatime" in worse else frozenset()
    words = [drift.intended for drift in inactive if drift.in_force not in worse]
    words += [flag for flag in flags if flag not in atime]
    missing = {w for word in words for w in overruled(fs, host, [word]) if w not in runs}
    return [w for w in words if w not in wanted and missing.isdisjoint(overruled(fs, host, [w]))]


def only_running(intent: Intent, words: frozenset[str]) -> frozenset[str]:
    """Return the flags in force that a remount by fstab, whose flags are `words`, would end.

    An ro under a mount that is rw came from the kernel, after an error: nobody asked for it.
    """
    stopped = {"ro"}.intersection(intent.mount.super_options)
    forced = stopped.difference(intent.mount.mount_options)
    return intent.live_flags - words - ATIME_WORDS.keys() - forced
