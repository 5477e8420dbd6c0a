"""The host of a plan: what was said by words, else by a snapshot, else not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from ext4audit.assemble.host import assemble_host
from ext4audit.cli.captured import utf8
from ext4audit.cli.plan_values import size_of
from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.e2fsprogs import parse_version
from ext4audit.facts.host import Host, Memory, OperatingSystem
from ext4audit.facts.kernel import Kernel
from ext4audit.facts.plan import PlannedHost
from ext4audit.parsers.uname import parse_kernel
from ext4audit.sources.archive_base import ArchiveError

T = TypeVar("T")

DIRTY_RATIO_PERCENT = 20
DIRTY_BACKGROUND_RATIO_PERCENT = 10
"""The kernel's defaults of vm.dirty_ratio and vm.dirty_background_ratio (mm/page-writeback.c)."""
MEMORY_ORIGIN = "--memory, vm.dirty_* at the kernel's defaults"


def planned_host(said: Mapping[str, Any]) -> PlannedHost:
    """Return the host of a plan; raises UsageError."""
    base = _captured(said["from"]) if said.get("from") else None
    return PlannedHost(
        name=base.name if base else "planned",
        kernel=_said(said, "kernel", _kernel, base.kernel if base else None, "6.1.0-18-amd64"),
        os=_said(said, "os", _system, base.os if base else None, "debian:12"),
        memory=_said(said, "memory", _memory, base.memory if base else None, "64G"),
        virtualization=said.get("virtualization") or (base.virtualization if base else None),
        e2fsprogs=_version(said.get("target_e2fsprogs")),
        configuration=_configuration(said.get("mke2fs_conf")),
    )


def not_said(key: str, example: str) -> Unknown:
    """Return the hole of a word that a plan does not say; the hint names the flag."""
    flag = f"--{key.replace('_', '-')}"
    hint = f"{flag} {example}".rstrip()
    return Unknown(f"{key} of the plan", Why.NOT_CAPTURED, "the plan does not say", hint)


def _said(
    said: Mapping[str, Any],
    key: str,
    parse: Callable[[str], T],
    base: Evidence[T] | None,
    example: str,
) -> Evidence[T]:
    """Return what a word says, what the base host has, or the hole that names the flag."""
    if said.get(key) is None:
        return not_said(key, example) if base is None else base
    try:
        value = parse(str(said[key]))
    except ValueError as error:
        raise click.UsageError(f"--{key}: {error}") from None
    return Known(value, MEMORY_ORIGIN if key == "memory" else f"--{key}")


def _kernel(text: str) -> Kernel:
    if not text.isprintable() or " " in text:
        raise ValueError(f"{text!r} is no release (uname -r)")
    return parse_kernel(f"{text}\n\n\n\n")


def _system(text: str) -> OperatingSystem:
    name, _, version = text.partition(":")
    return OperatingSystem(name, version, f"{name} {version}".strip())


def _memory(text: str) -> Memory:
    total_bytes = size_of(text)
    return Memory(
        total_bytes=total_bytes,
        available_bytes=total_bytes,
        dirty_bytes=0,
        dirty_ratio_percent=DIRTY_RATIO_PERCENT,
        dirty_background_bytes=0,
        dirty_background_ratio_percent=DIRTY_BACKGROUND_RATIO_PERCENT,
    )


def _version(text: str | None) -> str | None:
    if text is not None:
        try:
            parse_version(str(text))
        except ValueError as error:
            raise click.UsageError(f"--target-e2fsprogs {text}: {error}") from None
    return None if text is None else str(text)


def _configuration(path: str | None) -> str | None:
    if path is None:
        return None
    if not Path(path).is_file():
        raise click.UsageError(f"--mke2fs-conf {path}: no such file")
    if b"ext4" not in Path(path).read_bytes():
        # mke2fs only warns, and makes an "ext4" without a journal.
        raise click.UsageError(f"--mke2fs-conf {path}: does not define ext4")
    return str(Path(path).resolve())


def _captured(path: object) -> Host:
    """Return a captured host without its filesystems."""
    from ext4audit.sources.captured import open_captured  # noqa: PLC0415 - for --from only

    try:
        captured = open_captured(utf8(str(path)))
    except ArchiveError as error:
        raise click.UsageError(f"--from {error}") from None
    return assemble_host(captured.source, captured.taken_at, only=frozenset())
