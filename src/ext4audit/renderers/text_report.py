"""The text format: the whole report as paragraphs, the worst first and the sum last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ext4audit.renderers.subjects import subjects
from ext4audit.renderers.text_blocks import Blank, Block, Blocks, Look, Prose, Span
from ext4audit.renderers.text_subjects import subject_blocks
from ext4audit.renderers.text_summary import summary_block
from ext4audit.renderers.text_unknowns import unknown_blocks
from ext4audit.report import Report

_Paragraph: TypeAlias = Sequence[Block]


def report_blocks(report: Report, look: Look) -> Blocks:
    """Show the report; the quiet look is the summary alone."""
    if look.verbosity >= 0:
        yield from _spaced(_paragraphs(report, look))
    yield summary_block(report)


def _paragraphs(report: Report, look: Look) -> Iterator[_Paragraph]:
    if not report.host.filesystems:
        yield (_no_filesystems(report),)
    for subject in subjects(report):
        yield tuple(subject_blocks(subject, report.host, look))
    yield tuple(unknown_blocks(report, look))
    yield tuple(_policy_blocks(report))


def _policy_blocks(report: Report) -> Blocks:
    """Show what is fixed since the baseline, and what the policy file must be told of."""
    for gone in report.fixed or ():
        words = f"fixed: {gone.rule} on {gone.subject}: {gone.message}"
        yield Prose((Span(words, "green"),))
    for notice in report.notices:
        yield Prose((Span(f"policy: {notice}.", "yellow"),))


def _spaced(paragraphs: Iterator[_Paragraph]) -> Blocks:
    """Separate the paragraphs by empty lines; filesystems of one line stand close together."""
    before: _Paragraph = ()
    for paragraph in filter(None, paragraphs):
        if before and (len(before) > 1 or len(paragraph) > 1):
            yield Blank()
        yield from paragraph
        before = paragraph
    yield Blank()


def _no_filesystems(report: Report) -> Prose:
    """Say that there is no ext4; with gaps, that none could be seen, which is not the same."""
    name = report.host.name
    if report.host.gaps:
        return Prose((Span(f"No ext4 filesystem could be seen on host {name}."),))
    return Prose((Span(f"There is no ext4 filesystem on host {name}: nothing to audit."),))
