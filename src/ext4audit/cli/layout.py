"""`ext4audit layout`: show how metadata is distributed over the members of an array."""

from __future__ import annotations

import click

from ext4audit import __version__, lazily
from ext4audit.assemble.devices.target import in_words, named_filesystems
from ext4audit.assemble.inventory import take_inventory
from ext4audit.assemble.layout_page import page_of_device, page_of_image
from ext4audit.cli import Choice, completer, path_option, print_diagnostic
from ext4audit.cli.options import deadline_option, utf8
from ext4audit.cli.output import (
    color_option,
    format_option,
    look,
    output_option,
    progress,
    write,
)
from ext4audit.cli.plans.values import check_members, chunk_of, size_of
from ext4audit.cli.targets import resolve_one
from ext4audit.evidence import Evidence, Truncated, Unknown, Why
from ext4audit.facts.devices import SECTOR_BYTES
from ext4audit.facts.host import Host
from ext4audit.facts.layout import LayoutPage, StripeGeometry
from ext4audit.report import EXIT_INCOMPLETE
from ext4audit.sources import ArchiveError, ResolvePath
from ext4audit.sources.live import LiveSource

LEVELS = ("raid0", "raid10", "raid4", "raid5", "raid6")
DEVICE_OFFSET = "--offset on a device needs --members and --chunk"
TIMEOUT_SECONDS = 60.0
"""Time limit of each command and each read; dumpe2fs -g takes 0.2 s for 64 TiB."""


def _sectors(text: str) -> int:
    """Return a size in bytes; raises ValueError if it is not a multiple of the sector size."""
    size_bytes = size_of(text)
    if size_bytes % SECTOR_BYTES:
        raise ValueError(f"{text} is not a multiple of {SECTOR_BYTES} bytes")
    return size_bytes


