"""The output formats, each of which turns reports into one string; `formats()` lists them.

A format is a module or package here with `render(hosts, page) -> str`. Its name is the value of
`--format`. `render_plan(report, advice, page) -> str` is its output for `ext4audit plan`.

This module also defines the arguments of all formats (`Audited`, `Page`), and makes text from a
host safe to display. Mount points, labels and device names may contain any byte but NUL and "/".
ESC passes through rich and print(). Byte 0xFF, which surrogateescape decodes to a lone surrogate,
crashes print(). A right-to-left override shows a name other than the one a command acts on. In
JSON, which is ASCII, bytes that are not UTF-8 are replaced, and a second key has the original.
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
"""Code that the formats share, and the outputs of `layout` and `probe`."""
_USER_NAMES: Mapping[str, str] = {"json_v1": "json"}


def formats() -> dict[str, str]:
    """Return the module name of each format by its `--format` value, in alphabetical order."""
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
"""Letters, marks and symbols that Unicode classifies as printable but that have no visible glyph:
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
    """Return whether `char` is a byte that surrogateescape decoded (PEP 383)."""
    return "\udc80" <= char <= "\udcff"


_SURROGATE = "[\ud800-\udfff]"
"""Matches a surrogate: a byte that is not UTF-8, or an escape in the JSON of a tool. Surrogates
are rare, so the pattern is compiled on first use."""
_SURROGATE_ESCAPE = "\\ud"
"""Start of the JSON escape of every surrogate, and of characters beyond the BMP."""


def json_text(document: object, *, indent: int | None = 2) -> str:
    """Return a document as ASCII JSON with a final newline; see `with_original_bytes`."""
    text = json.dumps(document, ensure_ascii=True, indent=indent)
    if _SURROGATE_ESCAPE in text:
        # Only if needed: walking the document takes as long as serializing it.
        text = json.dumps(with_original_bytes(document), ensure_ascii=True, indent=indent)
    return f"{text}\n"


def with_original_bytes(value: object) -> object:
    """Replace bytes that are not UTF-8 in a JSON document, and add the original bytes.

    The value of `"<key>"` gets U+FFFD for each bad byte, and `"<key>_b64"` has the original bytes.
    For a list of strings, `"<key>_b64"` is a list of the same length, with null for valid strings.
    The function walks the whole document, so that no key is missed: one lone surrogate makes
    strict parsers reject the document.
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
    r"""Return the base64 of the bytes that surrogateescape decoded to this text.

    A surrogate that does not represent a byte (`"\ud800"` in the JSON of a tool) is encoded as
    three bytes (surrogatepass), because an exception would abort the output.
    """
    raw = b"".join(
        bytes((ord(char) - 0xDC00,)) if is_byte(char) else char.encode("utf-8", "surrogatepass")
        for char in text
    )
    return b2a_base64(raw, newline=False).decode("ascii")


class Audited(NamedTuple):
    """One host: its report, or the error that prevented one. `label` is the source as given.

    `key` and `groups` are for a host without a report; a report has its own.
    """

    label: str
    report: Report | None
    error: str | None = None
    key: str = ""
    groups: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The host's key: its name in every format, stable between runs.

        The command line rejects two hosts with the same key.
        """
        key = self.key or (self.report.key if self.report else "")
        return key or self.label.rstrip("/").rpartition("/")[2] or self.label


class Page(NamedTuple):
    """Settings of one output, and metadata of the run that produced it.

    `threshold` is the severity at which an audit fails, None for never. `seconds` is the
    duration of the audit, `taken_at` its end (RFC 3339, UTC). `verbosity` is -1, 0 or 1.
    `color`, `width` (columns, None for no wrapping) and `ascii_only` describe the output device.
    `has_summary` is true if the GitHub Actions step has a summary. `group_by` has globs for the
    inventory groups by which the report counts hosts. `asked` has the codes of rules that were
    selected individually.
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


def named_reports(hosts: Sequence[Audited]) -> list[tuple[str, Report]]:
    """Return each report with the key of its host, omitting hosts without a report."""
    return [(host.name, host.report) for host in hosts if host.report is not None]


def groups_of(host: Audited) -> tuple[str, ...]:
    """Return the groups of a host in its inventory."""
    return host.groups if host.report is None else host.report.source.groups


def chosen_groups(groups: Iterable[str], globs: Sequence[str]) -> tuple[str, ...]:
    """Return the groups that one of the globs matches, sorted."""
    return tuple(sorted({g for g in groups if any(fnmatchcase(g, glob) for glob in globs)}))


def fixed_count(hosts: Sequence[Audited]) -> int | None:
    """Return the number of baseline findings that are fixed, or None without a baseline."""
    fixed = [host.report.fixed for host in hosts if host.report and host.report.fixed is not None]
    return sum(map(len, fixed)) if fixed else None


def in_force(hosts: Iterable[Audited]) -> dict[str, str]:
    """Return the "policy" file and the newer data files ("knowledge") that a run uses.

    They are the same for all hosts; the result is empty if no host could be read.
    """
    reports = (host.report for host in hosts if host.report)
    found = (in_force_of(report.policy, report.knowledge) for report in reports)
    return next(filter(None, found), {})


def in_force_of(policy: str | None, knowledge: Sequence[DataFile]) -> dict[str, str]:
    """Return what `in_force` returns, for one report: "bugs.toml (kernel_bugs of 2027-01-31)"."""
    files = ", ".join(f"{each.path} ({each.table} of {each.dated})" for each in knowledge)
    named = {"policy": policy or "", "knowledge": files}
    return {what: names for what, names in named.items() if names}


def in_force_text(named: Mapping[str, str]) -> str:
    """Return the result of `in_force` as text to append to a sentence."""
    return "".join(f"; {what} {names}" for what, names in named.items())


def chunk_bytes(fs: Filesystem, device: BlockDevice) -> int | None:
    """Return the chunk size of a device in the stack of `fs`, or None if absent or unknown.

    An md array reports its chunk size, which is 0 for levels without chunks
    (Documentation/admin-guide/md.rst). The chunk size of an LVM stripe is in the geometry of the
    layout, which comes from the device-mapper table.
    """
    if isinstance(device.md, Known):
        return device.md.value.chunk_bytes or None
    geometry = fs.layout.value.geometry if isinstance(fs.layout, Known) else None
    return geometry.chunk_bytes if geometry and geometry.device == device.name else None
