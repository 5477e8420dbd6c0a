"""What the active profiles demand of a filesystem: no remedy may order the opposite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount_flags import ATIME_WORDS
from ext4audit.facts.option_table import recognize
from ext4audit.facts.profile import Profile


def demanded(fs: Filesystem, host: Host) -> Mapping[str, Profile]:
    """Return the words of mount options that profiles demand, canonical, with who demands it."""
    return {
        canonical(word): profile
        for profile in reversed(host.profiles_of(fs))
        for word in profile.options
    }


def demands_features(fs: Filesystem, host: Host) -> Mapping[str, Profile]:
    """Return the features that profiles demand, with who demands it."""
    return {f: profile for profile in host.profiles_of(fs) for f in profile.features}


def against(fs: Filesystem, host: Host, tokens: Mapping[str, str]) -> Iterator[tuple[str, Profile]]:
    """Yield the demanded words that a change of options, by name, would put out of force."""
    for word, profile in demanded(fs, host).items():
        known = recognize(word)
        if known is not None and tokens.get(known[0].name, known[1]) != known[1]:
            yield word, profile


def overruled(fs: Filesystem, host: Host, words: Iterable[str]) -> Mapping[str, Profile]:
    """Return the demanded words whose place others take when these words are in force."""
    new = {_name(word): canonical(word) for word in words}
    wanted = demanded(fs, host).items()
    return {word: profile for word, profile in wanted if new.get(_name(word), word) != word}


def stays(kept: Mapping[str, Profile]) -> str:
    """Return the sentence on what is left as it is, and who demands it; empty for nothing."""
    return "".join(f" {word} stays, {by_demand(who)}." for word, who in kept.items())


def by_demand(profile: Profile) -> str:
    """Return the words that say whose demand it is."""
    return f"by demand of {profile.product} (profile {profile.name})"


def canonical(word: str) -> str:
    """Return the option table's spelling of a word."""
    known = recognize(word)
    return known[1] if known else ATIME_WORDS.get(word, word)


def _name(word: str) -> str:
    """Return what a word decides: an option, the access times, or only itself."""
    known = recognize(word)
    return known[0].name if known else "atime" if word in ATIME_WORDS else word