def _size(_context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    try:
        if text is None or (option.name == "offset" and text.strip() == "0"):
            return None
        return chunk_of(text) if option.name == "chunk" else _sectors(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("layout")
@click.argument(
    "target",
    required=False,
    metavar="[DEVICE|IMAGE|MOUNTPOINT]",
    shell_complete=completer("files"),
)
@path_option(
    "--from",
    "captured",
    metavar="SOURCE",
    help="Read a filesystem of a snapshot or an archive instead of this host.",
)
@format_option(("text", "json", "svg"), "Format of the output; svg is a picture.")
@output_option()
@click.option(
    "--members",
    type=int,
    metavar="N",
    help="Number of disks of an array that the kernel does not show (RAID controller, image).",
)
@click.option(
    "--chunk", callback=_size, metavar="SIZE", help="Chunk size of that array, such as 512K."
)
@click.option(
    "--level",
    type=Choice(LEVELS),
    help="RAID level of that array, in md's default layout.  [default: raid0]",
)
@click.option(
    "--offset",
    callback=_size,
    metavar="SIZE",
    help="Offset of the filesystem on that array, or in an image of a whole disk, such as 1M.",
)
@color_option
@deadline_option
def command(
    *,
    target: str | None,
    captured: str | None,
    fmt: str,
    output: str | None,
    members: int | None,
    chunk: int | None,
    level: str | None,
    offset: int | None,
    color: str,
    deadline_seconds: float,
) -> int:
    """Show which disks of an array hold the metadata, and which mkfs options spread it evenly.

    Count bitmaps, inode tables and group descriptors on each member of the array. Read the
    superblock and the group descriptors only, also of a mounted filesystem; 64 TiB take a fortieth
    of the time of dumpe2fs. Use --members and --chunk if the kernel does not show the array.

    Exit codes: 0 success, 2 usage error or not ext4, 3 the layout is unknown, 70 internal error.

    \b
    Examples:
      ext4audit layout /srv
      ext4audit layout /dev/md127 -f svg -o hotspot.svg
      ext4audit layout /dev/sdb --members 12 --chunk 256K --level raid5
      ext4audit layout disk.img --members 8 --chunk 64K --offset 1M
      ext4audit layout --from db1.snapshot /data
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    described = _described_array(members, chunk, level, offset)
    if captured is not None:
        if offset and described is None:
            raise click.UsageError(DEVICE_OFFSET)
        page = _read_captured(captured, target, described)
    elif target is None:
        raise click.UsageError("DEVICE|IMAGE|MOUNTPOINT is missing")
    else:
        source = LiveSource(TIMEOUT_SECONDS, deadline_seconds=deadline_seconds)
        page = _read(source, target, described, offset or 0)
    if isinstance(page, Unknown):
        why = lazily("renderers.shared", "why_text")(page)
        print_diagnostic(f"{page.what}: {why}{f' ({page.hint})' if page.hint else ''}")
        return EXIT_INCOMPLETE
    found = page.value
    if found.path and found.advice is not None and not found.advice.is_even:
        make, start = lazily("remedies.mkfs", "mkfs_line"), found.start_bytes
        line = make(found.path, found.layout, found.superblock, start, keeps_size=found.keeps_size)
        found = found._replace(mkfs=line)
    write(_rendered(found, fmt, color=color, to_file=output is not None), output)
    return 0


def _described_array(
    members: int | None, chunk: int | None, level: str | None, offset: int | None
) -> StripeGeometry | None:
    """Return the array that the options describe, if any; raises UsageError if incomplete."""
    if members is None and chunk is None:
        if level:
            raise click.UsageError("--level needs --members and --chunk")
        return None
    if members is None or chunk is None:
        raise click.UsageError("--members and --chunk need each other")
    level = level or "raid0"
    check_members(level, members)
    names = tuple(f"member {slot}" for slot in range(members))
    return StripeGeometry("the array", level, chunk, offset or 0, names)


def _read(
    source: LiveSource, target: str, described: StripeGeometry | None, offset: int
) -> Evidence[LayoutPage]:
    """Read the filesystem in an image, or the one that holds a path; raises UsageError."""
    path = utf8(target)
    if _is_file(source, path):
        with progress(quiet=False, doing=f"reading {path}"):
            page = page_of_image(source, path, described, offset)
        return _of_image(page, path)
    if offset and described is None:
        raise click.UsageError(DEVICE_OFFSET)
    inventory = take_inventory(source)
    found = resolve_one(source, inventory, path)
    if found.note:
        print_diagnostic(f"{path}: {found.note}")
    with progress(quiet=False, doing=f"reading {path}"):
        return page_of_device(source, inventory, found.device_numbers[0], described)


def _read_captured(
    captured: str, target: str | None, described: StripeGeometry | None
) -> Evidence[LayoutPage]:
    """Read a filesystem of captured evidence; raises UsageError unless exactly one matches."""
    try:
        opened = lazily("sources.captured", "open_captured")(utf8(captured))
    except ArchiveError as error:
        raise click.UsageError(f"--from {error}") from None
    host = lazily("assemble.host", "assemble_host")(opened.source, opened.taken_at)
    if target is not None:
        chosen = named_filesystems(host, utf8(target))
    else:
        chosen = tuple(fs for fs in host.filesystems if fs.layout is not None or described)
    if len(chosen) != 1:
        raise click.UsageError(f"--from {captured}: {_not_one(len(chosen), target, host)}")
    inventory = take_inventory(opened.source)
    return page_of_device(opened.source, inventory, chosen[0].device_number, described)


def _not_one(number: int, target: str | None, host: Host) -> str:
    """Return why not exactly one captured filesystem matches, and the names to choose from."""
    names = ", ".join(fs.mount_points[0] if fs.mounts else fs.device for fs in host.filesystems)
    if not names:
        return "it has no ext4 filesystem"
    found = f"{number} filesystems match" if number else "no ext4 filesystem matches"
    on_arrays = f"{number or 'no'} filesystems are on an array"
    what = on_arrays if target is None else f"{found} {in_words([target])}"
    return f"{what}; name one of: {names}"


def _is_file(source: LiveSource, path: str) -> bool:
    """Return whether a path is a regular file; raises UsageError if it does not respond."""
    found = source.fetch(ResolvePath(path))
    if isinstance(found, Unknown):
        if found.why is Why.TIMED_OUT:
            raise click.UsageError(f"{path}: {found.detail}")
        return False
    return "type=file" in found.value.split("\n")


def _of_image(page: Evidence[LayoutPage], path: str) -> Evidence[LayoutPage]:
    """Return the page; raises UsageError for a file that is not a readable image."""
    if isinstance(page, Unknown):
        detail = page.detail
        if page.why is Why.UNSUPPORTED and page.hint:
            raise click.UsageError(f"--offset: {path}: {detail}; {page.hint}")
        if isinstance(page, Truncated):
            detail = f"it is truncated: {detail}"
        raise click.UsageError(f"{path}: not a readable ext4 image: {detail}")
    return page


def _rendered(page: LayoutPage, fmt: str, *, color: str, to_file: bool) -> str:
    """Render in one format; only the renderer that is used is imported."""
    if fmt == "json":
        text = lazily("renderers.layout", "render_json")(page, tool_version=__version__)
    elif fmt == "svg":
        text = lazily("renderers.layout", "render_svg")(page)
    else:
        text = lazily("renderers.layout", "render_text")(page, **look(color, to_file=to_file))
    return str(text)
