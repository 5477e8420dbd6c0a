"""The output formats: each turns reports into one string. `formats()` finds them by name.

A format is a module or package here with `render(hosts, page) -> str`. Its name is the value of
`--format`. For `ext4audit plan` it has `render_plan(report, advice, page) -> str`.

Also what they all take (`Audited`, `Page`), and text from a host made safe to show. Mount points,
labels and device names may hold any byte but NUL and "/". ESC passes through rich and print().
Byte 0xFF, a lone surrogate after surrogateescape, crashes print(). A right-to-left override shows
another name than the one that a command acts on. In JSON, which is ASCII, text that is not UTF-8
is replaced, and its original bytes stand beside it.
"""

import json
import re
from binascii import b2a_base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pkgutil import iter_modules
from typing import NamedTuple

from ext4audit.evidence import Known
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Severity
from ext4audit.report import DataFile, Report

_NOT_FORMATS = frozenset({"shared", "layout", "probe"})
"""What the formats share, and the outputs of `layout` and `probe`."""
_USER_NAMES: Mapping[str, str] = {"json_v1": "json"}


def formats() -> dict[str, str]:
    """Return the module of each format by the name that users give it, in alphabetical order."""
    modules = [found.name for found in iter_modules(__path__) if found.name not in _NOT_FORMATS]
    return dict(sorted((_USER_NAMES.get(name, name), name) for name in modules))


_BLANK_LETTERS = frozenset(
    (
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
        *range(0x180B, 0x1810),
        *range(0xFE00, 0xFE10),
        *range(0xE0100, 0xE01F0),
    )
)
"""Letters, marks and symbols that are printable in Unicode and have no visible glyph:
Default_Ignorable_Code_Point without category Cf (DerivedCoreProperties.txt 16.0), and the
blank Braille pattern."""


def visible(text: str, *, ascii_only: bool = False) -> str:
    r"""Return `text` with an escape for everything that a terminal interprets or hides.

    `\xHH` is a byte: an ASCII control, or one that is not UTF-8. `\uHHHH` and `\UHHHHHHHH` are
    code points: C1 controls, bidirectional and zero-width characters, separators, blanks other
    than the space, and unassigned ones. With `ascii_only` they include all that are not ASCII.

    Printable text is returned unchanged, backslashes included, because commands must stay
    byte-identical. A name that consists of the characters `\x1b` is therefore shown like ESC;
    only JSON distinguishes them. Where something is escaped, each backslash is doubled.
    """
    if text.isascii() and text.isprintable():
        return text
    if all(_is_shown(char, ascii_only=ascii_only) for char in text):
        return text
    return "".join(_escaped(char, ascii_only=ascii_only) for char in text)


def _is_shown(char: str, *, ascii_only: bool) -> bool:
    if ascii_only and not char.isascii():
        return False
    # isprintable() is false for the categories C* and Z*, the space excepted.
    return char.isprintable() and ord(char) not in _BLANK_LETTERS


def _escaped(char: str, *, ascii_only: bool) -> str:
    code = ord(char)
    if char == "\\":
        return "\\\\"
    if _is_shown(char, ascii_only=ascii_only):
        return char
    if code < 0x80:  # noqa: PLR2004 - the end of ASCII
        return f"\\x{code:02x}"
    if is_byte(char):
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - the BMP


def is_byte(char: str) -> bool:
    """Whether surrogateescape decoded a byte that is not UTF-8 to this (PEP 383)."""
    return "\udc80" <= char <= "\udcff"


_SURROGATE = "[\ud800-\udfff]"
"""What stands for a byte that is not UTF-8, or comes from the JSON of a tool. It is rare, and so
compiled where it is first looked for."""
_SURROGATE_ESCAPE = "\\ud"
"""How the JSON escape of every surrogate begins; also that of characters beyond the BMP."""


def json_text(document: object, *, indent: int | None = 2) -> str:
    """Return a document as JSON in ASCII with a newline at the end, and with original bytes."""
    text = json.dumps(document, ensure_ascii=True, indent=indent)
    if _SURROGATE_ESCAPE in text:
        # Surrogates are rare, and the walk over the document costs as much as writing it.
        text = json.dumps(with_original_bytes(document), ensure_ascii=True, indent=indent)
    return f"{text}\n"


def with_original_bytes(value: object) -> object:
    """Return JSON values in which every text is UTF-8, with the original bytes beside it.

    `"<key>"` has U+FFFD for each bad byte, and `"<key>_b64"` has the bytes. For a list of texts
    that is a list of the same length, with null where the text is UTF-8. The function visits the
    whole document, so no key can be forgotten: one lone surrogate makes strict readers refuse
    the document.
    """
    if isinstance(value, dict):
        return dict(_members_with_bytes(value))
    if isinstance(value, list):
        return [with_original_bytes(each) for each in value]
    return replaced(value) if isinstance(value, str) else value


