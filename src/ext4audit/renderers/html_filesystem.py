"""The HTML report: the section of one filesystem, or of the host as a subject of rules."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import Known, value_or
from ext4audit.facts.host import Filesystem
from ext4audit.renderers.html_markup import NEWLINE, NOTHING, Html, joined, lines, tag
from ext4audit.renderers.html_members import members_part
from ext4audit.renderers.html_options import options_part
from ext4audit.renderers.html_parts import badge, facts, hole_words, severity_badge
from ext4audit.renderers.html_stack import stack_picture, stack_table
from ext4audit.renderers.html_verdicts import findings_part, judged_parts
from ext4audit.renderers.shared.subjects import Subject
from ext4audit.renderers.shared.words import binary_size, counted, listed
from ext4audit.report import Outcome

_POINTS_IN_TITLE = 3


def subject_part(subject: Subject, anchor: str) -> Html:
    """Return the section of a subject; `anchor` is what links point to."""
    fs = subject.filesystem
    title = tag("h3", worst_badge(subject), " ", subject_name(subject))
    about = NOTHING if fs is None else _about(fs)
    parts = (title, about, findings_part(subject))
    return tag(
        "section",
        NEWLINE,
        lines((*parts, *_layout_and_options(fs), *judged_parts(subject))),
        class_="subject",
        id=anchor,
    )


def subject_name(subject: Subject) -> str:
    """Return what a subject is called: its device and where it is mounted."""
    fs = subject.filesystem
    if fs is None:
        return "The host itself"
    where = f" on {listed(fs.mount_points, _POINTS_IN_TITLE)}" if fs.mount_points else ""
    return f"{fs.device}{where}"


def worst_badge(subject: Subject) -> Html:
    """Return the worst that was found; what is unknown is never shown as fine."""
    if subject.problems:
        return severity_badge(subject.problems[0][1].severity)
    if subject.open:
        return badge("INCOMPLETE", "open")
    if subject.notes:
        return badge("INFO", "info")
    if subject.set_aside:
        return badge("SET ASIDE", "info")
    passed = subject.with_outcome(Outcome.PASS)
    return badge("OK", "fine") if passed else badge("NOT JUDGED", "info")


def _about(fs: Filesystem) -> Html:
    return tag("div", facts(_facts(fs)), stack_picture(fs), class_="pair")


def _layout_and_options(fs: Filesystem | None) -> Iterator[Html]:
    if fs is not None:
        yield members_part(fs)
        yield options_part(fs)
        yield stack_table(fs)


def _facts(fs: Filesystem) -> Iterator[tuple[str, str]]:
    yield "Device", joined((tag("code", fs.device), f" ({fs.device_number})"))
    yield "Mounted on", joined(_mount_points(fs))
    yield "Type", value_or(fs.fstype, "not known")
    yield "State", _state(fs)
    yield "UUID", fs.uuid or ""
    yield "Label", fs.label or ""
    yield "Size", _size(fs)
    if isinstance(fs.superblock, Known):
        yield "Superblock", f"read from {fs.superblock.origin}"
    else:
        yield "Superblock", hole_words(fs.superblock)


def _mount_points(fs: Filesystem) -> Iterator[Html]:
    for point in fs.mount_points:
        yield tag("div", tag("code", point))


def _state(fs: Filesystem) -> str:
    """Say whether it is in use, and whether it can be written to; unknown is said too."""
    if not fs.alive:
        return "not mounted"
    mode = value_or(fs.read_only, None)
    words = {True: "read-only", False: "writable", None: "read-only or not: not known"}[mode]
    if _is_shut_down(fs):
        words = "shut down after an error: it refuses all writes"
    return words if fs.mounts else f"{words}; another mount namespace holds it"


def _is_shut_down(fs: Filesystem) -> bool:
    """Whether the kernel has stopped the filesystem, although it may still call it writable."""
    options = fs.options.value if isinstance(fs.options, Known) else None
    return bool(options and (options.find("emergency_ro") or options.find("shutdown")))


def _size(fs: Filesystem) -> str:
    """Return the size and what is in use of it, as statfs(2) counts them, else the size alone."""
    if not isinstance(fs.usage, Known):
        return _size_when_made(fs)
    usage = fs.usage.value
    size, free = usage.size_blocks * usage.block_bytes, usage.free_blocks * usage.block_bytes
    inodes = counted(usage.inodes - usage.free_inodes, "inode")
    share = f"{1 - free / size:.0%} of it in use, " if size else ""
    return f"{binary_size(size)}, {share}{inodes} of {usage.inodes}"


def _size_when_made(fs: Filesystem) -> str:
    superblock = value_or(fs.superblock, None)
    block_bytes = superblock.block_bytes if superblock else None
    return binary_size(superblock.size_blocks * block_bytes) if superblock and block_bytes else ""
