"""`ext4audit plan`: audit a filesystem that does not exist yet, and print the commands to use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import click

from ext4audit.cli import Choice, completer, path_option, print_diagnostic
from ext4audit.cli.options import (
    ReportOptions,
    chosen,
    code_of,
    print_notices,
    report_options,
    timeout_option,
    write_page,
)
from ext4audit.cli.output import progress
from ext4audit.cli.plans import CACHES, KEYS, SOME_DISK, plan_of
from ext4audit.cli.plans.files import (
    STANDARD_INPUT,
    STATED_SIZE,
    PlanFile,
    read_cloud_init,
    read_kickstart,
    read_plan_file,
    read_storage_class,
)
from ext4audit.cli.plans.judging import PlanJudge, judge_plan
from ext4audit.cli.policy import on_plans
from ext4audit.facts.plan import DISK_KINDS, MissingFlag, Plan
from ext4audit.renderers import Audited
from ext4audit.report import EXIT_FINDINGS, EXIT_INCOMPLETE, Report
from ext4audit.sources import utc_now

BY_WEIGHT = (EXIT_FINDINGS, EXIT_INCOMPLETE)
"""Exit codes of plans, worst first; with several plans, the worst is returned."""
SEVERAL = frozenset({"text", "markdown", "ndjson", "github"})
"""The formats that allow several reports, one after another, on standard output."""

DOCUMENTS = ("cloud_init", "kickstart", "storage_class")


@click.command("plan")
@click.argument("file", required=False, metavar="[FILE.toml]", shell_complete=completer("files"))
@click.option("--raid0", type=int, metavar="N", help="md RAID0 of N disks.")
@click.option("--raid10", type=int, metavar="N", help="md RAID10 of N disks (near=2).")
@click.option("--raid5", type=int, metavar="N", help="md RAID5 of N disks, parity included.")
@click.option("--raid6", type=int, metavar="N", help="md RAID6 of N disks, parity included.")
@click.option("--raid1", type=int, metavar="N", help="md RAID1 of N disks.")
@click.option("--chunk", metavar="SIZE", help="Chunk size of the array (mdadm's default is 512K).")
@click.option(
    "--size",
    metavar="SIZE",
    help="Size of the device, such as 1200G, 1.5T or 2TB; T is TiB, and TB is 10^12 bytes.",
)
@click.option("--mkfs", metavar="WORDS", help='mke2fs options: "-g 32744 -O ^metadata_csum".')
@click.option(
    "--mount-options", metavar="WORDS", help='Mount options, as in fstab: "noatime,nobarrier".'
)
@path_option("--mount-point", metavar="PATH", help="Mount point.  [default: /data]")
@path_option(
    "--device",
    metavar="PATH",
    help="Device of the filesystem.  [default: /dev/md0 for an array, else /dev/sdX]",
)
@click.option(
    "--kernel", metavar="RELEASE", help="Kernel release as in uname -r, such as 6.1.0-18-amd64."
)
@click.option(
    "--on",
    type=Choice(DISK_KINDS),
    metavar="DISKS",
    help=f"Kind of the disks, which supplies what no other option says: {', '.join(DISK_KINDS)}.",
)
@click.option(
    "--page-size",
    metavar="SIZE",
    help="Page size of the kernel.  [default: that of --kernel's architecture, else 4K]",
)
@click.option(
    "--os",
    metavar="ID:VERSION",
    shell_complete=completer("releases"),
    help="Distribution (ID and VERSION_ID of os-release), such as debian:12. Without --kernel, the "
    "plan is judged for its oldest and its newest kernel.",
)
@click.option("--memory", metavar="SIZE", help="Memory of the host, such as 64G.")
@click.option(
    "--virtualization",
    metavar="KIND",
    help="Virtualization as in systemd-detect-virt, such as kvm.",
)
@click.option("--rotational/--non-rotational", default=None, help="Whether the disks rotate.")
@click.option("--write-cache", type=Choice(list(CACHES)), help="Write cache of the disks.")
@click.option("--nr-requests", type=int, metavar="N", help="nr_requests of the disks' queues.")
@click.option("--max-sectors-kb", type=int, metavar="N", help="max_sectors_kb of the queues.")
@click.option("--wbt-lat-usec", type=int, metavar="N", help="wbt_lat_usec of the queues; 0 is off.")
@click.option("--target-e2fsprogs", metavar="VERSION", help="Version of mke2fs on the host.")
@path_option("--mke2fs-conf", help="mke2fs.conf of the host.")
@path_option(
    "--from",
    metavar="SOURCE",
    help="Take the other properties of the host from a snapshot or an archive.",
)
@path_option(
    "--from-cloud-init",
    "cloud_init",
    help="Plan the fs_setup, disk_setup and mounts of cloud-init's user data; - is stdin.",
)
@path_option(
    "--from-kickstart",
    "kickstart",
    help="Plan the part, raid and logvol of a kickstart file; - is stdin.",
)
@path_option(
    "--from-storage-class",
    "storage_class",
    help="Plan the StorageClasses and PersistentVolumes of a Kubernetes manifest; - is stdin.",
)
@report_options
@timeout_option(60)
def command(**given: Any) -> int:  # noqa: ANN401 - each option has its own type
    """Audit an ext4 filesystem before it is created, and print the commands that create it.

    The rules are those of `scan`. The layout is simulated: the real mke2fs creates the filesystem
    in memory. Missing values are not assumed: the rules that need them are undetermined, and the
    hint names the option. --os and --on supply values that are typical, and the report shows them.
    A TOML file can hold the options as keys, several filesystems as [[filesystem]], and the keys
    select, ignore, profile and fail_on of the policy; the command line overrides it.

    Exit codes: 0 clean and complete, 1 findings at or above --fail-on, 2 usage error or refused
    by mke2fs, 3 incomplete, 70 internal error.

    \b
    Examples:
      ext4audit plan --raid0 12 --chunk 512K --size 1200G --rotational
      ext4audit plan --size 2TB --mount-options noatime --os debian:12
      ext4audit plan --raid10 8 --chunk 256K --size 8T --from db1.snapshot
      ext4audit plan storage.toml --target-e2fsprogs 1.46.5 --allow-incomplete
      ext4audit plan --from-cloud-init user-data.yaml --size 100G
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    read = _read(given)
    # Policy keys of the file apply only if no option sets them.
    of_policy = {key: value for key, value in read.policy.items() if not given[key]}
    options = chosen({**given, **of_policy}, on_plans)
    named = len(read.filesystems) > 1 or any(given[key] for key in DOCUMENTS)
    plans = [_plan(settings, named=named) for settings in _settings(given, read)]
    _check_several(plans, options)
    for sentence in read.skipped:
        print_diagnostic(f"not planned: {sentence}")
    is_sized = (each.get(STATED_SIZE) and "size" in each for each in read.filesystems)
    if given["size"] and all(is_sized):
        print_diagnostic("--size is not used: the document states every size")
    own_file = given["file"] if not named and given["file"] != STANDARD_INPUT else None
    codes = [_one(plan, own_file, given, options) for plan in plans]
    return next((code for code in BY_WEIGHT if code in codes), max(codes))


