"""Findings in the HTML report: an entry for each cause, with its subjects and the rule's page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from ext4audit.finding import Citation, Finding, Phase, Remedy, Severity
from ext4audit.renderers.shared import disruption_text, doubt_text, remedy_label
from ext4audit.renderers.shared.commands import PhaseLines, phases
from ext4audit.renderers.shared.subjects import Cause, Found
from ext4audit.rule import Rule

_PLACES_IN_TITLE = 3
_AFTERWARDS = frozenset({Phase.VERIFY, Phase.ROLLBACK})
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


class Badge(NamedTuple):
    """Text and its CSS class `look`: a severity, "open" (undetermined), "fine" or "info"."""

    text: str
    look: str


class Place(NamedTuple):
    """A link target: the name of a subject, host or entry, and its anchor."""

    name: str
    anchor: str


class RemedyPart(NamedTuple):
    """A remedy; its commands keep their order, because one may depend on an earlier one.

    `same_as` is an earlier entry on the page with the same commands; `phases` is then empty.
    """

    label: str
    remedy: Remedy
    disruption: Badge
    phases: tuple[PhaseLines, ...]
    same_as: Place | None

    @property
    def changes(self) -> tuple[PhaseLines, ...]:
        """The phases up to the last one that changes something."""
        return self.phases[: self._last_change]

    @property
    def afterwards(self) -> tuple[PhaseLines, ...]:
        """The check and the rollback after all changes."""
        return self.phases[self._last_change :]

    @property
    def _last_change(self) -> int:
        changing = (n for n, each in enumerate(self.phases, 1) if each.phase not in _AFTERWARDS)
        return max(changing, default=0)


class Evidence(NamedTuple):
    """Citations; `details` has those that a reader needs only to check the others."""

    main: tuple[Citation, ...]
    details: tuple[Citation, ...]

    @property
    def any(self) -> bool:
        """Whether there is a citation."""
        return bool(self.main or self.details)


class Parts(NamedTuple):
    """Citations and remedies, either shared by several findings or specific to one."""

    citations: tuple[Citation, ...]
    remedies: tuple[Remedy, ...]


class MemberPart(NamedTuple):
    """Contents specific to one subject of an entry; `message` is empty if all share one."""

    place: Place
    message: str
    evidence: Evidence
    remedies: tuple[RemedyPart, ...]

    @property
    def has_more(self) -> bool:
        """Whether there is content to fold below the subject's name."""
        return self.evidence.any or bool(self.remedies)


class FindingPart(NamedTuple):
    """One cause with its subjects; it is unfolded if `shown`.

    `line` is the text beside the title, `message` the longer one below it, if any. `places` has
    the first subjects, and `places_more` counts the others. `evidence` and `remedies` are those
    that all subjects share; `members` is empty if there is one subject. `about` is the page of the
    rule, or empty if the report has it elsewhere: in an earlier entry, or once for a fleet.
    """

    anchor: str
    rule: Rule
    finding: Finding
    doubt: str
    line: str
    message: str
    shown: bool
    places: tuple[Place, ...]
    places_more: int
    evidence: Evidence
    remedies: tuple[RemedyPart, ...]
    members: tuple[MemberPart, ...]
    about: tuple[PagePart, ...]

    @property
    def has_more(self) -> bool:
        """Whether there is content below the title."""
        below = (self.message, self.evidence.any, self.remedies, self.members, self.about)
        return any(below) or not self.finding.counts


class FindingStyle(NamedTuple):
    """How to render the entries of a host: which are unfolded, and what they link to.

    Findings milder than `threshold` are folded; in a fleet (`brief`), they have no evidence and
    no commands either. `places` has the subjects of the host by filesystem id.
    """

    threshold: Severity
    brief: bool
    places: Mapping[str | None, Place]

    def place(self, found: Found) -> Place:
        """Return the subject with the anchor of its section.

        For a finding of the host, the name is the device or fact that it is about, if any.
        """
        fs, finding = found
        subject = self.places[fs.id if fs else None]
        named = "" if fs else finding.device or finding.fact
        return subject._replace(name=named) if named else subject

    def folds(self, finding: Finding) -> bool:
        """Return whether the entry of a finding is folded to one line."""
        return not finding.severity.at_least(self.threshold)


