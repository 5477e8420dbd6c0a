"""Which mount options vendors demand that are not in force, or not where their checks look."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount_flags import ATIME_WORDS
from ext4audit.facts.option_table import recognize
from ext4audit.facts.profile import Profile
from ext4audit.finding import Citation, Confidence, Finding, Remedy, Severity
from ext4audit.rule import Said
from ext4audit.rules._demands import canonical
from ext4audit.rules._flags import seen_here
from ext4audit.rules._vendor_made import statement
from ext4audit.rules._vendor_remedies import in_force_remedy
from ext4audit.rules._vendor_shown import shown_remedy


def demanded_options(fs: Filesystem, host: Host, profiles: Sequence[Profile]) -> Said:
    """Say once, for all profiles, which options are missing or hidden; raises Undetermined."""
    missing, hidden = [], []
    for word in dict.fromkeys(w for profile in profiles for w in _words(profile)):
        askers = _askers([word], profiles)
        if not _is_in_force(fs, word):
            missing.append(word)
        elif _is_hidden(fs, word) and any(profile.shown for profile in askers):
            hidden.append(word)
        else:
            names = ", ".join(profile.name for profile in askers)
            yield Citation("demanded, and in force", word, f"profile {names}")
    if missing:
        yield _missing(missing, _askers(missing, profiles), in_force_remedy(fs, host, missing))
    if hidden:
        yield _hidden(hidden, _askers(hidden, profiles), shown_remedy(fs, host, hidden))


def _words(profile: Profile) -> list[str]:
    return [canonical(word) for word in profile.options]


def _askers(words: Sequence[str], profiles: Sequence[Profile]) -> list[Profile]:
    return [profile for profile in profiles if not set(words).isdisjoint(_words(profile))]


def _is_in_force(fs: Filesystem, word: str) -> bool:
    """Whether a word is in force; raises Undetermined where that cannot be seen."""
    if word in ATIME_WORDS:
        return all(word in mount.mount_options for mount in seen_here(fs))
    known = recognize(word)
    name = known[0].name if known else word
    if name == "errors":
        return _errors_in_force(fs) == word
    return need(need(fs.options).token(name)) == word


def _errors_in_force(fs: Filesystem) -> str:
    """Return the errors= word in force: an options file lists it, a mount table may not."""
    option = need(fs.options).find("errors")
    return option.token if option else f"errors={need(fs.superblock).errors}"


def _is_hidden(fs: Filesystem, word: str) -> bool:
    known = recognize(word)
    option = need(fs.options).find(known[0].name) if known else None
    return option is not None and option.hidden


def _missing(words: Sequence[str], askers: Sequence[Profile], remedy: Remedy) -> Finding:
    return _finding(f"{_demanded(words, askers)} and not in force", words, askers, remedy)


def _hidden(words: Sequence[str], askers: Sequence[Profile], remedy: Remedy) -> Finding:
    what = (
        f"{_demanded(words, askers)} and in force, but set where no mount table shows it, and the "
        "vendor's check reads the mount table"
    )
    return _finding(what, words, askers, remedy, hidden=True)


def _finding(
    what: str,
    words: Sequence[str],
    askers: Sequence[Profile],
    remedy: Remedy,
    *,
    hidden: bool = False,
) -> Finding:
    return Finding(
        message=f"{what}.",
        severity=Severity.LOW if hidden else Severity.MEDIUM,
        confidence=Confidence.CONFIRMED,
        citations=tuple(statement(profile) for profile in askers),
        remedies=(remedy,),
        fact=f"{'hidden' if hidden else 'missing'} {','.join(sorted(words))}",
    )


def _demanded(words: Sequence[str], askers: Sequence[Profile]) -> str:
    products = ", ".join(profile.product for profile in askers)
    return f"{products}: {', '.join(words)} {'is' if len(words) == 1 else 'are'} demanded"
