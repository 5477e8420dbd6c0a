"""`ext4audit scan`: audit this host, or only the filesystems that hold the given paths."""

from __future__ import annotations

import os
from typing import Any

import click

from ext4audit import lazily
from ext4audit.api import DEFAULT_TIMEOUT_SECONDS, audit_host
from ext4audit.cli import completer, path_option
from ext4audit.cli.options import (
    Number,
    chosen,
    deadline_option,
    print_report,
    probe_option,
    report_options,
    timeout_option,
)
from ext4audit.cli.output import progress


def _process(_context: click.Context, _option: click.Parameter, pid: int | None) -> int | None:
    """Return the PID; raises BadParameter if there is no such process."""
    if pid is not None and not os.path.isdir(f"/proc/{pid}"):  # noqa: PTH112 - pathlib is slow
        raise click.BadParameter(f"there is no /proc/{pid}")
    return pid


@click.command("scan")
@click.argument("targets", nargs=-1, metavar="[TARGET]...", shell_complete=completer("files"))
@path_option(
    "--from",
    "sources",
    multiple=True,
    metavar="[NAME=]SOURCE",
    help="Audit captured evidence instead of this host: a snapshot (directory, tar, text), a "
    "sosreport or another archive, a directory of them, or - for standard input; repeatable. "
    "NAME is the host's name in the report, by default the name of the file.",
)
@path_option(
    "--expect",
    help="List of expected hosts, one name per line or an Ansible inventory (INI): hosts that are "
    "missing are reported as unread.",
)
@probe_option
@click.option(
    "--mounts-of",
    type=Number(min=1),
    callback=_process,
    metavar="PID",
    help="Read the mount table of this process: 1 for a service or a container that has a mount "
    "namespace of its own and sees the processes of the host.",
)
@report_options
@timeout_option(DEFAULT_TIMEOUT_SECONDS)
@deadline_option
def command(
    *,
    targets: tuple[str, ...],
    sources: tuple[str, ...],
    expect: str | None,
    mounts_of: int | None,
    timeout_seconds: float,
    deadline_seconds: float,
    **given: Any,  # noqa: ANN401 - every type that an option can have
) -> int:
    """Audit the ext4 filesystems of this host, or only those that hold the TARGETs.

    A TARGET is a mount point, any file or directory, a block device, or an image file (of a
    filesystem, of a disk with partitions, or by e2image). A damaged image file is an error; to
    audit the filesystem that holds the file, name its directory. Superblocks and device-mapper
    tables may need root; the report lists what could not be read.

    With --from, nothing of this host is read, and a TARGET is a path, device or UUID of the
    captured host. For several hosts, the report is a summary by rule; -v adds the report of each
    host.

    Exit codes: 0 clean and complete, 1 findings at or above --fail-on, 2 usage error,
    3 incomplete, 70 internal error.

    \b
    Examples:
      ext4audit scan
      ext4audit scan /var/lib/mysql /srv
      ext4audit scan disk.img
      ext4audit scan --select DUR,PRF001 --fail-on high
      ext4audit scan -f json | jq '.summary.findings'
      ext4audit scan --from host.tar.gz
      ssh db1 sudo sh -s < collect.sh | ext4audit scan --from db1=-
      ext4audit scan --from snapshots/ --expect inventory.txt
      ext4audit scan --from snapshots/ -f ndjson > reports.ndjson
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    asked = chosen(given)
    if sources and mounts_of is not None:
        raise click.UsageError("--mounts-of is for this host, and --from for captured ones")
    if sources:
        code: int = lazily("cli.captured", "scan_from")(sources, targets, asked, expect)
        return code
    if expect is not None:
        raise click.UsageError("--expect is for --from: the hosts of a fleet")
    if targets:
        source = lazily("sources.live", "LiveSource")(
            timeout_seconds, deadline_seconds=deadline_seconds, mounts_of=mounts_of
        )
        report = lazily("cli.targets", "scan_targets")(targets, asked, source)
        return print_report(report, asked, whole=False)
    with progress(quiet=asked.verbosity < 0) as show:
        report = audit_host(
            rules=asked.rules,
            profiles=asked.profiles,
            timeout_seconds=timeout_seconds,
            deadline_seconds=deadline_seconds,
            mounts_of=mounts_of,
            progress=show,
        )
    return print_report(report, asked)
