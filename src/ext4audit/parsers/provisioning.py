"""Types and helpers shared by parsers of provisioning documents, which return plan settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

LONGEST_TEXT = 4096
PLACEHOLDERS = ("${", "{{", "{%", "<%", "%{")
"""Starts of placeholders that Terraform, Jinja, Helm and ERB replace before a document is used."""


class Planned(NamedTuple):
    """The settings of one filesystem, with the keys of a plan.

    `share` is the filesystem's percentage of `--size`, None for all of it.
    """

    settings: Mapping[str, Any]
    share: float | None = None


class Provisioned(NamedTuple):
    """The filesystems of a document, and messages about the parts that were skipped."""

    planned: tuple[Planned, ...]
    skipped: tuple[str, ...] = ()


def mapping(value: object, where: str) -> Mapping[str, Any]:
    """Return the value if it is a mapping; raise ValueError for anything else."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} is not a mapping")  # noqa: TRY004 - a wrong document
    return value


def listed(value: object, where: str) -> Sequence[Any]:
    """Return the value if it is a list, empty for None; raise ValueError for anything else."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise ValueError(f"{where} is not a list")  # noqa: TRY004 - a wrong document
    return value


def text_of(value: object) -> str:
    """Return a scalar as text, empty for None; raise ValueError if not scalar or too long."""
    if value is None:
        return ""
    if isinstance(value, Mapping | list | tuple):
        raise ValueError(f"{str(value)[:40]!r} is not a text")  # noqa: TRY004 - a wrong document
    text = str(value)
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"{text[:40]!r} is longer than {LONGEST_TEXT} characters")
    return rendered(text)


def rendered(text: str) -> str:
    """Return the text; raise ValueError for a template, whose real values are unknown."""
    if any(each in text for each in PLACEHOLDERS):
        raise ValueError(f"{text[:80]!r} is of a template: render it first")
    return text
