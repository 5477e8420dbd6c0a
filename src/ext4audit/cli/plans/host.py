"""The host of a plan: settings, completed by a snapshot, the distribution or defaults."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from ext4audit.assemble.host import assemble_host
from ext4audit.cli.files import read_bytes
from ext4audit.cli.options import flag_of, utf8
from ext4audit.cli.output import refused
from ext4audit.cli.plans.values import capacity_of, size_of
from ext4audit.evidence import Evidence, Known, Unknown, Why, for_wording
from ext4audit.facts.features_and_bugs import parse_version
from ext4audit.facts.host import Host, Kernel, Memory, OperatingSystem
from ext4audit.facts.plan import MissingFlag, OsKernel, PlannedHost, kernels_of, known_releases
from ext4audit.parsers import parse_kernel
from ext4audit.sources import ArchiveError
from ext4audit.sources.captured import open_captured

T = TypeVar("T")
_LARGEST_BYTES = 1 << 20
DIRTY_RATIO_PERCENT = 20
DIRTY_BACKGROUND_RATIO_PERCENT = 10
"""The kernel defaults of vm.dirty_ratio and vm.dirty_background_ratio (mm/page-writeback.c)."""
KERNEL_EXAMPLE = "6.1.0-18-amd64, or --os debian:12"
PAGE_SIZES = (4096, 16384, 65536)
MEMORY_ORIGIN = "--memory, vm.dirty_* at the kernel's defaults"


def planned_host(settings: Mapping[str, Any]) -> PlannedHost:
    """Return the host of a plan; raises UsageError for invalid settings."""
    base = _captured(settings["from"]) if settings.get("from") else None
    system = _setting(settings, "os", _system, base.os if base else None, "debian:12")
    kernels, assumed = _kernels(settings, base, system)
    return PlannedHost(
        name=base.name if base else "planned",
        kernel=kernels[0],
        os=system,
        memory=_setting(settings, "memory", _memory, base.memory if base else None, "64G"),
        virtualization=settings.get("virtualization")
        or (for_wording(base.virtualization, None) if base else None),
        e2fsprogs=_version(settings.get("target_e2fsprogs")),
        configuration=_configuration(settings.get("mke2fs_conf")),
        page_bytes=_page_bytes(settings, kernels[0]),
        other_kernels=kernels[1:],
        assumed=assumed,
        has_memory_setting=settings.get("memory") is not None,
    )


def _kernels(
    settings: Mapping[str, Any], base: Host | None, system: Evidence[OperatingSystem]
) -> tuple[tuple[Evidence[Kernel], ...], tuple[str, ...]]:
    """Return the kernels of a plan, oldest first, and a sentence about assumptions.

    Without a kernel, these are the kernels of the distribution that the plan itself names.
    """
    given = _setting(settings, "kernel", _kernel, base.kernel if base else None, KERNEL_EXAMPLE)
    if isinstance(given, Known) or settings.get("os") is None or isinstance(system, Unknown):
        return (given,), ()
    name, version = system.value.id, system.value.version_id
    found = kernels_of(name, version)
    if not found:
        raise click.UsageError(
            f"--os {settings['os']}: its kernels are not listed here; give --kernel RELEASE too "
            f"(listed: {', '.join(known_releases())})"
        )
    origin = f"--os {name}:{version}"
    kernels = tuple(Known(_kernel(each.release, each.version), origin) for each in found)
    packages = " and ".join(f"{_package(each)} ({each.cited()})" for each in found)
    return kernels, (f"{name} {version} runs its own kernels, and all are judged: {packages}",)


def _package(kernel: OsKernel) -> str:
    """Return a kernel's release, with its package if the release does not show the update."""
    _, debian, package = kernel.version.partition("Debian ")
    return f"{kernel.release} of {package}" if debian else kernel.release


_LARGE_PAGES = re.compile(r"\.ppc64(?:le)?$|[.+-]64k(?:$|-)|\.el[78][^+]*\.aarch64$")
"""Releases of kernels with 64 KiB pages: POWER, kernel-64k, and RHEL 7 and 8 for ARM."""


def _page_bytes(settings: Mapping[str, Any], kernel: Evidence[Kernel]) -> Evidence[int]:
    """Return the page size: the setting, else that of the kernel's architecture, else 4 KiB."""
    text = settings.get("page_size")
    if text is not None:
        with refused("--page-size"):
            size_bytes = size_of(str(text))
        if size_bytes not in PAGE_SIZES:
            raise click.UsageError(f"--page-size {text}: Linux has pages of 4K, 16K and 64K")
        return Known(size_bytes, "--page-size")
    if isinstance(kernel, Known) and _LARGE_PAGES.search(kernel.value.release):
        return Known(64 << 10, f"the architecture of {kernel.value.release}")
    return Known(4096, "assumed (see --page-size)")


def not_set(key: str, example: str) -> Unknown:
    """Return the Unknown for a setting that a plan does not set; the hint names the flag."""
    hint = MissingFlag(f"{flag_of(key)} {example}".rstrip())
    return Unknown(f"{key} of the plan", Why.NOT_CAPTURED, "not set in the plan", hint)


def _setting(
    settings: Mapping[str, Any],
    key: str,
    parse: Callable[[str], T],
    base: Evidence[T] | None,
    example: str,
) -> Evidence[T]:
    """Return a setting, else the value of the base host, else the Unknown of `not_set`."""
    if settings.get(key) is None:
        return not_set(key, example) if base is None else base
    with refused(f"--{key}"):
        value = parse(str(settings[key]))
    return Known(value, MEMORY_ORIGIN if key == "memory" else f"--{key}")


def _kernel(text: str, version: str = "") -> Kernel:
    if not text.isprintable() or " " in text:
        raise ValueError(f"{text!r} is not a release (uname -r)")
    return parse_kernel(f"{text}\n{version}\n\n")


def _system(text: str) -> OperatingSystem:
    name, _, version = text.partition(":")
    return OperatingSystem(name, version, f"{name} {version}".strip())


def _memory(text: str) -> Memory:
    total_bytes = capacity_of(text)
    return Memory(
        total_bytes=total_bytes,
        available_bytes=total_bytes,
        dirty_bytes=0,
        dirty_ratio_percent=DIRTY_RATIO_PERCENT,
        dirty_background_bytes=0,
        dirty_background_ratio_percent=DIRTY_BACKGROUND_RATIO_PERCENT,
    )


def _version(text: str | None) -> str | None:
    if text is None:
        return None
    with refused(f"--target-e2fsprogs {text}"):
        parse_version(str(text))
    return str(text)


def _configuration(path: str | None) -> str | None:
    if path is None:
        return None
    with refused(f"--mke2fs-conf {path}"):
        # Without it, mke2fs only warns, and creates an "ext4" without a journal.
        if b"ext4" not in read_bytes(path, _LARGEST_BYTES):
            raise click.UsageError("does not define ext4")
    return str(Path(path).resolve())


def _captured(path: object) -> Host:
    """Return a captured host without its filesystems; raises UsageError."""
    try:
        captured = open_captured(utf8(str(path)))
    except ArchiveError as error:
        raise click.UsageError(f"--from {error}") from None
    return assemble_host(captured.source, captured.taken_at, only=frozenset())
