"""Missing evidence may not give better verdicts.

`losses` yields the ways to remove, refuse, delay or garble one answer of a host, and `improvements`
returns the verdicts that become better without it. Verdicts are compared by rule and device,
because the ID of a filesystem changes if its superblock is lost.
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
from support.hosts.fixture_hosts import captured

UNKNOWNS = {
    "removed": Why.NOT_CAPTURED,
    "denied": Why.DENIED,
    "timed out": Why.TIMED_OUT,
}
MISSING = "missing"
GARBLED = "garbled"
TRUNCATED = "truncated"
"""Only for answers in which the cut shows: fstab and os-release can end anywhere."""
NEGATIVE = "negative"
"""Only for numbers that the kernel never prints as negative."""
GONE = "gone"
"""Only for the sizes of devices: a disk that is pulled out has none, and stays mounted."""
LOSS_MODES = (*UNKNOWNS, GARBLED)
SIGNED = ("/alignment_offset", "/md/layout")
"""Files that can hold -1: an offset that is not known, and a RAID0 without a layout."""
SHORTEST_TRUNCATED = 4
"""Minimum length of an answer to truncate: half of a shorter one is almost nothing."""
NO_FINDING_RANK = len(Severity)
"""The rank of a verdict without findings, below that of every severity."""
NOISE = "\0}garbled{\0"
"""Text that no program prints, like the content of a file after a crash."""
PASSING = frozenset({Outcome.PASS, Outcome.NOT_APPLICABLE})
Key = tuple[str, DeviceNumber | None]


class Loss(NamedTuple):
    """One answer of one host, and the way in which it is lost, together with those of `more`."""

    fixture: str
    ask: Ask
    mode: str
    more: tuple[Ask, ...] = ()

    def __str__(self) -> str:
        """Return a readable name."""
        also = f" and {len(self.more)} more" if self.more else ""
        return f"{self.fixture}: {describe(self.ask)}{also} {self.mode}"


class AuditedHost(NamedTuple):
    """The answers of a host, the asks that its audit used, and its report."""

    answers: dict[Ask, Answer]
    used: tuple[Ask, ...]
    report: Report


class Excuse(NamedTuple):
    """An allowed change: the verdict, the answers whose loss explains it, and the reason."""

    change: str
    asks: Callable[[Ask], bool]
    reason: str


def _is_of_superblock(ask: Ask) -> bool:
    """Return whether an ask is needed to read a superblock: a device node, its bytes, dumpe2fs."""
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
def audited_host(fixture: str) -> AuditedHost:
    """Return the unchanged host of a fixture, audited with all rules."""
    source, _ = captured(fixture)
    answers = dict(source._answers)
    recording = RecordingSource(MapSource(answers))
    report = _audited(recording)
    return AuditedHost(answers, tuple(recording.answers), report)


def losses(fixture: str) -> Iterator[Loss]:
    """Yield each way to lose each answer that the audit of a fixture uses.

    An absent file is an answer, too. Answers that are already unknown cannot be lost.
    """
    host = audited_host(fixture)
    for ask in host.used:
        answer = host.answers.get(ask)
        if answer is None or (isinstance(answer, Unknown) and answer.why is not Why.ABSENT):
            continue
        for mode in LOSS_MODES:
            if mode != GARBLED or isinstance(answer, Known):
                yield Loss(fixture, ask, mode)
        if isinstance(answer, Known) and _is_truncation_visible(ask, answer):
            yield Loss(fixture, ask, TRUNCATED)
        if isinstance(answer, Known) and isinstance(ask, ReadFile):
            yield from (Loss(fixture, ask, mode) for mode in _number_modes(ask.path, answer.value))


def _number_modes(path: str, text: str | bytes) -> Iterator[str]:
    """Yield the ways to lose a number of the kernel that is the whole content of a file."""
    of_kernel = path.startswith(("/proc/", "/sys/"))
    if of_kernel and text.strip().isdigit() and not path.endswith(SIGNED):
        yield NEGATIVE
    if of_kernel and path.endswith("/size") and "/md/" not in path:
        yield GONE


def _is_truncation_visible(ask: Ask, answer: Known[str] | Known[bytes]) -> bool:
    """Return whether half of an answer cannot be mistaken for a whole one."""
    if len(answer.value) < SHORTEST_TRUNCATED:
        return False
    of_kernel = isinstance(ask, ReadFile) and ask.path.startswith(("/proc/", "/sys/"))
    return of_kernel or isinstance(ask, ReadBytes) or describe(ask).startswith("lsblk -J")


def related_losses(fixture: str) -> Iterator[Loss]:
    """Yield each way to lose all answers that share a cause and would fail together."""
    host = audited_host(fixture)
    groups: dict[str, list[Ask]] = {}
    for ask in host.used:
        answer = host.answers.get(ask)
        if answer is not None and (isinstance(answer, Known) or answer.why is Why.ABSENT):
            for cause in failure_groups(ask):
                groups.setdefault(cause, []).append(ask)
    for ask, *more in (asks for asks in groups.values() if len(asks) > 1):
        for mode in UNKNOWNS:
            yield Loss(fixture, ask, mode, tuple(more))


OPTIONAL_DIRECTORIES = ("/sys", "/dev", "/proc/fs", "/run")
"""Directories that a chroot, a container or an early boot may lack."""
BARE_ROOT = ("/sys", "/dev", "/run")


def missing_directories(fixture: str) -> Iterator[Loss]:
    """Yield the loss of each place that another root can lack, and of all that a bare chroot lacks.

    Their files are absent, as on a host that does not have them.
    """
    host = audited_host(fixture)
    for places in (*((place,) for place in OPTIONAL_DIRECTORIES), BARE_ROOT):
        there = [ask for ask in host.used if ask in host.answers]
        asks = [ask for ask in there if any(_is_in(ask, place) for place in places)]
        if asks:
            yield Loss(fixture, asks[0], MISSING, tuple(asks[1:]))


def _is_in(ask: Ask, place: str) -> bool:
    """Return whether an answer is from below a directory, or from a program that reads there."""
    if isinstance(ask, RunCommand):
        return any(argument.startswith(f"{place}/") for argument in ask.argv)
    return getattr(ask, "path", "").startswith(f"{place}/")


def failure_groups(ask: Ask) -> Iterator[str]:
    """Yield the groups that an ask is lost with: its kind, its program, directories above it."""
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
    """Return the report of the host without the answers of a loss."""
    host = audited_host(loss.fixture)
    lost = {ask: _lost(ask, host.answers[ask], loss.mode) for ask in (loss.ask, *loss.more)}
    answers = {**host.answers, **lost}
    return _audited(MapSource(answers))


def improvements(loss: Loss, excuses: tuple[Excuse, ...] | None = None) -> list[str]:
    """Return which verdicts become better without the answer; none may.

    In addition to lost findings and unknowns, this includes a change between PASS and
    NOT_APPLICABLE: one of the two verdicts was given without evidence.
    """
    found = better_verdicts(audited_host(loss.fixture).report, report_without(loss))
    allowed = EXCUSES if excuses is None else excuses
    lost = (loss.ask, *loss.more)
    excused = {excuse.change for excuse in allowed if any(map(excuse.asks, lost))}
    return [each for each in found if each not in excused]


def better_verdicts(before: Report, after: Report) -> list[str]:
    """Return which verdicts are better in the report `after` than in `before`."""
    now = by_device(after)
    found = []
    for key, verdict in by_device(before).items():
        other = now.get(key)
        if other is None:
            if verdict.outcome not in PASSING and not (after.host.gaps and not after.complete):
                found.append(f"{key[0]}: {verdict.outcome.value} vanishes without a gap")
        elif change := improvement(verdict, other):
            found.append(f"{key[0]}: {change}")
    if after.complete and not before.complete:
        found.append("complete")
    return found


def improvement(before: Verdict, after: Verdict) -> str:
    """Return how the verdict `after` is better than `before`, "" if it is not.

    A lost or milder finding is allowed if an unknown of the verdict gives the reason.
    """
    if after.outcome in PASSING and after.outcome is not before.outcome:
        return f"{before.outcome.value}, then {after.outcome.value}"
    if after.outcome is Outcome.ERROR and before.outcome is not Outcome.ERROR:
        return f"an error: {after.note}"
    lost = len(after.findings) < len(before.findings) or _worst(after) > _worst(before)
    if after.outcome is Outcome.FAIL and lost and not after.unknowns:
        return "fewer or milder findings, and nothing says why"
    return ""


def _worst(verdict: Verdict) -> int:
    return min((finding.severity.rank for finding in verdict.findings), default=NO_FINDING_RANK)


def _audited(source: MapSource | RecordingSource) -> Report:
    host = assemble_host(source, "2026-01-01T00:00:00Z")
    return audit(ReportSource("snapshot", "losses"), host, all_rules())


def _lost(ask: Ask, answer: Answer, mode: str) -> Answer:
    if mode == MISSING:
        return Unknown(describe(ask), Why.ABSENT, "No such file or directory")
    if mode in UNKNOWNS:
        return Unknown(describe(ask), UNKNOWNS[mode], mode)
    assert isinstance(answer, Known)
    if mode == TRUNCATED:
        half = len(answer.value) // 2
        half -= answer.value[half - 1 : half] == "\n"  # a cut after a line would not show
        if isinstance(answer.value, bytes):
            return Known(answer.value[:half], answer.origin)
        return refuse_damaged(ask, Known(answer.value[:half], answer.origin))
    text = {NEGATIVE: "-1\n", GONE: "0\n", GARBLED: NOISE}[mode]
    if isinstance(answer.value, bytes):
        return Known(text.encode(), answer.origin)
    return Known(text, answer.origin)


def by_device(report: Report) -> dict[Key, Verdict]:
    """Return the verdicts by rule and device."""
    numbers = {fs.id: fs.device_number for fs in report.host.filesystems}
    return {
        (v.rule.code, None if v.filesystem_id is None else numbers[v.filesystem_id]): v
        for v in report.verdicts
    }