def _plan(settings: dict[str, Any], *, named: bool) -> Plan:
    """Return a plan; with `named`, error messages begin with its mount point or device."""
    try:
        return plan_of(settings)
    except click.UsageError as error:
        name = settings.get("mount_point") or settings.get("device")
        if not named or not name:
            raise
        raise click.UsageError(f"{name}: {error.message}") from None


def _one(plan: Plan, file: str | None, given: dict[str, Any], options: ReportOptions) -> int:
    """Audit a plan, write its report, and return the exit code; `file` has only this plan."""
    label = file or f"{plan.device} on {plan.mount_point}"
    judge = PlanJudge(options.rules, options.profiles, label, utc_now(), given["timeout_seconds"])
    with progress(quiet=options.verbosity < 0, doing=f"simulating {label}"):
        report, advice = judge_plan(plan, judge)
    report = options.post_processing.one(report, options.rules, whole=False)
    for output in options.outputs:
        write_page(output, (Audited(label, report),), options, advice)
    print_notices(report, options)
    _name_missing(report, options)
    return code_of(report, options)


def _name_missing(report: Report, options: ReportOptions) -> None:
    """Print all flags that would complete an incomplete plan to standard error."""
    if report.complete_for(options.threshold) or options.verbosity < 0:
        return
    unknowns = [unknown for verdict in report.verdicts for unknown in verdict.unknowns]
    flags = dict.fromkeys(each.hint for each in unknowns if isinstance(each.hint, MissingFlag))
    if flags:
        print_diagnostic(f"to complete the plan, give: {', '.join(flags)}")


def _check_several(plans: Sequence[Plan], options: ReportOptions) -> None:
    """Raise UsageError if several plans share a mount point, a device or an output document."""
    if len(plans) == 1:
        return
    places = [plan.mount_point for plan in plans]
    if len(set(places)) < len(places):
        raise click.UsageError("two filesystems have the same mount point: set mount-point")
    devices = Counter(plan.device for plan in plans if plan.device != SOME_DISK)
    (device, times), *_ = devices.most_common(1) or [("", 0)]
    if times > 1:
        # Each mkfs command would destroy the filesystem of the previous one.
        raise click.UsageError(f"two filesystems are on {device}: set device")
    wrong = [each.fmt for each in options.outputs if each.fmt not in SEVERAL or each.path]
    if wrong:
        formats = ", ".join(sorted(SEVERAL))
        raise click.UsageError(
            f"several filesystems are one report each: use -f {formats}, and no -o"
        )


def _read(given: dict[str, Any]) -> PlanFile:
    """Return the contents of the plan file, of any kind; without a file, one empty plan."""
    readers = {
        "file": lambda path: read_plan_file(path, (*KEYS, "from")),
        "cloud_init": lambda path: read_cloud_init(path, given["size"]),
        "kickstart": lambda path: read_kickstart(path, given["size"]),
        "storage_class": lambda path: read_storage_class(path, given["size"]),
    }
    named = [key for key in readers if given[key]]
    if len(named) > 1:
        raise click.UsageError("the options --from-... with a file exclude each other and FILE")
    return readers[named[0]](given[named[0]]) if named else PlanFile(({},), {})


def _settings(given: dict[str, Any], read: PlanFile) -> Iterator[dict[str, Any]]:
    """Yield the settings of each filesystem by key; flags override the file."""
    flags = {key: given[key] for key in (*KEYS, "from") if given[key] is not None}
    levels = [key for key in flags if key.startswith("raid")]
    for found in read.filesystems:
        kept = {k: v for k, v in found.items() if not (levels and k.startswith("raid"))}
        size = kept.pop(STATED_SIZE, None)
        yield {**kept, **flags, **({"size": size} if size else {})}
