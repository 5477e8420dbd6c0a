"""The law of evidence: who knows less may not be calmer.

`losses` are the ways to remove, refuse, delay or garble one answer of a host, `calmer` says what
its report says more calmly then. Verdicts are compared by rule and device: a filesystem whose
superblock is lost has another id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import audit
from ext4audit.evidence import Known, Unknown, Why
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Severity
from ext4audit.report import Outcome, Report, ReportSource, Verdict
from ext4audit.rules import all_rules
from ext4audit.sources import (
    Answer,
    Ask,
    ListDir,
    ReadBytes,
    ReadFile,
    RealPath,
    ResolvePath,
    RunCommand,
    TuneSuperblock,
    describe,
    refuse_damaged,
)
from ext4audit.sources.captured import MapSource
from ext4audit.sources.snapshot.writing import RecordingSource
from support.hosts.stories import captured

UNKNOWNS = {
    "removed": Why.NOT_CAPTURED,
    "denied": Why.DENIED,
    "timed out": Why.TIMED_OUT,
}
MISSING = "missing"
GARBLED = "garbled"
TRUNCATED = "truncated"
"""Only where it shows: fstab and os-release are whole texts wherever they end."""
WAYS = (*UNKNOWNS, GARBLED)
SHORTEST = 4
"""Of less, a half is nothing, or as good as nothing."""
LEAST = len(Severity)
"""The rank below that of every severity."""
NOISE = "\0}garbled{\0"
"""What no program prints, and what a crash leaves of a file."""
CALM = frozenset({Outcome.PASS, Outcome.NOT_APPLICABLE})
Key = tuple[str, DeviceNumber | None]


class Loss(NamedTuple):
    """One answer of one host, and the way in which it is taken away; `more` go with it."""

    story: str
    ask: Ask
    way: str
    more: tuple[Ask, ...] = ()

    def __str__(self) -> str:
        """Return a name for people."""
        also = f" and {len(self.more)} more" if self.more else ""
        return f"{self.story}: {describe(self.ask)}{also} {self.way}"


class Told(NamedTuple):
    """The answers of a host, those that its audit used, and the report of all of them."""

    answers: dict[Ask, Answer]
    used: tuple[Ask, ...]
    report: Report


class Excuse(NamedTuple):
    """A change that is honest: of which verdict, by the loss of which answers, and why."""

    change: str
    asks: Callable[[Ask], bool]
    reason: str


def _is_of_superblock(ask: Ask) -> bool:
    """Whether it leads to the superblock: the device's node, its name, and what reads it."""
    return isinstance(ask, ResolvePath | ReadBytes) or describe(ask).startswith("dumpe2fs")


EXCUSES = (
    Excuse(
        "CAP003: pass, then not_applicable",
        lambda ask: _is_of_superblock(ask) or describe(ask).endswith("/dm/name"),
        "passed because of a feature; without the superblock the size alone says the same",
    ),
    Excuse(
        "DUR005: pass, then not_applicable",
        lambda ask: describe(ask).endswith("/options"),
        "passed because a journal is in use; where no option is seen, a small size is enough",
    ),
)


@cache
def told(story: str) -> Told:
    """Return the host of a story as it is, audited with all rules."""
    source, _ = captured(story)
    answers = dict(source._answers)
    recording = RecordingSource(MapSource(answers))
    report = _audited(recording)
    return Told(answers, tuple(recording.answers), report)


def losses(story: str) -> Iterator[Loss]:
    """Yield each way to take away each answer that the audit of a story uses.

    That a host lacks something is an answer, too. What is unknown already cannot be taken away.
    """
    host = told(story)
    for ask in host.used:
        answer = host.answers.get(ask)
        if answer is None or (isinstance(answer, Unknown) and answer.why is not Why.ABSENT):
            continue
        for way in WAYS:
            if way != GARBLED or isinstance(answer, Known):
                yield Loss(story, ask, way)
        if isinstance(answer, Known) and _shows_its_end(ask, answer):
            yield Loss(story, ask, TRUNCATED)


def _shows_its_end(ask: Ask, answer: Known[str] | Known[bytes]) -> bool:
    """Whether half of an answer cannot be taken for a whole one."""
    if len(answer.value) < SHORTEST:
        return False
    of_kernel = isinstance(ask, ReadFile) and ask.path.startswith(("/proc/", "/sys/"))
    return of_kernel or isinstance(ask, ReadBytes) or describe(ask).startswith("lsblk -J")


def related_losses(story: str) -> Iterator[Loss]:
    """Yield each way to take away all answers that have one cause: what one failure takes."""
    host = told(story)
    groups: dict[str, list[Ask]] = {}
    for ask in host.used:
        answer = host.answers.get(ask)
        if answer is not None and (isinstance(answer, Known) or answer.why is Why.ABSENT):
            for cause in causes(ask):
                groups.setdefault(cause, []).append(ask)
    for ask, *more in (asks for asks in groups.values() if len(asks) > 1):
        for way in UNKNOWNS:
            yield Loss(story, ask, way, tuple(more))


PLACES = ("/sys", "/dev", "/proc/fs", "/run")
"""What a chroot, a container or an early boot does not have."""
BARE_ROOT = ("/sys", "/dev", "/run")