class FindingParts:
    """Builder of the entries of one host; commands of an earlier entry are not repeated."""

    def __init__(self, style: FindingStyle) -> None:
        """Start with no entries."""
        self._style = style
        self._commands: dict[object, Place] = {}
        self._explained: set[str] = set()

    def of(self, causes: Sequence[Cause], anchor: str) -> tuple[FindingPart, ...]:
        """Return an entry for each cause; their anchors begin with `anchor`."""
        return tuple(self._part(each, f"{anchor}{number}") for number, each in enumerate(causes, 1))

    def _part(self, cause: Cause, anchor: str) -> FindingPart:
        first, folded = cause.first, self._style.folds(cause.first)
        places = list(dict.fromkeys(map(self._style.place, cause.found)))
        here = Place(f"{cause.rule.code}, {places[0].name}", anchor)
        shared = _shared_parts([each.finding for each in cause.found])
        if folded and self._style.brief:
            shared = Parts((), ())
        differ = len(cause.messages) > 1
        line = first.short if folded or differ else first.message
        return FindingPart(
            anchor=anchor,
            rule=cause.rule,
            finding=first,
            doubt=doubt_text(first),
            line=line,
            message="" if differ or first.message == line else first.message,
            shown=not folded,
            places=tuple(places[:_PLACES_IN_TITLE]),
            places_more=len(places[_PLACES_IN_TITLE:]),
            evidence=_evidence(shared.citations),
            remedies=self._remedies(shared.remedies, here, " for all" if cause.found[1:] else ""),
            members=tuple(self._members(cause, shared, here)) if cause.found[1:] else (),
            about=self._about(cause.rule),
        )

    def _about(self, rule: Rule) -> tuple[PagePart, ...]:
        """Return the page of a rule for its first entry, or nothing for later ones."""
        if self._style.brief or rule.code in self._explained:
            return ()
        self._explained.add(rule.code)
        return page_parts(rule)

    def _members(self, cause: Cause, shared: Parts, here: Place) -> Iterator[MemberPart]:
        brief = self._style.brief and self._style.folds(cause.first)
        differ = len(cause.messages) > 1
        for each in cause.found:
            finding = each.finding
            own = Parts((), ()) if brief else _unshared_parts(finding, shared)
            yield MemberPart(
                place=self._style.place(each),
                message=finding.message if differ else "",
                evidence=_evidence(own.citations),
                remedies=self._remedies(own.remedies, here, ""),
            )

    def _remedies(
        self, remedies: Sequence[Remedy], here: Place, suffix: str
    ) -> tuple[RemedyPart, ...]:
        labels = (f"{remedy_label(index)}{suffix}" for index in range(len(remedies)))
        return tuple(
            self._remedy(label, each, here) for label, each in zip(labels, remedies, strict=True)
        )

    def _remedy(self, label: str, remedy: Remedy, here: Place) -> RemedyPart:
        badge = disruption_badge(remedy)
        seen = self._commands.get(remedy.steps) if remedy.steps else None
        if seen is not None:
            return RemedyPart(label, remedy, badge, (), seen)
        self._commands[remedy.steps] = here
        return RemedyPart(label, remedy, badge, tuple(phases(remedy)), None)


def disruption_badge(remedy: Remedy) -> Badge:
    """Return what a remedy interrupts, in capitals if it destroys data."""
    text = disruption_text(remedy)
    return Badge(text.upper(), "critical") if remedy.destructive else Badge(text, "info")


def _shared_parts(findings: Sequence[Finding]) -> Parts:
    """Return the citations and remedies that all findings share."""
    first, *others = findings
    return Parts(
        tuple(c for c in first.citations if all(c in each.citations for each in others)),
        tuple(r for r in first.remedies if all(r in each.remedies for each in others)),
    )


def _unshared_parts(finding: Finding, shared: Parts) -> Parts:
    """Return the citations and remedies of a finding that are not shared."""
    return Parts(
        tuple(each for each in finding.citations if each not in shared.citations),
        tuple(each for each in finding.remedies if each not in shared.remedies),
    )


def _evidence(citations: Sequence[Citation]) -> Evidence:
    main = tuple(each for each in citations if not each.detail)
    return Evidence(main, tuple(each for each in citations if each.detail))


class Span(NamedTuple):
    """A piece of a paragraph; `code` is true if the docstring has it in backticks."""

    text: str
    code: bool


class PagePart(NamedTuple):
    """A heading of a rule's page and its paragraphs."""

    heading: str
    paragraphs: tuple[tuple[Span, ...], ...]


@lru_cache
def page_parts(rule: Rule) -> tuple[PagePart, ...]:
    """Return the page of a rule; text before the first heading gets the heading "About"."""
    before, *rest = _HEADING.split(rule.page)
    sections = [("About", before), *zip(rest[::2], rest[1::2], strict=True)]
    return tuple(
        PagePart(head, tuple(map(_spans, text.strip().split("\n\n"))))
        for head, text in sections
        if text.strip()
    )


def _spans(paragraph: str) -> tuple[Span, ...]:
    """Split a paragraph, as one line, at its backticks: every second piece is code."""
    pieces = enumerate(" ".join(paragraph.split()).split("`"))
    return tuple(Span(piece, code=number % 2 == 1) for number, piece in pieces if piece)