def _members_with_bytes(members: dict[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in members.items():
        yield key, with_original_bytes(value)
        original = _original_bytes(value)
        if original is not None:
            yield f"{key}_b64", original


def _original_bytes(value: object) -> str | list[str | None] | None:
    if isinstance(value, list):
        texts = [_original_text_bytes(each) for each in value]
        return texts if any(texts) else None
    return _original_text_bytes(value)


def _original_text_bytes(value: object) -> str | None:
    return base64_of(value) if isinstance(value, str) and re.search(_SURROGATE, value) else None


def replaced(text: str) -> str:
    """Return the text with U+FFFD in place of each byte that is not UTF-8."""
    return re.sub(_SURROGATE, "\ufffd", text)


def base64_of(text: str) -> str:
    r"""Return base64 of the bytes that the text was decoded from with surrogateescape.

    A surrogate that comes from no byte (`"\ud800"` in the JSON of a tool) is encoded as three
    bytes (surrogatepass), because an exception would end the output.
    """
    raw = b"".join(
        bytes((ord(char) - 0xDC00,)) if is_byte(char) else char.encode("utf-8", "surrogatepass")
        for char in text
    )
    return b2a_base64(raw, newline=False).decode("ascii")


class Audited(NamedTuple):
    """One host: its report, or why there is none. `label` names the source as the user did.

    `key` and `groups` are of a host without a report; a report has its own.
    """

    label: str
    report: Report | None
    error: str | None = None
    key: str = ""
    groups: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The key of the host: its name in every format, the same in every run.

        The command line refuses two hosts with one key.
        """
        key = self.key or (self.report.key if self.report else "")
        return key or self.label.rstrip("/").rpartition("/")[2] or self.label


class Page(NamedTuple):
    """Settings of one output, and data of the run that it comes from.

    `threshold` is the severity at which an audit fails, None for never. `seconds` is the
    duration of the audit, `taken_at` its end (RFC 3339, UTC). `verbosity` is -1, 0 or 1.
    `color`, `width` (columns, None for no wrapping) and `ascii_only` describe the output device.
    `has_summary` is whether the step of GitHub Actions has a summary. `group_by` are globs of the
    groups of an inventory that the report counts by. `asked` are the codes of rules that were
    selected one by one.
    """

    tool_version: str
    taken_at: str
    threshold: Severity | None = Severity.MEDIUM
    allow_incomplete: bool = False
    seconds: float = 0.0
    verbosity: int = 0
    color: bool = False
    width: int | None = None
    ascii_only: bool = False
    has_summary: bool = False
    group_by: tuple[str, ...] = ()
    asked: frozenset[str] = frozenset()


def named_hosts(hosts: Sequence[Audited]) -> list[tuple[str, Audited]]:
    """Return each host with its key."""
    return [(host.name, host) for host in hosts]


def named_reports(hosts: Sequence[Audited]) -> list[tuple[str, Report]]:
    """Return each report with the key of its host; hosts without one are left out."""
    return [(host.name, host.report) for host in hosts if host.report is not None]


def groups_of(host: Audited) -> tuple[str, ...]:
    """Return the groups of a host in its inventory."""
    return host.groups if host.report is None else host.report.source.groups


def chosen_groups(groups: Iterable[str], globs: Sequence[str]) -> tuple[str, ...]:
    """Return the groups that one of the globs matches, sorted."""
    return tuple(sorted({g for g in groups if any(fnmatchcase(g, glob) for glob in globs)}))


def fixed_count(hosts: Sequence[Audited]) -> int | None:
    """Return how many findings of the baseline are fixed, None without a baseline."""
    fixed = [host.report.fixed for host in hosts if host.report and host.report.fixed is not None]
    return sum(map(len, fixed)) if fixed else None


def in_force(hosts: Iterable[Audited]) -> dict[str, str]:
    """Return what is in force in a run: the "policy" file, and newer data files ("knowledge").

    It is the same for all hosts; nothing is known of it where none was read.
    """
    reports = (host.report for host in hosts if host.report)
    found = (in_force_of(report.policy, report.knowledge) for report in reports)
    return next(filter(None, found), {})


def in_force_of(policy: str | None, knowledge: Sequence[DataFile]) -> dict[str, str]:
    """Return what is in force as `in_force` does: "bugs.toml (kernel_bugs of 2027-01-31)"."""
    files = ", ".join(f"{each.path} ({each.table} of {each.dated})" for each in knowledge)
    named = {"policy": policy or "", "knowledge": files}
    return {what: names for what, names in named.items() if names}


def in_force_text(named: Mapping[str, str]) -> str:
    """Return what is in force, to be put behind a sentence."""
    return "".join(f"; {what} {names}" for what, names in named.items())


def chunk_bytes(fs: Filesystem, device: BlockDevice) -> int | None:
    """Return the chunk of a device in the stack of `fs`, None where it has or shows none.

    An md array reports its own chunk, and 0 for levels without chunks
    (Documentation/admin-guide/md.rst). The chunk of an LVM stripe is in the geometry of the
    layout, which was read from the device-mapper table.
    """
    if isinstance(device.md, Known):
        return device.md.value.chunk_bytes or None
    geometry = fs.layout.value.geometry if isinstance(fs.layout, Known) else None
    return geometry.chunk_bytes if geometry and geometry.device == device.name else None