def missing_places(story: str) -> Iterator[Loss]:
    """Yield each place that another root can lack, and what a bare chroot lacks together.

    Nothing there exists then, as on a host that has no such file.
    """
    host = told(story)
    for places in (*((place,) for place in PLACES), BARE_ROOT):
        there = [ask for ask in host.used if ask in host.answers]
        asks = [ask for ask in there if any(_is_in(ask, place) for place in places)]
        if asks:
            yield Loss(story, asks[0], MISSING, tuple(asks[1:]))


def _is_in(ask: Ask, place: str) -> bool:
    """Whether the answer comes from below a directory: of /dev also by a program."""
    if isinstance(ask, RunCommand):
        return any(argument.startswith(f"{place}/") for argument in ask.argv)
    return getattr(ask, "path", "").startswith(f"{place}/")


def causes(ask: Ask) -> Iterator[str]:
    """Yield what an answer is lost with: its kind, its device, and each directory above it."""
    yield type(ask).__name__
    name = describe(ask)
    yield f"program {name.split()[0]}" if isinstance(ask, RunCommand) else "files and bytes"
    if _is_of_superblock(ask) or isinstance(ask, TuneSuperblock):
        yield "superblocks"
    if "mountinfo" in name:
        yield "mount tables"
    if isinstance(ask, ReadFile | ListDir | RealPath):
        parts = ask.path.split("/")
        yield from ("/".join(parts[:depth]) for depth in range(2, len(parts) + 1))


def report_without(loss: Loss) -> Report:
    """Audit the host without the answer."""
    host = told(loss.story)
    lost = {ask: _lost(ask, host.answers[ask], loss.way) for ask in (loss.ask, *loss.more)}
    answers = {**host.answers, **lost}
    return _audited(MapSource(answers))


def calmer(loss: Loss, excuses: tuple[Excuse, ...] | None = None) -> list[str]:
    """Return what the report says more calmly without the answer: nothing by the law.

    Beside what is lost by it (a finding, a doubt), this is a reason that changes: where a verdict
    was PASS and is NOT_APPLICABLE, or the reverse, one of the two was said without knowing.
    """
    found = changes(told(loss.story).report, report_without(loss))
    told_of = EXCUSES if excuses is None else excuses
    lost = (loss.ask, *loss.more)
    excused = {excuse.change for excuse in told_of if any(map(excuse.asks, lost))}
    return [each for each in found if each not in excused]


def changes(before: Report, after: Report) -> list[str]:
    """Return what a report says more calmly than the one before."""
    now = by_device(after)
    found = []
    for key, verdict in by_device(before).items():
        other = now.get(key)
        if other is None:
            if verdict.outcome not in CALM and not (after.host.gaps and not after.complete):
                found.append(f"{key[0]}: {verdict.outcome.value} vanishes without a gap")
        elif change := calmer_verdict(verdict, other):
            found.append(f"{key[0]}: {change}")
    if after.complete and not before.complete:
        found.append("complete")
    return found


def calmer_verdict(before: Verdict, after: Verdict) -> str:
    """Return what a verdict says more calmly than the one before, "" for nothing.

    A finding that is lost or milder is honest where an unknown of the verdict says why.
    """
    if after.outcome in CALM and after.outcome is not before.outcome:
        return f"{before.outcome.value}, then {after.outcome.value}"
    if after.outcome is Outcome.ERROR and before.outcome is not Outcome.ERROR:
        return f"an error: {after.note}"
    lost = len(after.findings) < len(before.findings) or _worst(after) > _worst(before)
    if after.outcome is Outcome.FAIL and lost and not after.unknowns:
        return "fewer or milder findings, and nothing says why"
    return ""


def _worst(verdict: Verdict) -> int:
    return min((finding.severity.rank for finding in verdict.findings), default=LEAST)


def _audited(source: MapSource | RecordingSource) -> Report:
    host = assemble_host(source, "2026-01-01T00:00:00Z")
    return audit(ReportSource("snapshot", "law"), host, all_rules())


def _lost(ask: Ask, answer: Answer, way: str) -> Answer:
    if way == MISSING:
        return Unknown(describe(ask), Why.ABSENT, "No such file or directory")
    if way in UNKNOWNS:
        return Unknown(describe(ask), UNKNOWNS[way], way)
    assert isinstance(answer, Known)
    if way == TRUNCATED:
        half = len(answer.value) // 2
        half -= answer.value[half - 1 : half] == "\n"  # at the end of a line, nothing shows
        if isinstance(answer.value, bytes):
            return Known(answer.value[:half], answer.origin)
        return refuse_damaged(ask, Known(answer.value[:half], answer.origin))
    if isinstance(answer.value, bytes):
        return Known(NOISE.encode(), answer.origin)
    return Known(NOISE, answer.origin)


def by_device(report: Report) -> dict[Key, Verdict]:
    """Return the verdicts by rule and device."""
    numbers = {fs.id: fs.device_number for fs in report.host.filesystems}
    return {
        (v.rule.code, None if v.filesystem_id is None else numbers[v.filesystem_id]): v
        for v in report.verdicts
    }
