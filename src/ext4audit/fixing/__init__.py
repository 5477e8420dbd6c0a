"""The choice of remedies for a script: the safest of each finding that the options allow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ext4audit.evidence import for_wording
from ext4audit.facts import cached_by_identity
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Disruption, Finding, Remedy, Remount, Severity, few, safest
from ext4audit.report import Report, Verdict
from ext4audit.rule import Rule

WORDS_OF_A_SLUG = 6
"""The number of summary words in the name of a remedy that changes no mount option."""


class ChosenRemedy(NamedTuple):
    """A remedy to apply, with the filesystems that its preconditions check.

    `subject` is the location of the finding: a mount point, a device, or the host.
    """

    rule: Rule
    subject: str
    remedy: Remedy
    filesystems: tuple[Filesystem, ...]

    @property
    def title(self) -> str:
        """The heading of the remedy: the title of the rule, and the subject."""
        return f"{self.rule.title}, {self.subject}"


class LeftOut(NamedTuple):
    """A finding for which no remedy is applied, with the reason."""

    rule: Rule
    subject: str
    reason: str

    def __str__(self) -> str:
        return f"{self.rule.title}, {self.subject}: {self.reason}"


class NoSuchRemedy(ValueError):  # noqa: N818 - the message is printed as it is
    """Raised if a choice matches no remedy of its rule; the message lists the remedies."""


def slug(remedy: Remedy) -> str:
    """Return the name of a remedy for --choose: the options that it sets, or its summary."""
    options = [step.change.after for step in remedy.steps if isinstance(step.change, Remount)]
    if options:
        return _slug(" ".join(word for words in options for word in words))
    return "-".join(_slug(remedy.summary).split("-")[:WORDS_OF_A_SLUG])


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def choose_remedies(
    report: Report,
    threshold: Severity | None,
    most: Disruption,
    choices: Mapping[str, str],
) -> tuple[tuple[ChosenRemedy, ...], tuple[LeftOut, ...]]:
    """Return the remedies to apply, and the findings that are left out.

    `choices` are the words that choose a remedy, by rule code. Raises NoSuchRemedy.
    """
    chosen: list[ChosenRemedy] = []
    left: list[LeftOut] = []
    for verdict, fs, finding in _failing(report, threshold):
        subject = _subject(fs, finding)
        words = choices.get(verdict.rule.code)
        pick = _pick(finding, most, words, verdict.rule.code)
        if finding.suppression is not None:
            pick = f"suppressed: {finding.suppression.reason}"
        elif finding.known:
            pick = "in the baseline"
        if isinstance(pick, str):
            left.append(LeftOut(verdict.rule, subject, pick))
            continue
        judged = _filesystems(report.host, fs, pick)
        chosen.append(ChosenRemedy(verdict.rule, subject, pick, judged))
    return tuple(chosen), tuple(left)


def _failing(
    report: Report, threshold: Severity | None
) -> Iterator[tuple[Verdict, Filesystem | None, Finding]]:
    for verdict, fs in report.judged:
        for finding in verdict.findings:
            if threshold is not None and finding.severity.at_least(threshold):
                yield verdict, fs, finding


def _pick(finding: Finding, most: Disruption, words: str | None, code: str) -> Remedy | str:
    """Return the remedy to apply, or the reason why there is none; raises NoSuchRemedy."""
    candidates = [remedy for remedy in finding.remedies if remedy.steps]
    if words is not None:
        candidates = _matching(candidates, words, code)
    if not candidates:
        return f"advice only: {finding.remedies[0].summary}" if finding.remedies else "no remedy"
    best = safest(candidates)
    if best is None:
        return "its remedy destroys data; scripts never include it"
    if best.disruption.rank <= most.rank:
        return best
    if best.disruption is Disruption.RECREATE:
        return "the filesystem must be created again"
    return f"needs --disruption {best.disruption.value}"


def _matching(candidates: Sequence[Remedy], words: str, code: str) -> list[Remedy]:
    wanted = _slug(words)
    exact = [remedy for remedy in candidates if slug(remedy) == wanted]
    found = exact or [r for r in candidates if wanted and wanted in f"{slug(r)} {_slug(r.summary)}"]
    if not found:
        known = ", ".join(map(slug, candidates)) or "no remedy that a script can apply"
        raise NoSuchRemedy(f"{code} has no remedy {words!r} (choose from {known})")
    return found


def _subject(fs: Filesystem | None, finding: Finding) -> str:
    if fs is None:
        return finding.fact or "the host"
    return few(fs.mount_points) or fs.device


def _filesystems(host: Host, fs: Filesystem | None, remedy: Remedy) -> tuple[Filesystem, ...]:
    """Return the finding's filesystem, and those on the devices that the steps name."""
    devices = {device for step in remedy.steps for device in step.devices}
    named = (each for device in devices for each in _by_device(host).get(device, ()))
    found = (each for _, each in sorted(named, key=lambda at: at[0]))
    return tuple(
        {str(each.device_number): each for each in (*((fs,) if fs else ()), *found)}.values()
    )


@cached_by_identity
def _by_device(host: Host) -> Mapping[str, Sequence[tuple[int, Filesystem]]]:
    """Return the filesystems, with their positions in the host, by device path."""
    found: dict[str, list[tuple[int, Filesystem]]] = {}
    for at in enumerate((*host.filesystems, *for_wording(host.unmounted, ()))):
        found.setdefault(at[1].device, []).append(at)
    return found
