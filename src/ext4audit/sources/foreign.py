"""Archives that other programs make: recognised, named, dated, and answered from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ext4audit.sources.archive_base import Archive, ArchiveError
from ext4audit.sources.ask import Source
from ext4audit.sources.foreign_capture import Capture
from ext4audit.sources.foreign_source import ForeignSource
from ext4audit.sources.foreign_system import host_name, node_name, printed_name, taken_at
from ext4audit.sources.sosreport import SosCapture
from ext4audit.sources.supportconfig import SupportconfigCapture

SOS_COMMANDS = "sos_commands"
INSIGHTS_COMMANDS = "insights_commands"
SUPPORTCONFIG_MARK = "basic-environment.txt"
_ARCHIVE = re.compile(r"(?:sosreport-|insights-|scc_|nts_)\S*\.(?:tar(?:\.\w+)?|t[gbx]z)")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ForeignArchive:
    """Evidence that another program captured on one host.

    `kind` is "sosreport", "insights" or "supportconfig"; `label` the host's name, or the
    archive's where none is in it; `taken_at` a time in RFC 3339, UTC.
    """

    kind: str
    label: str
    taken_at: str
    source: Source


def recognise(archive: Archive) -> ForeignArchive | None:
    """Return what an archive holds, None where no program is known that makes such a one.

    Raises ArchiveError for one that holds several hosts or archives in an archive.
    """
    captures = {
        root: kind for root in _roots(archive) if (kind := _kind(archive, root)) is not None
    }
    if len(captures) > 1:
        raise ArchiveError(f"{archive.label}: the files of several hosts: {_some(captures)}")
    if not captures:
        _refuse_collection(archive)
        return None
    ((root, kind),) = captures.items()
    capture = _capture(archive, root, kind)
    _refuse_two_names(archive, capture)
    label = host_name(capture) or root or archive.label
    return ForeignArchive(
        kind, label, taken_at(capture, f"{archive.label} {root}"), ForeignSource(capture)
    )


def _roots(archive: Archive) -> tuple[str, ...]:
    """Return the directories that may stand for a host's "/": the top, and two levels below.

    Insights archives of the core collection keep the files in `data`.
    """
    top = [name for name in archive.children("") if archive.is_directory(name)]
    inner = [f"{name}/data" for name in top if archive.is_directory(f"{name}/data")]
    return ("", *top, *inner)


def _kind(archive: Archive, root: str) -> str | None:
    prefix = f"{root}/" if root else ""
    if archive.is_directory(prefix + SOS_COMMANDS):
        return "sosreport"
    if archive.is_directory(prefix + INSIGHTS_COMMANDS):
        return "insights"
    return "supportconfig" if SUPPORTCONFIG_MARK in archive.children(root) else None


def _capture(archive: Archive, root: str, kind: str) -> Capture:
    if kind == "supportconfig":
        return SupportconfigCapture(archive, root)
    commands = SOS_COMMANDS if kind == "sosreport" else INSIGHTS_COMMANDS
    return SosCapture(archive, root, kind=kind, commands=commands)


def _refuse_collection(archive: Archive) -> None:
    """Refuse what `sos collect` makes: a tar of the tars of many hosts."""
    inside = [name for name in archive.names() if _ARCHIVE.fullmatch(name.rpartition("/")[2])]
    if inside:
        raise ArchiveError(
            f"{archive.label}: a collection of {len(inside)} archives ({_some(inside)}), such as "
            "sos collect makes: unpack it and audit each of them"
        )


def _refuse_two_names(archive: Archive, capture: Capture) -> None:
    """Refuse files of two hosts in one tree, which would be audited as one machine."""
    names = [name for name in (printed_name(capture), node_name(capture)) if name]
    if len({name.partition(".")[0].lower() for name in names}) > 1:
        raise ArchiveError(f"{archive.label}: the files of several hosts: {_some(names)}")


def _some(names: Iterable[str]) -> str:
    shown = [f"{name!r:.100}" for name in names]
    return ", ".join(shown[:_SHOWN]) + (", …" if len(shown) > _SHOWN else "")
