"""What is said of words of fstab that the kernel will not take, and how they are taken out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit.finding import Confidence, Disruption, Finding, Phase, Remedy, Severity, Step
from ext4audit.rules._fstab import edit_options, says
from ext4audit.rules._intent import Intent
from ext4audit.rules._refusals import Refusals

WAITED_FOR_NOT = frozenset({"noauto", "nofail", "x-systemd.automount"})
"""Words of an entry that no boot waits for."""


def findings_of(refusals: Refusals, intent: Intent, *, planned: bool) -> Iterator[Finding]:
    """Yield what is refused, and what is taken without effect."""
    where = "The plan" if planned else intent.origin
    if refusals.refused:
        yield _refused(refusals, intent, where)
    if refusals.ignored:
        yield _ignored(refusals.ignored, intent, where)


def _refused(refusals: Refusals, intent: Intent, where: str) -> Finding:
    words = [word for word, _ in refusals.refused]
    said = ", ".join(f"{word} ({why})" for word, why in refusals.refused)
    waits = not WAITED_FOR_NOT.intersection(intent.entry.line.options)
    end = "the next mount fails, and the boot with it" if waits else "the next mount fails"
    return Finding(
        message=f"{where} holds {said}, which this kernel's ext4 refuses: {end}.",
        severity=Severity.HIGH if waits else Severity.MEDIUM,
        # A vendor may have taken the word into an older kernel, or one of its own.
        confidence=Confidence.LIKELY,
        citations=intent.cite(),
        remedies=_taken_out(intent, words),
        fact=f"{intent.mount.mount_point} {','.join(words)}",
    )


def _ignored(words: Sequence[str], intent: Intent, where: str) -> Finding:
    return Finding(
        message=f"{where} holds {', '.join(words)}, which this kernel's ext4 takes and "
        "ignores: it changes nothing.",
        severity=Severity.INFO,
        confidence=Confidence.LIKELY,
        citations=intent.cite(),
        remedies=_taken_out(intent, words),
        fact=f"{intent.mount.mount_point} {','.join(words)}",
    )


def _taken_out(intent: Intent, words: Sequence[str]) -> tuple[Remedy, ...]:
    """Return the remedy that takes the words out of the entry; the mount stays as it is."""
    line = intent.entry.line
    edit = edit_options(line, words, ())
    if edit is None:
        return ()
    remedy = Remedy(
        summary=f"Take {', '.join(words)} out of fstab.",
        disruption=Disruption.ONLINE,
        steps=(
            *(Step(Phase.PERSISTENT, command) for command in edit.apply),
            *(Step(Phase.VERIFY, f"! {command}") for command in says(line, words)),
            *(Step(Phase.ROLLBACK, command) for command in edit.undo),
        ),
    )
    return (remedy,)
