"""Options that are in force only where they are listed, and have no word for their absence."""

from __future__ import annotations

from ext4audit.evidence import Known, Undetermined, need
from ext4audit.facts.host import Filesystem
from ext4audit.facts.option_table import recognize
from ext4audit.facts.options import EffectiveOptions
from ext4audit.finding import Citation


def is_listed(options: EffectiveOptions, name: str) -> bool:
    """Whether the option is known to be in force."""
    option = options.find(name)
    return option is not None and option.token == name


def need_listed(fs: Filesystem, name: str) -> bool:
    """Whether the option is in force; raises Undetermined where silence proves nothing."""
    options = need(fs.options)
    if is_listed(options, name):
        return True
    if options.hole is not None and not _silence_tells(fs, options, name):
        raise Undetermined((options.hole,))
    return False


def cite_unlisted(fs: Filesystem, name: str) -> Citation:
    """Return the evidence that the option is not in force."""
    return Citation(f"option in force: {name}", "not listed", need(fs.options).source)


def _silence_tells(fs: Filesystem, options: EffectiveOptions, name: str) -> bool:
    """Whether the mount table would show it: it hides only what the superblock's string sets."""
    if options.mount_table is None or not isinstance(fs.superblock, Known):
        return False
    words = fs.superblock.value.mount_option_string.split(",")
    return all(spec.name != name for spec, _ in filter(None, map(recognize, words)))
